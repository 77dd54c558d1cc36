"""Plain text for a terminal or a pipe: wrapped paragraphs and aligned columns that are never truncated."""

import shutil
import textwrap
from collections.abc import Iterable, Sequence


def paragraph(text: str) -> str:
    """One wrapped paragraph, at most 96 columns wide."""
    return textwrap.fill(" ".join(text.split()), width=min(shutil.get_terminal_size().columns, 96))


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
