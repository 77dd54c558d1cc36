"""Vocabularies, merges and SentencePiece models from elsewhere: their entries are counted, since few bytes of a file
may become many in memory. A model's weights come first, and say how many tokens there are."""

import io
import reprlib
from collections.abc import Iterator
from pathlib import Path

from glassformer.data.json_tables import LONGEST_PIECE, TableError, check_end, numbered, start_of
from glassformer.errors import DirectoryError
from glassformer.interop.untrusted_files import LARGEST_JSON, inside, read_bytes, read_json

LARGEST_LINE, LARGEST_SPECS = 2**12, 2**20
"""Bytes of a line of a vocabulary, and of all that is no piece in a SentencePiece model."""
PIECE = 10
"""What a piece begins with in a SentencePiece model: field 1, of a length that follows."""
FIXED = {0: 0, 1: 8, 5: 4}
"""Bytes of other kinds of fields in protobuf's way of writing; those of the first say themselves where they end."""


SPARE = 64
"""Pieces that may have a number beyond the model's tokens, and be complained of by name."""


def at_most(size: int) -> int:
    """How many pieces or merges may cut the text for a model of so many tokens: not all of them need be in use."""
    return 2 * size + 50_000


def read_spm(path: Path, size: int) -> bytes:
    """A SentencePiece model for a model of so many tokens.

    Its library makes 90 bytes of a piece that has two in the file, so the pieces are counted before.
    """
    content, most = read_bytes(path), at_most(size)
    at = pieces = others = 0
    while at < len(content):
        tag, at = _varint(content, at)
        length, after = _varint(content, at)
        if tag & 7 == 2:  # a length, and so many bytes
            at = after + length
            pieces, others = (pieces + 1, others) if tag == PIECE else (pieces, others + length)
        elif tag & 7 in FIXED:
            at = after if tag & 7 == 0 else at + FIXED[tag & 7]
        else:
            raise DirectoryError(f"{path} is not a SentencePiece model: byte {at:,} begins no field of one.")
        if pieces > most:
            raise DirectoryError(f"{path} has more than {most:,} pieces, for a model of {size:,} tokens.")
    if others > LARGEST_SPECS:
        raise DirectoryError(f"{path} has {others:,} bytes beside its pieces; it may have {LARGEST_SPECS:,}.")
    return content


def read_merges(path: Path, size: int) -> bytes:
    """A list of merges, one a line, for a model of so many tokens: a line takes up to 60 times its size once read."""
    content, most = read_bytes(path), at_most(size)
    if content.count(b"\n") > most:
        found = content.count(b"\n")
        raise DirectoryError(f"{path} has {found:,} lines, for a model of {size:,} tokens.")
    return content


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A number in protobuf's way of writing, and where it ends; one that does not end ends all."""
    if at < len(content) and content[at] < 128:
        return content[at], at + 1
    number = shift = 0
    for place in range(at, min(at + 10, len(content))):
        number |= (content[place] & 127) << shift
        if content[place] < 128:
            return number, place + 1
        shift += 7
    return len(content), len(content)


def read_lines(content: bytes, where: str) -> Iterator[str]:
    """The lines of a text, one by one, so that nobody holds it in a second form; none may be longer than words are."""
    place = 0
    for line in io.BytesIO(content):
        if len(line) > LARGEST_LINE:
            raise DirectoryError(f"{where} has a line of {len(line):,} bytes; one may have {LARGEST_LINE:,}.")
        try:
            yield line.removesuffix(b"\n").decode()
        except UnicodeDecodeError as error:
            raise DirectoryError(f"{where} is not UTF-8 (byte {place + error.start:,}).") from None
        place += len(line)


def read_numbers(directory: Path, name: str, size: int) -> dict[str, int]:
    """The number of each piece from a JSON file, for a model of so many tokens."""
    path = inside(directory, name)
    content = read_bytes(path)
    try:
        numbers, end = numbered(content, start_of(content), size + SPARE)
        check_end(content, end)
    except TableError as error:
        if len(content) > LARGEST_JSON:
            raise DirectoryError(f"{path} does not give each piece a number: {error}.") from None
        numbers = read_json(path)  # small enough to say what is wrong
        if len(numbers) > size + SPARE:
            raise DirectoryError(f"{path} does not give each piece a number: {error}.") from None
    for piece, number in numbers.items():
        if type(number) is not int or not 0 <= number < 2**31:
            found = f"{reprlib.repr(piece)} has {reprlib.repr(number)}"
            raise DirectoryError(f"{path} does not give each piece a number: {found}.")
        if len(piece) > LONGEST_PIECE:
            raise DirectoryError(f"{path} has a piece of {len(piece):,} letters, which no tokenizer has.")
    return numbers
