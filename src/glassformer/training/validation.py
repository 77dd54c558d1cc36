"""Validation: the loss on the dev set, and translations with their scores. The batches are divided among the ranks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from glassformer.data import Pair, epoch_batches
from glassformer.data.padded_batch import make_batch
from glassformer.decoding import Beam, Request, batches_by_cost, search
from glassformer.engine.torch_step_model import PlainStepModel
from glassformer.evaluation import Scores, score
from glassformer.model import Transformer
from glassformer.training.distributed import ProcessGroup
from glassformer.training.loss import summed_loss
from glassformer.training.run_setup import Run

MAX_BATCH_POSITIONS = 4000  # small enough that a stop signal, checked between batches, is handled soon


@dataclass(frozen=True)
class ValidationTranslations:
    """Sentence pairs with a model's translations and their scores."""

    pairs: Sequence[Pair]
    texts: list[str]
    scores: Scores


class Validator:
    """Validates a model with a run's settings. All ranks call `check_stop` between batches; it may raise."""

    def __init__(self, run: Run, group: ProcessGroup, check_stop: Callable[[], None]) -> None:
        self.run, self.group, self.check_stop = run, group, check_stop

    def translate_dev(self, model: Transformer, beam_size: int) -> ValidationTranslations:
        """Translate and score the dev set."""
        sources = {row: source for row, (source, _) in enumerate(self.run.dev_ids)}
        return self._translate(model, self.run.dev, sources, beam_size)

    def translate_test(self, model: Transformer, beam_size: int) -> ValidationTranslations | None:
        """Translate and score the test set, if there is one; a blank line stays blank."""
        pairs, encode = self.run.test(), self.run.tokenizer.encode
        sources = {row: encode(pair.source, "source") for row, pair in enumerate(pairs) if pair.source.strip()}
        return self._translate(model, pairs, sources, beam_size) if pairs else None

    def _translate(
        self, model: Transformer, pairs: Sequence[Pair], sources_by_row: dict[int, list[int]], beam_size: int
    ) -> ValidationTranslations:
        beam = Beam.greedy() if beam_size == 1 else Beam(size=beam_size)
        step_model = PlainStepModel(model)
        rows, sources = list(sources_by_row), list(sources_by_row.values())
        translated: dict[int, list[int]] = {}
        costs = [2 * beam_size * len(source) for source in sources]  # the target will be about as long as the source
        for i, batch in enumerate(batches_by_cost(costs, MAX_BATCH_POSITIONS)):
            if i % self.group.size == 0:
                self.check_stop()
            if i % self.group.size == self.group.rank:
                results = search(step_model, [Request(sources[j]) for j in batch], beam)
                translated |= {rows[j]: hypotheses[0].tokens for j, hypotheses in zip(batch, results, strict=True)}
        texts = [self.run.tokenizer.decode(row) for row in self._gather(translated, len(pairs))]
        scores = score(texts, [pair.target for pair in pairs], self.run.settings.validation.tokenize)
        return ValidationTranslations(pairs, texts, scores)

    def _gather(self, translated: dict[int, list[int]], rows: int) -> list[list[int]]:
        """Gather all ranks' translations: each row is filled by one rank, zero (padding) on the others, and summed."""
        longest = self.group.max(max(map(len, translated.values()), default=0))
        table = torch.zeros(rows, longest, dtype=torch.int64)
        for row, tokens in translated.items():
            table[row, : len(tokens)] = torch.tensor(tokens)
        ids: list[list[int]] = self.group.sum(table).tolist()
        return ids

    @torch.no_grad()
    def loss(self, model: Transformer) -> float:
        """The cross-entropy on the dev set in nats per token, without label smoothing."""
        model.eval()
        dev = [(np.array(source), np.array(target)) for source, target in self.run.dev_ids]
        lengths = np.array([[len(source), len(target)] for source, target in dev])
        sums = torch.zeros(2, dtype=torch.float64)
        for i, indices in enumerate(epoch_batches(lengths, MAX_BATCH_POSITIONS, seed=0, epoch=0)):
            if i % self.group.size == 0:
                self.check_stop()
            if i % self.group.size == self.group.rank:
                batch = make_batch(dev[j] for j in indices).to(self.group.device)
                sums += torch.tensor([summed_loss(model, batch).item(), batch.tokens], dtype=torch.float64)
        loss, tokens = self.group.sum(sums).tolist()
        return loss / tokens


def model_card(run: Run, update: int, scores: Scores, loss: float) -> str:
    """Model card (README.md) of a trained model, with its scores on the dev set."""
    data = run.settings.data
    files = f"`{data.source}`" + (f" and `{data.target}`" if data.target else "")
    return f"""# Glassformer model

Trained on {files}: {len(run.store):,} sentence pairs, {update:,} updates.

| on {len(run.dev):,} sentences of the dev set, beam size {run.settings.validation.beam} | |
|---|---|
| BLEU | {scores.bleu:.2f} (`{scores.signature}`) |
| chrF | {scores.chrf:.2f} (`{scores.chrf_signature}`) |
| loss | {loss:.4f} nats per token |

```python
from glassformer import load

print(load("this directory")("A sentence."))
```
"""
