"""Systems that can run the same weights: Glassformer in each precision, CTranslate2, Hugging Face.

Each runs in its own process, so that memory is measured separately and idle systems do not disturb the running one.
"""

import multiprocessing
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from glassformer.decoding import Beam, Request, Shortlist, search
from glassformer.decoding.rules import rules_for
from glassformer.decoding.step_model import padded
from glassformer.engine import EngineOptions, fast_precisions, open_search_backend
from glassformer.engine.engine_options import PRECISIONS
from glassformer.engine.native_library import library
from glassformer.errors import InputError
from glassformer.extras import install_command, is_installed
from glassformer.hardware import cores, peak_memory
from glassformer.interop.capabilities import unsupported
from glassformer.interop.hugging_face import as_transformers, family_of
from glassformer.loading import OpenedModel, open_model
from glassformer.model import ModelConfig, ModelWeights

if TYPE_CHECKING:
    from glassformer.model import Transformer

Sources = Sequence[Sequence[int]]


SHORTLIST = ", shortlist"
"""Suffix of the name of a system that uses the model's vocabulary shortlist."""


@dataclass(frozen=True)
class BenchmarkTask:
    """A benchmark task: the source sentences that every system translates, the beam search, and the batch size."""

    sources: Sources
    beam: Beam
    sentences: int
    """Sentences per batch."""


@dataclass(frozen=True)
class TaskResult:
    """Result of a benchmark task: time taken and tokens generated."""

    seconds: float
    tokens: int


def available_systems(config: ModelConfig, with_shortlist: bool = False) -> dict[str, str]:
    """Every benchmark system, with the reason why it cannot run a model of this config; "" if it can."""
    supported = fast_precisions()
    no_engine = "" if library() else "needs the C engine"
    not_here = no_engine or "needs a processor that multiplies in it (AVX-512 BF16)"
    kinds = ["", SHORTLIST] if with_shortlist else [""]
    glassformer = {
        f"glassformer {precision}{kind}": no_engine if precision in supported else not_here
        for kind in kinds
        for precision in PRECISIONS
    }
    options = unsupported("CTranslate2", config)
    reason = f"does not support {', '.join(options)}" if options else ""
    missing = "" if is_installed("ctranslate2") else "is not installed"
    missing = missing or _without_torch()
    ct2 = {f"ctranslate2 {precision}": missing or reason for precision in ("float32", "int8")}
    return {**glassformer, **ct2, "hugging face": _why_not_hugging_face(config), "glassformer plain": _without_torch()}


def _without_torch() -> str:
    return "" if is_installed("torch") else f"needs PyTorch: {install_command('inspect')}"


def _why_not_hugging_face(config: ModelConfig) -> str:
    if not is_installed("transformers"):
        return "is not installed"
    if needs_torch := _without_torch():
        return needs_torch
    try:
        family_of(config)
    except InputError as error:
        return str(error)
    return ""


class System:
    """A system under benchmark, running a model in its own process."""

    def __init__(self, name: str, where: str | os.PathLike[str]) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = name
        self._connection, child_connection = context.Pipe()
        self._process = context.Process(target=_serve, args=(child_connection, name, where), daemon=True)
        self._process.start()
        child_connection.close()
        self._receive()  # it is ready

    def run(self, task: BenchmarkTask) -> TaskResult:
        """Translate all sentences of a task in batches, and return time and tokens."""
        self._connection.send(("run", task))
        return self._receive()

    def latencies(self, task: BenchmarkTask) -> list[float]:
        """Latency of each sentence of a task, translated by itself, in seconds."""
        self._connection.send(("latencies", task))
        return self._receive()

    def peak_memory(self) -> int:
        """Peak memory of the process, in bytes."""
        self._connection.send(("peak memory", None))
        return self._receive()

    def close(self) -> None:
        self._connection.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()

    def _receive(self) -> Any:
        try:
            result = self._connection.recv()
        except EOFError:
            raise InputError(
                f"{self.name} ended without a result; it probably ran out of memory. Try a smaller --batch-size."
            ) from None
        if isinstance(result, str):
            raise InputError(f"{self.name} failed: {result}")
        return result


def _serve(connection: Connection, name: str, where: str | os.PathLike[str]) -> None:
    """Main loop of a system's process: answer the benchmark's requests until the connection is closed."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        translate = _translate_function(name, open_model(where))
        connection.send(True)
        while True:
            command, task = connection.recv()
            if command == "run":
                connection.send(_timed(translate, task))
            elif command == "latencies":
                alone = [BenchmarkTask([source], task.beam, 1) for source in task.sources]
                connection.send([_timed(translate, single).seconds for single in alone])
            else:
                connection.send(peak_memory())
    except EOFError:
        pass
    except Exception:  # reported by the parent process
        connection.send(traceback.format_exc(limit=-2))


def _timed(translate: Callable[[BenchmarkTask], int], task: BenchmarkTask) -> TaskResult:
    start = time.perf_counter()
    tokens = translate(task)
    return TaskResult(time.perf_counter() - start, tokens)


def _translate_function(name: str, opened: OpenedModel) -> Callable[[BenchmarkTask], int]:
    """A function that translates a task and returns the number of tokens generated, including the ends of sentence."""
    kind, _, precision = name.partition(" ")
    model = opened.weights
    if kind == "ctranslate2":
        return _ctranslate2(model.network, precision)
    if name == "hugging face":
        return _hugging_face(model.network)
    restricts = precision.endswith(SHORTLIST)
    shortlist = opened.read_shortlist() if restricts and opened.read_shortlist is not None else None
    return _glassformer(model, precision.removesuffix(SHORTLIST), shortlist)


def _glassformer(
    model: "Transformer | ModelWeights", precision: str, shortlist: Shortlist | None = None
) -> Callable[[BenchmarkTask], int]:
    options = {"engine": "plain"} if precision == "plain" else {"precision": precision}
    backend = open_search_backend([model], EngineOptions(**options, positions=2**62), shortlist)  # type: ignore[arg-type]

    def translate(task: BenchmarkTask) -> int:
        limits = replace(backend.limits, sentences=task.sentences)
        results = search(backend.step_model, [Request(source) for source in task.sources], task.beam, limits)
        return sum(len(n_best[0].tokens) for n_best in results)

    return translate


def _ctranslate2(model: "Transformer", precision: str) -> Callable[[BenchmarkTask], int]:
    from glassformer.interop.ctranslate2_export import open_ctranslate2, write_ctranslate2  # imports torch

    with tempfile.TemporaryDirectory(prefix="glassformer-benchmark-") as files:
        write_ctranslate2(model, files)
        translator = open_ctranslate2(files, compute_type=precision, inter_threads=cores(), intra_threads=1)
    config = model.config
    del model

    def translate(task: BenchmarkTask) -> int:
        limit = max(_limit(source, task.beam, config) for source in task.sources)
        results = translator.translate_batch(
            [[str(token) for token in source] for source in task.sources],
            beam_size=task.beam.size,
            length_penalty=task.beam.length_penalty,
            max_batch_size=task.sentences,
            max_input_length=0,
            max_decoding_length=limit,
            suppress_sequences=[[str(config.pad_id)]],
        )
        return sum(min(limit, len(result.hypotheses[0]) + 1) for result in results)

    return translate


def _hugging_face(model: "Transformer") -> Callable[[BenchmarkTask], int]:
    import torch

    transformer, config = as_transformers(model), model.config
    del model

    @torch.inference_mode()
    def translate(task: BenchmarkTask) -> int:
        order = sorted(task.sources, key=len, reverse=True)
        tokens = 0
        for first in range(0, len(order), task.sentences):
            sources = order[first : first + task.sentences]
            ids = torch.from_numpy(padded(sources, config.pad_id))
            limit = max(_limit(source, task.beam, config) for source in sources)
            generated = transformer.generate(
                input_ids=ids,
                attention_mask=torch.from_numpy(padded([[1] * len(source) for source in sources], 0)),
                num_beams=task.beam.size,
                length_penalty=task.beam.length_penalty,
                max_new_tokens=limit,
                do_sample=False,
                bad_words_ids=None,
            )
            tokens += int((generated[:, 1:] != config.pad_id).sum())
        return tokens

    return translate


def _limit(source: Sequence[int], beam: Beam, config: ModelConfig) -> int:
    return rules_for(Request(source), config.eos_id, beam, config.max_tokens).limit
