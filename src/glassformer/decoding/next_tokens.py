"""Candidate tokens of a search, selected from logits by rank or by sampling. The only search module with tensors."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.decoding.hypothesis import Candidate
from glassformer.decoding.rules import ANY_TOKEN, AllowedTokens
from glassformer.decoding.sampling import Sample
from glassformer.errors import InputError

NAN_LOGITS_MESSAGE = "The model's logits are not numbers (NaN): its weights are damaged. Use another copy of the model."


@dataclass(frozen=True, slots=True)
class NextTokens:
    """A step model's prediction of the next token, for each row (one unfinished hypothesis) of a batch."""

    logits: Tensor
    """Next-token logits (R, V) of R rows. May be overwritten."""
    normaliser: Tensor
    """log Σ exp of each row's logits (R); logits minus it are log-probabilities."""
    candidates: list[list[Candidate]]
    """The requested number of most likely tokens of each row, most likely first."""


def summarise_logits(logits: Tensor, count: int, never: Sequence[int]) -> NextTokens:
    """Make a prediction of logits (R, V): adds normalisers and the `count` most likely tokens, excluding `never`."""
    normaliser = logits.logsumexp(-1)
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
            last = row_candidates[-1][1]
            if last != last:
                raise InputError(NAN_LOGITS_MESSAGE)
            if last == -torch.inf:
                row_candidates[:] = [candidate for candidate in row_candidates if candidate[1] > -torch.inf]
        if restricted := [row for row, choice in enumerate(allowed) if choice is not ANY_TOKEN]:
            logits, normaliser = prediction.logits[restricted], prediction.normaliser[restricted]
            choices = [allowed[row] for row in restricted]
            restrict(logits, choices, self.suppress, self.eos)
            tops = _top(logits, normaliser, count, ())
            for row, choice, row_logits, log_sum, top in zip(
                restricted, choices, logits, normaliser, tops, strict=True
            ):
                if choice.also:
                    log_ps = (row_logits[list(choice.also)] - log_sum).clamp_(max=0).tolist()
                    top = list({*top, *zip(choice.also, log_ps, strict=True)})
                candidates[row] = sorted(
                    (candidate for candidate in top if candidate[1] > -torch.inf),
                    key=lambda candidate: (-candidate[1], candidate[0]),
                )
        return candidates

    def sampled(self, uniforms: Sequence[Sequence[float]], sample: Sample) -> list[list[Candidate]]:
        """For each row, next tokens sampled by probability from the allowed ones, one per uniform random number."""
        logits, normaliser = self.prediction.logits, self.prediction.normaliser
        restrict(logits, self.allowed, self.suppress, self.eos)
        rows = [row for row, numbers in enumerate(uniforms) for _ in numbers]
        uniform = torch.tensor(
            [number for numbers in uniforms for number in numbers], dtype=torch.float64, device=logits.device
        )
        tokens = inverse_cdf(filtered(logits / sample.temperature, sample)[rows], uniform)
        log_ps = (logits[rows, tokens] - normaliser[rows]).clamp_(max=0).tolist()
        candidates: list[list[Candidate]] = [[] for _ in self.allowed]
        for row, token, log_p in zip(rows, tokens.tolist(), log_ps, strict=True):
            if log_p != log_p:
                raise InputError(NAN_LOGITS_MESSAGE)
            candidates[row].append((token, log_p))
        return candidates


def _top(logits: Tensor, normaliser: Tensor, count: int, never: Sequence[int]) -> list[list[Candidate]]:
    if count == 0:
        return [[] for _ in logits]
    if never:
        logits = logits.index_fill(-1, torch.tensor(never, device=logits.device), -torch.inf)
    top, ids = logits.max(-1, keepdim=True) if count == 1 else logits.topk(min(count, logits.shape[-1]))
    log_ps = (top - normaliser[:, None]).clamp_(max=0)  # rounding may push a probability of 1 above it
    return [list(zip(*row, strict=True)) for row in zip(ids.tolist(), log_ps.tolist(), strict=True)]


def restrict(logits: Tensor, allowed: Sequence[AllowedTokens], suppress: Sequence[int], eos: int) -> None:
    """Set the logits of tokens that are not allowed to -inf, in place. Forced tokens override forbidden ones."""
    forced = _index((row, choice.only or choice.also) for row, choice in enumerate(allowed))
    forbidden = _index((row, choice.never) for row, choice in enumerate(allowed))
    only_rows = [row for row, choice in enumerate(allowed) if choice.only]
    forced_logits = logits[forced] if forced else None
    eos_logits = logits[:, eos].clone() if forbidden else None
    if suppress:
        logits[:, list(suppress)] = -torch.inf
    if only_rows:
        logits[only_rows] = -torch.inf
    if forbidden:
        logits[forbidden] = -torch.inf
    if forced_logits is not None:
        logits[forced] = forced_logits
    if eos_logits is not None:  # if no token is left, the sentence ends
        logits[:, eos] = torch.where(logits.amax(-1) > -torch.inf, logits[:, eos], eos_logits)


def filtered(logits: Tensor, sample: Sample) -> Tensor:
    """Probabilities (R, V) with 0 for tokens excluded by top-k, top-p or epsilon; the most likely always stays."""
    p = logits.softmax(-1)
    order = p.sort(dim=-1, descending=True, stable=True)
    kept = order.values >= sample.epsilon
    kept &= order.values.cumsum(-1) - order.values < sample.top_p
    if sample.top_k:
        kept[:, sample.top_k :] = False
    kept[:, 0] = True
    return torch.zeros_like(p).scatter(-1, order.indices, order.values * kept)


def inverse_cdf(p: Tensor, uniform: Tensor) -> Tensor:
    """The token of each row at which the cumulative sum of p exceeds `uniform` times its total."""
    cumulative = p.double().cumsum(-1)
    token = (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(-1)
    last = p.shape[-1] - 1 - (p > 0).flip(-1).int().argmax(-1)  # rounding must not go past the last possible token
    return torch.minimum(token, last)


def _index(tokens: Iterable[tuple[int, Sequence[int]]]) -> tuple[list[int], list[int]] | None:
    """Token ids per row as a tensor index (rows, tokens); None if all rows are empty."""
    pairs = [(row, token) for row, row_tokens in tokens for token in row_tokens]
    return ([row for row, _ in pairs], [token for _, token in pairs]) if pairs else None
