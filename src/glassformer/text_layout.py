"""Plain text for a terminal or a pipe: wrapped paragraphs and aligned columns that are never truncated."""

import shutil
import textwrap
from collections.abc import Iterable, Sequence

MAX_WIDTH = 96  # columns


def paragraph(text: str) -> str:
    """One wrapped paragraph, at most 96 columns wide."""
    return textwrap.fill(" ".join(text.split()), width=min(shutil.get_terminal_size().columns, MAX_WIDTH))


def cut(text: str, indent: str = "") -> str:
    """The text as one line of the terminal's width, at most 96 columns, after an indent; "(empty)" if it is blank."""
    width = min(shutil.get_terminal_size().columns, MAX_WIDTH) - len(indent)
    line = " ".join(text.split()) or "(empty)"
    return indent + (line if len(line) <= width else line[: width - 1] + "…")


def columns(rows: Iterable[Sequence[str]], align: str = "") -> str:
    """Rows as aligned lines; `align` has one letter per column, "r" for numbers, "l" (the default) for words."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = align.ljust(len(widths), "l")
    return "\n".join(
        "  ".join(
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for cell, width, side in zip(row, widths, sides, strict=True)
        ).rstrip()
        for row in rows
    )
