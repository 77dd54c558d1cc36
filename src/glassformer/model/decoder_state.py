"""Decoder state between two steps: key/value caches or recurrent cells. Rows are sentences, or hypotheses of a beam.

Independent of the modules that compute the keys, values and cells.
"""

from dataclasses import dataclass

from glassformer.model.attention import KeyValues
from glassformer.model.dims import Bool, Float, Int, Tensor

INITIAL_CAPACITY = 16
"""Number of positions that a new KV cache has memory for, unless more are announced."""


class KVCache:
    """KV cache of one layer, in buffers with spare capacity: a step writes in place and does not copy.

    `capacity`: number of positions to have memory for from the start.
    """

    def __init__(self, capacity: int = INITIAL_CAPACITY) -> None:
        self.length = 0
        self.capacity = capacity
        self._buffers: KeyValues | None = None

    def extend(self, new: KeyValues) -> KeyValues:
        """Append keys and values of new positions; returns those of all positions, as views."""
        buffers = self._reserve(new)
        end = self.length + new.k.shape[2]
        for buffer, values in zip(buffers, new, strict=True):
            buffer[:, :, self.length : end] = values
        self.length = end
        return KeyValues(buffers.k[:, :, :end], buffers.v[:, :, :end])

    def reorder(self, rows: Int[Tensor, " R"]) -> "KVCache":
        """A cache of the given rows, in that order; a row may occur several times, or not at all."""
        reordered = KVCache(self.capacity)
        if self._buffers is not None:
            k, v = (buffer[:, :, : self.length].index_select(0, rows) for buffer in self._buffers)
            reordered.extend(KeyValues(k, v))
        return reordered

    def _reserve(self, new: KeyValues) -> KeyValues:
        batch, heads, more, d_head = new.k.shape
        needed = self.length + more
        if self._buffers is None or self._buffers.k.shape[2] < needed:
            # Doubling: each position is moved less than twice on average, however long the sentence grows.
            if self.capacity < needed:
                self.capacity = 1 << (needed - 1).bit_length()
            k, v = (new.k.new_empty(batch, heads, self.capacity, d_head) for _ in range(2))
            if self._buffers is not None:
                k[:, :, : self.length] = self._buffers.k[:, :, : self.length]
                v[:, :, : self.length] = self._buffers.v[:, :, : self.length]
            self._buffers = KeyValues(k, v)
        return self._buffers


@dataclass
class RecurrentState:
    """State of a recurrent layer: one vector per row, whatever the target's length."""

    length: int = 0
    cell: Float[Tensor, "B D"] | None = None
    """The recurrent cell; None before the first position."""

    def reorder(self, rows: Int[Tensor, " R"]) -> "RecurrentState":
        """The state of the given rows, in that order."""
        return RecurrentState(self.length, None if self.cell is None else self.cell.index_select(0, rows))


Past = KVCache | RecurrentState


@dataclass
class DecoderState:
    """State of incremental decoding: `Transformer.start` creates it, each `Transformer.step` extends it in place."""

    source: list[KeyValues]
    """Each decoder layer's own K and V of the encoder's output, computed once."""
    source_visible: Bool[Tensor, "B S"]
    past: list[Past]
    """Each decoder layer's K and V of the target so far, or its recurrent cell."""

    @property
    def length(self) -> int:
        """Number of target positions decoded so far."""
        return self.past[0].length

    def reorder(self, rows: Int[Tensor, " R"]) -> "DecoderState":
        """A new state of the given rows: reordered for beams, repeated, or without finished sentences."""
        return DecoderState(
            source=[KeyValues(k.index_select(0, rows), v.index_select(0, rows)) for k, v in self.source],
            source_visible=self.source_visible.index_select(0, rows),
            past=[past.reorder(rows) for past in self.past],
        )
