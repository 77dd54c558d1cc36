"""The shortlist of a model directory: `shortlist.safetensors`, listed in the manifest.

Arrays of int32: `always`, `offsets`, `targets` (see `Shortlist`). Metadata: `copies_source` (true or false), and
`measurement` as JSON, if it was measured.
"""

import json
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from glassformer.atomic_directory import add_file, read_file
from glassformer.decoding.vocabulary_shortlist import Shortlist, ShortlistMeasurement
from glassformer.errors import DirectoryError, InputError, SettingsError
from glassformer.settings import reject_constant

FILE = "shortlist.safetensors"
ARRAYS = ("always", "offsets", "targets")
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
MAX_HEADER_BYTES = 2**14
MAX_SHORTLIST_BYTES = 2**28
"""Maximum size of the file: 100 tokens for each of 600,000."""


def shortlist_bytes(shortlist: Shortlist) -> bytes:
    """The contents of the file."""
    metadata = {"copies_source": json.dumps(shortlist.copies_source)}
    if shortlist.measurement is not None:
        metadata["measurement"] = shortlist.measurement.model_dump_json()
    arrays = {name: np.ascontiguousarray(getattr(shortlist, name), dtype=np.int32) for name in ARRAYS}
    return save(arrays, metadata)


def parse_shortlist(content: bytes, source_vocab_size: int, vocab_size: int) -> Shortlist:
    """A shortlist for a model with these vocabularies from the contents of the file; raises an `InputError`."""
    header = int.from_bytes(content[:8], "little")
    if header > MAX_HEADER_BYTES or len(content) > MAX_SHORTLIST_BYTES:
        raise InputError(
            f"The shortlist has {len(content):,} bytes with a header of {header:,}: at most {MAX_SHORTLIST_BYTES:,} "
            f"and {MAX_HEADER_BYTES:,} are read."
        )
    try:
        arrays = load(content)
        metadata = json.loads(content[8 : 8 + header], parse_constant=reject_constant).get("__metadata__", {})
        if sorted(arrays) != sorted(ARRAYS) or any(a.dtype != np.int32 or a.ndim != 1 for a in arrays.values()):
            raise InputError(f"The shortlist should have {', '.join(ARRAYS)} as lists of int32.")
        if (copies := {"true": True, "false": False}.get(metadata.get("copies_source"))) is None:
            raise InputError("The shortlist's metadata lacks copies_source (true or false).")
        measured = metadata.get("measurement")
        measurement = None if measured is None else ShortlistMeasurement(**json.loads(measured))
    except (SafetensorError, SettingsError, *UNREADABLE) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:300].removesuffix(".")
        raise InputError(f"The shortlist is not readable: {reason}.") from None
    shortlist = Shortlist(**arrays, vocab_size=vocab_size, copies_source=copies, measurement=measurement)
    return shortlist.checked(source_vocab_size)


def read_shortlist(directory: Path, source_vocab_size: int, vocab_size: int) -> Shortlist | None:
    """The shortlist of a model directory; None if it has none."""
    content = read_file(directory, FILE)
    if content is None:
        return None
    try:
        return parse_shortlist(content, source_vocab_size, vocab_size)
    except InputError as error:
        raise DirectoryError(
            f"{directory / FILE} cannot be used: {str(error).removesuffix('.')}. Translate with --no-shortlist, or "
            "replace it with `glassformer shortlist`."
        ) from None


def add_shortlist(directory: Path, shortlist: Shortlist) -> None:
    """Write a shortlist into a model directory, replacing the one before."""
    add_file(directory, FILE, shortlist_bytes(shortlist))
