"""The result of pronoun resolution as a table and as JSON."""

from collections.abc import Iterator
from typing import Any

from glassformer.inspection.coreference.pronoun_evidence import PronounEvidence
from glassformer.inspection.coreference.verdict import PronounReading, PronounVerdict
from glassformer.text_layout import columns, paragraph

MARK = "◂"
"""Mark after the largest value of a row that votes."""


def pronoun_text(verdict: PronounVerdict) -> str:
    return "\n".join(_lines(verdict))


def _lines(verdict: PronounVerdict) -> Iterator[str]:
    for number, reading in enumerate(verdict.readings):
        if number and verdict.swap is not None:
            yield from ("", _comparison(verdict))
        yield from (reading.source, reading.translation)
    yield from ("", _table(verdict), "")
    yield f"{MARK} marks the largest value of a row that votes. Values of words with several tokens are summed."
    for reading in verdict.readings:
        yield from ("", paragraph(reading.in_words))


def _comparison(verdict: PronounVerdict) -> str:
    assert verdict.swap is not None
    old, new = verdict.swap
    if verdict.swap_searched:
        return f"For comparison, with {new!r} instead of {old!r} (found by search), which changes the pronoun:"
    return f"For comparison, with {new!r} instead of {old!r}:"


def _table(verdict: PronounVerdict) -> str:
    first = verdict.readings[0]
    swapped_words = [""]
    for number, _ in enumerate(verdict.readings):
        label = (verdict.swap[number] if verdict.swap else "") if number < 2 else ""
        swapped_words += [label if i == 0 else "" for i in range(len(first.candidates))]
    rows: list[list[str]] = [swapped_words] if len(verdict.readings) > 1 else []
    rows.append(["", *(f"{name}  " for reading in verdict.readings for name in reading.candidates)])
    tables = [{row.kind: row for row in reading.evidence} for reading in verdict.readings]
    kinds = list(dict.fromkeys(kind for table in tables for kind in table))
    if any(pronoun for reading in verdict.readings for pronoun in reading.own_pronouns):
        rows.append(
            ["its pronoun", *(f"{word or '?'}  " for reading in verdict.readings for word in reading.own_pronouns)]
        )
    for kind in kinds:
        name = next(table[kind].name for table in tables if kind in table)
        cells = [
            cell
            for table, reading in zip(tables, verdict.readings, strict=True)
            for cell in _cells(table, kind, reading)
        ]
        rows.append([name, *cells])
    return columns(rows, "l" + "r" * (len(rows[-1]) - 1))


def _cells(table: dict[str, PronounEvidence], kind: str, reading: PronounReading) -> list[str]:
    if kind not in table:
        return ["-  "] * len(reading.candidates)
    row = table[kind]
    return [
        f"{_number(row, value)} {MARK if row.votes and row.points_to == i else ' '}"
        for i, value in enumerate(row.values)
    ]


def _number(row: PronounEvidence, value: float) -> str:
    if row.kind == "following":
        return f"{100 * value:.0f} %"
    if row.kind == "pronoun" or row.kind.startswith("cut"):
        return f"{value:.2f}" if abs(value) >= 0.005 else "0"
    return f"{value:.3f}"


def pronoun_json(verdict: PronounVerdict) -> dict[str, Any]:
    """The result of pronoun resolution as a JSON object."""
    return {
        "swap": verdict.swap,
        "swap_searched": verdict.swap_searched,
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
            for reading in verdict.readings
        ],
    }
