"""Candidate tokens of a search, selected from logits on the device that has them: only the selected ones come back.

The same as `decoding.next_tokens` computes with NumPy, up to rounding, and up to the order of equal logits where the
last candidate has equals.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.decoding.hypothesis import Candidate
from glassformer.decoding.next_tokens import NAN_LOGITS_MESSAGE, NextTokens, Places, Restriction, summarise_logits
from glassformer.decoding.sampling import Sample
from glassformer.errors import InputError


def next_tokens(logits: Tensor, count: int, never: Sequence[int]) -> NextTokens:
    """The prediction of logits (R, V): in NumPy if they are on the CPU, else where they are."""
    logits = at_least_float32(logits)
    return summarise_logits(logits.numpy(), count, never) if logits.is_cpu else summarised(logits, count, never)


def at_least_float32(logits: Tensor) -> Tensor:
    """Logits converted to float32 if in half precision, which suffices for products, but not for probabilities."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


@dataclass(frozen=True, slots=True)
class TensorNextTokens:
    """A prediction of the next token as tensors."""

    logits: Tensor
    """Next-token logits (R, V) of R rows."""
    normaliser: Tensor
    """log Σ exp of each row's logits (R); logits minus it are log-probabilities."""
    candidates: list[list[Candidate]]

    def restricted(self, rows: Sequence[int], restriction: Restriction) -> "TensorNextTokens":
        index = self._ids(rows)
        return TensorNextTokens(_restricted(self.logits[index], restriction), self.normaliser[index], [])

    def most_likely(self, count: int) -> list[list[Candidate]]:
        ids, log_ps = top(self.logits, self.normaliser, count)
        return [
            sorted(zip(*row, strict=True), key=lambda candidate: (-candidate[1], candidate[0]))
            for row in zip(ids.cpu().tolist(), log_ps.cpu().tolist(), strict=True)
        ]

    def log_probabilities(self, places: Places) -> list[float]:
        rows, tokens = map(self._ids, places)
        return self._log_ps(rows, tokens).cpu().tolist()

    def sampled(self, rows: Sequence[int], uniforms: Sequence[float], sample: Sample) -> list[Candidate]:
        index = self._ids(rows)
        tokens = inverse_cdf(filtered(self.logits / sample.temperature, sample)[index], self._numbers(uniforms))
        drawn = zip(tokens.cpu().tolist(), self._log_ps(index, tokens).cpu().tolist(), strict=True)
        if not all(map(math.isfinite, self.normaliser.cpu().tolist())):
            raise InputError(NAN_LOGITS_MESSAGE)
        return list(drawn)

    def averaged(self, others: "Sequence[TensorNextTokens]", count: int, never: Sequence[int]) -> "TensorNextTokens":
        log_ps = torch.stack([prediction.logits - prediction.normaliser[:, None] for prediction in (self, *others)])
        return summarised(log_ps.logsumexp(0) - math.log(len(log_ps)), count, never)

    def within(self, lists: Sequence[NDArray[np.int32]], count: int, never: Sequence[int]) -> "TensorNextTokens":
        sizes = [len(tokens) for tokens in lists]
        rows, tokens = self._ids(np.repeat(np.arange(len(lists)), sizes)), self._ids(np.concatenate(lists))
        logits = torch.full_like(self.logits, -math.inf)
        logits[rows, tokens] = self.logits[rows, tokens]
        return summarised(logits, count, never)

    def _log_ps(self, rows: Tensor, tokens: Tensor) -> Tensor:
        return (self.logits[rows, tokens] - self.normaliser[rows]).clamp(max=0)

    def _ids(self, ids: Sequence[int] | NDArray[np.integer]) -> Tensor:
        return _on(self.logits.device, ids)

    def _numbers(self, numbers: Sequence[float]) -> Tensor:
        return torch.tensor(numbers, dtype=self.logits.dtype).to(self.logits.device)


def summarised(logits: Tensor, count: int, never: Sequence[int]) -> TensorNextTokens:
    """Make a prediction of logits (R, V): adds normalisers and the `count` most likely tokens, excluding `never`."""
    prediction = TensorNextTokens(logits, logits.logsumexp(-1), [])
    if count:
        allowed = logits.index_fill(1, _on(logits.device, never), -math.inf) if never else logits
        prediction.candidates.extend(TensorNextTokens(allowed, prediction.normaliser, []).most_likely(count))
    return prediction


def top(logits: Tensor, normaliser: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ids of the `count` largest logits of each row, largest first, and their log-probabilities; NaN is largest."""
    values, ids = logits.max(-1, keepdim=True) if count == 1 else logits.topk(min(count, logits.shape[-1]))
    return ids, (values - normaliser[:, None]).clamp(max=0)  # rounding may push a probability above 1


def _restricted(logits: Tensor, restriction: Restriction) -> Tensor:
    """The logits with those of tokens that are not allowed set to -inf, in place."""
    device, eos, never = logits.device, logits[:, restriction.eos].clone(), logits.new_full((), -math.inf)
    forced, forbidden = (
        None if places is None else (_on(device, places[0]), _on(device, places[1]))
        for places in (restriction.forced, restriction.forbidden)
    )
    forced_logits = None if forced is None else logits[forced]
    if restriction.suppress:
        logits.index_fill_(1, _on(device, restriction.suppress), -math.inf)
    if restriction.only_rows:
        logits.index_fill_(0, _on(device, restriction.only_rows), -math.inf)
    if forbidden is not None:
        logits.index_put_(forbidden, never)
    if forced_logits is not None:
        logits.index_put_(forced, forced_logits)
    if forbidden is not None:  # if no token is left, the sentence ends
        column = logits[:, restriction.eos]
        column.copy_(torch.where(logits.amax(-1) > -math.inf, column, eos))
    return logits


def filtered(logits: Tensor, sample: Sample) -> Tensor:
    """Probabilities (R, V) with 0 for tokens excluded by top-k, top-p or epsilon; the most likely always stays."""
    values, order = logits.softmax(-1).sort(stable=True, dim=-1, descending=True)
    kept = (values >= sample.epsilon) & (values.cumsum(-1) - values < sample.top_p)
    if sample.top_k:
        kept[:, sample.top_k :] = False
    kept[:, 0] = True
    return torch.zeros_like(values).scatter_(-1, order, values * kept)


def inverse_cdf(p: Tensor, uniform: Tensor) -> Tensor:
    """The token of each row at which the cumulative sum of p exceeds `uniform` times its total."""
    cumulative = p.cumsum(-1)  # in p's own type: not every device has float64
    token = (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(-1)
    last = p.shape[-1] - 1 - (p > 0).flip(-1).int().argmax(-1)  # rounding must not go past the last possible token
    return torch.minimum(token, last)


def _on(device: torch.device, ids: Sequence[int] | NDArray[np.integer]) -> Tensor:
    """Ids or indices as a tensor on a device."""
    return torch.from_numpy(np.asarray(ids, dtype=np.int64)).to(device)
