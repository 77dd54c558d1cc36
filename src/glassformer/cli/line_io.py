"""Lines in, lines out: as many, in order, whole, whatever bytes they are made of."""

import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import BinaryIO

import typer

from glassformer.errors import DataError

LONGEST_LINE = 2**24
"""Bytes; a stream without line ends must not fill the memory."""
PATIENCE = 0.05
"""Seconds to wait for more lines before those that are there are dealt with."""


class Input:
    """The lines of a stream: \\n ends a line, one \\r before it and a BOM at the start are dropped.

    Bytes that are not UTF-8 become U+FFFD, and are told of at the end: one bad byte must not stop a million lines.
    """

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self.name = name
        self.repaired: list[int] = []
        """The numbers of lines that were not UTF-8."""

    def __iter__(self) -> Iterator[str]:
        number = 0
        while raw := self._stream.readline(LONGEST_LINE + 1):
            number += 1
            if len(raw) > LONGEST_LINE:
                raise DataError(f"{self.name}, line {number} is longer than {LONGEST_LINE:,} bytes.")
            raw = raw.removesuffix(b"\n").removesuffix(b"\r")
            raw = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
            line = raw.decode("utf-8", errors="replace")
            if "\ufffd" in line and line.encode() != raw:
                self.repaired.append(number)
            yield line

    def complaint(self) -> str | None:
        """What was wrong with the input, as one sentence."""
        if not self.repaired:
            return None
        more = f" and {len(self.repaired) - 5:,} more" if len(self.repaired) > 5 else ""
        places = ", ".join(map(str, self.repaired[:5]))
        return f"{self.name}: not UTF-8 in line {places}{more}; what could not be read was taken as �."


def open_input(path: str) -> BinaryIO:
    """A file's bytes, or stdin's for `-`."""
    if path == "-":
        return sys.stdin.buffer
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def as_they_come(lines: Iterable[str], most: int) -> Iterator[list[str]]:
    """The lines in groups of those that are there together, at most so many: an answer does not wait for a crowd."""
    waiting: queue.Queue[str | BaseException | None] = queue.Queue(maxsize=2 * most)

    def read() -> None:
        try:
            for line in lines:
                waiting.put(line)
            waiting.put(None)
        except BaseException as error:
            waiting.put(error)

    threading.Thread(target=read, daemon=True).start()
    group: list[str] = []
    while True:
        try:
            item = waiting.get(timeout=PATIENCE) if group else waiting.get()
        except queue.Empty:
            yield group
            group = []
            continue
        if isinstance(item, str):
            group.append(item)
        if group and (len(group) == most or not isinstance(item, str)):
            yield group
            group = []
        if isinstance(item, BaseException):
            raise item
        if item is None:
            return


class Stopped(Exception):  # noqa: N818 - a message, not a mishap
    """Asked to stop by a signal."""

    def __init__(self, received: int) -> None:
        super().__init__(received)
        self.received = received


class WholeLines:
    """Writes to stdout what is whole. Asked to stop, it finishes the lines it is writing, and no others."""

    def __enter__(self) -> "WholeLines":
        self._writing = False
        self._received = 0
        self._before = {number: signal.signal(number, self._hear) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def write(self, lines: Iterable[str]) -> None:
        """Each text as one line: a line end inside it becomes a space."""
        text = "".join(f"{one_line(line)}\n" for line in lines).encode("utf-8", errors="replace")
        self._writing = True
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
        self._writing = False
        if self._received:
            raise Stopped(self._received)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if not self._writing or self._received:
            raise Stopped(number)
        self._received = number


def one_line(text: str) -> str:
    """The text without line ends of any program's: what is read again line by line must be as many lines."""
    return text.translate(_LINE_ENDS)


_LINE_ENDS = dict.fromkeys(map(ord, "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")


def until_stopped(work: Callable[[WholeLines], None]) -> None:
    """Do the work; asked to stop, leave as programs do that a signal ended."""
    try:
        with WholeLines() as out:
            work(out)
    except Stopped as stopped:
        raise typer.Exit(128 + stopped.received) from None
