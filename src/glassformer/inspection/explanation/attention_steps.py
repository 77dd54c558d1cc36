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
from glassformer.model.positions import position_kind, rotate


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
    i = place.position
    keys, hidden = _keys(trace, place)
    decoder = place.stack == "decoder"
    return AttentionWalk(
        place,
        piece=(trace.reads if decoder else trace.source)[i],
        writes=trace.target[i] if decoder else None,
        keys=keys,
        hidden=hidden,
        scale=_scale(trace),
        steps=[
            _embedded(trace, place),
            _layer_input(trace, place),
            _query(trace, place),
            _key_step(trace, place),
            _scores(trace, place),
            _softmax(trace, place),
            _value_step(trace, place),
            _context(trace, place),
            _contribution(trace, place),
            _output(trace, place),
            _residual(trace, place),
        ],
    )


def _embedded(trace: Trace, place: QueryPosition) -> AttentionStep:
    stack, i, config = place.stack, place.position, trace.config
    ids = trace.about.source.ids if stack == "encoder" else [config.bos_id, *trace.about.target.ids]
    table = trace.parameter(f"{stack}.embedding.weight")
    scaled = trace[f"{stack}.embedding.output"][i]
    scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
    row = scaled.double() / scale if table is None else table[ids[i]]
    vectors = [Vector(f"embedding table, row {ids[i]}", row)]
    if config.scale_embeddings:
        vectors.append(Vector(f"× √{config.d_model}", scaled))
    total = scaled.double()
    note, formula = "", "embedding"
    if f"{stack}.position.output" in trace:
        position = trace[f"{stack}.position.output"][i]
        vectors.append(Vector(f"+ position {i}", position))
        total = total + position.double()
        formula = "embedding + position"
    else:
        rotates = position_kind(config).rotates
        effect = "rotates q and k by their positions" if rotates else "adds a bias to the scores"
        note = f"No position embedding: self-attention {effect}."
    gaps = [None if table is None else _gap(row.double() * scale, scaled)]
    if config.embedding_norm:
        normed = _norm(trace, f"{stack}.embedding_norm", total)
        gaps.append(None if normed is None else _gap(normed, trace[f"{stack}.input"][i]))
        vectors.append(Vector("normalised: x", trace[f"{stack}.input"][i]))
    else:
        gaps.append(_gap(total, trace[f"{stack}.input"][i]))
        vectors.append(Vector("= x", trace[f"{stack}.input"][i]))
    formula = f"x = norm({formula})" if config.embedding_norm else f"x = {formula}"
    return AttentionStep("embedding", "Token embedding", formula, vectors, _worst(gaps), note)


def _layer_input(trace: Trace, place: QueryPosition) -> AttentionStep:
    before, name = _before(trace, place)
    recorded = trace[f"{place.at}.input"][place.position]
    if not trace.config.norm_first:
        vector = Vector("x", recorded)
        return AttentionStep(
            "input", f"Input x, from {name}", "x is not normalised here (post-norm)", [vector], _gap(before, recorded)
        )
    normed = _norm(trace, f"{place.at}_norm", before.double())
    vectors = [Vector("x", before), Vector("norm(x)", recorded)]
    gap = None if normed is None else _gap(normed, recorded)
    return AttentionStep("input", f"Input x, from {name}, normalised", _norm_formula(trace), vectors, gap)


def _query(trace: Trace, place: QueryPosition) -> AttentionStep:
    x, recorded = trace[f"{place.at}.input"][place.position], trace[f"{place.at}.q"][place.head, place.position]
    q = _projected(trace, place, "q", x[None])
    if q is not None and _is_rotated(trace, place):
        q = _rotated(trace, q, place.position)
    formula = f"q = {_input(trace)} W_Q{_b(trace, 'Q')}: the {trace.config.d_head} columns of head {place.head}"
    note = "Then q and each k are rotated by their positions (rotary)." if _is_rotated(trace, place) else ""
    gap = None if q is None else _gap(q[0], recorded)
    return AttentionStep("query", "Query", formula, [Vector("q", recorded)], gap, note)


def _key_step(trace: Trace, place: QueryPosition) -> AttentionStep:
    memory, name = _memory(trace, place)
    recorded = trace[f"{place.at}.k"][place.head]
    k = _projected(trace, place, "k", memory)
    if k is not None and _is_rotated(trace, place):
        k = _rotated(trace, k)
    keys, _ = _keys(trace, place)
    gap = None if k is None else _gap(k, recorded)
    note = "W_K and W_V are this decoder layer's own, applied to the encoder's output." if place.crosses else ""
    vectors = [Vector(key.piece, key.k) for key in keys]
    return AttentionStep(
        "keys",
        f"Keys: one per {name}",
        f"k = {_memory_symbol(trace, place)} W_K{_b(trace, 'K')}",
        vectors,
        gap,
        note,
    )


def _scores(trace: Trace, place: QueryPosition) -> AttentionStep:
    keys, _ = _keys(trace, place)
    q = trace[f"{place.at}.q"][place.head, place.position].double()
    recomputed = torch.stack([q @ key.k.double() * _scale(trace) + key.bias for key in keys])
    recorded = torch.tensor([key.score for key in keys], dtype=torch.float64)
    formula = (
        f"score = q · k ÷ √{trace.config.d_head}" if trace.config.scale_scores else "score = q · k, not divided by √K"
    )
    if _bias(trace, place) is not None:
        formula += " + relative position bias"
    return AttentionStep(
        "scores", "Scores: q · k for every key", formula, [Vector("scores", recorded)], _gap(recomputed, recorded)
    )


def _softmax(trace: Trace, place: QueryPosition) -> AttentionStep:
    keys, _ = _keys(trace, place)
    recomputed = torch.tensor([key.score for key in keys], dtype=torch.float64).softmax(0)
    recorded = torch.tensor([key.weight for key in keys], dtype=torch.float64)
    return AttentionStep(
        "softmax",
        "Scores and attention weights",
        "weight = e^score ÷ the sum of all e^score (softmax)",
        [Vector("weights", recorded)],
        _gap(recomputed, recorded),
    )


def _value_step(trace: Trace, place: QueryPosition) -> AttentionStep:
    memory, name = _memory(trace, place)
    v = _projected(trace, place, "v", memory)
    keys, _ = _keys(trace, place)
    vectors = [Vector(key.piece, key.v) for key in keys]
    gap = None if v is None else _gap(v, trace[f"{place.at}.v"][place.head])
    return AttentionStep(
        "values", f"Values: one per {name}", f"v = {_memory_symbol(trace, place)} W_V{_b(trace, 'V')}", vectors, gap
    )


def _context(trace: Trace, place: QueryPosition) -> AttentionStep:
    keys, _ = _keys(trace, place)
    recorded = trace[f"{place.at}.context"][place.head, place.position]
    recomputed = torch.stack([key.weight * key.v.double() for key in keys]).sum(0)
    return AttentionStep(
        "context",
        "z: weighted sum of the values",
        "z = Σ weight × v",
        [Vector("= z", recorded)],
        _gap(recomputed, recorded),
    )


def _contribution(trace: Trace, place: QueryPosition) -> AttentionStep:
    z = trace[f"{place.at}.context"][place.head, place.position]
    recorded = trace[f"{place.at}.heads_out"][place.head, place.position]
    w_o = _head_matrix(trace, place, "out")
    gap = None if w_o is None else _gap(w_o.double() @ z.double(), recorded)
    formula = f"z × the {trace.config.d_head} rows of W_O of head {place.head}"
    vectors = [Vector("z", z), Vector(f"z × W_O of head {place.head}", recorded)]
    return AttentionStep("share", "Contribution of this head", formula, vectors, gap)


def _output(trace: Trace, place: QueryPosition) -> AttentionStep:
    contributions = trace[f"{place.at}.heads_out"][:, place.position]
    recorded = trace[f"{place.at}.output"][place.position]
    total = contributions.double().sum(0)
    vectors = [Vector(f"{'+ ' if h else ''}head {h}", vector) for h, vector in enumerate(contributions)]
    gap: float | None = None
    bias = trace.parameter(f"{place.at}.out_proj.bias")
    if bias is not None:
        vectors.append(Vector("+ b_O", bias))
        total = total + bias.double()
    if bias is not None or not trace.config.linear_bias:
        gap = _gap(total, recorded)
    vectors.append(Vector("= output", recorded))
    bias_term = " + b_O" if trace.config.linear_bias else ""
    formula = f"the sum of the contributions of all {trace.config.n_heads} heads{bias_term}"
    return AttentionStep("output", "Output: all heads added up", formula, vectors, gap)


def _residual(trace: Trace, place: QueryPosition) -> AttentionStep:
    before, _ = _before(trace, place)
    output = trace[f"{place.at}.output"][place.position]
    recorded = trace[f"{place.at}_norm.residual"][place.position]
    gaps: list[float | None] = [_gap(before.double() + output.double(), recorded)]
    vectors = [Vector("x", before), Vector("+ output", output), Vector("= x + output", recorded)]
    formula = "x + output (normalised before attention: pre-norm)"
    if not trace.config.norm_first:
        normed = _norm(trace, f"{place.at}_norm", recorded.double())
        after = trace[f"{place.at}_norm.output"][place.position]
        gaps.append(None if normed is None else _gap(normed, after))
        vectors.append(Vector("normalised", after))
        formula = f"norm(x + output); {_norm_formula(trace)}"
    return AttentionStep("residual", "Residual connection: x is added", formula, vectors, _worst(gaps))


# ---- helpers of the steps --------------------------------------------------------------------------------------------


def _keys(trace: Trace, place: QueryPosition) -> tuple[list[Key], int]:
    at, h, i = place.at, place.head, place.position
    pieces = trace.source if place.crosses or place.stack == "encoder" else trace.reads
    q, bias = trace[f"{at}.q"][h, i].double(), _bias(trace, place)
    scores, weights = trace[f"{at}.scores"][h, i], trace[f"{at}.weights"][h, i]
    k, v = trace[f"{at}.k"][h], trace[f"{at}.v"][h]
    visible = [j for j in range(len(pieces)) if scores[j] > -math.inf]
    keys = [
        Key(
            position=j,
            piece=pieces[j],
            k=k[j],
            product=float(q @ k[j].double()),
            bias=0.0 if bias is None else float(bias[j]),
            score=float(scores[j]),
            weight=float(weights[j]),
            v=v[j],
        )
        for j in visible
    ]
    return keys, len(pieces) - len(visible)


def _bias(trace: Trace, place: QueryPosition) -> Tensor | None:
    for owner in (place.stack, f"{place.stack}.layers.{place.layer}"):  # all layers have the same bias, or each its own
        name = f"{owner}.relative_bias.output"
        if name in trace and not place.crosses:
            return trace[name][place.head, place.position]
    return None


def _before(trace: Trace, place: QueryPosition) -> tuple[Tensor, str]:
    """The input vector x of the attention sub-layer (before its norm), and the name of the module it comes from."""
    stack, layer = place.stack, f"{place.stack}.layers.{place.layer}"
    if place.crosses:
        below = "recurrence" if trace.config.decoder_ssru else "self_attention"
        tap = "residual" if trace.config.norm_first else "output"
        return trace[f"{layer}.{below}_norm.{tap}"][place.position], f"{layer}.{below}"
    if place.layer == 0:
        return trace[f"{stack}.input"][place.position], f"{stack}.input"
    below = f"{stack}.layers.{place.layer - 1}"
    return trace[f"{below}.hidden"][place.position], below


def _memory(trace: Trace, place: QueryPosition) -> tuple[Tensor, str]:
    """The vectors that keys and values are computed from, and what each of them stands for."""
    if place.crosses:
        return trace["memory"], "source token, from the encoder's output (memory)"
    return trace[f"{place.at}.input"], "visible token"


def _memory_symbol(trace: Trace, place: QueryPosition) -> str:
    """What keys and values are computed from, as written in formulas."""
    return "memory" if place.crosses else _input(trace)


def _input(trace: Trace) -> str:
    return "norm(x)" if trace.config.norm_first else "x"


def _head_matrix(trace: Trace, place: QueryPosition, projection: str) -> Tensor | None:
    """The head's part of a projection matrix as torch stores it: rows of W_Q, W_K and W_V, columns of W_O."""
    weight = trace.parameter(f"{place.at}.{projection}_proj.weight")
    width = trace.config.d_head
    head_slice = slice(place.head * width, (place.head + 1) * width)
    if weight is None:
        return None
    return weight[:, head_slice] if projection == "out" else weight[head_slice]


def _projected(trace: Trace, place: QueryPosition, letter: str, x: Tensor) -> Tensor | None:
    matrix = _head_matrix(trace, place, letter)
    if matrix is None:
        return None
    bias = trace.parameter(f"{place.at}.{letter}_proj.bias")
    width = trace.config.d_head
    product = x.double() @ matrix.double().T
    return product if bias is None else product + bias[place.head * width : (place.head + 1) * width].double()


def _is_rotated(trace: Trace, place: QueryPosition) -> bool:
    return position_kind(trace.config).rotates and not place.crosses


def _rotated(trace: Trace, x: Tensor, first: int = 0) -> Tensor:
    angles = position_kind(trace.config).rotation(trace.config, first, len(x), x)
    return x if angles is None else rotate(x[None, None], angles)[0, 0]


def _norm(trace: Trace, name: str, x: Tensor) -> Tensor | None:
    weight, bias = trace.parameter(f"{name}.weight"), trace.parameter(f"{name}.bias")
    if weight is None:
        return None
    if bias is None:
        return F.rms_norm(x, weight.shape, weight.double(), trace.config.norm_eps)
    return F.layer_norm(x, weight.shape, weight.double(), bias.double(), trace.config.norm_eps)


def _norm_formula(trace: Trace) -> str:
    if trace.config.norm == "rms":
        return "norm(x) = x ÷ √(mean of x²) × weight"
    return "norm(x) = (x - mean) ÷ standard deviation × weight + bias"


def _scale(trace: Trace) -> float:
    return 1 / math.sqrt(trace.config.d_head) if trace.config.scale_scores else 1.0


def _b(trace: Trace, letter: str) -> str:
    return f" + b_{letter}" if trace.config.linear_bias else ""


def _gap(recomputed: Tensor, recorded: Tensor) -> float:
    return float((recomputed.double() - recorded.double()).abs().max())


def _worst(gaps: list[float | None]) -> float | None:
    known = [gap for gap in gaps if gap is not None]
    return max(known) if len(known) == len(gaps) else None
