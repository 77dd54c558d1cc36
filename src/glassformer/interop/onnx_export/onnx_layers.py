"""The Transformer's modules as ONNX nodes: each method is one module's `forward`, with the same tensor names.

Which nodes go into which file is decided in `onnx_writer`.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from glassformer.interop.onnx_export.onnx_graph import Graph
from glassformer.model import Transformer
from glassformer.model.attention import Attention
from glassformer.model.layers import AddNorm, FeedForward, Norm, Recurrence
from glassformer.model.position_kinds import distance_bucket
from glassformer.model.positions import LearnedPositions, RelativeBias, SinusoidalPositions, rotations
from glassformer.model.stack import Stack

MASKED_SCORE = torch.finfo(torch.float32).min
"""The score of masked positions: finite, since softmax of a row of -∞ would be 0/0."""
ACTIVATIONS = {"relu": ("Relu", {}), "gelu": ("Gelu", {}), "gelu-tanh": ("Gelu", {"approximate": "tanh"})}
"""Operators of activations, with their attributes; ONNX has none for silu."""
LIKE = torch.empty(0, dtype=torch.float32)
"""Tensor that gives constant tables their device and dtype."""


class OnnxRotation(NamedTuple):
    """Cosines and sines of the rotary angles of queries and keys."""

    cos: str
    sin: str


class OnnxPositionTerms(NamedTuple):
    """Position terms of self-attention: the score mask with relative biases, and the rotation of q and k, if any."""

    mask: str
    rotation: OnnxRotation | None


class OnnxLayers(Graph):
    """A graph builder with a method per module of the Transformer."""

    def __init__(self, model: Transformer, max_tokens: int) -> None:
        super().__init__(model)
        self.max_tokens = max_tokens
        """Number of rows of the constant tables of sinusoids and rotations."""

    def linear(self, linear: nn.Linear, x: str, name: str) -> str:
        prefix = self.name_of(linear)
        # Transposed in the graph, so that the weight keeps its shape and can be shared with an embedding; a runtime
        # does this once, when it loads the file.
        columns = self.node(f"{prefix}.columns", "Transpose", self.weight(linear.weight), perm=[1, 0])
        if linear.bias is None:
            return self.node(name, "MatMul", x, columns)
        product = self.node(f"{prefix}.product", "MatMul", x, columns)
        return self.node(name, "Add", product, self.weight(linear.bias))

    def norm(self, norm: Norm, x: str) -> str:
        prefix = self.name_of(norm)
        weight = self.weight(norm.weight)
        if norm.bias is not None:
            bias = self.weight(norm.bias)
            return self.node(f"{prefix}.output", "LayerNormalization", x, weight, bias, axis=-1, epsilon=norm.eps)
        squares = self.node(f"{prefix}.squares", "Pow", x, self.float_scalar(2))
        mean = self.node(f"{prefix}.mean", "ReduceMean", squares, self.int_list(-1))
        more = self.node(f"{prefix}.more", "Add", mean, self.float_scalar(norm.eps))
        root = self.node(f"{prefix}.root", "Sqrt", more)
        unit = self.node(f"{prefix}.unit", "Div", x, root)
        return self.node(f"{prefix}.output", "Mul", unit, weight)

    def before(self, norm: AddNorm, x: str) -> str:
        return self.norm(norm, x) if norm.norm_first else x

    def after(self, norm: AddNorm, x: str, y: str) -> str:
        x = self.node(f"{self.name_of(norm)}.residual", "Add", x, y)
        return x if norm.norm_first else self.norm(norm, x)

    def feed_forward(self, part: FeedForward, x: str) -> str:
        prefix = self.name_of(part)
        hidden = self.linear(part.up_proj, x, f"{prefix}.up_proj.output")
        if part.gate_proj is None:
            hidden = self.activate(hidden, part.activation, f"{prefix}.hidden")
        else:
            gate = self.linear(part.gate_proj, x, f"{prefix}.gate_proj.output")
            gate = self.activate(gate, part.activation, f"{prefix}.gate")
            hidden = self.node(f"{prefix}.hidden", "Mul", gate, hidden)
        return self.linear(part.down_proj, hidden, f"{prefix}.output")

    def activate(self, x: str, kind: str, name: str) -> str:
        if kind == "silu":
            return self.node(name, "Mul", x, self.node(f"{name}.sigmoid", "Sigmoid", x))
        operator, attributes = ACTIVATIONS[kind]
        return self.node(name, operator, x, **attributes)

    def heads(self, attention: Attention, which: str, x: str, rotation: OnnxRotation | None = None) -> str:
        """Nodes for q, k or v, split into heads, with rotary positions if `rotation` is given."""
        name, linear = f"{self.name_of(attention)}.{which}", getattr(attention, f"{which}_proj")
        d_head = linear.out_features // attention.n_heads
        x = self.linear(linear, x, f"{name}_proj.output")
        shape = self.int_list(0, 0, attention.n_heads, d_head)  # 0: unchanged
        x = self.node(f"{name}_proj.split", "Reshape", x, shape)
        if rotation is None:
            return self.node(name, "Transpose", x, perm=[0, 2, 1, 3])
        return self.rotate(self.node(f"{name}_proj.heads", "Transpose", x, perm=[0, 2, 1, 3]), rotation, name)

    def rotate(self, x: str, rotation: OnnxRotation, name: str) -> str:
        left, right = self.nodes((f"{name}.left", f"{name}.right"), "Split", x, axis=-1, num_outputs=2)
        crossed = self.node(f"{name}.crossed", "Concat", self.node(f"{name}.minus", "Neg", right), left, axis=-1)
        straight = self.node(f"{name}.cos", "Mul", x, rotation.cos)
        return self.node(name, "Add", straight, self.node(f"{name}.sin", "Mul", crossed, rotation.sin))

    def attention(
        self, attention: Attention, x: str, k: str, v: str, mask: str, rotation: OnnxRotation | None = None
    ) -> str:
        prefix = self.name_of(attention)
        q = self.heads(attention, "q", x, rotation)
        if attention.scale != 1.0:
            q = self.node(f"{prefix}.q.scaled", "Mul", q, self.float_scalar(attention.scale))
        across = self.node(f"{prefix}.k.across", "Transpose", k, perm=[0, 1, 3, 2])
        product = self.node(f"{prefix}.product", "MatMul", q, across)
        scores = self.node(f"{prefix}.scores", "Add", product, mask)
        weights = self.node(f"{prefix}.weights", "Softmax", scores, axis=-1)
        context = self.node(f"{prefix}.context", "MatMul", weights, v)
        rows = self.node(f"{prefix}.context.rows", "Transpose", context, perm=[0, 2, 1, 3])
        merged = self.node(f"{prefix}.merged", "Reshape", rows, self.int_list(0, 0, attention.out_proj.in_features))
        return self.linear(attention.out_proj, merged, f"{prefix}.output")

    def recurrence(self, part: Recurrence, x: str, past: str, present: str) -> str:
        prefix = self.name_of(part)
        candidate = self.linear(part.candidate_proj, x, f"{prefix}.candidate")
        forget = self.linear(part.forget_proj, x, f"{prefix}.forget_proj.output")
        forget = self.node(f"{prefix}.forget", "Sigmoid", forget)
        remember = self.node(f"{prefix}.remember", "Sub", self.float_scalar(1), forget)
        new = self.node(f"{prefix}.new", "Mul", remember, candidate)

        # Positions first: not every runtime can scan along another axis.
        keep, add = (self.node(f"{name}.scanned", "Transpose", name, perm=[1, 0, 2]) for name in (forget, new))
        step = self.recurrence_step(part)
        _, cells = self.nodes((present, f"{prefix}.cells"), "Scan", past, keep, add, body=step, num_scan_inputs=2)
        cell = self.node(f"{prefix}.cell", "Transpose", cells, perm=[1, 0, 2])
        return self.node(f"{prefix}.output", "Relu", cell)

    def recurrence_step(self, part: Recurrence) -> Any:
        """Subgraph of one step of the recurrence: keep * before + add."""
        step, prefix, axes = Graph(part), f"{self.name_of(part)}.step", ("B", part.forget_proj.out_features)
        before, keep, add = (step.input(f"{prefix}.{name}", "FLOAT", axes) for name in ("before", "keep", "add"))
        after = step.node(f"{prefix}.after", "Add", step.node(f"{prefix}.kept", "Mul", keep, before), add)
        for name in (after, step.node(f"{prefix}.cell", "Identity", after)):  # the next state, and the output
            step.output(name, "FLOAT", axes)
        return step.proto(prefix)

    def embed(self, stack: Stack[Any], ids: str, token_mask: str, positions: str) -> str:
        prefix, embedding = self.name_of(stack), stack.embedding
        x = self.node(f"{prefix}.embedding.rows", "Gather", self.weight(embedding.weight), ids)
        x = self.node(f"{prefix}.embedding.output", "Mul", x, self.float_scalar(embedding.scale))
        if stack.position is not None:
            x = self.node(f"{prefix}.placed", "Add", x, self.position(stack.position, positions))
        if stack.embedding_norm is not None:
            x = self.norm(stack.embedding_norm, x)
        token_mask = self.node(f"{prefix}.token_mask", "Unsqueeze", token_mask, self.int_list(2))
        return self.node(f"{prefix}.input", "Where", token_mask, x, self.float_scalar(0))

    def position(self, position: SinusoidalPositions | LearnedPositions, positions: str) -> str:
        prefix = self.name_of(position)
        if isinstance(position, LearnedPositions):
            table = self.weight(position.weight)
            positions = self.node(f"{prefix}.row", "Add", positions, self.int_scalar(position.offset))
        else:
            table = self.table(f"{prefix}.table", position(0, self.max_tokens, like=LIKE))
        return self.node(f"{prefix}.output", "Gather", table, positions)

    def position_terms(self, stack: Stack[Any], positions: str, keys: str, seen: str) -> list[OnnxPositionTerms]:
        """Position terms of each layer for queries at `positions`, keys at `keys`; `seen`: which may be attended to."""
        named = {self.name_of(bias).removesuffix(".relative_bias"): bias for bias in stack.relative_biases}
        masks = [self.mask(f"{name}.mask", seen, self.bias(bias, positions, keys)) for name, bias in named.items()]
        masks = masks or [self.mask(f"{self.name_of(stack)}.mask", seen, self.float_scalar(0))]
        rotation = self.rotation(stack, positions)
        return [OnnxPositionTerms(mask, rotation) for mask in masks] * (len(stack.layers) // len(masks))

    def rotation(self, stack: Stack[Any], positions: str) -> OnnxRotation | None:
        table = rotations(stack.config, 0, self.max_tokens, LIKE)
        if table is None:
            return None
        names = [f"{self.name_of(stack)}.{name}" for name in ("cos", "sin")]
        tables = [self.table(f"{name}.table", angles) for name, angles in zip(names, table, strict=True)]
        cos, sin = (self.node(name, "Gather", rows, positions) for name, rows in zip(names, tables, strict=True))
        return OnnxRotation(cos, sin)

    def bias(self, part: RelativeBias, positions: str, keys: str) -> str:
        """Nodes for the relative bias: a table gives the bucket of each distance; from `limit` on, all share one."""
        prefix, limit = self.name_of(part), part.max_distance
        distances = np.arange(-limit, limit + 1)
        buckets = torch.from_numpy(distance_bucket(distances, len(part.weight), limit, part.bidirectional))
        queries = self.node(f"{prefix}.queries", "Unsqueeze", positions, self.int_list(1))
        distance = self.node(f"{prefix}.distance", "Sub", keys, queries)
        near = self.node(f"{prefix}.near", "Clip", distance, self.int_scalar(-limit), self.int_scalar(limit))
        entry = self.node(f"{prefix}.entry", "Add", near, self.int_scalar(limit))
        bucket = self.node(f"{prefix}.bucket", "Gather", self.table(f"{prefix}.buckets", buckets), entry)
        rows = self.node(f"{prefix}.rows", "Gather", self.weight(part.weight), bucket)
        return self.node(f"{prefix}.output", "Transpose", rows, perm=[2, 0, 1])

    def mask(self, name: str, seen: str, bias: str) -> str:
        return self.node(name, "Where", seen, bias, self.float_scalar(MASKED_SCORE))

    def finish(self, stack: Stack[Any], x: str) -> str:
        return x if stack.final_norm is None else self.norm(stack.final_norm, x)

    def length(self, x: str, axis: int) -> str:
        size = self.node(f"{x}.size", "Shape", x, start=axis, end=axis + 1)
        return self.node(f"{x}.length", "Squeeze", size)

    def range(self, name: str, first: str, end: str) -> str:
        return self.node(name, "Range", first, end, self.int_scalar(1))
