"""Shifted lines: finds where the two sides of a corpus part because one has a line too many or too few.

Source line n may belong to target line n + shift. The evidence for every shift (`line_evidence`) is followed through
the file by the Viterbi algorithm, where a change of the shift costs as much as it would surprise. If the first pass
finds a change, a second one looks at every line again, with all that was learned, for the exact place.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, Optional

import numpy as np

from glassformer.data.corpus import Corpus, Pair, TwoFiles, Watch, unwatched
from glassformer.data.line_evidence import MAX_SHIFT, SHIFTS, Block, Floats, Line, LineEvidence, LineReader, around
from glassformer.errors import DataError

BLOCK = 128  # lines that are evaluated at once; at most one change is found in each
WINDOW = BLOCK + 2 * MAX_SHIFT
ALL_UNTIL = 20_000  # up to this line, the first pass looks at every line; from there on, at a window per PERIOD
PERIOD = 2048

SURPRISE = 30.0  # nats a shift must gain over any other explanation; sound text reached 13 in 300 corpora
DOUBT = 3.0  # nats that lines which fit nowhere cost; they speak against no shift
EXPECTED = 5.0  # nats for the shift that different numbers of lines prove
PLAUSIBLE = 3.0  # places of a change that are less likely by this many nats are not reported
MAX_SENTENCES = 3
UNRELATED = SHIFTS  # the state of lines that fit nowhere


@dataclass(frozen=True)
class Shift:
    """A change: from source line `line` on, source line n belongs to target line n + `shift`."""

    line: int
    shift: int
    before: int
    """The shift of the lines before."""
    first: int
    """The change is between lines `first` and `last`, most likely at `line`."""
    last: int

    def describe(self, corpus: Corpus) -> str:
        """The change in words, with the lines to look at."""
        source, target = corpus.sides
        longer, shorter = (target, source) if self.shift > self.before else (source, target)
        lines = abs(self.shift - self.before)
        partner = f"line n {'+' if self.shift > 0 else '-'} {abs(self.shift)}" if self.shift else "line n"
        place = f"line {self.first:,}" if self.first == self.last else f"lines {self.first:,} to {self.last:,}"
        return (
            f"From about line {self.line:,} on, line n of {source} belongs to {partner} of {target}. Look at {place}: "
            f"{longer} has {_lines(lines)} too many there, or {shorter} lacks {'it' if lines == 1 else 'them'}."
        )


class _Stretch(NamedTuple):
    """The last part of a path through the states, and the parts before it."""

    state: int
    line: int
    first: int
    last: int
    previous: Optional["_Stretch"]


class ShiftFinder:
    """Follows the shift through a corpus, line by line, in bounded memory."""

    def __init__(self, learned: LineEvidence | None = None, expected: int = 0) -> None:
        self.evidence = learned or LineEvidence()
        self.pairs = 0
        self.gain = 0.0
        """The most that any path gained over chance, in nats."""
        self._line = 0
        self._learning = learned is None
        self._reader = LineReader()
        self._buffer: list[tuple[Line | None, Line | None]] = [(None, None)] * MAX_SHIFT
        self._costs = np.full(SHIFTS + 1, SURPRISE)
        self._costs[UNRELATED] = DOUBT
        if expected:
            self._costs[expected + MAX_SHIFT] = EXPECTED
        self._scores = -self._costs
        self._scores[MAX_SHIFT] = 0
        self._paths = [_Stretch(state, 1, 1, 1, None) for state in range(SHIFTS + 1)]

    def add(self, pair: Pair) -> None:
        """The next pair of the corpus; most pairs of a long one are only counted."""
        self.pairs += 1
        self._line = pair.line
        if self._learning and self.pairs > ALL_UNTIL and self.pairs % PERIOD >= WINDOW:
            self._buffer = []
            return
        self._buffer.append((self._reader.line(pair.source), self._reader.line(pair.target)))
        if len(self._buffer) == WINDOW:
            self._advance(self._line - MAX_SHIFT)
            del self._buffer[:BLOCK]

    def finish(self) -> list[_Stretch]:
        """The best path through the whole corpus."""
        self._buffer += [(None, None)] * MAX_SHIFT
        if len(self._buffer) > 2 * MAX_SHIFT:
            self._advance(self._line)
        stretch: _Stretch | None = self._paths[int(self._scores.argmax())]
        path = []
        while stretch is not None:
            path.append(stretch)
            stretch = stretch.previous
        return path[::-1]

    def _advance(self, last_line: int) -> None:
        """Evaluate the lines of the buffer that have MAX_SHIFT lines before and after them."""
        inner = self._buffer[MAX_SHIFT:-MAX_SHIFT]
        source, target = Block([line for line, _ in inner]), Block([line for _, line in self._buffer])
        if self._learning:
            self.evidence.count(Block([line for _, line in inner]))
        measures = self.evidence.measures(source, target)
        gains = self.evidence.gains(measures, around(target.inside))
        self._follow(np.pad(gains, ((0, 0), (0, 1))), last_line - len(inner) + 1)
        if self._learning:
            self.evidence.learn(source, target, measures, int(self._scores[:UNRELATED].argmax()))

    def _follow(self, gains: Floats, first_line: int) -> None:
        """The Viterbi algorithm for the lines of a block, with at most one change of state in it."""
        sums = np.vstack([np.zeros(SHIFTS + 1), gains.cumsum(axis=0)])
        reached = self._scores + sums  # [i, s]: the best that ends in state s before line i, without a change
        origins = reached.argmax(axis=1)
        entered = reached.max(axis=1)[:-1, None] - self._costs - sums[:-1]
        places = entered.argmax(axis=0)
        changed = entered.max(axis=0) + sums[-1]
        changes = changed > reached[-1]
        self._paths = [
            self._change(int(origins[places[state]]), state, int(places[state]), first_line, reached, sums)
            if changes[state]
            else self._paths[state]
            for state in range(SHIFTS + 1)
        ]
        self._scores = np.where(changes, changed, reached[-1])
        self.gain = max(self.gain, float(self._scores.max()))

    def _change(self, origin: int, state: int, place: int, first_line: int, reached: Floats, sums: Floats) -> _Stretch:
        """The path that changes to this state, with the places where the change is about as likely."""
        likely = reached[:-1, origin] - sums[:-1, state]
        plausible = np.flatnonzero(likely > likely[place] - PLAUSIBLE)
        line, first, last = (first_line + int(i) for i in (place, plausible[0], plausible[-1]))
        return _Stretch(state, line, first, last, self._paths[origin])


def find_shifts(corpus: Corpus, first_pass: ShiftFinder, watch: Watch = unwatched) -> list[Shift]:
    """The changes of the shift in a corpus, all of which the first pass has read."""
    return _changes(_exact_path(corpus, first_pass, 0, watch)) if _changes(first_pass.finish()) else []


def where_files_part(files: TwoFiles, first_pass: ShiftFinder, difference: int) -> str:
    """Where two files part of which the target has `difference` lines more, if the evidence is sufficient, or ""."""
    path = first_pass.finish()
    if first_pass.gain < SURPRISE:
        return ""
    if path[-1].state != UNRELATED:  # after such lines, what was learned is of no use
        path = _exact_path(files, first_pass, difference)
    changes = _changes(path)
    sentences = [describe(changes, files)] if changes else []
    rest = difference - (changes[-1].shift if changes else 0)
    if path[-1].state == UNRELATED:
        sentences.append(f"From about line {path[-1].line:,} on, lines of the same number no longer belong together.")
    elif rest:
        longer = files.sides[rest > 0]
        sentences.append(f"{longer} has {_lines(abs(rest))} too many at its end: the lines before it belong together.")
    return " ".join(sentences)


def describe(shifts: Sequence[Shift], corpus: Corpus) -> str:
    """The changes in words, with the lines to look at."""
    more = [f"There are {len(shifts) - MAX_SENTENCES:,} more such places."] if len(shifts) > MAX_SENTENCES else []
    return " ".join([shift.describe(corpus) for shift in shifts[:MAX_SENTENCES]] + more)


def shifted_pairs(shifts: Sequence[Shift], pairs: int) -> int:
    """How many pairs of a corpus are not at shift 0."""
    ends = [shift.line for shift in shifts[1:]] + [pairs + 1]
    return sum(end - shift.line for shift, end in zip(shifts, ends, strict=True) if shift.shift)


def _exact_path(corpus: Corpus, first_pass: ShiftFinder, expected: int, watch: Watch = unwatched) -> list[_Stretch]:
    """The path from a second reading of every line, with what the first pass learned."""
    finder = ShiftFinder(first_pass.evidence, expected if abs(expected) <= MAX_SHIFT else 0)
    with suppress(DataError):  # files of different lengths: the lines that both have were read
        for pair in watch(corpus, "locating"):
            finder.add(pair)
    return finder.finish()


def _changes(path: list[_Stretch]) -> list[Shift]:
    """The changes from one shift to another; lines between them that fit nowhere widen the place of the change."""
    changes: list[Shift] = []
    shift, first = 0, None
    for stretch in path:
        if stretch.state == UNRELATED:
            first = stretch.first
            continue
        if (new := stretch.state - MAX_SHIFT) != shift:
            changes.append(Shift(stretch.line, new, shift, stretch.first if first is None else first, stretch.last))
        shift, first = new, None
    return changes


def _lines(count: int) -> str:
    return "a line" if count == 1 else f"{count:,} lines"
