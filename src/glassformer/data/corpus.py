"""Parallel text from files: two files, TSV or JSON lines, each also gzipped. Streams; never holds a corpus.

A line ends at \\n and nowhere else: U+2028, U+0085, a form feed or a lone \\r are text, or two files would no longer
have the same number of lines. Knows nothing of tokens.
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

LONGEST_LINE = 2**20  # bytes; a file without line ends must not fill the memory
BOM = b"\xef\xbb\xbf"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class Pair(NamedTuple):
    """One sentence and its counterpart, with the number of their line, from 1."""

    line: int
    source: str
    target: str

    @property
    def has_text(self) -> bool:
        """Whether something can be learned from it: neither side is blank."""
        return bool(self.source.strip() and self.target.strip())


class Corpus(Protocol):
    """Pairs of sentences that can be read again and again."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Where they stand."""

    @property
    def selection(self) -> str:
        """Which of the files' pairs these are, for checksums."""

    def check(self) -> int:
        """The number of pairs in the files, after making sure that the files agree on it."""

    def __iter__(self) -> Iterator[Pair]: ...


@dataclass(frozen=True)
class TwoFiles:
    """Line n of one file belongs to line n of the other."""

    source: Path
    target: Path
    selection: ClassVar[str] = "all"

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.source, self.target)

    def written(self, pair: Pair) -> tuple[str, ...]:
        """The pair's line in each of the files."""
        return (pair.source, pair.target)

    def check(self) -> int:
        """The number of pairs, after making sure that the two files agree on it."""
        counts = [count_lines(path) for path in self.files]
        if counts[0] != counts[1]:
            raise DataError(
                f"{self.source} has {counts[0]:,} lines and {self.target} has {counts[1]:,}: line n of one must be the "
                "counterpart of line n of the other. Find where they part, or make both from one export."
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
    """Both sides in one file: `source<TAB>target`, or {"source": ..., "target": ...}, a line each."""

    path: Path
    selection: ClassVar[str] = "all"

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.path,)

    def written(self, pair: Pair) -> tuple[str, ...]:
        """The pair's line in the file."""
        if _kind(self.path) == ".jsonl":
            return (json.dumps({"source": pair.source, "target": pair.target}, ensure_ascii=False),)
        return (f"{pair.source}\t{pair.target}",)

    def check(self) -> int:
        """The number of pairs."""
        return count_lines(self.path)

    def __iter__(self) -> Iterator[Pair]:
        split = _from_json if _kind(self.path) == ".jsonl" else _from_tsv
        for number, line in enumerate(read_lines(self.path), start=1):
            try:
                yield Pair(number, *split(line))
            except DataError as error:
                raise DataError(f"{self.path}, line {number}: {error}") from None

    def __str__(self) -> str:
        return str(self.path)


Watch = Callable[[Iterable[Pair], str], Iterable[Pair]]
"""Passes pairs on, and may show how far it is; gets what is being done as a word or two."""


def unwatched(pairs: Iterable[Pair], _: str) -> Iterable[Pair]:
    """The `Watch` of those who do not look."""
    return pairs


def corpus(source: str | os.PathLike[str], target: str | os.PathLike[str] | None = None) -> TwoFiles | OneFile:
    """The corpus of two files, or of one .tsv or .jsonl file (each may end in .gz)."""
    path = Path(source)
    if target is not None:
        return TwoFiles(path, Path(target))
    if _kind(path) not in (".tsv", ".jsonl"):
        raise DataError(
            f"{path} is one file, and its name ends neither in .tsv nor in .jsonl: give the target's file too, "
            "or rename it to what it holds."
        )
    return OneFile(path)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file: strict UTF-8, \\n at the end of each; a BOM and one trailing \\r are dropped."""
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
    """How many lines there are, the last one with or without its \\n; none at all is an error."""
    count, last = 0, b"\n"
    with _opened(path) as file:
        while block := file.read(2**20):
            count += block.count(b"\n")
            last = block[-1:]
    count += last != b"\n"
    if count == 0:
        raise DataError(f"{path} is empty.")
    return count


def _raw_lines(path: Path) -> Iterator[bytes]:
    with _opened(path) as file:
        number = 0
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise DataError(f"{path}, line {number} is longer than {LONGEST_LINE:,} bytes: no sentence is.")
            yield line.removesuffix(b"\n")


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file's bytes, unpacked if it ends in .gz; whatever goes wrong while reading names the file."""
    try:
        with path.open("rb") as file:
            yield io.BufferedReader(gzip.GzipFile(fileobj=file)) if path.suffix == ".gz" else file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path} is damaged or cut off: {str(error).rstrip('.')}. Fetch it again.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from None


def _kind(path: Path) -> str:
    return Path(path.stem).suffix if path.suffix == ".gz" else path.suffix


def _from_tsv(line: str) -> tuple[str, str]:
    sides = line.split("\t")
    if len(sides) != 2:
        raise DataError(f"has {len(sides) - 1} tabs, and must have one, between source and target.")
    return sides[0], sides[1]


def _from_json(line: str) -> tuple[str, str]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError('is not JSON; each line must be like {"source": "...", "target": "..."}.') from None
    source, target = (entry.get("source"), entry.get("target")) if isinstance(entry, dict) else (None, None)
    if not (isinstance(source, str) and isinstance(target, str)):
        raise DataError('must be like {"source": "...", "target": "..."}, with a text for each.')
    if re.search("[\ud800-\udfff]", source + target):
        raise DataError("has half of a surrogate pair (\\ud800 to \\udfff), which is no character.")
    return source, target
