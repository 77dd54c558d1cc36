"""Step model and beam search in compiled C: one call per step, without the GIL.

Results are bitwise independent of batch composition: nothing is padded, and the order of every sum depends on its own
row only.
"""

from array import array
from collections.abc import Sequence
from ctypes import CDLL, byref
from typing import Any

import torch

from glassformer.decoding import Beam, Hypothesis, SearchResult, SearchSettings, SearchTask
from glassformer.decoding.next_tokens import NAN_LOGITS_MESSAGE, NextTokens
from glassformer.engine.engine_options import Precision
from glassformer.engine.native_structs import CBeam
from glassformer.engine.native_weights import PackedWeights
from glassformer.errors import InputError
from glassformer.model import Transformer

SATURATING_ROWS = 56
"""Number of rows (hypotheses) that keep a core busy (ROWS_PER_PASS in native/transformer.c): more only take memory."""
MAX_STEPS_PER_CALL = 32
"""Maximum number of decoding steps per call into C; between calls a search can be stopped."""


class NativeStepModel:
    """A step model computed in C. Worker threads may share it."""

    refills = True
    extra_positions = 16  # the newest keys and values are stored separately, and stay allocated (native/sentence.h)

    def __init__(self, model: Transformer, library: CDLL, precision: Precision = "float32") -> None:
        config = model.config
        self.library = library
        self.weights = PackedWeights(model, precision, library)
        self.bos, self.eos, self.pad = config.bos_id, config.eos_id, config.pad_id
        self.vocab_size = config.vocab_size
        self.source_vocab_size = config.source_vocab_size
        self.max_tokens = config.max_tokens
        self.columns = self.weights.columns

    def open(self, width: int) -> "NativeStepSession":
        return NativeStepSession(self, width)

    def batch_search(
        self, settings: SearchSettings, suppress: Sequence[int], reads_tokens: bool
    ) -> "NativeBatchSearch | None":
        beam = settings.as_beam()
        if beam is None or beam.diversity or reads_tokens:
            return None
        return NativeBatchSearch(self, beam, suppress)


class NativeStepSession:
    def __init__(self, step_model: NativeStepModel, width: int) -> None:
        self.step_model = step_model
        self.width = width
        self.rows = 0
        self.batch: Any = step_model.library.batch_new()
        self.model: Any = None
        self._length = 0
        self._logits = torch.empty(0, step_model.columns)

    def __del__(self) -> None:
        if batch := self.__dict__.pop("batch", None):
            self.step_model.library.batch_free(batch)

    def join(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        step_model = self.step_model
        ids = array("i", [token for source in sources for token in source])
        lowest, highest = min(ids), max(ids)
        if lowest < 0 or highest >= step_model.source_vocab_size:
            raise InputError(
                f"Token ids must be from 0 to {step_model.source_vocab_size - 1}; these go from {lowest} to {highest}. "
                "Encode the text with this model's tokenizer."
            )
        lengths = array("i", map(len, sources))
        self._length = max(self._length, *lengths, *limits)
        self.model = step_model.weights.for_length(self._length)
        limit_array = array("i", limits)
        arrays = (_address(lengths), _address(limit_array), _address(ids))
        _check_memory(step_model.library.batch_join(self.model, self.batch, len(sources), *arrays, self.width))
        self.rows += len(sources)

    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> NextTokens:
        rows, count = self.rows, min(count, self.step_model.vocab_size)
        if len(self._logits) < rows:
            self._logits = torch.empty(rows, self.step_model.columns)
        normaliser = torch.empty(rows)
        newest, forbidden = array("i", tokens), array("i", never)
        log_ps, likeliest = array("f", bytes(4 * rows * count)), array("i", bytes(4 * rows * count))
        inputs = (_address(newest), len(never), _address(forbidden), count)
        outputs = (self._logits.data_ptr(), normaliser.data_ptr(), _address(log_ps), _address(likeliest))
        _check_memory(self.step_model.library.batch_step(self.model, self.batch, *inputs, *outputs))
        candidates = list(zip(likeliest, log_ps, strict=True))
        return NextTokens(
            self._logits[:rows, : self.step_model.vocab_size],
            normaliser,
            [candidates[i : i + count] for i in range(0, rows * count, count)] if count else [],
        )

    def keep(self, rows: Sequence[int]) -> None:
        if len(rows) == self.rows and all(row == place for place, row in enumerate(rows)):
            return
        kept = array("i", rows)
        self.step_model.library.batch_keep(self.batch, len(rows), _address(kept))
        self.rows = len(rows)


class NativeBatchSearch:
    """Batch beam search in C; a call returns when a sentence is finished. Bitwise the same results as decoding.beam."""

    def __init__(self, step_model: NativeStepModel, settings: Beam, suppress: Sequence[int]) -> None:
        self._session = NativeStepSession(step_model, settings.width)
        self._library = step_model.library
        self._never = array("i", suppress)
        self._settings = settings
        self._max_limit = 0
        self._beam = CBeam(
            eos=step_model.eos,
            width=settings.width,
            n_best=settings.n_best,
            keep_greedy=settings.keep_greedy,
            looked_at=min(settings.candidates_per_row, step_model.vocab_size),
            n_never=len(suppress),
            never=_address(self._never),
            length_penalty=settings.length_penalty,
        )

    def join(self, tasks: Sequence[SearchTask]) -> None:
        session = self._session
        session.join([task.request.source for task in tasks], [task.rules.limit for task in tasks])
        self._max_limit = max(self._max_limit, *(task.rules.limit for task in tasks))
        numbers = array("i", [task.number for task in tasks])
        min_lengths = array("i", [task.rules.min_length for task in tasks])
        prefix_lengths = array("i", [len(task.rules.prefix) for task in tasks])
        prefixes = array("i", [token for task in tasks for token in task.rules.prefix] or [0])
        addresses = [_address(values) for values in (numbers, min_lengths, prefix_lengths, prefixes)]
        _check_memory(self._library.batch_search(session.batch, byref(self._beam), len(tasks), *addresses))

    def advance(self) -> list[SearchResult]:
        session = self._session
        finished = self._library.batch_advance(session.model, session.batch, byref(self._beam), MAX_STEPS_PER_CALL)
        if finished == -2:
            raise InputError(NAN_LOGITS_MESSAGE)
        _check_memory(finished >= 0)
        return [self._result(i) for i in range(finished)]

    def _result(self, i: int) -> SearchResult:
        number, n_best, size = array("i", [0]), self._settings.n_best, self._max_limit
        lengths, scores = array("i", bytes(4 * n_best)), array("d", bytes(8 * n_best))
        tokens, log_ps = array("i", bytes(4 * n_best * size)), array("f", bytes(4 * n_best * size))
        addresses = [_address(values) for values in (number, lengths, scores, tokens, log_ps)]
        count = self._library.batch_found(self._session.batch, i, size, *addresses)
        hypotheses = []
        for k in range(count):
            part = slice(k * size, k * size + lengths[k])
            hypotheses.append(Hypothesis(tokens[part].tolist(), log_ps[part].tolist(), scores[k]))
        return number[0], hypotheses


def _address(values: "array[Any]") -> int:
    return values.buffer_info()[0]


def _check_memory(allocated: int) -> None:
    if not allocated:
        raise InputError(
            "There is not enough memory to translate this many sentences at once: use a smaller batch size."
        )
