"""The parts of the Transformer as ONNX nodes: each method is one module's `forward`, with its names.

Knows nothing of what stands in which file.
"""

from typing import Any, NamedTuple

import torch
from torch import nn

from glassformer.interop.onnx_export.onnx_graph import Graph
from glassformer.model import Transformer
from glassformer.model.attention import Attention
from glassformer.model.layers import AddNorm, FeedForward, Norm, Recurrence
from glassformer.model.positions import LearnedPositions, RelativeBias, SinusoidalPositions, distance_bucket
from glassformer.model.stack import Stack

LOWEST = torch.finfo(torch.float32).min
"""Added to the score of what may not be seen: finite, since a row of -∞ alone would become 0/0."""
LIKE = torch.empty(0, dtype=torch.float32)
"""What fixed tables are to be like."""


class OnnxRotation(NamedTuple):
    """What queries and keys are turned by."""

    cos: str
    sin: str


class OnnxPositionTerms(NamedTuple):
    """How order enters self-attention: what is added to the scores, and the turns of q and k where there are any."""

    mask: str
    turn: OnnxRotation | None


class OnnxLayers(Graph):
    """A graph that can be given a Transformer's parts."""

    def __init__(self, model: Transformer, longest: int) -> None:
        super().__init__(model)
        self.longest = longest
        """Rows of the tables that are fixed: sine waves and rotations."""

    def linear(self, linear: nn.Linear, x: str, name: str) -> str:
        place = self.place(linear)
        # Written as it is and turned here, so that it keeps its shape and may be an embedding too; a runtime does this
        # once, when it opens the file.
        columns = self.node(f"{place}.columns", "Transpose", self.weight(linear.weight), perm=[1, 0])
        if linear.bias is None:
            return self.node(name, "MatMul", x, columns)
        product = self.node(f"{place}.product", "MatMul", x, columns)
        return self.node(name, "Add", product, self.weight(linear.bias))

    def norm(self, norm: Norm, x: str) -> str:
        place = self.place(norm)
        weight = self.weight(norm.weight)
        if norm.bias is not None:
            bias = self.weight(norm.bias)
            return self.node(f"{place}.output", "LayerNormalization", x, weight, bias, axis=-1, epsilon=norm.eps)
        squares = self.node(f"{place}.squares", "Pow", x, self.number(2))
        mean = self.node(f"{place}.mean", "ReduceMean", squares, self.whole(-1))
        more = self.node(f"{place}.more", "Add", mean, self.number(norm.eps))
        root = self.node(f"{place}.root", "Sqrt", more)
        unit = self.node(f"{place}.unit", "Div", x, root)
        return self.node(f"{place}.output", "Mul", unit, weight)

    def before(self, norm: AddNorm, x: str) -> str:
        return self.norm(norm, x) if norm.norm_first else x

    def after(self, norm: AddNorm, x: str, y: str) -> str:
        x = self.node(f"{self.place(norm)}.residual", "Add", x, y)
        return x if norm.norm_first else self.norm(norm, x)

    def feed_forward(self, part: FeedForward, x: str) -> str:
        place = self.place(part)
        hidden = self.linear(part.up_proj, x, f"{place}.up_proj.output")
        if part.gate_proj is None:
            hidden = self.activate(hidden, part.activation, f"{place}.hidden")
        else:
            gate = self.linear(part.gate_proj, x, f"{place}.gate_proj.output")
            gate = self.activate(gate, part.activation, f"{place}.gate")
            hidden = self.node(f"{place}.hidden", "Mul", gate, hidden)
        return self.linear(part.down_proj, hidden, f"{place}.output")

    def activate(self, x: str, kind: str, name: str) -> str:
        match kind:
            case "relu":
                return self.node(name, "Relu", x)
            case "gelu":
                return self.node(name, "Gelu", x)
            case "gelu-tanh":
                return self.node(name, "Gelu", x, approximate="tanh")
            case "silu":
                return self.node(name, "Mul", x, self.node(f"{name}.sigmoid", "Sigmoid", x))
        raise AssertionError(kind)

    def heads(self, attention: Attention, which: str, x: str, turn: OnnxRotation | None = None) -> str:
        """q, k or v, split into heads, and turned by their positions where they are."""
        name, linear = f"{self.place(attention)}.{which}", getattr(attention, f"{which}_proj")
        d_head = linear.out_features // attention.n_heads
        x = self.linear(linear, x, f"{name}_proj.output")
        x = self.node(f"{name}_proj.split", "Reshape", x, self.whole(0, 0, attention.n_heads, d_head))  # 0: as it is
        if turn is None:
            return self.node(name, "Transpose", x, perm=[0, 2, 1, 3])
        return self.rotate(self.node(f"{name}_proj.heads", "Transpose", x, perm=[0, 2, 1, 3]), turn, name)

    def rotate(self, x: str, turn: OnnxRotation, name: str) -> str:
        left, right = self.nodes((f"{name}.left", f"{name}.right"), "Split", x, axis=-1, num_outputs=2)
        crossed = self.node(f"{name}.crossed", "Concat", self.node(f"{name}.minus", "Neg", right), left, axis=-1)
        straight = self.node(f"{name}.cos", "Mul", x, turn.cos)
        return self.node(name, "Add", straight, self.node(f"{name}.sin", "Mul", crossed, turn.sin))

    def attention(
        self, attention: Attention, x: str, k: str, v: str, mask: str, turn: OnnxRotation | None = None
    ) -> str:
        place = self.place(attention)
        q = self.heads(attention, "q", x, turn)
        if attention.scale != 1.0:
            q = self.node(f"{place}.q.scaled", "Mul", q, self.number(attention.scale))
        across = self.node(f"{place}.k.across", "Transpose", k, perm=[0, 1, 3, 2])
        product = self.node(f"{place}.product", "MatMul", q, across)
        scores = self.node(f"{place}.scores", "Add", product, mask)
        weights = self.node(f"{place}.weights", "Softmax", scores, axis=-1)
        context = self.node(f"{place}.context", "MatMul", weights, v)
        rows = self.node(f"{place}.context.rows", "Transpose", context, perm=[0, 2, 1, 3])
        merged = self.node(f"{place}.merged", "Reshape", rows, self.whole(0, 0, attention.out_proj.in_features))
        return self.linear(attention.out_proj, merged, f"{place}.output")

    def recurrence(self, part: Recurrence, x: str, past: str, grown: str) -> str:
        place = self.place(part)
        candidate = self.linear(part.candidate_proj, x, f"{place}.candidate")
        forget = self.linear(part.forget_proj, x, f"{place}.forget_proj.output")
        forget = self.node(f"{place}.forget", "Sigmoid", forget)
        remember = self.node(f"{place}.remember", "Sub", self.number(1), forget)
        new = self.node(f"{place}.new", "Mul", remember, candidate)

        # Positions come first: not every runtime scans along another axis.
        keep, add = (self.node(f"{name}.scanned", "Transpose", name, perm=[1, 0, 2]) for name in (forget, new))
        step = self.recurrence_step(part)
        _, cells = self.nodes((grown, f"{place}.cells"), "Scan", past, keep, add, body=step, num_scan_inputs=2)
        cell = self.node(f"{place}.cell", "Transpose", cells, perm=[1, 0, 2])
        return self.node(f"{place}.output", "Relu", cell)

    def recurrence_step(self, part: Recurrence) -> Any:
        """keep * before + add: the graph of one position."""
        step, place, axes = Graph(part), f"{self.place(part)}.step", ("B", part.forget_proj.out_features)
        before, keep, add = (step.input(f"{place}.{name}", "FLOAT", axes) for name in ("before", "keep", "add"))
        after = step.node(f"{place}.after", "Add", step.node(f"{place}.kept", "Mul", keep, before), add)
        for name in (after, step.node(f"{place}.cell", "Identity", after)):  # to go on with, and to hand out
            step.output(name, "FLOAT", axes)
        return step.proto(place)

    def embed(self, stack: Stack[Any], ids: str, present: str, positions: str) -> str:
        place, embedding = self.place(stack), stack.embedding
        x = self.node(f"{place}.embedding.rows", "Gather", self.weight(embedding.weight), ids)
        x = self.node(f"{place}.embedding.output", "Mul", x, self.number(embedding.scale))
        if stack.position is not None:
            x = self.node(f"{place}.placed", "Add", x, self.position(stack.position, positions))
        if stack.embedding_norm is not None:
            x = self.norm(stack.embedding_norm, x)
        present = self.node(f"{place}.present", "Unsqueeze", present, self.whole(2))
        return self.node(f"{place}.input", "Where", present, x, self.number(0))

    def position(self, position: SinusoidalPositions | LearnedPositions, positions: str) -> str:
        place = self.place(position)
        if isinstance(position, LearnedPositions):
            table = self.weight(position.weight)
            positions = self.node(f"{place}.row", "Add", positions, self.scalar(position.offset))
        else:
            table = self.table(f"{place}.table", position(0, self.longest, like=LIKE))
        return self.node(f"{place}.output", "Gather", table, positions)

    def order(self, stack: Stack[Any], positions: str, keys: str, seen: str) -> OnnxPositionTerms:
        """For queries at these positions and keys at those, of which `seen` tells what may be looked at."""
        place = self.place(stack)
        if stack.relative_bias is not None:
            bias = self.relative_bias(stack.relative_bias, positions, keys)
            return OnnxPositionTerms(self.mask(f"{place}.mask", seen, bias), None)
        mask = self.mask(f"{place}.mask", seen, self.number(0))
        table = stack.order(0, self.longest, like=LIKE).turn
        if table is None:
            return OnnxPositionTerms(mask, None)
        cos, sin = (self.table(f"{place}.{name}.table", own) for name, own in zip(("cos", "sin"), table, strict=True))
        return OnnxPositionTerms(
            mask,
            OnnxRotation(
                self.node(f"{place}.cos", "Gather", cos, positions),
                self.node(f"{place}.sin", "Gather", sin, positions),
            ),
        )

    def relative_bias(self, part: RelativeBias, positions: str, keys: str) -> str:
        """The bucket of each distance stands in a table: from `most` on, all distances are in one."""
        place, most = self.place(part), part.max_distance
        buckets = distance_bucket(torch.arange(-most, most + 1)[None], len(part.weight), most, part.both_ways)[0]
        queries = self.node(f"{place}.queries", "Unsqueeze", positions, self.whole(1))
        distance = self.node(f"{place}.distance", "Sub", keys, queries)
        near = self.node(f"{place}.near", "Clip", distance, self.scalar(-most), self.scalar(most))
        entry = self.node(f"{place}.entry", "Add", near, self.scalar(most))
        bucket = self.node(f"{place}.bucket", "Gather", self.table(f"{place}.buckets", buckets), entry)
        rows = self.node(f"{place}.rows", "Gather", self.weight(part.weight), bucket)
        return self.node(f"{place}.output", "Transpose", rows, perm=[2, 0, 1])

    def mask(self, name: str, seen: str, bias: str) -> str:
        return self.node(name, "Where", seen, bias, self.number(LOWEST))

    def finish(self, stack: Stack[Any], x: str) -> str:
        return x if stack.final_norm is None else self.norm(stack.final_norm, x)

    def length(self, x: str, axis: int) -> str:
        size = self.node(f"{x}.size", "Shape", x, start=axis, end=axis + 1)
        return self.node(f"{x}.length", "Squeeze", size)

    def range(self, name: str, first: str, end: str) -> str:
        return self.node(name, "Range", first, end, self.scalar(1))
