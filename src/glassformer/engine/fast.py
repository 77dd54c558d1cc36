"""The model as the fast path runs it: a whole step in one call that lets other threads run.

A row's bits never depend on its neighbours: nothing is padded, and every sum runs in an order of its own.
"""

from array import array
from collections.abc import Sequence
from ctypes import CDLL
from typing import Any

import torch

from glassformer.decoding.candidates import Next
from glassformer.engine.options import Precision
from glassformer.engine.weights import Weights
from glassformer.errors import InputError
from glassformer.model import Transformer


class Fast:
    """A predictor whose arithmetic is compiled C. Worker threads may share it."""

    refills = True

    def __init__(self, model: Transformer, library: CDLL, precision: Precision = "float32") -> None:
        config = model.config
        self.library = library
        self.weights = Weights(model, precision, library.panel_columns())
        self.bos, self.eos, self.pad = config.bos_id, config.eos_id, config.pad_id
        self.vocab_size = config.vocab_size
        self.source_vocab_size = config.source_vocab_size
        self.longest = config.longest
        self.columns = -(-config.vocab_size // library.panel_columns()) * library.panel_columns()

    def open(self, width: int) -> "FastPrediction":
        return FastPrediction(self, width)


class FastPrediction:
    def __init__(self, fast: Fast, width: int) -> None:
        self.fast = fast
        self.width = width
        self.rows = 0
        self._batch: Any = fast.library.batch_new()
        self._model: Any = None
        self._length = 0
        self._logits = torch.empty(0, fast.columns)

    def __del__(self) -> None:
        if batch := self.__dict__.pop("_batch", None):
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
        self._model = self.fast.weights.for_length(self._length)
        room = array("i", limits)
        arrays = (_address(lengths), _address(room), _address(ids))
        _check(self.fast.library.batch_join(self._model, self._batch, len(sources), *arrays, self.width))
        self.rows += len(sources)

    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> Next:
        rows, count = self.rows, min(count, self.fast.vocab_size)
        if len(self._logits) < rows:
            self._logits = torch.empty(rows, self.fast.columns)
        normaliser = torch.empty(rows)
        newest, forbidden = array("i", tokens), array("i", never)
        log_ps, likeliest = array("f", bytes(4 * rows * count)), array("i", bytes(4 * rows * count))
        asked = (_address(newest), len(never), _address(forbidden), count)
        told = (self._logits.data_ptr(), normaliser.data_ptr(), _address(log_ps), _address(likeliest))
        _check(self.fast.library.batch_step(self._model, self._batch, *asked, *told))
        candidates = list(zip(likeliest, log_ps, strict=True))
        return Next(
            self._logits[:rows, : self.fast.vocab_size],
            normaliser,
            [candidates[i : i + count] for i in range(0, rows * count, count)] if count else [],
        )

    def keep(self, rows: Sequence[int]) -> None:
        if len(rows) == self.rows and all(row == place for place, row in enumerate(rows)):
            return
        chosen = array("i", rows)
        self.fast.library.batch_keep(self._batch, len(rows), _address(chosen))
        self.rows = len(rows)


def _address(numbers: "array[Any]") -> int:
    return numbers.buffer_info()[0]


def _check(enough: int) -> None:
    if not enough:
        raise InputError("There is not enough memory for this many sentences at once: ask for fewer.")
