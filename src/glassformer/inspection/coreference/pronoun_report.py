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
        yield from (paragraph(f"{_instead(verdict)}: {reading.in_words}" if number else reading.in_words), "")
    for number, reading in enumerate(verdict.readings):
        if number and verdict.swap is not None:
            yield from ("", _comparison(verdict))
        yield from (reading.source, reading.translation)
    yield from ("", _table(verdict), "")
    yield f"{MARK} marks the largest value of a row that votes. Values of words with several tokens are summed."


def _comparison(verdict: PronounVerdict) -> str:
    searched = " (found by search), which changes the pronoun" if verdict.swap_searched else ""
    return f"For comparison, w{_instead(verdict)[1:]}{searched}:"


def _instead(verdict: PronounVerdict) -> str:
    assert verdict.swap is not None
    old, new = verdict.swap
    return f"With {new!r} instead of {old!r}"


def _table(verdict: PronounVerdict) -> str:
    readings = verdict.readings
    rows = [["", *(f"{name}  " for reading in readings for name in reading.candidates)]]
    if verdict.swap:  # above the first candidate of each reading, the word that differs
        blanks = [""] * (len(readings[0].candidates) - 1)
        rows.insert(0, ["", *(cell for word in verdict.swap for cell in (word, *blanks))])
    pronouns = [pronoun for reading in readings for pronoun in reading.own_pronouns]
    if any(pronouns):
        rows.append(["its pronoun", *(f"{pronoun or '?'}  " for pronoun in pronouns)])
    names = {row.kind: row.name for reading in reversed(readings) for row in reading.evidence}
    kinds = dict.fromkeys(row.kind for reading in readings for row in reading.evidence)
    rows += [[names[kind], *(cell for reading in readings for cell in _cells(reading, kind))] for kind in kinds]
    return columns(rows, "l" + "r" * (len(rows[-1]) - 1))


def _cells(reading: PronounReading, kind: str) -> list[str]:
    row = next((row for row in reading.evidence if row.kind == kind), None)
    if row is None:
        return ["-  "] * len(reading.candidates)
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
    readings = [_reading_json(reading) for reading in verdict.readings]
    return {"swap": verdict.swap, "swap_searched": verdict.swap_searched, "readings": readings}


def _reading_json(reading: PronounReading) -> dict[str, Any]:
    names = ("source", "translation", "word", "candidates", "pronoun", "scores", "own_pronouns")
    return {name: getattr(reading, name) for name in names} | {
        "evidence": [_row_json(row, reading.candidates) for row in reading.evidence],
        "verdict": None if reading.verdict is None else reading.candidates[reading.verdict],
        "votes": reading.votes,
        "preference": reading.preference,
        "in_words": reading.in_words,
    }


def _row_json(row: PronounEvidence, candidates: list[str]) -> dict[str, Any]:
    points_to = None if row.points_to is None else candidates[row.points_to]
    about = {"kind": row.kind, "name": row.name.strip(), "values": row.values, "counted": row.votes}
    return about | {"points_to": points_to, "note": row.note}
