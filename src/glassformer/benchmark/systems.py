"""Whoever can translate ids with the same weights: we in each precision, CTranslate2, Hugging Face.

Each runs in a process of its own, so that its memory is its own and none disturbs another while it waits for its turn.
"""

import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from glassformer.decoding import Beam, Request, search
from glassformer.decoding.rules import rules_for
from glassformer.decoding.step_model import padded
from glassformer.engine import EngineOptions, open_search_backend
from glassformer.engine.engine_options import PRECISIONS
from glassformer.errors import InputError
from glassformer.hardware import cores, peak_memory
from glassformer.interop.ctranslate2_export import open_ctranslate2, unsupported, write_ctranslate2
from glassformer.interop.hugging_face import as_transformers, family_of
from glassformer.model import ModelConfig, Transformer, load_model

Sources = Sequence[Sequence[int]]


@dataclass(frozen=True)
class BenchmarkTask:
    """What everybody is asked to do."""

    sources: Sources
    beam: Beam
    sentences: int
    """How many go together."""


@dataclass(frozen=True)
class TaskResult:
    """What a task took."""

    seconds: float
    tokens: int


def available_systems(config: ModelConfig) -> dict[str, str]:
    """Every contestant, and why it stays out; "" if it comes."""
    ours = {f"glassformer {precision}": "" for precision in PRECISIONS}
    options = unsupported(config)
    refusal = f"cannot hold {', '.join(options)}" if options else ""
    missing = "" if find_spec("ctranslate2") else "is not installed"
    ct2 = {f"ctranslate2 {precision}": missing or refusal for precision in ("float32", "int8")}
    return {**ours, **ct2, "hugging face": _not_hugging_face(config), "glassformer plain": ""}


def _not_hugging_face(config: ModelConfig) -> str:
    if not find_spec("transformers"):
        return "is not installed"
    try:
        family_of(config)
    except InputError as error:
        return str(error)
    return ""


class System:
    """One of them, in its process."""

    def __init__(self, name: str, directory: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = name
        self._here, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, name, directory), daemon=True)
        self._process.start()
        there.close()
        self._answer()  # it is ready

    def run(self, task: BenchmarkTask) -> TaskResult:
        """Do all of it, as fast as this machine allows."""
        self._here.send(("run", task))
        return self._answer()

    def one_by_one(self, task: BenchmarkTask) -> list[float]:
        """Seconds for each sentence alone: how long somebody waits."""
        self._here.send(("one by one", task))
        return self._answer()

    def peak(self) -> int:
        """The most bytes that it has had."""
        self._here.send(("peak", None))
        return self._answer()

    def close(self) -> None:
        self._here.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()

    def _answer(self) -> Any:
        try:
            found = self._here.recv()
        except EOFError:
            raise InputError(f"{self.name} ended without a word: it was probably out of memory.") from None
        if isinstance(found, str):
            raise InputError(f"{self.name} failed: {found}")
        return found


def _serve(asked: Connection, name: str, directory: Path) -> None:
    """Answer until nobody asks."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        translate = _opened(name, load_model(directory))
        asked.send(True)
        while True:
            what, task = asked.recv()
            if what == "run":
                start = time.perf_counter()
                tokens = translate(task)
                asked.send(TaskResult(time.perf_counter() - start, tokens))
            elif what == "one by one":
                asked.send([_seconds(translate, BenchmarkTask([source], task.beam, 1)) for source in task.sources])
            else:
                asked.send(peak_memory())
    except EOFError:
        pass
    except Exception:  # whatever it is, the one who asked tells it
        asked.send(traceback.format_exc(limit=-2))


def _seconds(translate: Callable[[BenchmarkTask], int], task: BenchmarkTask) -> float:
    start = time.perf_counter()
    translate(task)
    return time.perf_counter() - start


def _opened(name: str, model: Transformer) -> Callable[[BenchmarkTask], int]:
    """A function that translates, and returns how many tokens it wrote, ends included."""
    kind, _, precision = name.partition(" ")
    if kind == "ctranslate2":
        return _ctranslate2(model, precision)
    if name == "hugging face":
        return _hugging_face(model)
    return _ours(model, precision)


def _ours(model: Transformer, precision: str) -> Callable[[BenchmarkTask], int]:
    engine = {"engine": "plain"} if precision == "plain" else {"precision": precision}
    opened = open_search_backend([model], EngineOptions(**engine, positions=2**62))  # type: ignore[arg-type]

    def translate(task: BenchmarkTask) -> int:
        limits = replace(opened.limits, sentences=task.sentences)
        found = search(opened.step_model, [Request(source) for source in task.sources], task.beam, limits)
        return sum(len(own[0].tokens) for own in found)

    return translate


def _ctranslate2(model: Transformer, precision: str) -> Callable[[BenchmarkTask], int]:
    with tempfile.TemporaryDirectory(prefix="glassformer-trial-") as files:
        write_ctranslate2(model, files)
        opened = open_ctranslate2(files, compute_type=precision, inter_threads=cores(), intra_threads=1)
    config = model.config
    del model

    def translate(task: BenchmarkTask) -> int:
        limit = max(_limit(source, task.beam, config) for source in task.sources)
        answers = opened.translate_batch(
            [[str(token) for token in source] for source in task.sources],
            beam_size=task.beam.size,
            length_penalty=task.beam.length_penalty,
            max_batch_size=task.sentences,
            max_input_length=0,
            max_decoding_length=limit,
            suppress_sequences=[[str(config.pad_id)]],
        )
        return sum(min(limit, len(answer.hypotheses[0]) + 1) for answer in answers)

    return translate


def _hugging_face(model: Transformer) -> Callable[[BenchmarkTask], int]:
    theirs, config = as_transformers(model), model.config
    del model

    @torch.inference_mode()
    def translate(task: BenchmarkTask) -> int:
        order = sorted(task.sources, key=len, reverse=True)
        tokens = 0
        for first in range(0, len(order), task.sentences):
            sources = order[first : first + task.sentences]
            ids = padded(sources, config.pad_id)
            limit = max(_limit(source, task.beam, config) for source in sources)
            out = theirs.generate(
                input_ids=ids,
                attention_mask=padded([[1] * len(source) for source in sources], 0),
                num_beams=task.beam.size,
                length_penalty=task.beam.length_penalty,
                max_new_tokens=limit,
                do_sample=False,
                bad_words_ids=None,
            )
            tokens += int((out[:, 1:] != config.pad_id).sum())
        return tokens

    return translate


def _limit(source: Sequence[int], beam: Beam, config: ModelConfig) -> int:
    return rules_for(Request(source), config.eos_id, beam, config.max_tokens).limit
