"""Line-based input and output: as many lines out as in, in order, each written whole, for any input bytes."""

import gzip
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import BinaryIO, TypeVar, cast

import typer

from glassformer.errors import DataError

Item = TypeVar("Item")
MAX_LINE_BYTES = 2**24
"""Maximum length of a line: a stream without line ends must not fill the memory."""
GROUP_WAIT_SECONDS = 0.05
"""How long to wait for further lines before those that have arrived are processed."""
PROMPT = "> "
FIRST_GROUP = 32
"""Lines that are translated together at first; twice as many each time."""
LINES_LISTED = 5
"""Maximum number of line numbers listed in a warning."""


class InputLines:
    """The lines of a stream: \\n ends a line, one \\r before it and a BOM at the start are dropped.

    Bytes that are not UTF-8 become U+FFFD, and are reported at the end: one bad byte must not stop a million lines.
    """

    def __init__(self, open_stream: Callable[[], AbstractContextManager[BinaryIO]], name: str) -> None:
        self._open = open_stream
        self.name = name
        self.repaired: list[int] = []
        """The numbers of lines that were not UTF-8."""

    def __iter__(self) -> Iterator[str]:
        with self._open() as stream:
            for number, raw in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b""), start=1):
                yield self._text(number, raw)

    def _text(self, number: int, raw: bytes) -> str:
        if len(raw) > MAX_LINE_BYTES:
            raise DataError(
                f"{self.name}, line {number} is longer than {MAX_LINE_BYTES:,} bytes. Expected one text per line."
            )
        if number == 1:
            from glassformer.data.other_formats import refuse_other_formats  # late: --help needs no readers

            refuse_other_formats(raw, self.name)
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        raw = raw.removesuffix(b"\n").removesuffix(b"\r")
        line = raw.decode("utf-8", errors="replace")
        if "\ufffd" in line and line.encode() != raw:
            self.repaired.append(number)
        return line

    def warning(self) -> str | None:
        """One sentence that says what was wrong with the input; None if nothing was."""
        if not self.repaired:
            return None
        more = f" and {len(self.repaired) - LINES_LISTED:,} more" if len(self.repaired) > LINES_LISTED else ""
        numbers = ", ".join(map(str, self.repaired[:LINES_LISTED]))
        lines = "lines" if len(self.repaired) > 1 else "line"
        return (
            f"{self.name} is not UTF-8 in {lines} {numbers}{more}; invalid bytes were read as �. Save the text as "
            "UTF-8 to keep them."
        )


def open_stdin() -> BinaryIO:
    """The bytes of stdin.

    It is opened anew: Python aborts ("Fatal Python error: _enter_buffered_busy") if it ends while a thread waits in a
    read of `sys.stdin` itself.
    """
    try:
        return open(os.dup(sys.stdin.fileno()), "rb")
    except (OSError, ValueError):  # it is closed, or not a file
        return sys.stdin.buffer


def stdin_is_terminal() -> bool:
    """Whether somebody types the input."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def typed_lines() -> Iterator[str]:
    """The lines that somebody types after a prompt, until Ctrl-D; with history where the terminal is also stdout."""
    typer.echo("Type a text and press Enter. Ctrl-D ends.", err=True)
    sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
    with suppress(ImportError):  # Windows has none, and its terminal edits lines itself
        import readline  # noqa: F401 - `input` then has arrow keys and a history
    while True:
        try:
            if sys.stdout.isatty():
                yield input(PROMPT)
            else:
                typer.echo(PROMPT, nl=False, err=True)
                yield input()
        except (EOFError, Stopped) as end:
            typer.echo(err=True)  # Ctrl-D and Ctrl-C leave the cursor behind the prompt
            if isinstance(end, Stopped):
                raise
            return


def groups_of(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield groups of up to this many items; the first are smaller, so that the time left is soon known."""
    remaining, current = iter(items), min(FIRST_GROUP, size)
    while group := list(islice(remaining, current)):
        yield group
        current = min(2 * current, size)


def groups_as_they_arrive(lines: Iterable[str], max_lines: int) -> Iterator[list[str]]:
    """Yield groups of at most `max_lines` lines; none is held back until it is full, so translations come at once.

    As in `groups_of`, the first are smaller.
    """
    arrived: queue.Queue[str | BaseException | None] = queue.Queue(maxsize=2 * max_lines)

    def read() -> None:
        try:
            for line in lines:
                arrived.put(line)
            arrived.put(None)
        except BaseException as error:
            arrived.put(error)

    threading.Thread(target=read, daemon=True).start()
    group: list[str] = []
    size = min(FIRST_GROUP, max_lines)
    while True:
        try:
            item = arrived.get(timeout=GROUP_WAIT_SECONDS) if group else arrived.get()
        except queue.Empty:
            yield group
            group = []
            continue
        if isinstance(item, str):
            group.append(item)
        if group and (len(group) == size or not isinstance(item, str)):
            yield group
            group, size = [], min(2 * size, max_lines)
        if isinstance(item, BaseException):
            raise item
        if item is None:
            return


class Stopped(Exception):  # noqa: N818 - a request to stop, not an error
    """Raised when a signal asks the program to stop."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(signal_number)
        self.signal_number = signal_number


class WholeLineWriter:
    """Writes whole lines: on SIGINT or SIGTERM, lines that are being written are finished first.

    They go to stdout, or to a file inside `to_file`.
    """

    def __enter__(self) -> "WholeLineWriter":
        self._stream: BinaryIO = sys.stdout.buffer
        self._is_writing = False
        self._signal_number = 0
        self._handlers_before = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._handlers_before.items():
            signal.signal(number, handler)

    def write(self, lines: Iterable[str]) -> None:
        """Write each text as one line: line ends inside it become spaces."""
        text = "".join(f"{one_line(line)}\n" for line in lines).encode("utf-8", errors="replace")
        self._is_writing = True
        self._stream.write(text)
        self._stream.flush()
        self._is_writing = False
        if self._signal_number:
            raise Stopped(self._signal_number)

    @contextmanager
    def to_file(self, path: Path | None) -> Iterator[None]:
        """Write to this file, compressed if its name ends in .gz; it is complete or absent. None: to stdout."""
        if path is None:
            yield
            return
        from glassformer.atomic_directory import replacing

        with replacing(path) as file:
            zipped = gzip.GzipFile("", "wb", fileobj=file, mtime=0) if path.suffix == ".gz" else None
            self._stream = file if zipped is None else cast("BinaryIO", zipped)
            try:
                yield
            finally:
                self._stream = sys.stdout.buffer
                if zipped is not None:
                    zipped.close()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._is_writing or self._signal_number:
            raise Stopped(number)
        self._signal_number = number


def one_line(text: str) -> str:
    """The text with everything that any program takes for a line end replaced by a space."""
    return text.translate(_LINE_ENDS)


_LINE_ENDS = dict.fromkeys(map(ord, "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")


def run_until_signal(work: Callable[[WholeLineWriter], None]) -> None:
    """Call `work`; after a signal, exit with 128 + its number, as programs ended by a signal do."""
    try:
        with WholeLineWriter() as out:
            work(out)
    except Stopped as stopped:
        raise typer.Exit(128 + stopped.signal_number) from None
