"""Training loop: updates, validations and checkpoints, until the run ends or is asked to stop.

Update n depends only on the settings, the data and n: the order of the data and dropout use seeds derived from them, so
a run killed at any point ends with the same bits, and the number of ranks changes nothing but rounding.
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
from glassformer.data.subword_sampling import SubwordSampler
from glassformer.errors import GlassformerError
from glassformer.evaluation import Scores
from glassformer.hardware import peak_memory
from glassformer.model.directory import WEIGHTS, read_weights, write_model
from glassformer.model_location import checkpoint_directories
from glassformer.training.checkpoint import (
    AVERAGE,
    METRICS,
    OPTIMISER,
    Checkpoint,
    TrainingState,
    newest_checkpoint,
    remove,
    remove_older,
    save_checkpoint,
    write_json,
)
from glassformer.training.distributed import ProcessGroup
from glassformer.training.learning_rate_schedule import learning_rate
from glassformer.training.loss import TrainingLoss
from glassformer.training.mixed_precision import chosen_dtype
from glassformer.training.optimiser import load_optimiser_state, make_optimiser, optimiser_state
from glassformer.training.progress_listener import Progress, ProgressListener
from glassformer.training.run_resources import numerical_environment
from glassformer.training.run_setup import Run, fixed_settings
from glassformer.training.stop_signals import GRACE_SECONDS, Interrupted, StopRequested, StopSignals
from glassformer.training.timings import Timings
from glassformer.training.validation import ValidationTranslations, Validator, model_card
from glassformer.training.weight_averaging import MovingAverage, load_weights, mean, using_weights

SAVE, STOP = 1, 2  # requests of one rank to all ranks; the largest wins


class Trainer:
    """The training loop of one rank."""

    def __init__(self, run: Run, group: ProcessGroup, listener: ProgressListener) -> None:
        self.run, self.group, self.listener = run, group, listener
        self.settings = run.settings.training
        self.model = run.new_model().to(group.device).train()
        self.optimiser = make_optimiser(self.model, self.settings)
        self.average = MovingAverage(self.model, self.settings.ema_decay) if self.settings.average == "ema" else None
        dtype = chosen_dtype(self.settings.precision, group.device)
        self.state = TrainingState(
            made_from=run.store.settings.made_from,
            dev_checksum=run.dev_checksum,
            settings=fixed_settings(run.settings),
            machine=numerical_environment(group.size, group.device, dtype),
        )
        self.metrics = bytearray()
        self.total = self.settings.updates or 0
        self.every = run.settings.validation.every or self.total
        self._batches: tuple[int, list[NDArray[np.int64]]] | None = None
        self.sampler = self._make_sampler()
        self.stop = StopSignals(GRACE_SECONDS)
        loss = TrainingLoss(self.model, self.settings.label_smoothing, dtype, self.settings.r_drop)
        with self.stop:  # it waits for the other ranks
            if (checkpoint := self._newest_checkpoint()) is not None:
                self._resume_from(checkpoint)
            if group.is_main:  # lines logged after the checkpoint, or before the first one, will be logged again
                replace_file(run.directory / METRICS, bytes(self.metrics))
            self.timings = Timings(run.directory, self.state.update, self.state.machine) if group.is_main else None
            self.parallel = DistributedDataParallel(loss, gradient_as_bucket_view=True) if group.size > 1 else None
        self.loss: nn.Module = self.parallel or loss
        self.validator = Validator(run, group, self._check_stop)
        self.saved_at = self.started_at = self.asked_at = time.monotonic()
        self.seconds_before = self.state.seconds

    # ---- the loop

    def train(self) -> TrainingState:
        """Update, validate and save until the run ends; on a stop signal, save and raise `Interrupted`."""
        with self.stop:
            self.asked_at = time.monotonic()
            try:
                if self.state.ended is None:
                    self.listener.began(self.state.update, self.total, self._estimate_cost())
                while self.state.ended is None:
                    if self.state.update > 0 and not self.state.is_validated and self._is_validation_due():
                        self._validate()
                    elif self.state.update >= self.total:
                        self._set_state(ended=f"all {self.total:,} updates completed")
                    else:
                        self._update()
                    request = self._request()
                    if request == STOP:
                        raise StopRequested
                    if self.state.is_validated or (request == SAVE and not self._is_validation_due()):
                        self._save()
                self._save()
            except StopRequested:
                self._save()
                raise Interrupted(self.group.max(self.stop.received), self.state.update) from None
        return self.state

    def _update(self) -> None:
        batches = self._next_batches()
        tokens = self._count_target_tokens(batches)
        number = self.state.update + 1
        loss = self._gradients(batches, tokens, number)
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
        self._set_state(
            update=number,
            position=state.position + len(batches),
            loss=state.loss + loss if finite else state.loss,
            tokens=state.tokens + tokens if finite else state.tokens,
            skipped=state.skipped + (not finite),
            skipped_in_a_row=0 if finite else state.skipped_in_a_row + 1,
        )
        if not finite:
            self._skip(batches)
        if number % self.settings.log_every == 0:
            self._log(learning_rate=rate, gradient_norm=norm.item() if finite else None, epoch=state.epoch)
            self._set_state(loss=0.0, tokens=0)
        if self.group.is_main:
            self.listener.updated(Progress(number, self.total, state.epoch, loss / tokens, rate, tokens))

    def _gradients(self, batches: Sequence[NDArray[np.int64]], tokens: int, number: int) -> float:
        """Accumulate the gradients of all batches over the ranks; returns their total loss."""
        loss = torch.zeros((), dtype=torch.float64)
        rounds = math.ceil(len(batches) / self.group.size)
        for i in range(rounds):
            if i:
                self._check_stop()  # stopping here loses nothing: the weights have not changed yet
            part = i * self.group.size + self.group.rank
            weight = 1.0
            if part >= len(batches):  # none left for this rank, but all must synchronise: compute one with weight zero
                part, weight = 0, 0.0
            batch = make_batch(self._pair(int(j)) for j in batches[part]).to(self.group.device)
            torch.manual_seed(dropout_seed(self.run.settings.seed, number, part))
            with self.parallel.no_sync() if self.parallel and i < rounds - 1 else contextlib.nullcontext():
                value = self.loss(batch)
                # DDP averages over the ranks; this makes it the mean over the tokens of all ranks.
                (value * (weight * self.group.size / tokens)).backward()
            loss += weight * value.detach().cpu().double()  # MPS has no float64
        total: float = self.group.sum(loss).item()
        return total

    def _make_sampler(self) -> SubwordSampler | None:
        """The sampler of segmentations, if there is one; no sentence becomes longer than the longest of the corpus."""
        if not self.settings.subword_sampling:
            return None
        longest = int(self.run.lengths.max())
        return SubwordSampler.of(self.run.tokenizer, self.settings.subword_sampling, self.run.settings.seed, longest)

    def _pair(self, index: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """A sentence pair, as it is in this epoch."""
        pair = self.run.store[index]
        return pair if self.sampler is None else self.sampler.sample(pair, index, self.state.epoch)

    def _count_target_tokens(self, batches: Sequence[NDArray[np.int64]]) -> int:
        """Count the target tokens of all ranks, without communication."""
        indices = np.concatenate(batches)
        if self.sampler is None:
            return int(self.run.lengths[indices, 1].sum())
        return sum(len(self._pair(int(j))[1]) for j in indices)

    def _next_batches(self) -> list[NDArray[np.int64]]:
        """The batches of the next update; the last update of an epoch may have fewer than `micro_batches`."""
        if self.state.position >= len(self._epoch_batches()):
            self._set_state(epoch=self.state.epoch + 1, position=0)
        return self._epoch_batches()[self.state.position : self.state.position + (self.settings.micro_batches or 1)]

    def _epoch_batches(self) -> list[NDArray[np.int64]]:
        epoch = self.state.epoch
        if self._batches is None or self._batches[0] != epoch:
            budget = self.settings.batch_tokens // (self.settings.micro_batches or 1)
            self._batches = epoch, epoch_batches(self.run.lengths, budget, self.run.settings.seed, epoch)
        return self._batches[1]

    def _learning_rate(self, number: int) -> float:
        settings = self.settings
        return learning_rate(number, settings.learning_rate, settings.warmup or 0, self.total, settings.decay)

    def _skip(self, batches: Sequence[NDArray[np.int64]]) -> None:
        """Report an update whose gradient is not finite; after several in a row, save its sentences and stop."""
        state = self.state
        self.listener.message(
            f"Update {state.update} was skipped: its gradient is not finite ({state.skipped} skipped so far)."
        )
        if state.skipped_in_a_row < self.settings.stop_after_skipped:
            return
        path = self.run.directory / f"bad-batch-{state.update}.json"
        if self.group.is_main:
            decode = self.run.tokenizer.decode
            pairs = {int(i): self.run.store[int(i)] for batch in batches for i in batch}
            table = [
                {"pair": i, "source": decode(source, "source"), "target": decode(target, "target")}
                for i, (source, target) in pairs.items()
            ]
            write_json(path, table)
        raise GlassformerError(
            f"{state.skipped_in_a_row} consecutive updates had a gradient that is not finite, so the run stopped at "
            f"update {state.update}. The last batch is in {path}. Lower training.learning_rate, increase "
            "training.warmup, or check those sentences."
        )

    # ---- validation

    def _is_validation_due(self) -> bool:
        return self.state.update % self.every == 0 or self.state.update >= self.total

    def _validate(self) -> None:
        settings = self.run.settings.validation
        with using_weights(self.model, self._averaged()):
            loss = self.validator.loss(self.model)
            dev = self.validator.translate_dev(self.model, settings.beam)
            value = {"bleu": dev.scores.bleu, "chrf": dev.scores.chrf, "loss": -loss}[settings.metric]
            better = self.state.best is None or value > self.state.best
            state = self.state
            self._set_state(
                validations=[*state.validations, state.update],
                best=value if better else state.best,
                best_update=state.update if better else state.best_update,
                stale=0 if better else state.stale + 1,
            )
            if better and self.group.is_main:
                self._save_best(dev.scores, loss)
        self.model.train()
        self._log_line(dev_loss=loss, dev_bleu=dev.scores.bleu, dev_chrf=dev.scores.chrf, best=better)
        if self.group.is_main:
            samples = list(zip(self.run.dev[:3], dev.texts[:3], strict=True))
            self.listener.validated(self.state.update, loss, dev.scores, better, samples)
        if self._is_out_of_patience():
            self._set_state(ended=f"early stopping, no better {settings.metric} in {settings.patience} validations")

    def _is_out_of_patience(self) -> bool:
        return 0 < self.run.settings.validation.patience <= self.state.stale

    def _averaged(self) -> dict[str, Tensor] | None:
        """The averaged weights to validate and save; None to use the current ones."""
        if self.average is not None:
            return self.average.weights
        if self.settings.average == "last":
            expected = [self.run.directory / f"step-{number}" / WEIGHTS for number in self._averaging_window()]
            existing = [path for path in expected if path.exists()]
            if existing != expected:
                self.listener.message(f"Averaging only {len(existing) + 1} checkpoints: the others no longer exist.")
            current = {name: weight.detach() for name, weight in self.model.named_parameters()}
            return mean([current, *map(read_weights, existing)])
        return None

    def _averaging_window(self) -> list[int]:
        """The validated updates whose weights enter the mean at the next validation, apart from its own."""
        others = self.settings.average_last - 1
        return self.state.validations[-others:] if self.settings.average == "last" and others else []

    def _save_best(self, scores: Scores, loss: float) -> None:
        directory = self.run.directory / f"best-{self.state.update}"
        older = checkpoint_directories(self.run.directory, "best")
        if not directory.exists():
            with building(directory) as temporary:
                write_model(self.model, temporary)
                self.run.tokenizer.write(temporary / "tokenizer")
                card = model_card(self.run, self.state.update, scores, loss)
                (temporary / "README.md").write_text(card, encoding="utf-8")
        for path in older:
            if path != directory:
                remove(path)

    def final_scores(self) -> dict[str, ValidationTranslations]:
        """Translate and score the dev and test sets with the best weights and the final beam size."""
        best = self.run.directory / f"best-{self.state.best_update}"
        beam = self.run.settings.validation.final_beam
        if self.group.is_main:
            self.listener.message(f"Translating with {best.name}, beam size {beam}, for the report.")
        with self.stop, using_weights(self.model, read_weights(best / WEIGHTS)):
            try:
                results = {"dev": self.validator.translate_dev(self.model, beam)}
                test = self.validator.translate_test(self.model, beam)
                return results if test is None else results | {"test": test}
            except StopRequested:
                raise Interrupted(self.group.max(self.stop.received), self.state.update) from None

    # ---- saving and resuming

    def _newest_checkpoint(self) -> Checkpoint | None:
        """Find the newest checkpoint: rank 0 first, since it may rename damaged ones, then the other ranks."""
        checkpoint = None
        if self.group.is_main:
            checkpoint = newest_checkpoint(self.run.directory, self.listener.message)
        number = self.group.max(-1 if checkpoint is None else checkpoint.state.update)
        if checkpoint is None and number >= 0:
            checkpoint = newest_checkpoint(self.run.directory, self.listener.message)
        return checkpoint

    def _resume_from(self, checkpoint: Checkpoint) -> None:
        corpus_changed = checkpoint.state.made_from != self.state.made_from
        if corpus_changed or checkpoint.state.dev_checksum not in ("", self.state.dev_checksum):
            raise GlassformerError(
                f"The {'corpus' if corpus_changed else 'dev set'} has changed since {self.run.directory} was started. "
                "Restore the old files to resume, or choose another --out to start a new run."
            )
        then, now = checkpoint.state.machine, self.state.machine
        if then != now and self.group.is_main:
            pairs = {name: (then.get(name), value) for name, value in now.items()}
            changed = ", ".join(f"{name} {old} then, {new} now" for name, (old, new) in pairs.items() if old != new)
            self.listener.message(
                f"The run resumes in another environment ({changed}): the result may differ by rounding."
            )
        ours = {name: getattr(self.state, name) for name in ("machine", "dev_checksum", "settings")}
        self.state = checkpoint.state.model_copy(update=ours)
        load_weights(self.model, checkpoint.tensors(WEIGHTS))
        load_optimiser_state(self.model, self.optimiser, checkpoint.tensors(OPTIMISER), checkpoint.directory)
        if self.average is not None:
            average = checkpoint.tensors(AVERAGE)
            self.average.weights = {name: average[name].to(self.group.device) for name in self.average.weights}
        self.metrics = bytearray((checkpoint.directory / METRICS).read_bytes())
        self.listener.message(f"Resuming from {checkpoint.directory}.")
        if self.state.update < self.total and not self._is_out_of_patience():
            self._set_state(ended=None)  # more updates or more patience than when it ended

    def _save(self) -> None:
        self._set_state(seconds=self.seconds_before + time.monotonic() - self.started_at)
        self.saved_at = time.monotonic()
        # An existing checkpoint of this update may be from before its validation, which needs the older ones too.
        if self.group.is_main and not (self.run.directory / f"step-{self.state.update}").exists():
            average = None if self.average is None else self.average.weights
            tensors = optimiser_state(self.model, self.optimiser), average
            with self.stop.saving:
                save_checkpoint(
                    self.run.directory, self.state, self.model, self.run.tokenizer, *tensors, bytes(self.metrics)
                )
            remove_older(self.run.directory, self.settings.keep, needed=set(self._averaging_window()))

    def _request(self) -> int:
        """What all ranks are to do now: STOP after a signal to any rank, SAVE when a checkpoint is due, or 0."""
        now = time.monotonic()
        # An update or a validation batch of a large model may take longer than usual: it is completed, not lost.
        self.stop.grace = max(self.stop.grace or 0, 2 * (now - self.asked_at))
        self.asked_at = now
        due = now - self.saved_at > 60 * self.settings.save_minutes
        return self.group.max(STOP if self.stop.received else SAVE if due and self.group.is_main else 0)

    def _check_stop(self) -> None:
        if self._request() == STOP:
            raise StopRequested

    def _set_state(self, **values: Any) -> None:
        self.state = self.state.model_copy(update=values)

    # ---- logging

    def _log(self, **values: Any) -> None:
        tokens = self.state.tokens
        self._log_line(loss=self.state.loss / tokens if tokens else None, tokens=tokens, **values)
        if self.timings is not None:
            self.timings.log(self.state.update, tokens)

    def _log_line(self, **values: Any) -> None:
        """Append a line to metrics.jsonl, without timings: the file is the same however often a run was interrupted."""
        line = (json.dumps({"update": self.state.update} | values) + "\n").encode()
        self.metrics += line
        if self.group.is_main:
            with (self.run.directory / METRICS).open("ab") as file:
                file.write(line)

    def _estimate_cost(self) -> tuple[float, int]:
        """Estimate the remaining seconds and the bytes of memory, from a few gradients that are discarded."""
        batches = self._next_batches()
        seconds = []
        for _ in range(3):
            self._check_stop()
            start = time.monotonic()
            self._gradients(batches, tokens=10**9, number=0)
            seconds.append(time.monotonic() - start)
        self.optimiser.zero_grad()
        weight_bytes = sum(weight.numel() * weight.element_size() for weight in self.model.parameters())
        peak = peak_memory() + 3 * weight_bytes  # Adam's two moments and the average are not yet allocated
        peak_of_all_ranks = int(self.group.sum(torch.tensor(float(peak), dtype=torch.float64)).item())
        return min(seconds) * (self.total - self.state.update), peak_of_all_ranks


def dropout_seed(seed: int, update: int, part: int) -> int:
    """The random seed of one batch's dropout: the same on any rank and after any resume."""
    return int(np.random.SeedSequence([seed, update, part]).generate_state(1, np.uint64)[0] >> np.uint64(1))
