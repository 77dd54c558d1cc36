"""Step-by-step computation of one attention head at one query position, each step recomputed from the step before.

Works on a trace alone, without the model.
"""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from glassformer.inspection.explanation.query_position import QueryPosition, check
from glassformer.inspection.tracing.trace import Trace
from glassformer.model.dims import Tensor
from glassformer.model.position_kinds import position_kind
from glassformer.model.positions import rotate, rotations


@dataclass(frozen=True)
class Vector:
    """A vector with a label."""

    name: str
    numbers: Tensor


@dataclass(frozen=True)
class AttentionStep:
    """One step of an attention: inputs, output (the last of `vectors`), and the error when it is recomputed."""

    name: str
    title: str
    formula: str
    vectors: list[Vector]
    differs: float | None
    """Largest difference between the recorded result and the one recomputed in float64 from the numbers shown.

    None if that needs parameters that the trace was saved without."""
    note: str = ""


@dataclass(frozen=True)
class Key:
    """One key position of an attention: k, q · k, bias, score, weight and v."""

    position: int
    piece: str
    k: Tensor
    product: float
    """Dot product q · k, before scale and bias."""
    bias: float
    """The relative position bias; 0 in models without one."""
    score: float
    """Attention score: the input to the softmax."""
    weight: float
    v: Tensor


@dataclass(frozen=True)
class AttentionWalk:
    """All steps of one attention head at one query position."""

    place: QueryPosition
    piece: str
    """The query's token; in the decoder, the input token."""
    writes: str | None
    """In the decoder, the output token at this position."""
    keys: list[Key]
    """Visible key positions; later target positions are masked."""
    hidden: int
    """Number of masked positions."""
    scale: float
    steps: list[AttentionStep]

    def step(self, name: str) -> AttentionStep:
        return next(step for step in self.steps if step.name == name)


def walk(trace: Trace, place: QueryPosition) -> AttentionWalk:
    """All steps of an attention head at a query position: embedding, q, k, scores, softmax, v, outputs, residual."""
    check(trace, place)
    steps = _Steps(trace, place)
    decoder = place.stack == "decoder"
    return AttentionWalk(
        place,
        piece=(trace.reads if decoder else trace.source)[place.position],
        writes=trace.target[place.position] if decoder else None,
        keys=steps.keys,
        hidden=len(steps.key_pieces) - len(steps.keys),
        scale=steps.scale,
        steps=[
            steps.embedding(),
            steps.input(),
            steps.query(),
            steps.key_step(),
            steps.scores(),
            steps.softmax(),
            steps.value_step(),
            steps.context(),
            steps.contribution(),
            steps.output(),
            steps.residual(),
        ],
    )


class _Steps:
    """The steps of one attention head at one query position, one method per step, and what several of them use."""

    def __init__(self, trace: Trace, place: QueryPosition) -> None:
        self.trace, self.place, self.config, self.crosses = trace, place, trace.config, place.crosses
        self.scale = 1 / math.sqrt(self.config.d_head) if self.config.scale_scores else 1.0
        self.x_symbol = "norm(x)" if self.config.norm_first else "x"
        self.memory_symbol = "memory" if place.crosses else self.x_symbol
        """What keys and values are computed from, as written in formulas."""
        self.rotates = position_kind(self.config).rotates and not place.crosses
        self.key_pieces = trace.source if place.crosses or place.stack == "encoder" else trace.reads
        self.bias = self._bias()
        self.keys = self._keys()

    def embedding(self) -> AttentionStep:
        trace, stack, i, config = self.trace, self.place.stack, self.place.position, self.config
        token = (trace.about.source.ids if stack == "encoder" else [config.bos_id, *trace.about.target.ids])[i]
        table = trace.parameter(f"{stack}.embedding.weight")
        scaled, recorded = trace[f"{stack}.embedding.output"][i], trace[f"{stack}.input"][i]
        scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
        row = scaled.double() / scale if table is None else table[token]
        vectors = [Vector(f"embedding table, row {token}", row)]
        if config.scale_embeddings:
            vectors.append(Vector(f"× √{config.d_model}", scaled))
        total, note, formula = scaled.double(), "", "embedding"
        if f"{stack}.position.output" in trace:
            position = trace[f"{stack}.position.output"][i]
            vectors.append(Vector(f"+ position {i}", position))
            total, formula = total + position.double(), "embedding + position"
        else:
            rotates = position_kind(config).rotates
            effect = "rotates q and k by their positions" if rotates else "adds a bias to the scores"
            note = f"No position embedding: self-attention {effect}."
        x = self._norm(f"{stack}.embedding_norm", total) if config.embedding_norm else total
        formula = f"x = norm({formula})" if config.embedding_norm else f"x = {formula}"
        vectors.append(Vector("normalised: x" if config.embedding_norm else "= x", recorded))
        gap = worst(None if table is None else _gap(row.double() * scale, scaled), _gap(x, recorded))
        return AttentionStep("embedding", "Token embedding", formula, vectors, gap, note)

    def input(self) -> AttentionStep:
        before, name = self._before()
        recorded, title = self._at("input"), f"Input x, from {name}"
        if not self.config.norm_first:
            formula = "x is not normalised here (post-norm)"
            return AttentionStep("input", title, formula, [Vector("x", recorded)], _gap(before, recorded))
        gap = _gap(self._norm(f"{self.place.at}_norm", before.double()), recorded)
        vectors = [Vector("x", before), Vector("norm(x)", recorded)]
        return AttentionStep("input", f"{title}, normalised", self._norm_formula(), vectors, gap)

    def query(self) -> AttentionStep:
        q, recorded = self._projected("q", self._at("input")[None], self.place.position), self._head_at("q")
        columns = f"the {self.config.d_head} columns of head {self.place.head}"
        formula = f"q = {self.x_symbol} W_Q{self._b('Q')}: {columns}"
        note = "Then q and each k are rotated by their positions (rotary)." if self.rotates else ""
        return AttentionStep("query", "Query", formula, [Vector("q", recorded)], _gap(q, recorded[None]), note)

    def key_step(self) -> AttentionStep:
        memory, name = self._memory()
        gap = _gap(self._projected("k", memory), self._tap("k")[self.place.head])
        formula = f"k = {self.memory_symbol} W_K{self._b('K')}"
        note = "W_K and W_V are this decoder layer's own, applied to the encoder's output." if self.crosses else ""
        vectors = [Vector(key.piece, key.k) for key in self.keys]
        return AttentionStep("keys", f"Keys: one per {name}", formula, vectors, gap, note)

    def scores(self) -> AttentionStep:
        recomputed = _float64([key.product * self.scale + key.bias for key in self.keys])
        recorded = _float64([key.score for key in self.keys])
        formula = f"score = q · k{f' ÷ √{self.config.d_head}' if self.config.scale_scores else ', not divided by √K'}"
        formula += "" if self.bias is None else " + relative position bias"
        gap = _gap(recomputed, recorded)
        return AttentionStep("scores", "Scores: q · k for every key", formula, [Vector("scores", recorded)], gap)

    def softmax(self) -> AttentionStep:
        recorded = _float64([key.weight for key in self.keys])
        gap = _gap(_float64([key.score for key in self.keys]).softmax(0), recorded)
        formula = "weight = e^score ÷ the sum of all e^score (softmax)"
        return AttentionStep("softmax", "Scores and attention weights", formula, [Vector("weights", recorded)], gap)

    def value_step(self) -> AttentionStep:
        memory, name = self._memory()
        gap = _gap(self._projected("v", memory), self._tap("v")[self.place.head])
        formula = f"v = {self.memory_symbol} W_V{self._b('V')}"
        vectors = [Vector(key.piece, key.v) for key in self.keys]
        return AttentionStep("values", f"Values: one per {name}", formula, vectors, gap)

    def context(self) -> AttentionStep:
        z = self._head_at("context")
        gap = _gap(torch.stack([key.weight * key.v.double() for key in self.keys]).sum(0), z)
        return AttentionStep("context", "z: weighted sum of the values", "z = Σ weight × v", [Vector("= z", z)], gap)

    def contribution(self) -> AttentionStep:
        head, z, recorded = self.place.head, self._head_at("context"), self._head_at("heads_out")
        w_o = self._head_part("out_proj.weight")
        gap = None if w_o is None else _gap(w_o.double() @ z.double(), recorded)
        formula = f"z × the {self.config.d_head} rows of W_O of head {head}"
        vectors = [Vector("z", z), Vector(f"z × W_O of head {head}", recorded)]
        return AttentionStep("share", "Contribution of this head", formula, vectors, gap)

    def output(self) -> AttentionStep:
        contributions, recorded = self._tap("heads_out")[:, self.place.position], self._at("output")
        total = contributions.double().sum(0)
        vectors = [Vector(f"{'+ ' if h else ''}head {h}", vector) for h, vector in enumerate(contributions)]
        bias = self.trace.parameter(f"{self.place.at}.out_proj.bias")
        if bias is not None:
            vectors.append(Vector("+ b_O", bias))
            total = total + bias.double()
        vectors.append(Vector("= output", recorded))
        gap = None if bias is None and self.config.linear_bias else _gap(total, recorded)
        formula = f"the sum of the contributions of all {self.config.n_heads} heads{self._b('O')}"
        return AttentionStep("output", "Output: all heads added up", formula, vectors, gap)

    def residual(self) -> AttentionStep:
        before, output, name = self._before()[0], self._at("output"), f"{self.place.at}_norm"
        recorded = self.trace[f"{name}.residual"][self.place.position]
        gap = _gap(before.double() + output.double(), recorded)
        vectors = [Vector("x", before), Vector("+ output", output), Vector("= x + output", recorded)]
        formula = "x + output (normalised before attention: pre-norm)"
        if not self.config.norm_first:
            after = self.trace[f"{name}.output"][self.place.position]
            gap = worst(gap, _gap(self._norm(name, recorded.double()), after))
            vectors.append(Vector("normalised", after))
            formula = f"norm(x + output); {self._norm_formula()}"
        return AttentionStep("residual", "Residual connection: x is added", formula, vectors, gap)

    def _tap(self, name: str) -> Tensor:
        return self.trace[f"{self.place.at}.{name}"]

    def _at(self, name: str) -> Tensor:
        """The value of one of the attention's taps at the query position."""
        return self._tap(name)[self.place.position]

    def _head_at(self, name: str) -> Tensor:
        """The value of one of the attention's taps in this head, at the query position."""
        return self._tap(name)[self.place.head, self.place.position]

    def _keys(self) -> list[Key]:
        q, scores, weights = self._head_at("q").double(), self._head_at("scores"), self._head_at("weights")
        k, v = self._tap("k")[self.place.head], self._tap("v")[self.place.head]
        bias = torch.zeros(len(k)) if self.bias is None else self.bias
        return [
            Key(j, piece, k[j], float(q @ k[j].double()), float(bias[j]), float(scores[j]), float(weights[j]), v[j])
            for j, piece in enumerate(self.key_pieces)
            if scores[j] > -math.inf
        ]

    def _bias(self) -> Tensor | None:
        stack = self.place.stack
        for owner in (stack, f"{stack}.layers.{self.place.layer}"):  # all layers have the same bias, or each its own
            name = f"{owner}.relative_bias.output"
            if name in self.trace and not self.crosses:
                return self.trace[name][self.place.head, self.place.position]
        return None

    def _before(self) -> tuple[Tensor, str]:
        """The input vector x of the attention sub-layer (before its norm), and the name of the module it comes from."""
        stack, number = self.place.stack, self.place.layer
        if self.crosses:
            name = f"{stack}.layers.{number}.{'recurrence' if self.config.decoder_ssru else 'self_attention'}"
            tap = f"{name}_norm.{'residual' if self.config.norm_first else 'output'}"
        elif number == 0:
            name = tap = f"{stack}.input"
        else:
            name = f"{stack}.layers.{number - 1}"
            tap = f"{name}.hidden"
        return self.trace[tap][self.place.position], name

    def _memory(self) -> tuple[Tensor, str]:
        """The vectors that keys and values are computed from, and what each of them stands for."""
        if self.crosses:
            return self.trace["memory"], "source token, from the encoder's output (memory)"
        return self._tap("input"), "visible token"

    def _head_part(self, name: str) -> Tensor | None:
        """The head's part of a parameter as torch stores it: rows of W_Q, W_K and W_V, columns of W_O."""
        parameter = self.trace.parameter(f"{self.place.at}.{name}")
        if parameter is None:
            return None
        return parameter.split(self.config.d_head, dim=1 if name.startswith("out_proj") else 0)[self.place.head]

    def _projected(self, letter: str, x: Tensor, first: int = 0) -> Tensor | None:
        """x × this head's part of W_Q, W_K or W_V, with its bias, and rotated from position `first` on."""
        matrix, bias = self._head_part(f"{letter}_proj.weight"), self._head_part(f"{letter}_proj.bias")
        if matrix is None:
            return None
        product = x.double() @ matrix.double().T
        product = product if bias is None else product + bias.double()
        angles = rotations(self.config, first, len(x), product)
        if angles is None or letter == "v" or self.crosses:
            return product
        return rotate(product[None, None], angles)[0, 0]

    def _norm(self, name: str, x: Tensor) -> Tensor | None:
        weight, bias = self.trace.parameter(f"{name}.weight"), self.trace.parameter(f"{name}.bias")
        if weight is None:
            return None
        if bias is None:
            return F.rms_norm(x, weight.shape, weight.double(), self.config.norm_eps)
        return F.layer_norm(x, weight.shape, weight.double(), bias.double(), self.config.norm_eps)

    def _norm_formula(self) -> str:
        if self.config.norm == "rms":
            return "norm(x) = x ÷ √(mean of x²) × weight"
        return "norm(x) = (x - mean) ÷ standard deviation × weight + bias"

    def _b(self, letter: str) -> str:
        return f" + b_{letter}" if self.config.linear_bias else ""


def _float64(numbers: list[float]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def _gap(recomputed: Tensor | None, recorded: Tensor) -> float | None:
    """The largest difference; None for what could not be recomputed."""
    return None if recomputed is None else float((recomputed.double() - recorded.double()).abs().max())


def worst(*gaps: float | None) -> float | None:
    """The largest of some differences; None if one of them is unknown."""
    known = [gap for gap in gaps if gap is not None]
    return max(known) if len(known) == len(gaps) else None
