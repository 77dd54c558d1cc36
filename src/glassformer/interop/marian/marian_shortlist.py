"""Reader for Marian's binary shortlists (`lex.*.bin`), as in Firefox's models.

Marian's layout (src/data/shortlist.h), little-endian: six uint64 (magic number, checksum of what follows it, number of
first target ids that are in every list, number of target ids per source id, number of offsets, number of target ids),
the offsets (uint64, one more than source ids), the target ids (uint32).
"""

from pathlib import Path

import numpy as np

from glassformer.decoding.vocabulary_shortlist import Shortlist
from glassformer.errors import DirectoryError, InputError
from glassformer.interop.untrusted_files import read_bytes

MAGIC = 0xF11A48D5013417F5
HEADER_BYTES, CHECKED_FROM = 48, 16
MAX_SHORTLIST_BYTES = 2**25
"""Maximum size of a file: Firefox's have 5 million bytes, for 32,000 source ids with 50 target ids at most."""


def read_marian_shortlist(path: Path, source_vocab_size: int, vocab_size: int, is_shared: bool) -> Shortlist:
    """Read a binary shortlist for a model with these vocabularies. `is_shared`: whether both sides have the same."""
    content = read_bytes(path, MAX_SHORTLIST_BYTES)
    if len(content) < HEADER_BYTES or int.from_bytes(content[:8], "little") != MAGIC:
        raise DirectoryError(f"{path} is not a binary Marian shortlist: leave it out with --no-shortlist.")
    _, checksum, always, _, n_offsets, n_targets = np.frombuffer(content, "<u8", 6).tolist()
    size = HEADER_BYTES + 8 * n_offsets + 4 * n_targets
    if size != len(content):
        raise DirectoryError(
            f"{path} is damaged: it has {len(content):,} bytes instead of {size:,}. Use another copy of it, or "
            "--no-shortlist."
        )
    if always > vocab_size or n_offsets > source_vocab_size + 1:
        raise DirectoryError(
            f"{path} belongs to another model: it has lists for {n_offsets - 1:,} source tokens and at least "
            f"{always:,} target tokens, and the model has {source_vocab_size:,} and {vocab_size:,}. Use the model's "
            "own, or --no-shortlist."
        )
    if marian_checksum(content[CHECKED_FROM:]) != checksum:
        raise DirectoryError(f"{path} is damaged: its checksum is wrong. Use another copy of it, or --no-shortlist.")
    offsets = np.frombuffer(content, "<u8", n_offsets, HEADER_BYTES)
    targets = np.frombuffer(content, "<u4", n_targets, HEADER_BYTES + 8 * n_offsets)
    if (len(offsets) and offsets.max() > n_targets) or (len(targets) and targets.max() >= vocab_size):
        raise DirectoryError(
            f"{path} belongs to another model, which has more target tokens. Use the model's own, or --no-shortlist."
        )
    first = np.arange(always, dtype=np.int32)
    try:
        shortlist = Shortlist(first, offsets.astype(np.int32), targets.astype(np.int32), vocab_size, is_shared)
        return shortlist.checked(source_vocab_size)
    except InputError as error:
        raise DirectoryError(f"{path} cannot be used: {error} Leave it out with --no-shortlist.") from None


def marian_checksum(content: bytes) -> int:
    """Marian's hash of the whole 64-bit words of a file."""
    total, mask = 0, 2**64 - 1
    for word in np.frombuffer(content, "<u8", len(content) // 8).tolist():
        total ^= (word + 0x9E3779B9 + (total << 6) + (total >> 2)) & mask
    return total
