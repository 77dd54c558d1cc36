"""The loop: updates, validations and checkpoints, until the run is over or asked to stop.

What happens at update n depends on the settings, the data and n alone: order and dropout are drawn from seeds made of
them, so a run that was killed anywhere ends with the same bits, and the number of ranks changes nothing but rounding.
"""

import contextlib
import json
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from glassformer.atomic_directory import building, replace_file
from glassformer.data import epoch_batches
from glassformer.data.padded_batch import make_batch
from glassformer.errors import GlassformerError
from glassformer.evaluation import Scores
from glassformer.hardware import peak_memory
from glassformer.model.directory import WEIGHTS, read_weights, write_model
from glassformer.model_location import numbered
from glassformer.training import checkpoint as saved
from glassformer.training.checkpoint import METRICS, Checkpoint, State, newest_checkpoint, save_checkpoint
from glassformer.training.distributed import ProcessGroup
from glassformer.training.learning_rate_schedule import learning_rate
from glassformer.training.loss import TrainingLoss
from glassformer.training.mixed_precision import chosen_dtype
from glassformer.training.optimiser import make_optimiser, memory, remember
from glassformer.training.progress_listener import Progress, ProgressListener
from glassformer.training.run_resources import what_bits_depend_on
from glassformer.training.run_setup import Run
from glassformer.training.stop_signals import Interrupted, StopRequested, StopSignals
from glassformer.training.validation import ValidationTranslations, Validator, model_card
from glassformer.training.weight_averaging import MovingAverage, mean, using_weights

SAVE, STOP = 1, 2  # what a rank may ask of all


class Trainer:
    """One rank of a run."""

    def __init__(self, run: Run, world: ProcessGroup, watcher: ProgressListener) -> None:
        self.run, self.world, self.watcher = run, world, watcher
        self.settings = run.settings.training
        self.model = run.new_model().to(world.device).train()
        self.optimiser = make_optimiser(self.model, self.settings)
        self.average = MovingAverage(self.model, self.settings.ema_decay) if self.settings.average == "ema" else None
        dtype = chosen_dtype(self.settings.precision, world.device)
        self.state = State(
            made_from=run.store.settings.made_from, machine=what_bits_depend_on(world.size, world.device, dtype)
        )
        self.metrics = bytearray()
        self.total = self.settings.updates or 0
        self.every = run.settings.validation.every or self.total
        self._batches: tuple[int, list[NDArray[np.int64]]] | None = None
        if (found := self._newest()) is not None:
            self._go_on_from(found)
        if world.is_chief:  # what was logged after the checkpoint, or before there was one, will be logged again
            replace_file(run.directory / METRICS, bytes(self.metrics))
        loss = TrainingLoss(self.model, self.settings.label_smoothing, dtype, self.settings.r_drop)
        self.parallel = DistributedDataParallel(loss, gradient_as_bucket_view=True) if world.size > 1 else None
        self.loss: nn.Module = self.parallel or loss
        self.stop = StopSignals()
        self.validator = Validator(run, world, self._pause)
        self.saved_at = self.began_at = time.monotonic()
        self.seconds_before = self.state.seconds

    # ---- the loop

    def train(self) -> State:
        """Update, validate and save until the run is over; asked to stop, save and raise `Interrupted`."""
        with self.stop:
            try:
                if self.state.ended is None:
                    self.watcher.began(self.state.update, self.total, self._pace())
                while self.state.ended is None:
                    if self.state.validated < self.state.update and self._is_validation_due():
                        self._validate()
                    elif self.state.update >= self.total:
                        self._change(ended=f"all {self.total:,} updates are done")
                    else:
                        self._update()
                    wish = self._wish()
                    if wish == STOP:
                        raise StopRequested
                    if wish == SAVE or self.state.validated == self.state.update:
                        self._save()
                self._save()
            except StopRequested:
                self._save()
                raise Interrupted(self.world.most(self.stop.received), self.state.update) from None
        return self.state

    def _update(self) -> None:
        group = self._next_group()
        tokens = int(self.run.lengths[np.concatenate(group), 1].sum())  # of all ranks, known without asking them
        number = self.state.update + 1
        loss = self._gradients(group, tokens, number)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip or math.inf)
        rate = self._learning_rate(number)
        finite = bool(torch.isfinite(norm))
        if finite:
            for parameters in self.optimiser.param_groups:
                parameters["lr"] = rate
            self.optimiser.step()
            if self.average is not None:
                self.average.update(self.model, number)
        self.optimiser.zero_grad()
        state = self.state
        self._change(
            update=number,
            position=state.position + len(group),
            loss=state.loss + loss if finite else state.loss,
            tokens=state.tokens + tokens if finite else state.tokens,
            skipped=state.skipped + (not finite),
            skipped_in_a_row=0 if finite else state.skipped_in_a_row + 1,
        )
        if not finite:
            self._skip(group)
        if number % self.settings.log_every == 0:
            self._log(learning_rate=rate, gradient_norm=norm.item() if finite else None, epoch=state.epoch)
            self._change(loss=0.0, tokens=0)
        if self.world.is_chief:
            self.watcher.updated(Progress(number, self.total, state.epoch, loss / tokens, rate, tokens))

    def _gradients(self, group: Sequence[NDArray[np.int64]], tokens: int, number: int) -> float:
        """Add up the gradients of the group's parts over ranks; the loss of all of them."""
        loss = torch.zeros((), dtype=torch.float64)
        rounds = math.ceil(len(group) / self.world.size)
        for i in range(rounds):
            if i:
                self._pause()  # leaving here loses nothing: the update has not begun to change the weights
            part = i * self.world.size + self.world.rank
            weight = 1.0
            if part >= len(group):  # nothing left for this rank, but all must meet: a part that counts for nothing
                part, weight = 0, 0.0
            batch = make_batch(self.run.store[j] for j in group[part]).to(self.world.device)
            torch.manual_seed(seed_of(self.run.settings.seed, number, part))
            with self.parallel.no_sync() if self.parallel and i < rounds - 1 else contextlib.nullcontext():
                value = self.loss(batch)
                # DDP takes the mean over ranks; we want the mean over the tokens of all of them.
                (value * (weight * self.world.size / tokens)).backward()
            loss += weight * value.detach().double().cpu()
        total: float = self.world.sum(loss).item()
        return total

    def _next_group(self) -> list[NDArray[np.int64]]:
        """The batches of the next update; the last update of an epoch may have fewer."""
        if self.state.position >= len(self._epoch()):
            self._change(epoch=self.state.epoch + 1, position=0)
        return self._epoch()[self.state.position : self.state.position + (self.settings.parts or 1)]

    def _epoch(self) -> list[NDArray[np.int64]]:
        epoch = self.state.epoch
        if self._batches is None or self._batches[0] != epoch:
            budget = self.settings.batch_tokens // (self.settings.parts or 1)
            self._batches = epoch, epoch_batches(self.run.lengths, budget, self.run.settings.seed, epoch)
        return self._batches[1]

    def _learning_rate(self, number: int) -> float:
        settings = self.settings
        return learning_rate(number, settings.learning_rate, settings.warmup or 0, self.total, settings.decay)

    def _skip(self, group: Sequence[NDArray[np.int64]]) -> None:
        """A gradient that is not a number changes nothing; several in a row end the run, and their batch is kept."""
        state = self.state
        self.watcher.said(f"Update {state.update} was left out: its gradient is not finite ({state.skipped} so far).")
        if state.skipped_in_a_row < self.settings.stop_after_skipped:
            return
        kept = self.run.directory / f"bad-batch-{state.update}.json"
        if self.world.is_chief:
            sides = self.run.tokenizer.decode
            saved.write_json(
                kept,
                [
                    {"pair": int(i), "source": sides(source, "source"), "target": sides(target, "target")}
                    for batch in group
                    for i in batch
                    for source, target in [self.run.store[int(i)]]
                ],
            )
        raise GlassformerError(
            f"{state.skipped_in_a_row} updates in a row had a gradient that is not finite, so the run has stopped at "
            f"update {state.update}. The last batch is in {kept}. Lower training.learning_rate, lengthen "
            "training.warmup, or look at those sentences."
        )

    # ---- validation

    def _is_validation_due(self) -> bool:
        return self.state.update % self.every == 0 or self.state.update >= self.total

    def _validate(self) -> None:
        settings = self.run.settings.validation
        with using_weights(self.model, self._averaged()):
            loss = self.validator.loss(self.model)
            done = self.validator.translate(self.model, self.run.dev, settings.beam)
            value = {"bleu": done.scores.bleu, "chrf": done.scores.chrf, "loss": -loss}[settings.metric]
            better = self.state.best is None or value > self.state.best
            state = self.state
            self._change(
                validated=state.update,
                best=value if better else state.best,
                best_update=state.update if better else state.best_update,
                stale=0 if better else state.stale + 1,
            )
            if better and self.world.is_chief:
                self._keep_best(done.scores, loss)
        self.model.train()
        self._log_line(dev_loss=loss, dev_bleu=done.scores.bleu, dev_chrf=done.scores.chrf, best=better)
        if self.world.is_chief:
            samples = list(zip(self.run.dev[:3], done.texts[:3], strict=True))
            self.watcher.validated(self.state.update, loss, done.scores, better, samples)
        if self._has_lost_patience():
            self._change(ended=f"no better {settings.metric} in {settings.patience} validations")

    def _has_lost_patience(self) -> bool:
        return 0 < self.run.settings.validation.patience <= self.state.stale

    def _averaged(self) -> dict[str, Tensor] | None:
        """The weights to validate and keep; None for the newest."""
        if self.average is not None:
            return self.average.weights
        if self.settings.average == "last":
            before = [self.run.directory / f"step-{number}" / WEIGHTS for number in self._window()]
            there = [path for path in before if path.exists()]
            if there != before:
                self.watcher.said(f"The mean is over {len(there) + 1} checkpoints: the others are no longer there.")
            own = {name: weight.detach() for name, weight in self.model.named_parameters()}
            return mean([own, *map(read_weights, there)])
        return None

    def _window(self) -> list[int]:
        """The validated updates whose weights still count in the mean, apart from the newest."""
        newest = self.state.update
        return [n for k in range(1, self.settings.average_last) if (n := newest - k * self.every) > 0]

    def _keep_best(self, scores: Scores, loss: float) -> None:
        directory = self.run.directory / f"best-{self.state.update}"
        older = numbered(self.run.directory, "best")
        if not directory.exists():
            with building(directory) as aside:
                write_model(self.model, aside)
                self.run.tokenizer.write(aside / "tokenizer")
                (aside / "README.md").write_text(
                    model_card(self.run, self.state.update, scores, loss), encoding="utf-8"
                )
        for path in older:
            if path != directory:
                saved.remove(path)

    def last_scores(self) -> dict[str, ValidationTranslations]:
        """Dev and test, translated once more with the best weights and the last beam."""
        best = self.run.directory / f"best-{self.state.best_update}"
        beam = self.run.settings.validation.final_beam
        if self.world.is_chief:
            self.watcher.said(f"Translating with {best.name} and a beam of {beam} for the report.")
        with self.stop, using_weights(self.model, read_weights(best / WEIGHTS)):
            try:
                sets = {"dev": self.run.dev, "test": self.run.test()}
                return {
                    name: self.validator.translate(self.model, pairs, beam) for name, pairs in sets.items() if pairs
                }
            except StopRequested:
                raise Interrupted(self.world.most(self.stop.received), self.state.update) from None

    # ---- saving and going on

    def _newest(self) -> Checkpoint | None:
        """The chief may set damaged ones aside; the others look when it has."""
        found = None
        if self.world.is_chief:
            found = newest_checkpoint(self.run.directory, self.watcher.said)
        number = self.world.most(-1 if found is None else found.state.update)
        if found is None and number >= 0:
            found = newest_checkpoint(self.run.directory, self.watcher.said)
        return found

    def _go_on_from(self, found: Checkpoint) -> None:
        if found.state.made_from != self.state.made_from:
            raise GlassformerError(
                f"The corpus is no longer the one that {self.run.directory} was begun with. Put the old files back to "
                "go on, or choose another --out to begin anew."
            )
        then, now = found.state.machine, self.state.machine
        if then != now and self.world.is_chief:
            changed = ", ".join(
                f"{name} {then.get(name)} then, {now[name]} now" for name in now if then.get(name) != now[name]
            )
            self.watcher.said(
                f"The run goes on under other conditions ({changed}): not to the last bit as it would have."
            )
        self.state = found.state.model_copy(update={"machine": now})
        weights = found.weights()
        with torch.no_grad():
            for name, weight in self.model.named_parameters():
                weight.copy_(weights[name])
        remember(self.model, self.optimiser, found.optimiser(), found.directory)
        if self.average is not None:
            average = found.average()
            self.average.weights = {name: average[name].to(self.world.device) for name in self.average.weights}
        self.metrics = bytearray(found.metrics())
        self.watcher.said(f"Going on from {found.directory}.")
        if self.state.update < self.total and not self._has_lost_patience():
            self._change(ended=None)  # more is asked for than when it ended

    def _save(self) -> None:
        self._change(seconds=self.seconds_before + time.monotonic() - self.began_at)
        self.saved_at = time.monotonic()
        if self.world.is_chief:
            save_checkpoint(
                self.run.directory,
                self.state,
                self.model,
                self.run.tokenizer,
                memory(self.model, self.optimiser),
                None if self.average is None else self.average.weights,
                bytes(self.metrics),
            )
            needed = set(self._window()) if self.settings.average == "last" else set()
            saved.remove_older(self.run.directory, self.settings.keep, needed)

    def _wish(self) -> int:
        """What any rank wants of all: to stop, or to save because it is time."""
        late = time.monotonic() - self.saved_at > 60 * self.settings.save_minutes
        return self.world.most(STOP if self.stop.received else SAVE if late and self.world.is_chief else 0)

    def _pause(self) -> None:
        if self._wish() == STOP:
            raise StopRequested

    def _change(self, **values: Any) -> None:
        self.state = self.state.model_copy(update=values)

    # ---- saying how it goes

    def _log(self, **values: Any) -> None:
        tokens = self.state.tokens
        self._log_line(loss=self.state.loss / tokens if tokens else None, tokens=tokens, **values)

    def _log_line(self, **values: Any) -> None:
        """metrics.jsonl holds what the run is, not how fast it was: it is the same whatever interrupted it."""
        line = (json.dumps({"update": self.state.update} | values) + "\n").encode()
        self.metrics += line
        if self.world.is_chief:
            with (self.run.directory / METRICS).open("ab") as file:
                file.write(line)

    def _pace(self) -> tuple[float, int]:
        """Seconds that are left and memory in bytes, as measured on a few updates that change nothing."""
        group = self._next_group()
        seconds = []
        for _ in range(3):
            start = time.monotonic()
            self._gradients(group, tokens=10**9, number=0)
            seconds.append(time.monotonic() - start)
        self.optimiser.zero_grad()
        bytes_each = sum(weight.numel() * weight.element_size() for weight in self.model.parameters())
        peak = peak_memory() + 3 * bytes_each  # Adam's memories and the average are still to come
        everywhere = int(self.world.sum(torch.tensor(float(peak), dtype=torch.float64)).item())
        return min(seconds) * (self.total - self.state.update), everywhere


def seed_of(seed: int, update: int, part: int) -> int:
    """The seed of one part's dropout: wherever and whenever the part is computed, it is the same."""
    return int(np.random.SeedSequence([seed, update, part]).generate_state(1, np.uint64)[0] >> np.uint64(1))
