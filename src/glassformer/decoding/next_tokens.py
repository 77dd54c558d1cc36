"""Candidate tokens of a search, selected from logits by rank or by sampling. The only search module with arrays.

The logits of a step model on another device stay there: `engine.tensor_next_tokens` does the same for them.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.decoding.hypothesis import Candidate
from glassformer.decoding.rules import ANY_TOKEN, AllowedTokens
from glassformer.decoding.sampling import Sample
from glassformer.errors import InputError

NAN_LOGITS_MESSAGE = (
    "The model's logits are not numbers (NaN or infinite): its weights are damaged, or too large for this precision. "
    "Use another copy of the model, or float32."
)
Floats = NDArray[np.floating[Any]]
Places = tuple[list[int], list[int]]
"""Places in logits (R, V): rows, and the token in each."""


class NextTokens(Protocol):
    """A step model's prediction of the next token, for each row (one unfinished hypothesis) of a batch."""

    @property
    def candidates(self) -> list[list[Candidate]]:
        """The requested number of most likely tokens of each row, most likely first."""

    def restricted(self, rows: Sequence[int], restriction: "Restriction") -> "NextTokens":
        """These rows, with the logits of tokens that are not allowed set to -inf; log-probabilities stay the same."""

    def most_likely(self, count: int) -> list[list[Candidate]]:
        """The `count` most likely tokens of each row, most likely first."""

    def log_probabilities(self, places: Places) -> list[float]:
        """The log-probabilities at these places."""

    def sampled(self, rows: Sequence[int], uniforms: Sequence[float], sample: Sample) -> list[Candidate]:
        """Tokens sampled from these rows by inverse transform, one per uniform random number in [0, 1)."""

    def averaged(self, others: Sequence[Self], count: int, never: Sequence[int]) -> "NextTokens":
        """The mean of the probabilities of this prediction and others."""

    def within(self, lists: Sequence[NDArray[np.int32]], count: int, never: Sequence[int]) -> "NextTokens":
        """The prediction among the tokens of a list per row only: all others have probability 0."""


@dataclass(frozen=True)
class Restriction:
    """Which tokens may follow in some rows of logits. Forced tokens override forbidden ones."""

    allowed: Sequence[AllowedTokens]
    """The allowed tokens of each row."""
    suppress: Sequence[int]
    """Tokens that are never generated unless forced."""
    eos: int

    @cached_property
    def forced(self) -> Places | None:
        """The places of forced tokens; None if there are none."""
        return _places(choice.only or choice.also for choice in self.allowed)

    @cached_property
    def forbidden(self) -> Places | None:
        return _places(choice.never for choice in self.allowed)

    @cached_property
    def only_rows(self) -> list[int]:
        """The rows in which only forced tokens are allowed."""
        return [row for row, choice in enumerate(self.allowed) if choice.only]


@dataclass(frozen=True, slots=True)
class ArrayNextTokens:
    """A prediction of the next token as NumPy arrays."""

    logits: Floats
    """Next-token logits (R, V) of R rows. May be overwritten."""
    normaliser: Floats
    """log Σ exp of each row's logits (R); logits minus it are log-probabilities."""
    candidates: list[list[Candidate]]

    def restricted(self, rows: Sequence[int], restriction: Restriction) -> "ArrayNextTokens":
        logits = self.logits[list(rows)]
        restrict(logits, restriction)
        return ArrayNextTokens(logits, self.normaliser[list(rows)], [])

    def most_likely(self, count: int) -> list[list[Candidate]]:
        return _top(self.logits, self.normaliser, count, ())

    def log_probabilities(self, places: Places) -> list[float]:
        return np.minimum(self.logits[places] - self.normaliser[places[0]], 0).tolist()

    def sampled(self, rows: Sequence[int], uniforms: Sequence[float], sample: Sample) -> list[Candidate]:
        if not np.isfinite(self.normaliser).all():
            raise InputError(NAN_LOGITS_MESSAGE)
        rows = list(rows)
        tokens = inverse_cdf(filtered(self.logits / sample.temperature, sample)[rows], np.array(uniforms)).tolist()
        return list(zip(tokens, self.log_probabilities((rows, tokens)), strict=True))

    def averaged(self, others: "Sequence[ArrayNextTokens]", count: int, never: Sequence[int]) -> "ArrayNextTokens":
        log_ps = np.stack([prediction.logits - prediction.normaliser[:, None] for prediction in (self, *others)])
        return summarise_logits(log_sum_exp(log_ps, 0) - math.log(len(log_ps)), count, never)

    def within(self, lists: Sequence[NDArray[np.int32]], count: int, never: Sequence[int]) -> "ArrayNextTokens":
        logits = np.full_like(self.logits, -np.inf)
        for row, tokens in enumerate(lists):
            logits[row, tokens] = self.logits[row, tokens]
        return summarise_logits(logits, count, never)


def summarise_logits(logits: ArrayLike, count: int, never: Sequence[int]) -> ArrayNextTokens:
    """Make a prediction of logits (R, V): adds normalisers and the `count` most likely tokens, excluding `never`."""
    logits = np.asarray(logits)
    normaliser = log_sum_exp(logits, -1)
    return ArrayNextTokens(logits, normaliser, _top(logits, normaliser, count, never))


@dataclass(frozen=True, slots=True)
class TokenChoice:
    """A prediction and the tokens that rules allow in it: what a search selects its candidates from.

    The log-probabilities of candidates are the model's, over all tokens, allowed or not.
    """

    prediction: NextTokens
    allowed: Sequence[AllowedTokens]
    """The allowed next tokens of each row (hypothesis)."""
    suppress: Sequence[int]
    """Tokens that are never generated unless forced; already excluded from the prediction's candidates."""
    eos: int

    def most_likely(self, count: int) -> list[list[Candidate]]:
        """For each row, the `count` most likely of its allowed next tokens, most likely first."""
        candidates = self.prediction.candidates
        for row_candidates in candidates:
            first, last = row_candidates[0][1], row_candidates[-1][1]
            if first != first or last != last:  # an infinite logit makes the first NaN
                raise InputError(NAN_LOGITS_MESSAGE)
            if last == -np.inf:
                row_candidates[:] = [candidate for candidate in row_candidates if candidate[1] > -np.inf]
        if rows := [row for row, choice in enumerate(self.allowed) if choice is not ANY_TOKEN]:
            for row, log_ps in zip(rows, self._most_likely_allowed(rows, count), strict=True):
                candidates[row] = sorted(
                    (candidate for candidate in log_ps.items() if candidate[1] > -np.inf),
                    key=lambda candidate: (-candidate[1], candidate[0]),
                )
        return candidates

    def _most_likely_allowed(self, rows: Sequence[int], count: int) -> list[dict[int, float]]:
        """The most likely allowed tokens of some rows, and those to consider in any case, with log-probabilities."""
        choices = [self.allowed[row] for row in rows]
        prediction = self.prediction.restricted(rows, Restriction(choices, self.suppress, self.eos))
        log_ps = [dict(row_candidates) for row_candidates in prediction.most_likely(count)]
        if also := _places(choice.also for choice in choices):
            for row, token, log_p in zip(*also, prediction.log_probabilities(also), strict=True):
                log_ps[row][token] = log_p
        return log_ps

    def sampled(self, uniforms: Sequence[Sequence[float]], sample: Sample) -> list[list[Candidate]]:
        """For each row, next tokens sampled by probability from the allowed ones, one per uniform random number."""
        rows = [row for row, numbers in enumerate(uniforms) for _ in numbers]
        everywhere = Restriction(self.allowed, self.suppress, self.eos)
        prediction = self.prediction.restricted(range(len(self.allowed)), everywhere)
        sampled = prediction.sampled(rows, [number for numbers in uniforms for number in numbers], sample)
        candidates: list[list[Candidate]] = [[] for _ in self.allowed]
        for row, candidate in zip(rows, sampled, strict=True):
            candidates[row].append(candidate)
        return candidates


def log_sum_exp(x: Floats, axis: int) -> Floats:
    """log Σ exp(x) along an axis."""
    with np.errstate(all="ignore"):  # what is not finite is refused where candidates are chosen
        largest = x.max(axis)
        largest = np.where(np.isfinite(largest), largest, np.zeros_like(largest))
        total: Floats = np.log(np.exp(x - np.expand_dims(largest, axis)).sum(axis)) + largest
    return total


def _top(logits: Floats, normaliser: Floats, count: int, never: Sequence[int]) -> list[list[Candidate]]:
    """The `count` most likely tokens of each row, most likely first; of equals, the one with the lower id."""
    if count == 0:
        return [[] for _ in logits]
    if never:
        logits = logits.copy()
        logits[:, list(never)] = -np.inf
    rows, count = np.arange(len(logits))[:, None], min(count, logits.shape[-1])
    ids = logits.argmax(-1)[:, None] if count == 1 else _largest(logits, count)
    with np.errstate(invalid="ignore"):
        log_ps = np.minimum(logits[rows, ids] - normaliser[:, None], 0)  # rounding may push a probability above 1
    return [list(zip(*row, strict=True)) for row in zip(ids.tolist(), log_ps.tolist(), strict=True)]


def _largest(logits: Floats, count: int) -> NDArray[np.int64]:
    """The ids of the `count` largest numbers of each row, largest first; NaN counts as largest."""
    limits = np.partition(logits, -count, axis=-1)[:, -count]
    ids = np.empty((len(logits), count), np.int64)
    for row, limit, row_ids in zip(logits, limits, ids, strict=True):
        enough = np.flatnonzero(~(row < limit))  # more than `count` where several equal the limit
        row_ids[:] = enough[np.argsort(-row[enough], kind="stable")[:count]]
    return ids


def restrict(logits: Floats, restriction: Restriction) -> None:
    """Set the logits of tokens that are not allowed to -inf, in place."""
    forced, forbidden, eos = restriction.forced, restriction.forbidden, restriction.eos
    forced_logits = logits[forced] if forced else None
    eos_logits = logits[:, eos].copy() if forbidden else None
    if restriction.suppress:
        logits[:, list(restriction.suppress)] = -np.inf
    if restriction.only_rows:
        logits[restriction.only_rows] = -np.inf
    if forbidden:
        logits[forbidden] = -np.inf
    if forced_logits is not None and forced:
        logits[forced] = forced_logits
    if eos_logits is not None:  # if no token is left, the sentence ends
        logits[:, eos] = np.where(logits.max(-1) > -np.inf, logits[:, eos], eos_logits)


def filtered(logits: Floats, sample: Sample) -> Floats:
    """Probabilities (R, V) with 0 for tokens excluded by top-k, top-p or epsilon; the most likely always stays."""
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    p = exponentials / exponentials.sum(-1, keepdims=True)
    order = np.argsort(-p, axis=-1, kind="stable")
    values = np.take_along_axis(p, order, -1)
    kept = values >= sample.epsilon
    kept &= np.cumsum(values, -1, dtype=np.float64).astype(p.dtype) - values < sample.top_p
    if sample.top_k:
        kept[:, sample.top_k :] = False
    kept[:, 0] = True
    result = np.zeros_like(p)
    np.put_along_axis(result, order, values * kept, -1)
    return result


def inverse_cdf(p: Floats, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """The token of each row at which the cumulative sum of p exceeds `uniform` times its total."""
    cumulative = np.cumsum(p, -1, dtype=np.float64)
    token = (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(-1)
    last = p.shape[-1] - 1 - (p > 0)[:, ::-1].argmax(-1)  # rounding must not go past the last possible token
    return np.minimum(token, last)


def _places(tokens_by_row: Iterable[Sequence[int]]) -> Places | None:
    """The places of some tokens of each row; None if all rows are empty."""
    pairs = [(row, token) for row, tokens in enumerate(tokens_by_row) for token in tokens]
    return ([row for row, _ in pairs], [token for _, token in pairs]) if pairs else None
