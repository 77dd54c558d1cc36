"""What decoding remembers between two steps. Rows are sentences, or hypotheses of a beam.

Knows keys, values and cells; knows nothing of the modules that make them.
"""

from dataclasses import dataclass

from glassformer.model.attention import KeyValues
from glassformer.model.dims import Bool, Float, Int, Tensor

FIRST_CAPACITY = 16


class KVCache:
    """One layer's own keys and values so far, in buffers with room to spare: a step writes, it does not copy."""

    def __init__(self) -> None:
        self.length = 0
        self._buffers: KeyValues | None = None

    def extend(self, new: KeyValues) -> KeyValues:
        """Write the new positions behind the old and return all of them, as views."""
        buffers = self._with_room_for(new)
        end = self.length + new.k.shape[2]
        for buffer, values in zip(buffers, new, strict=True):
            buffer[:, :, self.length : end] = values
        self.length = end
        return KeyValues(buffers.k[:, :, :end], buffers.v[:, :, :end])

    def reorder(self, rows: Int[Tensor, " R"]) -> "KVCache":
        """The past of the named rows, in their order; a row may come twice, or not at all."""
        chosen = KVCache()
        if self._buffers is not None:
            k, v = (buffer[:, :, : self.length].index_select(0, rows) for buffer in self._buffers)
            chosen.extend(KeyValues(k, v))
        return chosen

    def _with_room_for(self, new: KeyValues) -> KeyValues:
        batch, heads, more, d_head = new.k.shape
        needed = self.length + more
        if self._buffers is None or self._buffers.k.shape[2] < needed:
            # Doubling: each position is moved less than twice on average, however long the sentence grows.
            capacity = max(FIRST_CAPACITY, 1 << (needed - 1).bit_length())
            k, v = (new.k.new_empty(batch, heads, capacity, d_head) for _ in range(2))
            if self._buffers is not None:
                k[:, :, : self.length] = self._buffers.k[:, :, : self.length]
                v[:, :, : self.length] = self._buffers.v[:, :, : self.length]
            self._buffers = KeyValues(k, v)
        return self._buffers


@dataclass
class RecurrentState:
    """What a recurrent layer remembers: one vector, however long the target."""

    length: int = 0
    cell: Float[Tensor, "B D"] | None = None
    """None before the first position."""

    def reorder(self, rows: Int[Tensor, " R"]) -> "RecurrentState":
        """The past of the named rows, in their order."""
        return RecurrentState(self.length, None if self.cell is None else self.cell.index_select(0, rows))


Past = KVCache | RecurrentState


@dataclass
class DecoderState:
    """A decoding under way: `Transformer.start` makes it, each `Transformer.step` grows it in place."""

    source: list[KeyValues]
    """Each decoder layer's own K and V of the encoder's output, made once."""
    source_visible: Bool[Tensor, "B S"]
    past: list[Past]
    """Each decoder layer's K and V of the target so far, or its cell."""

    @property
    def length(self) -> int:
        """Target positions already seen."""
        return self.past[0].length

    def reorder(self, rows: Int[Tensor, " R"]) -> "DecoderState":
        """A new state of the named rows: reordered for beams, repeated, or with finished sentences left out."""
        return DecoderState(
            source=[KeyValues(k.index_select(0, rows), v.index_select(0, rows)) for k, v in self.source],
            source_visible=self.source_visible.index_select(0, rows),
            past=[past.reorder(rows) for past in self.past],
        )
