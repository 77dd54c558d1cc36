"""A model's weights as the native engine reads them: packed panels in the requested precision, and pointers to them."""

import math
from ctypes import CDLL, byref, c_uint8
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.engine.engine_options import PRECISIONS, Precision
from glassformer.engine.native_structs import ACTIVATIONS, CLayer, CModel, CNorm, CProduct, CStack
from glassformer.errors import InputError
from glassformer.interop.capabilities import check_supported
from glassformer.model import ModelWeights
from glassformer.model.parameter_shapes import stored_name
from glassformer.model.position_kinds import position_kind
from glassformer.model.saved_tensor import rounded

FIRST_POSITIONS = 1024
"""Initial length of the position tables; longer ones are made when a sentence needs them."""
MAX_INT8_INPUTS = (2**31 - 1) // (255 * 127)
"""Maximum number of inputs of an int8 product: its sums of byte products have 32 bits."""
MAX_VALUES = {
    "float32": float(np.finfo("float32").max),
    "bfloat16": (2 - 2.0**-7) * 2.0**127,
    "float16": float(np.finfo("float16").max),
}
Array = NDArray[Any]


class WeightArena:
    """Memory for the matrices, contiguous in the order in which they are used."""

    CHUNK_BYTES = 64 * 2**20  # pages that are never written take no memory

    def __init__(self, library: CDLL) -> None:
        self._library = library
        self._chunks: list[int] = []
        self._left = 0

    def put(self, array: Array, dtype: str) -> int:
        """Copy an array as this type; returns the address of the copy, which is stable."""
        n_bytes = array.size * np.dtype(dtype).itemsize
        size = -(-n_bytes // 64) * 64
        if size > self._left:
            self._left = max(self.CHUNK_BYTES, size)
            chunk = self._library.memory_new(self._left)
            if not chunk:
                raise InputError("There is not enough memory for this model: use a smaller precision, such as int8.")
            self._chunks.append(chunk)
            self._next = chunk
        address = self._next
        memory = (c_uint8 * n_bytes).from_address(address)
        np.frombuffer(memoryview(memory), dtype).reshape(array.shape)[...] = array
        self._next, self._left = address + size, self._left - size
        return address

    def __del__(self) -> None:
        for chunk in self._chunks:
            self._library.memory_free(chunk)


class PackedWeights:
    """The packed weights of one model. Several batches may read them at once."""

    def __init__(self, model: ModelWeights, precision: Precision, library: CDLL) -> None:
        check_supported("the C engine", model.config)
        check_finite(model, precision)
        self.model = model
        self.precision = precision
        self.panel: int = library.panel_columns()
        self._arena = WeightArena(library)
        self._referenced: list[Any] = []  # keeps alive what the structures point to
        self._by_length: dict[int, CModel] = {}
        config = model.config
        cross_attentions = [f"decoder.layers.{i}.cross_attention" for i in range(config.decoder_layers)]
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
            scale=1 / math.sqrt(config.d_head) if config.scale_scores else 1.0,
            embedding_scale=math.sqrt(config.d_model) if config.scale_embeddings else 1.0,
            output_scale=config.d_model**-0.5 if config.scale_output else 1.0,
            encoder=self._stack("encoder", config.encoder_layers),
            decoder=self._stack("decoder", config.decoder_layers),
            cross_kv=self._product(*(f"{name}.{part}" for name in cross_attentions for part in ("k_proj", "v_proj"))),
            output=self._product("output_projection"),
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

    def _with_tables(self, rows: int) -> CModel:
        """A copy of the C struct with tables for positions 0 to rows - 1."""
        config, dtype = self.model.config, self.model.dtype
        kind, offset = position_kind(config), config.position_offset
        packed = CModel.from_buffer_copy(self._packed)
        packed.length = rows
        if kind.rotation is not None:
            packed.cos, packed.sin = map(self._pointer, rounded(kind.rotation(config, rows), dtype))
        table = None if kind.layout is None else rounded(kind.layout(offset + rows, config.d_model), dtype)
        for side, stack in ((packed.encoder, "encoder"), (packed.decoder, "decoder")):
            if kind.adds:
                added = self.model[f"{stack}.position.weight"] if table is None else table
                side.positions = self._pointer(added[offset : offset + rows])
            if kind.biases:
                biases = self._biases(stack, rows)
                side.bias = self._pointer(np.stack(biases))
                side.bias_stride = biases[0].size if len(biases) > 1 else 0
        return packed

    def _biases(self, stack: str, rows: int) -> list[Array]:
        """The biases (H, 2 rows - 1) of all distances: one for all layers of a stack, or one per layer."""
        config, kind = self.model.config, position_kind(self.model.config)
        layers = config.encoder_layers if stack == "encoder" else config.decoder_layers
        places = [stack] if kind.bias == "stack" else [f"{stack}.layers.{i}" for i in range(layers)]
        distances = np.arange(1 - rows, rows)
        return [
            kind.bias_table(config, self.model.get(f"{place}.relative_bias.weight"), distances, stack == "encoder")
            for place in places
        ]

    def _stack(self, stack: str, n_layers: int) -> CStack:
        layers = (CLayer * n_layers)(*(self._layer(f"{stack}.layers.{i}") for i in range(n_layers)))
        self._referenced.append(layers)
        return CStack(
            table=self._pointer(self.model[f"{stack}.embedding.weight"]),
            embedding_norm=self._norm(f"{stack}.embedding_norm"),
            final_norm=self._norm(f"{stack}.final_norm"),
            layers=layers,
            n_layers=n_layers,
        )

    def _layer(self, layer: str) -> CLayer:
        """A layer by its name; the decoder's have cross-attention, and perhaps a recurrence for self-attention."""
        packed = CLayer(
            feed_forward_norm=self._norm(f"{layer}.feed_forward_norm"),
            up=self._hidden(f"{layer}.feed_forward"),
            down=self._product(f"{layer}.feed_forward.down_proj"),
        )
        is_decoder = layer.startswith("decoder")
        if is_decoder and self.model.config.decoder_ssru:
            unit = f"{layer}.recurrence"
            packed.self_norm = self._norm(f"{layer}.recurrence_norm")
            packed.qkv = self._product(f"{unit}.candidate_proj", f"{unit}.forget_proj", separate_panels=True)
        else:
            packed.self_norm = self._norm(f"{layer}.self_attention_norm")
            packed.qkv = self._product(*(f"{layer}.self_attention.{letter}_proj" for letter in "qkv"))
            packed.out = self._product(f"{layer}.self_attention.out_proj")
        if is_decoder:
            packed.cross_norm = self._norm(f"{layer}.cross_attention_norm")
            packed.cross_q = self._product(f"{layer}.cross_attention.q_proj")
            packed.cross_out = self._product(f"{layer}.cross_attention.out_proj")
        return packed

    def _hidden(self, feed_forward: str) -> CProduct:
        """First matrix product of a feed-forward; if it is gated, the gate's panels come before those of `up`."""
        up = f"{feed_forward}.up_proj"
        if not self.model.config.gated:
            return self._product(up)
        return self._product(f"{feed_forward}.gate_proj", up, separate_panels=True)

    def _norm(self, norm: str) -> CNorm:
        """A norm by its name; null pointers for a norm, or a bias, that the model does not have."""
        parts = (self.model.get(f"{norm}.weight"), self.model.get(f"{norm}.bias"))
        return CNorm(*(None if part is None else self._pointer(_pad_rows(part, self.panel)) for part in parts))

    def _product(self, *linears: str, separate_panels: bool = False) -> CProduct:
        """Pack matrices with the same input as one product; with `separate_panels`, each starts a new panel."""
        multiple = self.panel if separate_panels else 1
        weights = [self.model[f"{linear}.weight"].astype(np.float32, copy=False) for linear in linears]
        biases = [self._bias(linear, len(weight)) for linear, weight in zip(linears, weights, strict=True)]
        weight = _pad_rows(_joined([_pad_rows(weight, multiple) for weight in weights]), self.panel)
        bias = _pad_rows(_joined([_pad_rows(bias, multiple) for bias in biases]), self.panel)
        packed = CProduct(
            precision=PRECISIONS.index(self.precision),
            inputs=weight.shape[1],
            outputs=weight.shape[0],
            bias=self._pointer(bias),
        )
        if self.precision == "int8":
            if weight.shape[1] > MAX_INT8_INPUTS:
                raise InputError(
                    f"A matrix of this model has {weight.shape[1]:,} inputs; int8 allows at most {MAX_INT8_INPUTS:,}. "
                    "Use float32 or float16."
                )
            steps, scale = quantise_rows(weight)
            packed.scale = self._pointer(scale)
            packed.sums = self._pointer(128 * steps.sum(1, dtype=np.int32))
            steps = np.pad(steps, ((0, 0), (0, -steps.shape[1] % 4)))
            fours = steps.reshape(-1, self.panel, steps.shape[1] // 4, 4)
            packed.weight = self._arena.put(fours.swapaxes(1, 2), "int8")
        elif self.precision == "bfloat16":
            pairs = bfloat16_bits(np.pad(weight, ((0, 0), (0, weight.shape[1] % 2))))
            pairs = pairs.reshape(-1, self.panel, pairs.shape[1] // 2, 2)
            packed.weight = self._arena.put(pairs.swapaxes(1, 2), "uint16")
        else:
            panels = weight.reshape(-1, self.panel, weight.shape[1]).swapaxes(1, 2)
            packed.weight = self._arena.put(panels, self.precision)
        return packed

    def _bias(self, linear: str, outputs: int) -> Array:
        bias = self.model.get(f"{linear}.bias")
        return np.zeros(outputs, np.float32) if bias is None else bias

    def _pointer(self, array: Array) -> int:
        """The address of the array's numbers, which are kept alive: int32 as they are, others as float32."""
        dtype = array.dtype if array.dtype == np.int32 else np.float32
        array = np.require(array, dtype, ["C_CONTIGUOUS", "ALIGNED"])
        self._referenced.append(array)
        return array.ctypes.data


def check_finite(model: ModelWeights, precision: Precision) -> None:
    """Check that every weight is a finite number, also in this precision: one pass over them."""
    for name in model.tensors:
        weight = model[name]
        if not weight.size:
            continue
        lowest, highest = float(weight.min()), float(weight.max())
        largest = max(-lowest, highest)
        if not (math.isfinite(largest) and math.isfinite(lowest)):
            raise InputError(
                f"The weight {name} contains values that are not numbers (NaN or infinite): the model is damaged. Use "
                "another copy of it."
            )
        is_matrix = name.endswith("_proj.weight") or name == stored_name(model.config, "output_projection.weight")
        stored: Precision = precision if is_matrix and precision in MAX_VALUES else "float32"
        if largest > MAX_VALUES[stored]:
            raise InputError(
                f"The weight {name} contains a number of size {largest:.3g}, which is too large for {stored}: use a "
                "larger precision, or another copy of the model."
            )


def quantise_rows(x: Array) -> tuple[Array, Array]:
    """Quantise each row to integers from -127 to 127; returns them and each row's scale, the value of one step.

    The same numbers as `reduced_precision.quantise_rows` computes in PyTorch.
    """
    largest = np.maximum(x.max(1, keepdims=True), -x.min(1, keepdims=True))
    # Torch computes 127 / x as 127 times the rounded 1 / x; of a smaller number that would be infinite.
    inverse = np.float32(127) * np.divide(np.float32(1), largest, out=np.zeros_like(largest), where=largest > 1e-36)
    steps = x * inverse
    return np.rint(steps, out=steps).astype(np.int8), largest / np.float32(127)


def bfloat16_bits(x: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bits of finite float32 numbers rounded to bfloat16, to nearest even: NumPy has no such type."""
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def _pad_rows(x: Array, multiple: int) -> Array:
    """Append rows of zeros up to a multiple of this number."""
    missing = -len(x) % multiple
    return np.concatenate([x, np.zeros((missing, *x.shape[1:]), x.dtype)]) if missing else x


def _joined(arrays: list[Array]) -> Array:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
