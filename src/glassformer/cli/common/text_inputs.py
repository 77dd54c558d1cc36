"""What `translate` reads and writes: files, stdin, a terminal or texts, and the file for the translations of each.

Everything that can be refused is refused here, before a model is read.
"""

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from glassformer.cli.common.line_io import (
    InputLines,
    groups_as_they_arrive,
    one_line,
    open_stdin,
    stdin_is_terminal,
    typed_lines,
)
from glassformer.errors import DataError, SettingsError

STDIN = "-"
PATH_START = re.compile(r"~?/|\.\.?/|[A-Za-z]:[\\/]")
EXTENSION = re.compile(r"\.[A-Za-z]\w{0,5}$")
TEXT_FILE = re.compile(r"\.(txt|text|tsv|csv|jsonl?|md|html?|xml|tmx|xlf|srt|docx?|odt|rtf|pdf|xlsx|gz|zip)$", re.I)
"""Extensions that a sentence does not end in, unlike "Node.js"."""


@dataclass
class TextInput:
    """Lines to translate, with their name, their number if it is known, and the file for their translations."""

    name: str
    lines: Iterable[str]
    path: Path | None = None
    """The file that they are read from, if any."""
    total: int | None = None
    out: Path | None = None
    """The file to write; None for stdout."""

    @property
    def is_typed(self) -> bool:
        """Whether somebody types the lines at a terminal."""
        return self.name == "stdin" and stdin_is_terminal()

    def groups(self, max_lines: int) -> Iterator[list[str]]:
        """The lines in groups to translate together; a typed line is answered before the next one is asked for."""
        if self.is_typed:
            return ([line] for line in typed_lines())
        return groups_as_they_arrive(self.lines, max_lines)

    def line(self, number: int) -> str:
        """A line of it as messages name it."""
        return f"Line {number:,}" if self.path is None else f"{self.name}, line {number:,},"

    def warning(self) -> str | None:
        """One sentence that says what was wrong with the lines; None if nothing was."""
        return self.lines.warning() if isinstance(self.lines, InputLines) else None


def text_inputs(arguments: list[str], out: Path | None = None) -> list[TextInput]:
    """The inputs that the arguments name: files and stdin, or else texts; without arguments, stdin."""
    arguments = arguments or [STDIN]
    if any(argument == STDIN or os.path.exists(argument) or is_path(argument) for argument in arguments):
        inputs = [_stdin() if argument == STDIN else _file(Path(argument), len(arguments)) for argument in arguments]
    else:
        inputs = [_texts(arguments)]
    if out is not None:
        set_outputs(inputs, out)
    return inputs


def is_path(text: str) -> bool:
    """Whether a text looks like the path of a file: a word with a slash or an extension, or words that end in one."""
    if len(text.split()) == 1:
        return "/" in text or EXTENSION.search(text) is not None
    in_directory = "/" in text and (EXTENSION.search(text) is not None or os.path.isdir(os.path.dirname(text)))
    return in_directory or PATH_START.match(text) is not None or TEXT_FILE.search(text) is not None


def set_outputs(inputs: list[TextInput], out: Path) -> None:
    """Set the file that each input's translations are written to: `out`, or in the directory `out` the input's name."""
    if len(inputs) == 1 and not out.is_dir() and not str(out).endswith("/"):
        if not out.parent.is_dir():
            raise DataError(f"{out} cannot be written: there is no directory {out.parent}.")
        inputs[0].out = out
    else:
        _set_outputs_in(inputs, out)
    for each in inputs:
        if each.out is not None and each.path is not None and each.out.exists() and each.out.samefile(each.path):
            raise SettingsError(f"--out {out} would overwrite the input {each.path}: choose another name.")


def _set_outputs_in(inputs: list[TextInput], directory: Path) -> None:
    from glassformer.atomic_directory import make_directory

    if directory.is_file():
        raise SettingsError(f"--out {directory} is a file, but there are {len(inputs)} inputs: give a directory.")
    paths: dict[Path, str] = {}
    for each in inputs:
        if each.path is None:
            raise SettingsError(f"--out {directory} is a directory, but {each.name} has no file name: give a file.")
        each.out = directory / each.path.name
        if each.out in paths:
            raise SettingsError(f"{paths[each.out]} and {each.name} would both be written to {each.out}: rename one.")
        paths[each.out] = each.name
    make_directory(directory)


def _texts(texts: list[str]) -> TextInput:
    if len(texts) > 1 and all(len(text.split()) <= 1 for text in texts):
        sentence = shlex.join([" ".join(texts)])
        raise SettingsError(f"Put a sentence in quotes: {sentence}. Several texts give one translation each.")
    # Arguments that are not UTF-8 arrive as surrogates.
    decoded = [text.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="replace") for text in texts]
    return TextInput("the text", [one_line(text) for text in decoded], total=len(texts))


def _stdin() -> TextInput:
    return TextInput("stdin", InputLines(open_stdin, "stdin"))


def _file(path: Path, count: int) -> TextInput:
    if not path.exists():
        echo = f"`echo {shlex.quote(str(path))} | glassformer translate MODEL`"
        pipe = f" To translate this text itself, use a pipe: {echo}." if count == 1 else ""
        raise DataError(f"There is no file {path}.{pipe}")
    from glassformer.data.corpus import open_text

    # A pipe cannot be read twice.
    return TextInput(str(path), InputLines(partial(open_text, path), str(path)), path, _line_count(path))


def _line_count(path: Path) -> int | None:
    """The number of lines of a file, after checking that it is text; None for a pipe, which can be read only once."""
    from glassformer.data.corpus import open_text

    if path.exists() and not (path.is_file() or path.is_dir()):
        return None
    count, last = 0, b"\n"
    with open_text(path) as file:
        while block := file.read(2**20):
            if (position := block.find(b"\0")) >= 0:
                line = count + block.count(b"\n", 0, position) + 1
                raise DataError(
                    f"{path}, line {line:,} contains a NUL byte, so it is not text: convert it, or remove the byte."
                )
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last != b"\n")
