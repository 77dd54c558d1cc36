"""From logits to the few tokens that a search looks at. The only place where search meets tensors."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from glassformer.decoding.beam import Candidate
from glassformer.decoding.rules import Choice
from glassformer.decoding.settings import Sample
from glassformer.errors import InputError


def likeliest(
    logits: Tensor, choices: Sequence[Choice], count: int, suppress: Sequence[int], eos: int
) -> list[list[Candidate]]:
    """For each row of logits (R, V) the `count` likeliest of its tokens that may come, likeliest first.

    Their log-probabilities are the model's own, over all tokens, whatever may come. The logits are written over.
    """
    normaliser = logits.logsumexp(-1, keepdim=True)
    restrict(logits, choices, suppress, eos)
    top, ids = logits.max(-1, keepdim=True) if count == 1 else logits.topk(min(count, logits.shape[-1]))
    log_ps = (top - normaliser).clamp_(max=0).tolist()  # rounding may lift a certainty above 0
    found: list[list[Candidate]] = [
        list(zip(tokens, own, strict=True)) for tokens, own in zip(ids.tolist(), log_ps, strict=True)
    ]
    for row, (choice, own) in enumerate(zip(choices, found, strict=True)):
        _check(own[0][1])
        if own[-1][1] == -torch.inf:
            found[row] = [candidate for candidate in own if candidate[1] > -torch.inf]
        if choice.also:
            asked = (logits[row, list(choice.also)] - normaliser[row]).clamp_(max=0).tolist()
            extras = zip(choice.also, asked, strict=True)
            found[row] = sorted({*found[row], *extras}, key=lambda candidate: (-candidate[1], candidate[0]))
    return found


def drawn(
    logits: Tensor,
    choices: Sequence[Choice],
    chances: Sequence[Sequence[float]],
    sample: Sample,
    suppress: Sequence[int],
    eos: int,
) -> list[list[Candidate]]:
    """For each row one token for each of its chances, drawn by probability among those that may come.

    Their log-probabilities are the model's own, as above.
    """
    normaliser = logits.logsumexp(-1)
    restrict(logits, choices, suppress, eos)
    rows = [row for row, own in enumerate(chances) for _ in own]
    uniform = torch.tensor([number for own in chances for number in own], dtype=torch.float64, device=logits.device)
    tokens = inverse(filtered(logits / sample.temperature, sample)[rows], uniform)
    log_ps = (logits[rows, tokens] - normaliser[rows]).clamp_(max=0).tolist()
    answers: list[list[Candidate]] = [[] for _ in choices]
    for row, token, log_p in zip(rows, tokens.tolist(), log_ps, strict=True):
        _check(log_p)
        answers[row].append((token, log_p))
    return answers


def restrict(logits: Tensor, choices: Sequence[Choice], suppress: Sequence[int], eos: int) -> None:
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


def _check(log_p: float) -> None:
    if log_p != log_p:
        raise InputError("The model's logits are not numbers: its weights are damaged.")
