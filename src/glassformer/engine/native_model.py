"""Step model and beam search in compiled C: one call per step, without the GIL.

Results are bitwise independent of batch composition: nothing is padded, and the order of every sum depends on its own
row only.
"""

import math
import reprlib
from array import array
from collections.abc import Iterable, Sequence
from ctypes import CDLL, byref
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.decoding import Attention, Beam, Head, Hypothesis, SearchResult, SearchSettings, SearchTask, Shortlist
from glassformer.decoding.next_tokens import NAN_LOGITS_MESSAGE, ArrayNextTokens
from glassformer.decoding.search_settings import MAX_TARGET_TOKENS
from glassformer.decoding.step_model import check_source_ids
from glassformer.decoding.stepwise_search import token_lists
from glassformer.decoding.vocabulary_shortlist import TokenList
from glassformer.engine.engine_options import Precision
from glassformer.engine.native_structs import (
    NO_MEMORY,
    NO_MEMORY_IN_SEARCH,
    NOT_FINITE,
    TOO_LONG,
    WRONG_LIST,
    WRONG_ROWS,
    CBeam,
)
from glassformer.engine.native_weights import PackedWeights
from glassformer.errors import InputError
from glassformer.model import ModelWeights

if TYPE_CHECKING:
    from glassformer.model import Transformer

MAX_WIDTH = 1000
"""Maximum number of hypotheses per sentence; C numbers their cache entries in 16 bits."""
MAX_STEPS_PER_CALL = 32
"""Maximum number of decoding steps per call into C; between calls a search can be stopped."""


class NativeStepModel:
    """A step model computed in C. Worker threads may share it."""

    refills = True
    extra_positions = 16  # the newest keys and values are stored separately, and stay allocated (native/sentence.h)

    def __init__(
        self,
        model: "Transformer | ModelWeights",
        library: CDLL,
        precision: Precision = "float32",
        shortlist: Shortlist | None = None,
    ) -> None:
        config = model.config
        self.library = library
        self.shortlist = shortlist
        self.weights = PackedWeights(ModelWeights.of(model), precision, library)
        self.bos, self.eos, self.pad = config.bos_id, config.eos_id, config.pad_id
        self.vocab_size = config.vocab_size
        self.source_vocab_size = config.source_vocab_size
        self.max_tokens = config.max_tokens
        self.columns = self.weights.columns

    def open(self, width: int) -> "NativeStepSession":
        return NativeStepSession(self, width)

    def log_probabilities(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """The log-probability of each token of given targets, bitwise as in a search."""
        return self.open(1).score(sources, targets)

    def attention(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], heads: Sequence[Head]
    ) -> list[Attention]:
        """The weights of cross-attention heads for given targets, bitwise as in a search."""
        return self.open(1).attention(sources, targets, heads)

    def batch_search(
        self, settings: SearchSettings, suppress: Sequence[int], reads_tokens: bool
    ) -> "NativeBatchSearch | None":
        beam = settings.as_beam()
        if beam is None or beam.diversity or reads_tokens:
            return None
        return NativeBatchSearch(self, beam, suppress)


class NativeStepSession:
    """A decoding session in C. Wrong calls are refused before C reads or writes memory that does not exist."""

    def __init__(self, step_model: NativeStepModel, width: int) -> None:
        if not 1 <= width <= MAX_WIDTH:
            raise InputError(f"A sentence can have from 1 to {MAX_WIDTH:,} hypotheses, not {width:,}.")
        self.step_model = step_model
        self.width = width
        self.rows = 0
        self.batch: Any = None
        self._open_batch()
        self.model: Any = None
        self._never: tuple[Sequence[int], array[int]] = ((), array("B"))
        self._length = 0
        self._logits = np.empty((0, step_model.columns), np.float32)

    def __del__(self) -> None:
        if self.__dict__.get("batch"):
            self._discard_batch()

    def _open_batch(self) -> None:
        self.batch = self.step_model.library.batch_new()
        _check_memory(bool(self.batch))

    def _discard_batch(self) -> None:
        """Remove all sentences; the next to join opens another batch."""
        batch, self.batch, self.rows = self.batch, None, 0
        self.step_model.library.batch_free(batch)

    def join(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        step_model = self.step_model
        check_source_ids(sources, step_model.source_vocab_size)
        most = MAX_TARGET_TOKENS if step_model.max_tokens is None else step_model.max_tokens
        if len(limits) != len(sources) or not 1 <= min(limits) <= max(limits) <= most:
            raise InputError(
                f"{len(sources)} sources need as many maximum target lengths, from 1 to {most:,} tokens; there are "
                f"{len(limits)}, from {min(limits, default=0)} to {max(limits, default=0)}."
            )
        longest = max(map(len, sources))
        if step_model.max_tokens is not None and longest > step_model.max_tokens:
            raise InputError(
                f"A source has {longest} tokens, but this model has only {step_model.max_tokens} positions."
            )
        _check_memory((self.rows + len(sources)) * self.width < 2**31 and sum(map(len, sources)) < 2**31)
        ids = array("i", [token for source in sources for token in source])
        lengths = array("i", map(len, sources))
        self._length = max(self._length, *lengths, *limits)
        self.model = step_model.weights.for_length(self._length)
        if not self.batch:
            self._open_batch()
        limit_array = array("i", limits)
        arrays = (_address(lengths), _address(limit_array), _address(ids))
        self._check(step_model.library.batch_join(self.model, self.batch, len(sources), *arrays, self.width))
        self.rows += len(sources)

    def restrict(self, lists: Sequence[TokenList]) -> None:
        if not lists or not self.batch:
            self._check(WRONG_LIST)
        sizes = np.array([len(tokens) for tokens in lists], dtype=np.int32)
        tokens = np.concatenate([np.asarray(tokens, dtype=np.int32) for tokens in lists])
        arrays = (sizes.ctypes.data, tokens.ctypes.data)
        self._check(self.step_model.library.batch_restrict(self.model, self.batch, len(lists), *arrays))

    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> ArrayNextTokens:
        vocab_size = self.step_model.vocab_size
        rows, count = self.rows, max(0, min(count, vocab_size))
        if len(tokens) != rows or not rows:
            raise InputError(f"A step needs one token for each of the {rows} rows of the batch, and got {len(tokens)}.")
        if min(tokens) < 0 or max(tokens) >= vocab_size:
            raise InputError(
                f"Token ids must be from 0 to {vocab_size - 1}; these go from {min(tokens)} to {max(tokens)}."
            )
        if never is not self._never[0]:  # the same in every step of a search
            self._never = (never, never_mask(never, vocab_size))
        if len(self._logits) < rows:
            self._logits = np.empty((rows, self.step_model.columns), np.float32)
        normaliser = np.empty(rows, np.float32)
        newest = array("i", tokens)
        log_ps, likeliest = array("f", bytes(4 * rows * count)), array("i", bytes(4 * rows * count))
        inputs = (rows, _address(newest), _address(self._never[1]) if self._never[1] else None, count)
        outputs = (self._logits.ctypes.data, normaliser.ctypes.data, _address(log_ps), _address(likeliest))
        self._check(self.step_model.library.batch_step(self.model, self.batch, *inputs, *outputs))
        candidates = list(zip(likeliest, log_ps, strict=True))
        return ArrayNextTokens(
            self._logits[:rows, : self.step_model.vocab_size],
            normaliser,
            [candidates[i : i + count] for i in range(0, rows * count, count)] if count else [],
        )

    def keep(self, rows: Sequence[int]) -> None:
        if len(rows) == self.rows and all(row == place for place, row in enumerate(rows)):
            return
        if rows and not 0 <= min(rows) <= max(rows) < self.rows:
            raise InputError(
                f"Rows to keep must be from 0 to {self.rows - 1}; these go from {min(rows)} to {max(rows)}."
            )
        kept = array("i", rows)
        if self.step_model.library.batch_keep(self.batch, len(rows), _address(kept)) == WRONG_ROWS:
            raise InputError(
                "Rows to keep must be in the order of their sentences, and at most "
                f"{self.width} of each; these are {reprlib.repr(list(rows))}."
            )
        self.rows = len(rows)

    def score(self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        """The log-probability of each token of given targets, all positions at once; the batch must be empty."""
        log_ps = array("f", bytes(4 * sum(map(len, targets))))
        self._read(sources, targets, (), _address(log_ps), None)
        ends = accumulate(map(len, targets))
        return [log_ps[end - len(target) : end].tolist() for target, end in zip(targets, ends, strict=True)]

    def attention(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], heads: Sequence[Head]
    ) -> list[Attention]:
        """The weights of cross-attention heads for given targets; the batch must be empty."""
        shapes = [(len(target), len(heads), len(source)) for source, target in zip(sources, targets, strict=True)]
        sizes = [math.prod(shape) for shape in shapes]
        weights = np.empty(sum(sizes), np.float32)
        self._read(sources, targets, heads, None, weights.ctypes.data)
        return [
            weights[end - size : end].reshape(shape).transpose(1, 0, 2)
            for shape, size, end in zip(shapes, sizes, accumulate(sizes), strict=True)
        ]

    def _read(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        heads: Sequence[Head],
        log_ps: int | None,
        weights: int | None,
    ) -> None:
        """Let the sentences join, read their targets, and leave."""
        vocab_size = self.step_model.vocab_size
        if self.rows or self.width != 1:
            raise InputError("Only a batch of width 1 reads given targets, and it must be empty.")
        if not all(targets):
            raise InputError("A target is empty: it must have at least the end-of-sentence token.")
        lowest, highest = min(map(min, targets), default=0), max(map(max, targets), default=0)
        if lowest < 0 or highest >= vocab_size:
            raise InputError(f"Token ids must be from 0 to {vocab_size - 1}; these go from {lowest} to {highest}.")
        self.check_heads(heads)
        lengths = array("i", map(len, targets))
        tokens = array("i", [token for target in targets for token in target])
        self.join(sources, lengths)
        self.record([heads] * len(sources))
        arrays = (_address(lengths), _address(tokens), log_ps, weights)
        self._check(self.step_model.library.batch_score(self.model, self.batch, len(targets), *arrays))
        self.rows = 0

    def check_heads(self, heads: Iterable[Head]) -> None:
        """Check that the model has these cross-attention heads."""
        config = self.step_model.weights.model.config
        for layer, head in heads:
            if not (0 <= layer < config.decoder_layers and 0 <= head < config.n_heads):
                raise InputError(
                    f"The model has no head {head} in decoder layer {layer}: it has {config.decoder_layers} decoder "
                    f"layers with {config.n_heads} heads each, counted from 0."
                )

    def record(self, heads: Sequence[Sequence[Head]]) -> None:
        """Let the newest sentences record the weights of these cross-attention heads, for each its own."""
        counts = array("i", map(len, heads))
        if not any(counts):
            return
        numbers = array("i", [number for sentence_heads in heads for head in sentence_heads for number in head])
        self._check(self.step_model.library.batch_record(self.batch, len(heads), _address(counts), _address(numbers)))

    def _check(self, result: int) -> None:
        """Raise an error if a call failed.

        A batch whose step ended midway is discarded: some of its sentences are ahead of others, or missing.
        """
        if result == TOO_LONG:
            raise InputError("A target already has its maximum length, which was given when its sentence joined.")
        if result == WRONG_ROWS:
            raise InputError("There is no unfinished sentence in the batch, or not one token for each row.")
        if result == WRONG_LIST:
            raise InputError(
                "Each sentence that joined last needs a list of tokens of the model, sorted and without duplicates; in "
                "a batch either all sentences have one or none."
            )
        if result in (NO_MEMORY, NO_MEMORY_IN_SEARCH, NOT_FINITE):
            self._discard_batch()
            _check_memory(result == NOT_FINITE)
            raise InputError(NAN_LOGITS_MESSAGE)


class NativeBatchSearch:
    """Batch beam search in C; a call returns when a sentence is finished. Bitwise the same results as decoding.beam."""

    def __init__(self, step_model: NativeStepModel, settings: Beam, suppress: Sequence[int]) -> None:
        self._session = NativeStepSession(step_model, settings.width)
        self._library = step_model.library
        self._never = never_mask(suppress, step_model.vocab_size)
        self._settings = settings
        self._recorded: dict[int, tuple[int, int]] = {}
        """By task number: heads and source tokens of the attention weights that are recorded."""
        self._beam = CBeam(
            eos=step_model.eos,
            width=settings.width,
            n_best=settings.n_best,
            keep_greedy=settings.keep_greedy,
            looked_at=min(settings.candidates_per_row, step_model.vocab_size),
            never=_address(self._never) if self._never else None,
            length_penalty=settings.length_penalty,
        )

    def join(self, tasks: Sequence[SearchTask]) -> None:
        session = self._session
        session.check_heads({head for task in tasks for head in task.request.heads})
        session.join([task.request.source for task in tasks], [task.rules.limit for task in tasks])
        lists = token_lists(session.step_model, tasks)
        if lists is not None:
            session.restrict(lists)
        numbers = array("i", [task.number for task in tasks])
        min_lengths = array("i", [task.rules.min_length for task in tasks])
        prefix_lengths = array("i", [len(task.rules.prefix) for task in tasks])
        prefixes = array("i", [token for task in tasks for token in task.rules.prefix] or [0])
        addresses = [_address(values) for values in (numbers, min_lengths, prefix_lengths, prefixes)]
        session._check(self._library.batch_search(session.batch, byref(self._beam), len(tasks), *addresses))
        session.record([task.request.heads for task in tasks])
        self._recorded |= {task.number: (len(task.request.heads), len(task.request.source)) for task in tasks}

    def advance(self) -> list[SearchResult]:
        session = self._session
        if not session.rows:
            raise InputError("There is no sentence in the batch: one must join before the search can advance.")
        finished = self._library.batch_advance(session.model, session.batch, byref(self._beam), MAX_STEPS_PER_CALL)
        if finished < 0:
            session._check(finished)
        session.rows -= finished  # here its sentences, since their rows change in C
        return [self._result(i) for i in range(finished)]

    def _result(self, i: int) -> SearchResult:
        number, n_best = array("i", [0]), self._settings.n_best
        lengths, scores = array("i", bytes(4 * n_best)), array("d", bytes(8 * n_best))
        batch, first = self._session.batch, [_address(values) for values in (number, lengths, scores)]
        self._library.batch_found(batch, i, 0, *first, None, None)
        size = max(lengths)
        tokens, log_ps = array("i", bytes(4 * n_best * size)), array("f", bytes(4 * n_best * size))
        count = self._library.batch_found(batch, i, size, *first, _address(tokens), _address(log_ps))
        hypotheses, recorded = [], self._recorded.pop(number[0])
        for k in range(count):
            part = slice(k * size, k * size + lengths[k])
            attention = self._attention(i, k, (lengths[k], *recorded)) if recorded[0] else None
            hypotheses.append(Hypothesis(tokens[part].tolist(), log_ps[part].tolist(), scores[k], attention))
        return number[0], hypotheses

    def _attention(self, i: int, k: int, shape: tuple[int, int, int]) -> Attention:
        weights = np.empty(shape, np.float32)
        self._library.batch_attention(self._session.batch, i, k, weights.ctypes.data)
        return weights.transpose(1, 0, 2)


def never_mask(tokens: Sequence[int], vocab_size: int) -> "array[int]":
    """One byte per token of the vocabulary: whether it is among `tokens`; empty if there are none."""
    if not tokens:
        return array("B")
    if min(tokens) < 0 or max(tokens) >= vocab_size:
        raise InputError(
            f"Suppressed token ids must be from 0 to {vocab_size - 1}; these go from {min(tokens)} to {max(tokens)}."
        )
    mask = array("B", bytes(vocab_size))
    for token in tokens:
        mask[token] = 1
    return mask


def _address(values: "array[Any]") -> int:
    return values.buffer_info()[0]


def _check_memory(allocated: int) -> None:
    if not allocated:
        raise InputError(
            "There is not enough memory to translate this many sentences at once: use a smaller batch size."
        )
