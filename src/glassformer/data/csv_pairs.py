"""CSV as RFC 4180 says and spreadsheet programs write it: quoted fields, separated by commas, semicolons or tabs."""

import csv
import re
from collections.abc import Iterator
from itertools import chain, islice

from glassformer.errors import DataError

DELIMITERS = (",", ";", "\t")  # Excel writes semicolons wherever the decimal sign is a comma
SAMPLE_LINES = 100  # from which the delimiter is seen

SOURCE_NAMES = {"source", "src", "original", "input", "text", "sentence"}
TARGET_NAMES = {"target", "tgt", "trg", "translation", "reference", "output"}
LANGUAGES = """
    ar bg bn ca cs cy da de el en es et eu fa fi fr ga gl he hi hr hu id is it ja ka ko lt lv mk ms mt nl no pl pt ro ru
    sk sl sq sr sv sw ta th tr uk ur vi zh english german french spanish italian portuguese dutch russian chinese
    japanese korean arabic turkish polish czech swedish danish norwegian finnish hungarian romanian greek ukrainian
    hebrew hindi vietnamese indonesian deutsch englisch français español italiano português nederlands
"""


def csv_pairs(lines: Iterator[str], path: str) -> Iterator[tuple[int, str, str]]:
    """Row number, source and target of each row but the header; rows are counted from 1, the header included.

    `path` is for error messages.
    """
    head = list(islice(lines, SAMPLE_LINES))
    delimiter = _delimiter(head)
    is_reversed = False
    for number, row in _rows(chain(head, lines), delimiter, path):
        if number == 1 and row == ["sep=", ""]:
            continue  # for Excel
        if len(row) != 2:
            raise DataError(f"{path}, row {number}: expected two columns, source and target, found {len(row)}.")
        if number <= 2 and _is_header(row):
            is_reversed = row[0].strip().casefold() in TARGET_NAMES
            continue
        yield (number, row[1], row[0]) if is_reversed else (number, row[0], row[1])


def csv_row(source: str, target: str) -> str:
    """A pair as a row, without its line end."""
    return ",".join('"' + text.replace('"', '""') + '"' for text in (source, target))


def _rows(lines: Iterator[str], delimiter: str, path: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, with their numbers."""
    rows = csv.reader((line + "\n" for line in lines), delimiter=delimiter, strict=True)
    number = 0
    try:
        for number, row in enumerate(rows, start=1):
            if row:
                yield number, row
    except csv.Error as error:
        raise DataError(f"{path}, row {number + 1} (to line {rows.line_num}) is not valid CSV: {error}.") from None


def _delimiter(head: list[str]) -> str:
    """The delimiter that gives most rows two columns; the first line `sep=;`, which Excel reads, decides by itself."""
    if head and (named := re.fullmatch("sep=([,;\t])", head[0])):
        return named[1]

    def two_columns(delimiter: str) -> int:
        rows = csv.reader((line + "\n" for line in head), delimiter=delimiter)
        try:
            return sum(len(row) == 2 for row in rows)
        except csv.Error:
            return 0

    return max(DELIMITERS, key=two_columns)


def _is_header(row: list[str]) -> bool:
    first, second = (name.strip().casefold() for name in row)
    languages = (re.split("[-_]", name)[0] for name in (first, second))
    names = (SOURCE_NAMES, TARGET_NAMES)
    return (first != second and set(LANGUAGES.split()).issuperset(languages)) or any(
        first in one and second in other for one, other in (names, names[::-1])
    )
