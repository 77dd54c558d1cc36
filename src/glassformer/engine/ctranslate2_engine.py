"""CTranslate2 as an engine (the extra `ct2`): a model is written once as its files, proved equal and kept beside it."""

import hashlib
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glassformer.atomic_directory import building, verify
from glassformer.decoding import Beam, Hypothesis, PlainStepModel, Request, SearchSettings, score, search
from glassformer.decoding.hypothesis import penalised
from glassformer.decoding.rules import rules_for
from glassformer.engine.engine_options import EngineOptions
from glassformer.engine.random_sources import random_sources
from glassformer.errors import InputError
from glassformer.hardware import cores
from glassformer.interop.ctranslate2_export import open_ctranslate2, write_ctranslate2
from glassformer.model import Transformer

CLOSE = 2e-3
"""How far, at most, a token's log-probability may be from ours."""
SAMPLE = 8


class CTranslate2:
    """Finds what a beam finds. Of the rules it knows lengths, a forced beginning, repeats and suppression."""

    def __init__(self, model: Transformer, directory: Path | None, options: EngineOptions) -> None:
        if options.exact:
            raise InputError("CTranslate2 does not promise that bits are independent of neighbours: leave --exact out.")
        if options.precision == "float16":
            raise InputError("CTranslate2 has no float16 on processors: take float32 or int8.")
        self.config = model.config
        self.max_tokens = model.config.max_tokens
        self.sentences = options.sentences or 64
        threads = {"inter_threads": options.workers or cores(), "intra_threads": 1}
        with _files(model, directory) as files:  # it reads them at once, and does not need them again
            self.translator: Any = open_ctranslate2(files, compute_type=options.precision, **threads)

    def search(self, requests: Sequence[Request], settings: SearchSettings) -> list[list[Hypothesis]]:
        """For each request its hypotheses, best first."""
        if not isinstance(settings, Beam) or settings.diversity or any(request.phrases for request in requests):
            raise InputError("CTranslate2 here neither samples nor knows phrases, glossaries or diversity: use `fast`.")
        groups: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number, request in enumerate(requests):
            rules = rules_for(request, self.config.eos_id, settings, self.max_tokens)
            groups[rules.min_length, rules.limit].append(number)  # it knows one length for all that it is given at once
        waiting = [
            (numbers, self._asked([requests[i] for i in numbers], settings, *lengths))
            for lengths, numbers in groups.items()
        ]
        targets: list[list[list[str]]] = [[] for _ in requests]
        for numbers, answers in waiting:
            for number, answer in zip(numbers, answers, strict=True):
                targets[number] = answer.result().hypotheses
        return self._scored(requests, targets, settings)

    def _asked(self, requests: list[Request], settings: Beam, min_length: int, limit: int) -> Any:
        never = [[str(token)] for token in {*settings.suppress, self.config.pad_id}]
        return self.translator.translate_batch(
            [_named(request.source) for request in requests],
            target_prefix=[_named(request.prefix) or None for request in requests],
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
        """It says how likely an answer is, not how likely each token; so it is asked again."""
        pairs = [(_named(request.source), own) for request, many in zip(requests, targets, strict=True) for own in many]
        if not pairs:
            return [[] for _ in requests]
        sources, answers = map(list, zip(*pairs, strict=True))
        scored = iter(self.translator.score_batch(sources, answers, max_batch_size=self.sentences, max_input_length=0))
        found = [[self._hypothesis(own, next(scored).log_probs, settings) for own in many] for many in targets]
        return [sorted(own, key=lambda hypothesis: -hypothesis.score) for own in found]

    def _hypothesis(self, tokens: list[str], log_ps: Sequence[float], settings: Beam) -> Hypothesis:
        total = penalised(sum(log_ps), len(log_ps), settings.length_penalty)
        return Hypothesis([*map(int, tokens), self.config.eos_id], list(log_ps), total)


@contextmanager
def _files(model: Transformer, directory: Path | None) -> Iterator[Path]:
    """The model as its files: those beside the model, written now if there are none of these weights."""
    if directory is not None and (kept := _kept(model, directory)) is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="glassformer-ctranslate2-") as passing:
        _write(model, Path(passing))
        yield Path(passing)


def _kept(model: Transformer, directory: Path) -> Path | None:
    """None where nothing may be written: then they are made again next time."""
    target = directory / f"ctranslate2-{_digest(model)}"
    if target.is_dir():
        verify(target)
        return target
    if not os.access(directory, os.W_OK):
        return None
    with building(target) as aside:
        _write(model, aside)
    return target


def _write(model: Transformer, directory: Path) -> None:
    """Write it, and prove on a sample of sentences that it finds the same tokens as likely."""
    write_ctranslate2(model, directory)
    sources = random_sources(model.config, range(1, SAMPLE + 1))
    ours = [best[0] for best in search(PlainStepModel(model), [Request(source) for source in sources], Beam.greedy())]
    scored = score(model, sources, [own.tokens for own in ours])
    theirs = open_ctranslate2(directory, compute_type="float32", intra_threads=1).score_batch(
        [_named(source) for source in sources], [_named(own.tokens[:-1]) for own in ours]
    )
    for one, other in zip(scored, theirs, strict=True):
        far = max(abs(a - b) for a, b in zip(one.log_probabilities, other.log_probs, strict=True))
        if not far <= CLOSE:
            raise InputError(
                f"CTranslate2 finds this model's tokens otherwise likely than the model does, by up to {far:.3g}: "
                "it is not used."
            )


def _digest(model: Transformer) -> str:
    """A name for these weights and this shape."""
    found = hashlib.blake2b(model.config.model_dump_json().encode(), digest_size=8)
    for name, weight in model.state_dict().items():
        found.update(name.encode())
        found.update(weight.detach().cpu().contiguous().view(-1).numpy().tobytes())
    return found.hexdigest()


def _named(ids: Sequence[int]) -> list[str]:
    return [str(token) for token in ids]
