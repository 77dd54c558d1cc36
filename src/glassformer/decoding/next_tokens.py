"""Candidate tokens of a search, selected from logits by rank or by sampling. The only search module with arrays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True)
class NextTokens:
    """A step model's prediction of the next token, for each row (one unfinished hypothesis) of a batch."""

    logits: Floats
    """Next-token logits (R, V) of R rows. May be overwritten."""
    normaliser: Floats
    """log Σ exp of each row's logits (R); logits minus it are log-probabilities."""
    candidates: list[list[Candidate]]
    """The requested number of most likely tokens of each row, most likely first."""


def summarise_logits(logits: ArrayLike, count: int, never: Sequence[int]) -> NextTokens:
    """Make a prediction of logits (R, V): adds normalisers and the `count` most likely tokens, excluding `never`."""
    logits = np.asarray(logits)
    normaliser = log_sum_exp(logits, -1)
    return NextTokens(logits, normaliser, _top(logits, normaliser, count, never))


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
        prediction, allowed = self.prediction, self.allowed
        candidates = prediction.candidates
        for row_candidates in candidates:
            first, last = row_candidates[0][1], row_candidates[-1][1]
            if first != first or last != last:  # an infinite logit makes the first NaN
                raise InputError(NAN_LOGITS_MESSAGE)
            if last == -np.inf:
                row_candidates[:] = [candidate for candidate in row_candidates if candidate[1] > -np.inf]
        if restricted := [row for row, choice in enumerate(allowed) if choice is not ANY_TOKEN]:
            logits, normaliser = prediction.logits[restricted], prediction.normaliser[restricted]
            choices = [allowed[row] for row in restricted]
            restrict(logits, choices, self.suppress, self.eos)
            tops = _top(logits, normaliser, count, ())
            for row, choice, row_logits, log_sum, top in zip(
                restricted, choices, logits, normaliser, tops, strict=True
            ):
                if choice.also:
                    log_ps = np.minimum(row_logits[list(choice.also)] - log_sum, 0).tolist()
                    top = list({*top, *zip(choice.also, log_ps, strict=True)})
                candidates[row] = sorted(
                    (candidate for candidate in top if candidate[1] > -np.inf),
                    key=lambda candidate: (-candidate[1], candidate[0]),
                )
        return candidates

    def sampled(self, uniforms: Sequence[Sequence[float]], sample: Sample) -> list[list[Candidate]]:
        """For each row, next tokens sampled by probability from the allowed ones, one per uniform random number."""
        logits, normaliser = self.prediction.logits, self.prediction.normaliser
        if not np.isfinite(normaliser).all():
            raise InputError(NAN_LOGITS_MESSAGE)
        restrict(logits, self.allowed, self.suppress, self.eos)
        rows = [row for row, numbers in enumerate(uniforms) for _ in numbers]
        uniform = np.array([number for numbers in uniforms for number in numbers])
        tokens = inverse_cdf(filtered(logits / sample.temperature, sample)[rows], uniform)
        log_ps = np.minimum(logits[rows, tokens] - normaliser[rows], 0).tolist()
        candidates: list[list[Candidate]] = [[] for _ in self.allowed]
        for row, token, log_p in zip(rows, tokens.tolist(), log_ps, strict=True):
            candidates[row].append((token, log_p))
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


def restrict(logits: Floats, allowed: Sequence[AllowedTokens], suppress: Sequence[int], eos: int) -> None:
    """Set the logits of tokens that are not allowed to -inf, in place. Forced tokens override forbidden ones."""
    forced = _index((row, choice.only or choice.also) for row, choice in enumerate(allowed))
    forbidden = _index((row, choice.never) for row, choice in enumerate(allowed))
    only_rows = [row for row, choice in enumerate(allowed) if choice.only]
    forced_logits = logits[forced] if forced else None
    eos_logits = logits[:, eos].copy() if forbidden else None
    if suppress:
        logits[:, list(suppress)] = -np.inf
    if only_rows:
        logits[only_rows] = -np.inf
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


def _index(tokens: Iterable[tuple[int, Sequence[int]]]) -> tuple[list[int], list[int]] | None:
    """Token ids per row as an index of an array (rows, tokens); None if all rows are empty."""
    pairs = [(row, token) for row, row_tokens in tokens for token in row_tokens]
    return ([row for row, _ in pairs], [token for _, token in pairs]) if pairs else None
