"""Parallel corpus readers: two files, TSV or JSON lines, plain or gzipped. Streaming; a corpus is never held in memory.

Only \\n ends a line: U+2028, U+0085, a form feed or a lone \\r are part of the text, or two parallel files would no
longer have the same number of lines.
"""

import gzip
import io
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar, NamedTuple, Protocol

from glassformer.errors import DataError

MAX_LINE_BYTES = 2**20  # a file without line ends must not fill the memory
BOM = b"\xef\xbb\xbf"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class Pair(NamedTuple):
    """A source sentence and its translation, with their line number, from 1."""

    line: int
    source: str
    target: str

    @property
    def has_text(self) -> bool:
        """Whether the pair can be trained on: neither side is blank."""
        return bool(self.source.strip() and self.target.strip())


class Corpus(Protocol):
    """A parallel corpus: sentence pairs that can be iterated over repeatedly."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that hold the pairs."""

    @property
    def selection(self) -> str:
        """Description of which pairs of the files are selected; part of checksums."""

    def check(self) -> int:
        """The number of pairs in the files, after checking that the files have the same number of lines."""

    def __iter__(self) -> Iterator[Pair]: ...


@dataclass(frozen=True)
class TwoFiles:
    """Two parallel files: line n of the target translates line n of the source."""

    source: Path
    target: Path
    selection: ClassVar[str] = "all"

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.source, self.target)

    def format_pair(self, pair: Pair) -> tuple[str, ...]:
        """A sentence pair as one line for each of the two files."""
        return (pair.source, pair.target)

    def check(self) -> int:
        """The number of pairs, after checking that both files have the same number of lines."""
        counts = [count_lines(path) for path in self.files]
        if counts[0] != counts[1]:
            raise DataError(
                f"{self.source} has {counts[0]:,} lines and {self.target} has {counts[1]:,}: line n of one must be the "
                "translation of line n of the other. Find where they diverge, or export both files again together."
            )
        return counts[0]

    def __iter__(self) -> Iterator[Pair]:
        sides = zip(read_lines(self.source), read_lines(self.target), strict=True)
        for number, (source, target) in enumerate(sides, start=1):
            yield Pair(number, source, target)

    def __str__(self) -> str:
        return f"{self.source} and {self.target}"


@dataclass(frozen=True)
class OneFile:
    """Both sides in one file, one pair per line: `source<TAB>target` or {"source": ..., "target": ...}."""

    path: Path
    selection: ClassVar[str] = "all"

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.path,)

    def format_pair(self, pair: Pair) -> tuple[str, ...]:
        """A sentence pair as one line of the TSV or JSON lines file."""
        if _format(self.path) == ".jsonl":
            return (json.dumps({"source": pair.source, "target": pair.target}, ensure_ascii=False),)
        return (f"{pair.source}\t{pair.target}",)

    def check(self) -> int:
        """The number of pairs in the file."""
        return count_lines(self.path)

    def __iter__(self) -> Iterator[Pair]:
        parse = _from_json if _format(self.path) == ".jsonl" else _from_tsv
        for number, line in enumerate(read_lines(self.path), start=1):
            try:
                yield Pair(number, *parse(line))
            except DataError as error:
                raise DataError(f"{self.path}, line {number}: {error}") from None

    def __str__(self) -> str:
        return str(self.path)


Watch = Callable[[Iterable[Pair], str], Iterable[Pair]]
"""A progress display: passes the pairs through and counts them. Its second argument describes the work, briefly."""


def unwatched(pairs: Iterable[Pair], _: str) -> Iterable[Pair]:
    """A `Watch` that displays nothing."""
    return pairs


def corpus(source: str | os.PathLike[str], target: str | os.PathLike[str] | None = None) -> TwoFiles | OneFile:
    """The corpus in two parallel files, or in one .tsv or .jsonl file (each may end in .gz)."""
    path = Path(source)
    if target is not None:
        return TwoFiles(path, Path(target))
    if _format(path) not in (".tsv", ".jsonl"):
        raise DataError(
            f"{path} is a single file, and its name ends neither in .tsv nor in .jsonl: give the target file as well, "
            "or rename it to match its format."
        )
    return OneFile(path)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file: strict UTF-8, separated by \\n; a BOM and one trailing \\r per line are dropped."""
    for number, raw in enumerate(_raw_lines(path), start=1):
        line = raw.removeprefix(BOM) if number == 1 else raw
        if number == 1 and line.startswith(UTF_16):
            raise DataError(f"{path} is UTF-16: convert it first, with `iconv -f UTF-16 -t UTF-8`.")
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
    with _open(path) as file:
        while block := file.read(2**20):
            count += block.count(b"\n")
            last = block[-1:]
    count += last != b"\n"
    if count == 0:
        raise DataError(f"{path} is empty.")
    return count


def _raw_lines(path: Path) -> Iterator[bytes]:
    with _open(path) as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise DataError(
                    f"{path}, line {number} is longer than {MAX_LINE_BYTES:,} bytes. Expected one sentence per line."
                )
            yield line.removesuffix(b"\n")


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    """The file as a binary stream, decompressed if it ends in .gz; every read error names the file."""
    try:
        with path.open("rb") as file:
            yield io.BufferedReader(gzip.GzipFile(fileobj=file)) if path.suffix == ".gz" else file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged or truncated: {str(error).rstrip('.')}. Download it again.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None


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
