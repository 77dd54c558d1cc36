"""The model as the fast path runs it: a whole step in one call that lets other threads run.

A row's bits never depend on its neighbours: nothing is padded, and every sum runs in an order of its own.
"""

from array import array
from collections.abc import Sequence
from ctypes import CDLL, Structure, byref, c_double, c_int32, c_void_p
from typing import Any

import torch

from glassformer.decoding import Beam, Found, Hypothesis, SearchTask
from glassformer.decoding.next_tokens import DAMAGED, NextTokens, looked_at
from glassformer.engine.engine_options import Precision
from glassformer.engine.native_weights import Weights
from glassformer.errors import InputError
from glassformer.model import Transformer

ENOUGH = 56
"""Rows that keep a processor busy (TOGETHER in native/transformer.c): more only take memory."""
STEPS = 32
"""Steps in one call, at most: between calls somebody may want to stop."""


class CBeam(Structure):
    """Mirrors `beam` in native/beam.h."""

    _fields_ = (
        *((name, c_int32) for name in ("eos", "width", "n_best", "keep_greedy", "looked_at", "n_never")),
        ("never", c_void_p),
        ("length_penalty", c_double),
    )


class NativeStepModel:
    """A step_model whose arithmetic is compiled C. Worker threads may share it."""

    refills = True
    spare = 16  # the newest stand apart, and their places stay when they are packed (native/sentence.h)

    def __init__(self, model: Transformer, library: CDLL, precision: Precision = "float32") -> None:
        config = model.config
        self.library = library
        self.weights = Weights(model, precision, library)
        self.bos, self.eos, self.pad = config.bos_id, config.eos_id, config.pad_id
        self.vocab_size = config.vocab_size
        self.source_vocab_size = config.source_vocab_size
        self.max_tokens = config.max_tokens
        self.columns = self.weights.columns

    def open(self, width: int) -> "NativeStepSession":
        return NativeStepSession(self, width)

    def batch_search(self, settings: Beam, suppress: Sequence[int]) -> "NativeBatchSearch":
        return NativeBatchSearch(self, settings, suppress)


class NativeStepSession:
    def __init__(self, fast: NativeStepModel, width: int) -> None:
        self.fast = fast
        self.width = width
        self.rows = 0
        self.batch: Any = fast.library.batch_new()
        self.model: Any = None
        self._length = 0
        self._logits = torch.empty(0, fast.columns)

    def __del__(self) -> None:
        if batch := self.__dict__.pop("batch", None):
            self.fast.library.batch_free(batch)

    def join(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        ids = array("i", [token for source in sources for token in source])
        least, most = min(ids), max(ids)
        if least < 0 or most >= self.fast.source_vocab_size:
            raise InputError(
                f"Token ids must be from 0 to {self.fast.source_vocab_size - 1}; these go from {least} to {most}. "
                "They were probably made with another model's tokenizer."
            )
        lengths = array("i", map(len, sources))
        self._length = max(self._length, *lengths, *limits)
        self.model = self.fast.weights.for_length(self._length)
        room = array("i", limits)
        arrays = (_address(lengths), _address(room), _address(ids))
        _check(self.fast.library.batch_join(self.model, self.batch, len(sources), *arrays, self.width))
        self.rows += len(sources)

    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> NextTokens:
        rows, count = self.rows, min(count, self.fast.vocab_size)
        if len(self._logits) < rows:
            self._logits = torch.empty(rows, self.fast.columns)
        normaliser = torch.empty(rows)
        newest, forbidden = array("i", tokens), array("i", never)
        log_ps, likeliest = array("f", bytes(4 * rows * count)), array("i", bytes(4 * rows * count))
        asked = (_address(newest), len(never), _address(forbidden), count)
        told = (self._logits.data_ptr(), normaliser.data_ptr(), _address(log_ps), _address(likeliest))
        _check(self.fast.library.batch_step(self.model, self.batch, *asked, *told))
        candidates = list(zip(likeliest, log_ps, strict=True))
        return NextTokens(
            self._logits[:rows, : self.fast.vocab_size],
            normaliser,
            [candidates[i : i + count] for i in range(0, rows * count, count)] if count else [],
        )

    def keep(self, rows: Sequence[int]) -> None:
        if len(rows) == self.rows and all(row == place for place, row in enumerate(rows)):
            return
        chosen = array("i", rows)
        self.fast.library.batch_keep(self.batch, len(rows), _address(chosen))
        self.rows = len(rows)


class NativeBatchSearch:
    """Whole searches in C: it comes back when a sentence is over. Finds what decoding.beam finds, to the last bit."""

    def __init__(self, fast: NativeStepModel, settings: Beam, suppress: Sequence[int]) -> None:
        self._session = NativeStepSession(fast, settings.width)
        self._library = fast.library
        self._never = array("i", suppress)
        self._settings = settings
        self._longest = 0
        self._asked = CBeam(
            eos=fast.eos,
            width=settings.width,
            n_best=settings.n_best,
            keep_greedy=settings.keep_greedy,
            looked_at=min(looked_at(settings), fast.vocab_size),
            n_never=len(suppress),
            never=_address(self._never),
            length_penalty=settings.length_penalty,
        )

    def join(self, tasks: Sequence[SearchTask]) -> None:
        session = self._session
        session.join([task.request.source for task in tasks], [task.rules.limit for task in tasks])
        self._longest = max(self._longest, *(task.rules.limit for task in tasks))
        numbers = array("i", [task.number for task in tasks])
        min_length = array("i", [task.rules.min_length for task in tasks])
        lengths = array("i", [len(task.rules.prefix) for task in tasks])
        tokens = array("i", [token for task in tasks for token in task.rules.prefix] or [0])
        arrays = [_address(numbers) for numbers in (numbers, min_length, lengths, tokens)]
        _check(self._library.batch_search(session.batch, byref(self._asked), len(tasks), *arrays))

    def advance(self) -> list[Found]:
        session = self._session
        over = self._library.batch_advance(session.model, session.batch, byref(self._asked), STEPS)
        if over == -2:
            raise InputError(DAMAGED)
        _check(over >= 0)
        return [self._found(i) for i in range(over)]

    def _found(self, i: int) -> Found:
        number, count, size = array("i", [0]), self._settings.n_best, self._longest
        lengths, scores = array("i", bytes(4 * count)), array("d", bytes(8 * count))
        tokens, log_ps = array("i", bytes(4 * count * size)), array("f", bytes(4 * count * size))
        arrays = [_address(one) for one in (number, lengths, scores, tokens, log_ps)]
        found = self._library.batch_found(self._session.batch, i, size, *arrays)
        hypotheses = []
        for k in range(found):
            own = slice(k * size, k * size + lengths[k])
            hypotheses.append(Hypothesis(tokens[own].tolist(), log_ps[own].tolist(), scores[k]))
        return number[0], hypotheses


def _address(numbers: "array[Any]") -> int:
    return numbers.buffer_info()[0]


def _check(enough: int) -> None:
    if not enough:
        raise InputError("There is not enough memory for this many sentences at once: ask for fewer.")
