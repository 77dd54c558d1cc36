"""CTranslate2 engine (the extra `ct2`): a model is exported once, checked against ours and cached in its directory."""

import hashlib
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.atomic_directory import building, verify
from glassformer.decoding import (
    BatchLimits,
    Beam,
    Hypothesis,
    Request,
    SearchBackend,
    SearchResult,
    SearchSettings,
    SearchTask,
    search,
)
from glassformer.decoding.continuous_batching import RunningBatch, Task
from glassformer.decoding.hypothesis import penalised
from glassformer.decoding.rules import rules_for
from glassformer.engine.engine_options import EngineOptions
from glassformer.engine.random_source_ids import random_sources
from glassformer.engine.torch_step_model import PlainStepModel, score
from glassformer.errors import InputError
from glassformer.hardware import cores
from glassformer.interop.ctranslate2_export import open_ctranslate2, write_ctranslate2
from glassformer.model import Transformer

MAX_LOG_PROBABILITY_DIFFERENCE = 2e-3
"""Maximum difference in log-probability per token between CTranslate2 and our model."""
CHECKED_SENTENCES = 8


class CTranslate2:
    """Engine: beam search by CTranslate2. Supports length limits, a forced prefix, `no_repeat`, suppressed tokens."""

    def __init__(self, model: Transformer, directory: Path | None, options: EngineOptions) -> None:
        if options.exact:
            raise InputError(
                "CTranslate2 does not guarantee that results are bitwise independent of the batch: omit --exact."
            )
        if options.precision in ("float16", "bfloat16"):
            raise InputError(f"CTranslate2 has no {options.precision} on CPUs: use float32 or int8.")
        self.config = model.config
        plain = SearchBackend(PlainStepModel(model))
        self.score, self.attention = plain.score, plain.attention  # CTranslate2 returns no attention of single heads
        self.max_tokens = model.config.max_tokens
        self.precision = options.precision
        self.sentences = options.sentences or 64
        self.workers = options.workers or cores()
        threads = {"inter_threads": self.workers, "intra_threads": 1}
        with _files(model, directory) as files:  # they are read at once and not needed afterwards
            self.translator: Any = open_ctranslate2(files, compute_type=options.precision, **threads)

    def tasks(self, requests: Sequence[Request], settings: SearchSettings, numbers: Iterable[int]) -> list[SearchTask]:
        """Search tasks for the server's batches; CTranslate2 checks the requests itself."""
        rules = [rules_for(request, self.config.eos_id, settings, self.max_tokens) for request in requests]
        return [
            SearchTask(number, request, rule, cost=settings.width * (len(request.source) + rule.limit))
            for number, request, rule in zip(numbers, requests, rules, strict=True)
        ]

    def open(self, settings: SearchSettings, reads_tokens: bool) -> RunningBatch[Task]:
        """Open a batch whose sentences all start together: CTranslate2 lets none join later."""
        limits = BatchLimits(sentences=self.sentences, workers=self.workers)
        return RunningBatch(lambda: CTranslate2BatchSearch(self, settings), limits, refills=False, width=settings.width)

    def search(self, requests: Sequence[Request], settings: SearchSettings) -> list[list[Hypothesis]]:
        """Search for the translations of all requests; returns the hypotheses of each, best first."""
        beam = settings.as_beam()
        if beam is None or beam.diversity or any(request.phrases for request in requests):
            raise InputError(
                "The CTranslate2 engine does not support sampling, phrases, glossaries or diversity: use the engine "
                "`fast`."
            )
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for task in self.tasks(requests, settings, range(len(requests))):
            groups[task.rules.min_length, task.rules.limit].append(task.number)  # one length limit per call
        pending = [
            (numbers, self._submit([requests[i] for i in numbers], beam, *lengths))
            for lengths, numbers in groups.items()
        ]
        targets: list[list[list[str]]] = [[] for _ in requests]
        for numbers, futures in pending:
            for number, future in zip(numbers, futures, strict=True):
                targets[number] = future.result().hypotheses
        return self._scored(requests, targets, beam)

    def _submit(self, requests: list[Request], settings: Beam, min_length: int, limit: int) -> Any:
        never = [[str(token)] for token in {*settings.suppress, self.config.pad_id}]
        return self.translator.translate_batch(
            [_names(request.source) for request in requests],
            target_prefix=[_names(request.prefix) or None for request in requests],
            beam_size=settings.width,
            num_hypotheses=settings.n_best,
            length_penalty=settings.length_penalty,
            no_repeat_ngram_size=settings.no_repeat,
            suppress_sequences=never,
            max_input_length=0,
            min_decoding_length=min_length,
            max_decoding_length=limit - 1,
            max_batch_size=self.sentences,
            asynchronous=True,
        )

    def _scored(
        self, requests: Sequence[Request], targets: list[list[list[str]]], settings: Beam
    ) -> list[list[Hypothesis]]:
        """Score targets in a second call, since CTranslate2's search returns no log-probabilities per token."""
        pairs = [
            (_names(request.source), target)
            for request, n_best in zip(requests, targets, strict=True)
            for target in n_best
        ]
        if not pairs:
            return [[] for _ in requests]
        sources, flat_targets = map(list, zip(*pairs, strict=True))
        scored = iter(
            self.translator.score_batch(sources, flat_targets, max_batch_size=self.sentences, max_input_length=0)
        )
        results = [
            [self._hypothesis(target, next(scored).log_probs, settings) for target in n_best] for n_best in targets
        ]
        return [sorted(hypotheses, key=lambda hypothesis: -hypothesis.score) for hypotheses in results]

    def _hypothesis(self, tokens: list[str], log_ps: Sequence[float], settings: Beam) -> Hypothesis:
        penalised_score = penalised(sum(log_ps), len(log_ps), settings.length_penalty)
        return Hypothesis([*map(int, tokens), self.config.eos_id], list(log_ps), penalised_score)


class CTranslate2BatchSearch:
    """Batch search by CTranslate2, which takes sentences only all at once: one step is the whole search."""

    def __init__(self, engine: CTranslate2, settings: SearchSettings) -> None:
        self._engine, self._settings = engine, settings
        self._tasks: list[SearchTask] = []

    def join(self, tasks: Sequence[SearchTask]) -> None:
        self._tasks += tasks

    def advance(self) -> list[SearchResult]:
        tasks, self._tasks = self._tasks, []
        results = self._engine.search([task.request for task in tasks], self._settings)
        return [(task.number, hypotheses) for task, hypotheses in zip(tasks, results, strict=True)]


@contextmanager
def _files(model: Transformer, directory: Path | None) -> Iterator[Path]:
    """Files in CTranslate2's format: cached in the model's directory if possible, otherwise in a temporary one."""
    if directory is not None and (cached := _cached(model, directory)) is not None:
        yield cached
        return
    with tempfile.TemporaryDirectory(prefix="glassformer-ctranslate2-") as temporary:
        _write(model, Path(temporary))
        yield Path(temporary)


def _cached(model: Transformer, directory: Path) -> Path | None:
    """The cached export to CTranslate2, written if missing for these weights; None if the directory is not writable."""
    target = directory / f"ctranslate2-{_digest(model)}"
    if target.is_dir():
        verify(target)
        return target
    if not os.access(directory, os.W_OK):
        return None
    with building(target) as unfinished:
        _write(model, unfinished)
    return target


def _write(model: Transformer, directory: Path) -> None:
    """Export the model, and check on sample sentences that CTranslate2 gives the same log-probabilities."""
    write_ctranslate2(model, directory)
    sources = random_sources(model.config, range(1, CHECKED_SENTENCES + 1))
    n_best_lists = search(PlainStepModel(model), [Request(source) for source in sources], Beam.greedy())
    targets = [n_best[0].tokens for n_best in n_best_lists]
    ours = score(model, sources, targets)
    theirs = open_ctranslate2(directory, compute_type="float32", intra_threads=1).score_batch(
        [_names(source) for source in sources], [_names(target[:-1]) for target in targets]
    )
    for our_score, their_score in zip(ours, theirs, strict=True):
        difference = max(abs(a - b) for a, b in zip(our_score.log_probabilities, their_score.log_probs, strict=True))
        if not difference <= MAX_LOG_PROBABILITY_DIFFERENCE:
            raise InputError(
                f"CTranslate2's log-probabilities for this model differ from Glassformer's by up to {difference:.3g} "
                f"per token, more than {MAX_LOG_PROBABILITY_DIFFERENCE}: use the engine `fast`."
            )


def _digest(model: Transformer) -> str:
    """A hash of a model's configuration and weights."""
    digest = hashlib.blake2b(model.config.model_dump_json().encode(), digest_size=8)
    for name, weight in model.state_dict().items():
        digest.update(name.encode())
        digest.update(weight.detach().cpu().contiguous().view(-1).numpy().tobytes())
    return digest.hexdigest()


def _names(ids: Sequence[int]) -> list[str]:
    return [str(token) for token in ids]
