"""Size-bounded readers for vocabularies, merges and SentencePiece models from untrusted files.

Entries are counted first, since a few bytes in a file may become many in memory. The limits depend on the vocabulary
size of the model, whose weights are read before.
"""

import io
import reprlib
from collections.abc import Iterator
from pathlib import Path

from glassformer.data.json_streaming import MAX_PIECE_CHARACTERS, TableError, check_end, read_id_table, value_start
from glassformer.errors import DirectoryError
from glassformer.interop.untrusted_files import MAX_JSON_BYTES, inside, read_bytes, read_json

MAX_LINE_BYTES, MAX_SPEC_BYTES = 2**12, 2**20
"""Maximum size of a line of a vocabulary, and of everything but the pieces of a SentencePiece model."""
PIECE_TAG = 10
"""Protobuf tag of a piece in a SentencePiece model: field 1, length-delimited."""
FIXED_BYTES = {0: 0, 1: 8, 5: 4}
"""Bytes per value of protobuf's other wire types; 0 is a varint, which marks its own end."""
EXTRA_PIECES = 64
"""Number of pieces beyond the model's vocabulary that are still read, so that an error can name them."""


def max_pieces(vocab_size: int) -> int:
    """Maximum number of pieces or merges in files of a model of this vocabulary size: not all need be in use."""
    return 2 * vocab_size + 50_000


def read_spm(path: Path, vocab_size: int) -> bytes:
    """Read a SentencePiece model file that belongs to a model of this vocabulary size.

    The SentencePiece library uses 90 bytes for a piece of two bytes in the file, so the pieces are counted first.
    """
    content, limit = read_bytes(path), max_pieces(vocab_size)
    at = pieces = others = 0
    while at < len(content):
        tag, at = _varint(content, at)
        length, after = _varint(content, at)
        if tag & 7 == 2:  # length-delimited
            at = after + length
            pieces, others = (pieces + 1, others) if tag == PIECE_TAG else (pieces, others + length)
        elif tag & 7 in FIXED_BYTES:
            at = after if tag & 7 == 0 else at + FIXED_BYTES[tag & 7]
        else:
            raise DirectoryError(f"{path} is not a SentencePiece model: no field starts at byte {at:,}.")
        if pieces > limit:
            raise DirectoryError(
                f"{path} has more than {limit:,} pieces, too many for a model of {vocab_size:,} tokens."
            )
    if others > MAX_SPEC_BYTES:
        raise DirectoryError(f"{path} has {others:,} bytes besides its pieces; the limit is {MAX_SPEC_BYTES:,}.")
    return content


def read_merges(path: Path, vocab_size: int) -> bytes:
    """Read a file of BPE merges, one per line, that belongs to a model of this vocabulary size.

    Parsed, a line takes up to 60 times its size.
    """
    content, limit = read_bytes(path), max_pieces(vocab_size)
    lines = content.count(b"\n")
    if lines > limit:
        raise DirectoryError(f"{path} has {lines:,} lines, too many for a model of {vocab_size:,} tokens.")
    return content


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Decode a protobuf varint; returns it and the offset after it. An unterminated one consumes the rest."""
    if at < len(content) and content[at] < 128:
        return content[at], at + 1
    number = shift = 0
    for i in range(at, min(at + 10, len(content))):
        number |= (content[i] & 127) << shift
        if content[i] < 128:
            return number, i + 1
        shift += 7
    return len(content), len(content)


def read_lines(content: bytes, where: str) -> Iterator[str]:
    """Yield the lines of a text, decoded one at a time to save memory; their length is limited."""
    offset = 0
    for line in io.BytesIO(content):
        if len(line) > MAX_LINE_BYTES:
            raise DirectoryError(f"{where} has a line of {len(line):,} bytes; the limit is {MAX_LINE_BYTES:,}.")
        try:
            yield line.removesuffix(b"\n").decode()
        except UnicodeDecodeError as error:
            raise DirectoryError(f"{where} is not UTF-8 (byte {offset + error.start:,}).") from None
        offset += len(line)


def read_vocab_json(directory: Path, name: str, vocab_size: int) -> dict[str, int]:
    """Read the id of each piece from a JSON file that belongs to a model of this vocabulary size."""
    path = inside(directory, name)
    content = read_bytes(path)
    try:
        ids, end = read_id_table(content, value_start(content), vocab_size + EXTRA_PIECES)
        check_end(content, end)
    except TableError as error:
        if len(content) > MAX_JSON_BYTES:
            raise DirectoryError(f"{path} does not give each piece an id: {error}.") from None
        ids = read_json(path)  # small enough for a precise error below
        if len(ids) > vocab_size + EXTRA_PIECES:
            raise DirectoryError(f"{path} does not give each piece an id: {error}.") from None
    for piece, value in ids.items():
        if type(value) is not int or not 0 <= value < 2**31:
            entry = f"{reprlib.repr(piece)} has {reprlib.repr(value)}"
            raise DirectoryError(f"{path} does not give each piece an id: {entry}.")
        if len(piece) > MAX_PIECE_CHARACTERS:
            raise DirectoryError(f"{path} has a piece of {len(piece):,} characters, too long for a tokenizer.")
    return ids
