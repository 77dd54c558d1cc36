"""A model's weights as the native engine reads them: packed panels in the requested precision, and pointers to them."""

from ctypes import CDLL, byref, memmove
from typing import Any, cast

import torch
from torch import Tensor, nn

from glassformer.engine.engine_options import PRECISIONS, Precision
from glassformer.engine.native_structs import ACTIVATIONS, CLayer, CModel, CNorm, CProduct, CStack
from glassformer.engine.reduced_precision import quantise_rows
from glassformer.errors import InputError
from glassformer.interop.capabilities import check_supported
from glassformer.model import Transformer
from glassformer.model.decoder import Decoder
from glassformer.model.encoder import Encoder
from glassformer.model.layers import DecoderLayer, EncoderLayer, FeedForward, Norm
from glassformer.model.positions import position_kind

FIRST_POSITIONS = 1024
"""Initial length of the position tables; longer ones are made when a sentence needs them."""


class WeightArena:
    """Memory for the matrices, contiguous in the order in which they are used."""

    CHUNK_BYTES = 64 * 2**20  # pages that are never written take no memory

    def __init__(self, library: CDLL) -> None:
        self._library = library
        self._chunks: list[int] = []
        self._left = 0

    def put(self, tensor: Tensor) -> int:
        """Copy a tensor; returns the address of the copy, which is stable."""
        tensor = tensor.contiguous()
        size = -(-tensor.nbytes // 64) * 64
        if size > self._left:
            self._left = max(self.CHUNK_BYTES, size)
            chunk = self._library.memory_new(self._left)
            if not chunk:
                raise InputError("There is not enough memory for this model: use a smaller precision, such as int8.")
            self._chunks.append(chunk)
            self._next = chunk
        address = self._next
        memmove(address, tensor.data_ptr(), tensor.nbytes)
        self._next, self._left = address + size, self._left - size
        return address

    def __del__(self) -> None:
        for chunk in self._chunks:
            self._library.memory_free(chunk)


class PackedWeights:
    """The packed weights of one model. Several batches may read them at once."""

    @torch.no_grad()
    def __init__(self, model: Transformer, precision: Precision, library: CDLL) -> None:
        check_supported("the C engine", model.config)
        self.model = model
        self.precision = precision
        self.panel: int = library.panel_columns()
        self._arena = WeightArena(library)
        self._referenced: list[Any] = []  # keeps alive what the structures point to
        self._by_length: dict[int, CModel] = {}
        config = model.config
        decoder_layers = cast("list[DecoderLayer]", list(model.decoder.layers))
        sources = [(layer.cross_attention.k_proj, layer.cross_attention.v_proj) for layer in decoder_layers]
        self._packed = CModel(
            d_model=config.d_model,
            heads=config.n_heads,
            d_head=config.d_head,
            d_ff=config.d_ff,
            vocab_size=config.vocab_size,
            bos=config.bos_id,
            norm_first=config.norm_first,
            activation=ACTIVATIONS.index(config.activation),
            gated=config.gated,
            eps=config.norm_eps,
            recurrent=config.decoder_ssru,
            scale=decoder_layers[0].cross_attention.scale,
            embedding_scale=model.encoder.embedding.scale,
            output_scale=config.d_model**-0.5 if config.scale_output else 1.0,
            encoder=self._stack(model.encoder),
            decoder=self._stack(model.decoder),
            cross_kv=self._product(*(linear for pair in sources for linear in pair)),
            output=self._product(model.output_projection),
        )

    @property
    def columns(self) -> int:
        """Columns of a row of logits: the vocabulary rounded up to whole panels."""
        return int(self._packed.output.outputs)

    def for_length(self, length: int) -> Any:
        """A pointer to the model, with tables for at least this many positions."""
        max_tokens = self.model.config.max_tokens
        rows = max(FIRST_POSITIONS, 1 << (length - 1).bit_length())
        rows = rows if max_tokens is None else min(rows, max_tokens)
        if rows not in self._by_length:
            self._by_length[rows] = self._with_tables(rows)
        return byref(self._by_length[rows])

    @torch.no_grad()
    def _with_tables(self, rows: int) -> CModel:
        """A copy of the C struct with tables for positions 0 to rows - 1, computed by the PyTorch model."""
        config = self.model.config
        packed = CModel.from_buffer_copy(self._packed)
        packed.length = rows
        like = self.model.encoder.embedding.weight
        rotation = position_kind(config).rotation(config, 0, rows, like)
        if rotation is not None:
            packed.cos, packed.sin = map(self._pointer, rotation)
        for side, stack in ((packed.encoder, self.model.encoder), (packed.decoder, self.model.decoder)):
            if stack.position is not None:
                side.positions = self._pointer(stack.position(0, rows, like))
            # The query in the middle of 2 rows - 1 keys has all distances.
            biases = [bias(rows - 1, 1, 2 * rows - 1)[:, 0] for bias in stack.relative_biases]
            if biases:
                side.bias = self._pointer(torch.stack(biases))
                side.bias_stride = biases[0].numel() if len(biases) > 1 else 0
        return packed

    def _stack(self, stack: Encoder | Decoder) -> CStack:
        layers = (CLayer * len(stack.layers))(*(self._layer(layer) for layer in stack.layers))
        self._referenced.append(layers)
        return CStack(
            table=self._pointer(stack.embedding.weight),
            embedding_norm=self._norm(stack.embedding_norm),
            final_norm=self._norm(stack.final_norm),
            layers=layers,
            n_layers=len(layers),
        )

    def _layer(self, layer: EncoderLayer | DecoderLayer) -> CLayer:
        packed = CLayer(
            feed_forward_norm=self._norm(layer.feed_forward_norm),
            up=self._hidden(layer.feed_forward),
            down=self._product(layer.feed_forward.down_proj),
        )
        if isinstance(layer, DecoderLayer) and layer.recurrent:
            unit = layer.recurrence
            packed.self_norm = self._norm(layer.recurrence_norm)
            packed.qkv = self._product(unit.candidate_proj, unit.forget_proj, separate_panels=True)
        else:
            attention = layer.self_attention
            packed.self_norm = self._norm(layer.self_attention_norm)
            packed.qkv = self._product(attention.q_proj, attention.k_proj, attention.v_proj)
            packed.out = self._product(attention.out_proj)
        if isinstance(layer, DecoderLayer):
            packed.cross_norm = self._norm(layer.cross_attention_norm)
            packed.cross_q = self._product(layer.cross_attention.q_proj)
            packed.cross_out = self._product(layer.cross_attention.out_proj)
        return packed

    def _hidden(self, feed_forward: FeedForward) -> CProduct:
        """First matrix product of a feed-forward; if it is gated, the gate's panels come before those of `up`."""
        up, gate = feed_forward.up_proj, feed_forward.gate_proj
        if gate is None:
            return self._product(up)
        return self._product(gate, up, separate_panels=True)

    def _norm(self, norm: Norm | None) -> CNorm:
        if norm is None:
            return CNorm(None, None)
        parts = (norm.weight, norm.bias)
        return CNorm(*(None if part is None else self._pointer(_pad_rows(part.detach(), self.panel)) for part in parts))

    def _product(self, *linears: nn.Linear, separate_panels: bool = False) -> CProduct:
        """Pack matrices with the same input as one product; with `separate_panels`, each starts a new panel."""
        multiple = self.panel if separate_panels else 1
        weight = torch.cat([_pad_rows(linear.weight.detach().float().cpu(), multiple) for linear in linears])
        bias = torch.cat([_pad_rows(_bias(linear), multiple) for linear in linears])
        weight, bias = _pad_rows(weight, self.panel), _pad_rows(bias, self.panel)
        packed = CProduct(
            precision=PRECISIONS.index(self.precision),
            inputs=weight.shape[1],
            outputs=weight.shape[0],
            bias=self._pointer(bias),
        )
        if self.precision == "int8":
            steps, scale = quantise_rows(weight)
            packed.scale = self._pointer(scale)
            packed.sums = self._pointer((128 * steps.sum(1)).to(torch.int32))
            steps = nn.functional.pad(steps, (0, -steps.shape[1] % 4)).to(torch.int8)
            packed.weight = self._arena.put(steps.view(-1, self.panel, steps.shape[1] // 4, 4).transpose(1, 2))
        else:
            panels = weight.view(-1, self.panel, weight.shape[1]).transpose(1, 2)
            packed.weight = self._arena.put(panels.half() if self.precision == "float16" else panels)
        return packed

    def _pointer(self, tensor: Tensor) -> int:
        """The address of the tensor's numbers, which are kept alive."""
        tensor = tensor.detach().cpu()
        tensor = (tensor.float() if tensor.is_floating_point() else tensor).contiguous()
        self._referenced.append(tensor)
        return tensor.data_ptr()


def _pad_rows(x: Tensor, multiple: int) -> Tensor:
    """Append rows of zeros up to a multiple of this number."""
    return torch.cat([x, x.new_zeros(-len(x) % multiple, *x.shape[1:])])


def _bias(linear: nn.Linear) -> Tensor:
    if linear.bias is None:
        return torch.zeros(linear.out_features)
    return linear.bias.detach().float().cpu()
