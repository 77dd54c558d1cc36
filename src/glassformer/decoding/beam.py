"""Beam search over token ids; greedy search is a beam of one. Knows the model's `start` and `step`, and no text."""

from dataclasses import dataclass, field
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from glassformer.model import DecoderState, Transformer
from glassformer.settings import Settings


class Beam(Settings):
    """How to search."""

    size: Annotated[int, Field(ge=1, le=1000)] = 4
    """Hypotheses kept for each sentence; 1 is greedy search."""
    length_penalty: Annotated[float, Field(ge=0)] = 1.0
    """Hypotheses compete by log-probability / length ** length_penalty; 0 favours short ones."""
    longest: Annotated[float, Field(ge=0)] = 2.0
    """A target has at most this many times its own source's tokens, and `extra` more."""
    extra: Annotated[int, Field(ge=1)] = 10

    @classmethod
    def greedy(cls) -> "Beam":
        """The likeliest token at every step."""
        return cls(size=1, length_penalty=0.0)


@dataclass(frozen=True)
class Hypothesis:
    """One way to end a target."""

    tokens: list[int]
    """Without the start, with the end of sentence."""
    log_probability: float
    """Of all the tokens, in nats."""
    score: float
    """What hypotheses are compared by: the log-probability after the length penalty."""


@dataclass
class _Sentence:
    """One sentence's search under way: what has ended, and how long it may still grow."""

    limit: int
    ended: list[Hypothesis] = field(default_factory=list)

    def best(self) -> float:
        return max((hypothesis.score for hypothesis in self.ended), default=-torch.inf)

    def ranked(self, count: int) -> list[Hypothesis]:
        return sorted(self.ended, key=lambda hypothesis: -hypothesis.score)[:count]


@torch.no_grad()
def search(model: Transformer, source: Tensor, beam: Beam) -> list[list[Hypothesis]]:
    """For each row of `source` (ids, padded on the right) up to `beam.size` hypotheses, best first.

    A sentence's limit is its own length's, never its neighbours'. Its search ends when no hypothesis that is still
    growing could overtake the best that has ended: a log-probability only falls, and at best is divided by the longest
    length allowed.
    """
    config = model.config
    k = beam.size
    lengths = (source != config.pad_id).sum(1).tolist()
    sentences = [_Sentence(limit=int(beam.longest * length) + beam.extra) for length in lengths]
    growing = list(range(len(sentences)))
    state = _repeat(model.start(source), k)
    written = source.new_full((len(growing) * k, 1), config.bos_id)
    sums = torch.full((len(growing), k), -torch.inf, device=source.device)
    sums[:, 0] = 0  # all beams begin alike: only one may be counted

    while growing:
        logits = model.step(written[:, -1:], state)[:, -1]
        log_p = logits.float().log_softmax(-1).view(len(growing), k, -1)
        length = written.shape[1]  # of the hypotheses with the token chosen now: the start does not count
        for row, sentence in enumerate(growing):
            if length >= sentences[sentence].limit:
                _only(log_p[row], config.eos_id)
        vocabulary = log_p.shape[-1]
        # Twice the beam: if all of the better half end, there are still enough to go on with.
        top, where = (sums[:, :, None] + log_p).flatten(1).topk(min(2 * k, k * vocabulary))
        parents, tokens = where // vocabulary, where % vocabulary
        rows = torch.arange(len(growing), device=source.device)[:, None] * k + parents
        ends = tokens == config.eos_id
        for row, place in ends[:, :k].nonzero().tolist():
            total = top[row, place].item()
            if total > -torch.inf:
                ids = [*written[rows[row, place], 1:].tolist(), config.eos_id]
                sentences[growing[row]].ended.append(Hypothesis(ids, total, total / length**beam.length_penalty))
        # The best k that go on, in their order.
        going_on = top.masked_fill(ends, -torch.inf).sort(dim=1, descending=True, stable=True)
        sums, chosen = going_on.values[:, :k], going_on.indices[:, :k]
        rows, tokens = rows.gather(1, chosen), tokens.gather(1, chosen)

        best_left = sums[:, 0].tolist()
        kept = [i for i, left in enumerate(best_left) if _may_improve(sentences[growing[i]], left, length, beam)]
        growing = [growing[i] for i in kept]
        if growing:
            keep = torch.tensor(kept, device=source.device)
            sums, rows, tokens = sums[keep], rows[keep].flatten(), tokens[keep].flatten()
            written = torch.cat((written[rows], tokens[:, None]), dim=1)
            unchanged = len(rows) == len(state.source_visible) and torch.equal(
                rows, torch.arange(len(rows), device=source.device)
            )
            state = state if unchanged else state.reorder(rows)
    return [sentence.ranked(k) for sentence in sentences]


def _may_improve(sentence: _Sentence, best_left: float, length: int, beam: Beam) -> bool:
    if best_left == -torch.inf or length >= sentence.limit:
        return False
    return best_left / sentence.limit**beam.length_penalty > sentence.best() or len(sentence.ended) < 1


def _repeat(state: DecoderState, times: int) -> DecoderState:
    rows = torch.arange(len(state.source_visible), device=state.source_visible.device).repeat_interleave(times)
    return state if times == 1 else state.reorder(rows)


def _only(log_p: Tensor, token: int) -> None:
    """Leave one token possible, in place."""
    probability = log_p[..., token].clone()
    log_p.fill_(-torch.inf)
    log_p[..., token] = probability
