"""How good a model is by now: its loss on the dev set, and what it makes of the sentences. Each rank does its share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from glassformer.data import Pair, epoch_batches
from glassformer.data.padded_batch import make_batch
from glassformer.decoding import Beam, PlainStepModel, Request, alike, search
from glassformer.evaluation import Scores, score
from glassformer.model import Transformer
from glassformer.training.distributed import ProcessGroup
from glassformer.training.loss import summed_loss
from glassformer.training.run_setup import Run

AT_ONCE = 4000  # positions in a batch: short enough to be asked to stop in between


@dataclass(frozen=True)
class ValidationTranslations:
    """Sentences with what a model made of them."""

    pairs: Sequence[Pair]
    texts: list[str]
    scores: Scores


class Validator:
    """Judges a model by a run's settings. `pause` is called between batches, by all ranks alike, and may raise."""

    def __init__(self, run: Run, world: ProcessGroup, pause: Callable[[], None]) -> None:
        self.run, self.world, self.pause = run, world, pause

    def translate(self, model: Transformer, pairs: Sequence[Pair], beam_size: int) -> ValidationTranslations:
        """Translate and score some pairs."""
        tokenizer = self.run.tokenizer
        beam = Beam.greedy() if beam_size == 1 else Beam(size=beam_size)
        step_model = PlainStepModel(model)
        rows = [row for row, pair in enumerate(pairs) if pair.source.strip()]  # a blank line stays blank
        sources = [tokenizer.encode(pairs[row].source, "source") for row in rows]
        mine: dict[int, list[int]] = {}
        costs = [2 * beam_size * len(source) for source in sources]  # the target will be about as long again
        for i, batch in enumerate(alike(costs, AT_ONCE)):
            if i % self.world.size == 0:
                self.pause()
            if i % self.world.size == self.world.rank:
                found = search(step_model, [Request(sources[j]) for j in batch], beam)
                mine |= {rows[j]: hypotheses[0].tokens for j, hypotheses in zip(batch, found, strict=True)}
        texts = [tokenizer.decode(row) for row in self._of_all_ranks(mine, len(pairs))]
        scores = score(texts, [pair.target for pair in pairs], self.run.settings.validation.tokenize)
        return ValidationTranslations(pairs, texts, scores)

    def _of_all_ranks(self, mine: dict[int, list[int]], rows: int) -> list[list[int]]:
        """A table whose rows are each filled by one rank, and zero (which is padding) with the others."""
        longest = self.world.most(max(map(len, mine.values()), default=0))
        table = torch.zeros(rows, longest, dtype=torch.int64)
        for row, tokens in mine.items():
            table[row, : len(tokens)] = torch.tensor(tokens)
        ids: list[list[int]] = self.world.sum(table).tolist()
        return ids

    @torch.no_grad()
    def loss(self, model: Transformer) -> float:
        """The cross-entropy of the dev set in nats a token, without smoothing."""
        model.eval()
        encode = self.run.tokenizer.encode
        dev = [(np.array(encode(p.source, "source")), np.array(encode(p.target, "target"))) for p in self.run.dev]
        lengths = np.array([[len(source), len(target)] for source, target in dev])
        sums = torch.zeros(2, dtype=torch.float64)
        for i, batch in enumerate(epoch_batches(lengths, AT_ONCE, seed=0, epoch=0)):
            if i % self.world.size == 0:
                self.pause()
            if i % self.world.size == self.world.rank:
                made = make_batch(dev[j] for j in batch).to(self.world.device)
                sums += torch.tensor([summed_loss(model, made).item(), made.tokens], dtype=torch.float64)
        loss, tokens = self.world.sum(sums).tolist()
        return loss / tokens


def model_card(run: Run, update: int, scores: Scores, loss: float) -> str:
    """README.md of a model directory."""
    data = run.settings.data
    files = f"`{data.source}`" + (f" and `{data.target}`" if data.target else "")
    return f"""# A glassformer model

Trained on {files}: {len(run.store):,} pairs, {update:,} updates.

| on {len(run.dev):,} dev sentences, with a beam of {run.settings.validation.beam} | |
|---|---|
| BLEU | {scores.bleu:.2f} (`{scores.signature}`) |
| chrF | {scores.chrf:.2f} (`{scores.chrf_signature}`) |
| loss | {loss:.4f} nats a token |

```python
from glassformer import Translator

print(Translator.load("this directory")("A sentence."))
```
"""
