"""Parallel corpus readers: two files, TSV, CSV or JSON lines, plain or gzipped. Streaming; nothing is held in memory.

Only \\n ends a line: U+2028, U+0085, a form feed or a lone \\r are part of the text, or two parallel files would no
longer have the same number of lines.
"""

import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from glassformer.data.csv_pairs import csv_pairs, csv_row
from glassformer.data.other_formats import SNIFFED_BYTES, refuse_other_formats
from glassformer.errors import DataError

MAX_LINE_BYTES = 2**20  # a file without line ends must not fill the memory
BOM = b"\xef\xbb\xbf"


class Pair(NamedTuple):
    """A source sentence and its translation, with their line number, from 1; in a CSV file that of the row."""

    line: int
    source: str
    target: str

    @property
    def has_text(self) -> bool:
        """Whether the pair can be trained on: neither side is blank."""
        return bool(self.source.strip() and self.target.strip())


class Digest(Protocol):
    """A running checksum, such as hashlib's."""

    def update(self, data: memoryview, /) -> None: ...


@dataclass(frozen=True)
class TwoFiles:
    """Two parallel files: line n of the target translates line n of the source."""

    source: Path
    target: Path

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.source, self.target)

    @property
    def sides(self) -> tuple[str, str]:
        """Short names of the two sides."""
        same = self.source.name == self.target.name
        return (str(self.source), str(self.target)) if same else (self.source.name, self.target.name)

    def format_pair(self, pair: Pair) -> tuple[str, ...]:
        """A sentence pair as one line for each of the two files."""
        return (pair.source, pair.target)

    def check(self, where_they_part: Callable[[int, int], str] | None = None) -> int:
        """The number of pairs, after checking that both files have the same number of lines.

        `where_they_part` is asked for a sentence if they have not, given both numbers.
        """
        source, target = (count_lines(path) for path in self.files)
        if source != target:
            place = where_they_part(source, target) if where_they_part else ""
            raise DataError(
                f"{self.source} has {source:,} lines and {self.target} has {target:,}: line n of one must be the "
                f"translation of line n of the other. {place + ' Correct this' if place else 'Find where they diverge'}"
                ", or export both files again together."
            )
        return source

    def read(self, digests: Sequence[Digest] = ()) -> Iterator[Pair]:
        """The pairs; `digests`, one per file, are updated with the bytes of the files."""
        sides = (read_lines(path, digest) for path, digest in zip_longest(self.files, digests))
        for number, (source, target) in enumerate(zip_longest(*sides), start=1):
            if source is None or target is None:
                self.check()  # raises: it counts the lines of both files
                raise DataError(f"{self} changed while they were read: start again when they are complete.")
            yield Pair(number, source, target)

    def __iter__(self) -> Iterator[Pair]:
        return self.read()

    def __str__(self) -> str:
        return f"{self.source} and {self.target}"


@dataclass(frozen=True)
class OneFile:
    """Both sides in one file: lines `source<TAB>target` or {"source": ..., "target": ...}, or rows of a CSV file."""

    path: Path

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.path,)

    @property
    def sides(self) -> tuple[str, str]:
        """Short names of the two sides."""
        return ("the source", "the target")

    def format_pair(self, pair: Pair) -> tuple[str, ...]:
        """A sentence pair as one line of the TSV, CSV or JSON lines file."""
        if _format(self.path) == ".jsonl":
            return (json.dumps({"source": pair.source, "target": pair.target}, ensure_ascii=False),)
        if _format(self.path) == ".csv":
            return (csv_row(pair.source, pair.target),)
        return (f"{pair.source}\t{pair.target}",)

    def check(self) -> int:
        """The number of pairs in the file."""
        if _format(self.path) != ".csv":
            return count_lines(self.path)
        if not (rows := sum(1 for _ in self.read())):
            raise DataError(f"{self.path} is empty.")
        return rows

    def read(self, digests: Sequence[Digest] = ()) -> Iterator[Pair]:
        """The pairs; the digest in `digests` is updated with the bytes of the file."""
        if _format(self.path) == ".csv":
            yield from (Pair(*row) for row in csv_pairs(read_lines(self.path, *digests), str(self.path)))
            return
        parse = _from_json if _format(self.path) == ".jsonl" else _from_tsv
        for number, line in enumerate(read_lines(self.path, *digests), start=1):
            try:
                yield Pair(number, *parse(line))
            except DataError as error:
                raise DataError(f"{self.path}, line {number}: {error}") from None

    def __iter__(self) -> Iterator[Pair]:
        return self.read()

    def __str__(self) -> str:
        return str(self.path)


Corpus = TwoFiles | OneFile

Watch = Callable[[Iterable[Pair], str], Iterable[Pair]]
"""A progress display: passes the pairs through and counts them. Its second argument describes the work, briefly."""


def unwatched(pairs: Iterable[Pair], _: str) -> Iterable[Pair]:
    """A `Watch` that displays nothing."""
    return pairs


def corpus(
    source: str | os.PathLike[str], target: str | os.PathLike[str] | None = None, target_name: str = "the target file"
) -> Corpus:
    """The corpus in two parallel files, or in one .tsv, .csv or .jsonl file (each may end in .gz).

    `target_name`: how an error calls the second file.
    """
    path = Path(source)
    if target is not None:
        return TwoFiles(path, Path(target))
    if _format(path) not in (".tsv", ".csv", ".jsonl"):
        raise DataError(
            f"{path} is a single file, and its name ends neither in .tsv, .csv nor .jsonl: give {target_name} as "
            "well, or rename it to match its format."
        )
    return OneFile(path)


def read_lines(path: Path, digest: Digest | None = None) -> Iterator[str]:
    """The lines of a text file: strict UTF-8, separated by \\n; a BOM and one trailing \\r per line are dropped.

    After the last line, `digest` has been updated with all bytes of the file, as they are on disk.
    """
    with open_text(path, digest) as file:
        for number, raw in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), start=1):
            if len(raw) > MAX_LINE_BYTES:
                raise DataError(
                    f"{path}, line {number} is longer than {MAX_LINE_BYTES:,} bytes. Expected one sentence per line."
                )
            line = (raw.removeprefix(BOM) if number == 1 else raw).removesuffix(b"\n")
            try:
                yield line.removesuffix(b"\r").decode("utf-8")
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path}, line {number}: byte {error.start + 1} (0x{line[error.start]:02x}) is not UTF-8. "
                    "Convert the file to UTF-8, or repair the line."
                ) from None


def count_lines(path: Path) -> int:
    """The number of lines, the last one with or without its \\n; an empty file is an error."""
    count, last = 0, b"\n"
    with open_text(path) as file:
        while block := file.read(2**20):
            count += block.count(b"\n")
            last = block[-1:]
    count += last != b"\n"
    if count == 0:
        raise DataError(f"{path} is empty.")
    return count


@contextmanager
def open_text(path: Path, digest: Digest | None = None) -> Iterator[BinaryIO]:
    """A text file as a binary stream, decompressed if it ends in .gz; every read error names the file."""
    try:
        with path.open("rb") as file:
            stored = file if digest is None else io.BufferedReader(_DigestedFile(file, digest), 2**16)
            text = io.BufferedReader(gzip.GzipFile(fileobj=stored)) if path.suffix == ".gz" else stored
            refuse_other_formats(text.peek(SNIFFED_BYTES), str(path))
            yield text
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged or truncated: {str(error).rstrip('.')}. Download it again.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None


class _DigestedFile(io.RawIOBase):
    """A file whose bytes update a digest as they are read."""

    def __init__(self, file: BinaryIO, digest: Digest) -> None:
        self._file, self._digest = file, digest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count: int = self._file.readinto(buffer)  # type: ignore[attr-defined]
        self._digest.update(memoryview(buffer)[:count])
        return count


def _format(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def _from_tsv(line: str) -> tuple[str, str]:
    sides = line.split("\t")
    if len(sides) != 2:
        raise DataError(f"expected one tab between source and target, found {len(sides) - 1}.")
    return sides[0], sides[1]


def _from_json(line: str) -> tuple[str, str]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError('not valid JSON. Expected {"source": "...", "target": "..."}.') from None
    source, target = (entry.get("source"), entry.get("target")) if isinstance(entry, dict) else (None, None)
    if not (isinstance(source, str) and isinstance(target, str)):
        raise DataError('expected {"source": "...", "target": "..."}, with a string for each.')
    if re.search("[\ud800-\udfff]", source + target):
        raise DataError("unpaired surrogate (\\ud800 to \\udfff), which is not a valid character: remove it.")
    return source, target
