"""Who "it" is, as a table and as JSON."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from glassformer.cli.text_layout import columns, paragraph

if TYPE_CHECKING:
    from glassformer.coreference import PronounEvidence, PronounReading, PronounVerdict

MARK = "◂"
"""Behind the larger number of a row that is counted."""


def who_text(who: "PronounVerdict") -> str:
    return "\n".join(_lines(who))


def _lines(who: "PronounVerdict") -> Iterator[str]:
    for number, reading in enumerate(who.readings):
        if number and who.swap is not None:
            yield from ("", _beside(who))
        yield from (reading.source, reading.translation)
    yield from ("", _table(who), "")
    yield f"{MARK} the larger number of a row that is counted. Looks and values of several tokens are added up."
    for reading in who.readings:
        yield from ("", paragraph(reading.in_words))


def _beside(who: "PronounVerdict") -> str:
    assert who.swap is not None
    old, new = who.swap
    if who.found:
        return f"Beside it, found by trying: with {new!r} for {old!r} the pronoun is another."
    return f"Beside it, with {new!r} for {old!r}:"


def _table(who: "PronounVerdict") -> str:
    first = who.readings[0]
    heads = [""]
    for number, _ in enumerate(who.readings):
        label = (who.swap[number] if who.swap else "") if number < 2 else ""
        heads += [label if i == 0 else "" for i in range(len(first.candidates))]
    rows: list[list[str]] = [heads] if len(who.readings) > 1 else []
    rows.append(["", *(f"{name}  " for reading in who.readings for name in reading.candidates)])
    tables = [{row.kind: row for row in reading.evidence} for reading in who.readings]
    kinds = list(dict.fromkeys(kind for table in tables for kind in table))
    if any(pronoun for reading in who.readings for pronoun in reading.own_pronouns):
        rows.append(["its pronoun", *(f"{word or '?'}  " for reading in who.readings for word in reading.own_pronouns)])
    for kind in kinds:
        name = next(table[kind].name for table in tables if kind in table)
        cells = [
            cell for table, reading in zip(tables, who.readings, strict=True) for cell in _cells(table, kind, reading)
        ]
        rows.append([name, *cells])
    return columns(rows, "l" + "r" * (len(rows[-1]) - 1))


def _cells(table: "dict[str, PronounEvidence]", kind: str, reading: "PronounReading") -> list[str]:
    if kind not in table:
        return ["-  "] * len(reading.candidates)
    row = table[kind]
    return [
        f"{_number(row, value)} {MARK if row.votes and row.points_to == i else ' '}"
        for i, value in enumerate(row.values)
    ]


def _number(row: "PronounEvidence", value: float) -> str:
    if row.kind == "following":
        return f"{100 * value:.0f} %"
    if row.kind == "pronoun" or row.kind.startswith("cut"):
        return f"{value:.2f}" if abs(value) >= 0.005 else "0"
    return f"{value:.3f}"


def who_json(who: "PronounVerdict") -> dict[str, Any]:
    """The same for programs."""
    return {
        "swap": who.swap,
        "found": who.found,
        "readings": [
            {
                "source": reading.source,
                "translation": reading.translation,
                "word": reading.word,
                "candidates": reading.candidates,
                "pronoun": reading.pronoun,
                "scores": reading.scores,
                "own_pronouns": reading.own_pronouns,
                "evidence": [
                    {
                        "kind": row.kind,
                        "name": row.name.strip(),
                        "values": row.values,
                        "counted": row.votes,
                        "points_to": None if row.points_to is None else reading.candidates[row.points_to],
                        "note": row.note,
                    }
                    for row in reading.evidence
                ],
                "verdict": None if reading.verdict is None else reading.candidates[reading.verdict],
                "votes": reading.votes,
                "preference": reading.preference,
                "in_words": reading.in_words,
            }
            for reading in who.readings
        ],
    }
