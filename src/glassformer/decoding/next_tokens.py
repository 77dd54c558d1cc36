"""From logits to the few tokens that a search looks at. The only place where search meets tensors."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.decoding.beam import Candidate
from glassformer.decoding.rules import ANYTHING, AllowedTokens
from glassformer.decoding.search_settings import Sample, SearchSettings
from glassformer.errors import InputError

DAMAGED = "The model's logits are not numbers: its weights are damaged."


@dataclass(frozen=True, slots=True)
class NextTokens:
    """What a model says of the token that comes next, for each row."""

    logits: Tensor
    """(R, V). They may be written over."""
    normaliser: Tensor
    """(R): log Σ exp of a row's logits, which makes them log-probabilities."""
    likeliest: list[list[Candidate]]
    """As many of each row's likeliest tokens as were asked for, likeliest first."""


def looked_at(settings: SearchSettings) -> int:
    """Candidates of each row. One may be the end, and then there are still enough to go on with."""
    if isinstance(settings, Sample):
        return 0
    return 1 if settings.width == 1 else settings.width + 1


def examined(logits: Tensor, count: int, never: Sequence[int]) -> NextTokens:
    """The logits (R, V) of what comes next, and their `count` likeliest tokens but none of `never`."""
    normaliser = logits.logsumexp(-1)
    return NextTokens(logits, normaliser, _top(logits, normaliser, count, never))


def likeliest(
    said: NextTokens, choices: Sequence[AllowedTokens], count: int, suppress: Sequence[int], eos: int
) -> list[list[Candidate]]:
    """For each row the `count` likeliest of its tokens that may come, likeliest first.

    Their log-probabilities are the model's own, over all tokens, whatever may come. `said` knows what is suppressed.
    """
    found = said.likeliest
    for own in found:
        last = own[-1][1]
        if last != last:
            raise InputError(DAMAGED)
        if last == -torch.inf:
            own[:] = [candidate for candidate in own if candidate[1] > -torch.inf]
    if bound := [row for row, choice in enumerate(choices) if choice is not ANYTHING]:
        logits, normaliser = said.logits[bound], said.normaliser[bound]
        own_choices = [choices[row] for row in bound]
        restrict(logits, own_choices, suppress, eos)
        chosen = _top(logits, normaliser, count, ())
        for row, choice, own, sum_, top in zip(bound, own_choices, logits, normaliser, chosen, strict=True):
            if choice.also:
                asked = (own[list(choice.also)] - sum_).clamp_(max=0).tolist()
                top = list({*top, *zip(choice.also, asked, strict=True)})
            found[row] = sorted(
                (candidate for candidate in top if candidate[1] > -torch.inf),
                key=lambda candidate: (-candidate[1], candidate[0]),
            )
    return found


def _top(logits: Tensor, normaliser: Tensor, count: int, never: Sequence[int]) -> list[list[Candidate]]:
    if count == 0:
        return [[] for _ in logits]
    if never:
        logits = logits.index_fill(-1, torch.tensor(never, device=logits.device), -torch.inf)
    top, ids = logits.max(-1, keepdim=True) if count == 1 else logits.topk(min(count, logits.shape[-1]))
    log_ps = (top - normaliser[:, None]).clamp_(max=0)  # rounding may lift a certainty above 0
    return [list(zip(*row, strict=True)) for row in zip(ids.tolist(), log_ps.tolist(), strict=True)]


def drawn(
    said: NextTokens,
    choices: Sequence[AllowedTokens],
    chances: Sequence[Sequence[float]],
    sample: Sample,
    suppress: Sequence[int],
    eos: int,
) -> list[list[Candidate]]:
    """For each row one token for each of its chances, drawn by probability among those that may come.

    Their log-probabilities are the model's own, as above.
    """
    logits, normaliser = said.logits, said.normaliser
    restrict(logits, choices, suppress, eos)
    rows = [row for row, own in enumerate(chances) for _ in own]
    uniform = torch.tensor([number for own in chances for number in own], dtype=torch.float64, device=logits.device)
    tokens = inverse(filtered(logits / sample.temperature, sample)[rows], uniform)
    log_ps = (logits[rows, tokens] - normaliser[rows]).clamp_(max=0).tolist()
    answers: list[list[Candidate]] = [[] for _ in choices]
    for row, token, log_p in zip(rows, tokens.tolist(), log_ps, strict=True):
        if log_p != log_p:
            raise InputError(DAMAGED)
        answers[row].append((token, log_p))
    return answers


def restrict(logits: Tensor, choices: Sequence[AllowedTokens], suppress: Sequence[int], eos: int) -> None:
    """Make what may not come impossible, in place. What is forced comes before what is forbidden."""
    forced = _places((row, choice.only or choice.also) for row, choice in enumerate(choices))
    forbidden = _places((row, choice.never) for row, choice in enumerate(choices))
    bound = [row for row, choice in enumerate(choices) if choice.only]
    kept = logits[forced] if forced else None
    ends = logits[:, eos].clone() if forbidden else None
    if suppress:
        logits[:, list(suppress)] = -torch.inf
    if bound:
        logits[bound] = -torch.inf
    if forbidden:
        logits[forbidden] = -torch.inf
    if kept is not None:
        logits[forced] = kept
    if ends is not None:  # if nothing is left, the sentence ends
        logits[:, eos] = torch.where(logits.amax(-1) > -torch.inf, logits[:, eos], ends)


def filtered(logits: Tensor, sample: Sample) -> Tensor:
    """The probabilities of each row (R, V) with all but the tokens to draw from at 0; the likeliest always stays."""
    p = logits.softmax(-1)
    order = p.sort(dim=-1, descending=True, stable=True)
    kept = order.values >= sample.epsilon
    kept &= order.values.cumsum(-1) - order.values < sample.top_p
    if sample.top_k:
        kept[:, sample.top_k :] = False
    kept[:, 0] = True
    return torch.zeros_like(p).scatter(-1, order.indices, order.values * kept)


def inverse(p: Tensor, uniform: Tensor) -> Tensor:
    """The token at which each row's growing sum of probabilities passes `uniform` of all of it."""
    passed = p.double().cumsum(-1)
    token = (passed <= uniform[:, None] * passed[:, -1:]).sum(-1)
    last = p.shape[-1] - 1 - (p > 0).flip(-1).int().argmax(-1)  # rounding must not pass the last that can be drawn
    return torch.minimum(token, last)


def _places(tokens: Iterable[tuple[int, Sequence[int]]]) -> tuple[list[int], list[int]] | None:
    """Rows and tokens as an index; None where there are none."""
    places = [(row, token) for row, own in tokens for token in own]
    return ([row for row, _ in places], [token for _, token in places]) if places else None
