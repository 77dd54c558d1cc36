"""One token's way through one head of one attention, each step with its numbers and redone from the numbers before.

Knows a trace, and no model: what it explains is what was heard.
"""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from glassformer.inspection.explanation.query_position import QueryPosition, check
from glassformer.inspection.tracing.trace import Trace
from glassformer.model.dims import Tensor
from glassformer.model.positions import rotate, turns


@dataclass(frozen=True)
class Vector:
    """A row of numbers with its name."""

    name: str
    numbers: Tensor


@dataclass(frozen=True)
class AttentionStep:
    """One step: what goes in, what comes out (the last of `vectors`), and how well it can be redone."""

    name: str
    title: str
    formula: str
    vectors: list[Vector]
    differs: float | None
    """The largest difference between what was heard and the same redone in float64 from the numbers shown; None where
    weights are needed that the trace was saved without."""
    note: str = ""


@dataclass(frozen=True)
class Key:
    """One position that is looked at."""

    position: int
    piece: str
    k: Tensor
    product: float
    """q · k."""
    bias: float
    """What the relative positions add; 0 where there are none."""
    score: float
    """What goes into the softmax."""
    weight: float
    v: Tensor


@dataclass(frozen=True)
class AttentionWalk:
    """The whole way."""

    place: QueryPosition
    piece: str
    """The piece that looks; in the decoder, the piece that went in."""
    writes: str | None
    """In the decoder, the piece that comes out at this position."""
    keys: list[Key]
    """Those that may be looked at; the future of a target may not."""
    hidden: int
    """Positions that may not be looked at."""
    scale: float
    steps: list[AttentionStep]

    def step(self, name: str) -> AttentionStep:
        return next(step for step in self.steps if step.name == name)


def walk(trace: Trace, place: QueryPosition) -> AttentionWalk:
    """Embedding, query, keys, scores, softmax, values, this head's share, all heads', the way around."""
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
            _arrives(trace, place),
            _query(trace, place),
            _key_step(trace, place),
            _scores(trace, place),
            _softmax(trace, place),
            _value_step(trace, place),
            _context(trace, place),
            _share(trace, place),
            _output(trace, place),
            _around(trace, place),
        ],
    )


def _embedded(trace: Trace, place: QueryPosition) -> AttentionStep:
    stack, i, config = place.stack, place.position, trace.config
    ids = trace.about.source.ids if stack == "encoder" else [config.bos_id, *trace.about.target.ids]
    table = trace.parameter(f"{stack}.embedding.weight")
    scaled = trace[f"{stack}.embedding.output"][i]
    scale = math.sqrt(config.d_model) if config.scale_embeddings else 1.0
    row = scaled.double() / scale if table is None else table[ids[i]]
    vectors = [Vector(f"row {ids[i]} of the table", row)]
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
        kind = "turns q and k by their positions" if config.positions == "rotary" else "adds a bias to the scores"
        note = f"No position is added: self-attention {kind}."
    gaps = [None if table is None else _gap(row.double() * scale, scaled)]
    if config.embedding_norm:
        normed = _norm(trace, f"{stack}.embedding_norm", total)
        gaps.append(None if normed is None else _gap(normed, trace[f"{stack}.input"][i]))
        vectors.append(Vector("normed: x", trace[f"{stack}.input"][i]))
    else:
        gaps.append(_gap(total, trace[f"{stack}.input"][i]))
        vectors.append(Vector("= x", trace[f"{stack}.input"][i]))
    formula = f"x = norm({formula})" if config.embedding_norm else f"x = {formula}"
    return AttentionStep("embedding", "The token becomes a vector", formula, vectors, _worst(gaps), note)


def _arrives(trace: Trace, place: QueryPosition) -> AttentionStep:
    before, name = _before(trace, place)
    heard = trace[f"{place.at}.input"][place.position]
    if not trace.config.norm_first:
        vector = Vector("x", heard)
        return AttentionStep(
            "input", f"x, as it comes from {name}", "the norm comes later", [vector], _gap(before, heard)
        )
    normed = _norm(trace, f"{place.at}_norm", before.double())
    vectors = [Vector("x", before), Vector("norm(x)", heard)]
    gap = None if normed is None else _gap(normed, heard)
    return AttentionStep("input", f"x, as it comes from {name}, is normed", _norm_formula(trace), vectors, gap)


def _query(trace: Trace, place: QueryPosition) -> AttentionStep:
    x, heard = trace[f"{place.at}.input"][place.position], trace[f"{place.at}.q"][place.head, place.position]
    made = _projected(trace, place, "q", x[None])
    if made is not None and _turned(trace, place):
        made = _turn(trace, made[0].expand(place.position + 1, -1))[place.position :]
    formula = f"q = {_input(trace)} W_Q{_b(trace, 'Q')}: the {trace.config.d_head} columns of head {place.head}"
    note = "Then q and each k are turned by their positions (rotary)." if _turned(trace, place) else ""
    gap = None if made is None else _gap(made[0], heard)
    return AttentionStep("query", "Its query: what it looks for", formula, [Vector("q", heard)], gap, note)


def _key_step(trace: Trace, place: QueryPosition) -> AttentionStep:
    memory, name = _memory(trace, place)
    heard = trace[f"{place.at}.k"][place.head]
    made = _projected(trace, place, "k", memory)
    if made is not None and _turned(trace, place):
        made = _turn(trace, made)
    keys, _ = _keys(trace, place)
    gap = None if made is None else _gap(made, heard)
    whose = "this layer's own matrices, used on the encoder's output" if place.crosses else ""
    vectors = [Vector(key.piece, key.k) for key in keys]
    return AttentionStep(
        "keys",
        f"The keys: one of each {name}",
        f"k = {_made_of(trace, place)} W_K{_b(trace, 'K')}",
        vectors,
        gap,
        whose,
    )


def _scores(trace: Trace, place: QueryPosition) -> AttentionStep:
    keys, _ = _keys(trace, place)
    q = trace[f"{place.at}.q"][place.head, place.position].double()
    again = torch.stack([q @ key.k.double() * _scale(trace) + key.bias for key in keys])
    heard = torch.tensor([key.score for key in keys], dtype=torch.float64)
    formula = (
        f"score = q · k ÷ √{trace.config.d_head}" if trace.config.scale_scores else "score = q · k, not divided by √K"
    )
    if _bias(trace, place) is not None:
        formula += " + the bias of their distance"
    return AttentionStep(
        "scores", "Scores: q compared with each k", formula, [Vector("scores", heard)], _gap(again, heard)
    )


def _softmax(trace: Trace, place: QueryPosition) -> AttentionStep:
    keys, _ = _keys(trace, place)
    again = torch.tensor([key.score for key in keys], dtype=torch.float64).softmax(0)
    heard = torch.tensor([key.weight for key in keys], dtype=torch.float64)
    return AttentionStep(
        "softmax",
        "Scores and weights",
        "weight = e^score ÷ the sum of all e^score (softmax)",
        [Vector("weights", heard)],
        _gap(again, heard),
    )


def _value_step(trace: Trace, place: QueryPosition) -> AttentionStep:
    memory, name = _memory(trace, place)
    made = _projected(trace, place, "v", memory)
    keys, _ = _keys(trace, place)
    vectors = [Vector(key.piece, key.v) for key in keys]
    gap = None if made is None else _gap(made, trace[f"{place.at}.v"][place.head])
    return AttentionStep(
        "values", f"The values: one of each {name}", f"v = {_made_of(trace, place)} W_V{_b(trace, 'V')}", vectors, gap
    )


def _context(trace: Trace, place: QueryPosition) -> AttentionStep:
    keys, _ = _keys(trace, place)
    heard = trace[f"{place.at}.context"][place.head, place.position]
    again = torch.stack([key.weight * key.v.double() for key in keys]).sum(0)
    return AttentionStep(
        "context", "z: the weighted values, added up", "z = Σ weight × v", [Vector("= z", heard)], _gap(again, heard)
    )


def _share(trace: Trace, place: QueryPosition) -> AttentionStep:
    z = trace[f"{place.at}.context"][place.head, place.position]
    heard = trace[f"{place.at}.heads_out"][place.head, place.position]
    own = _columns(trace, place, "out")
    gap = None if own is None else _gap(own.double() @ z.double(), heard)
    formula = f"z × the {trace.config.d_head} rows of W_O that are head {place.head}'s"
    vectors = [Vector("z", z), Vector("z × W_O's share", heard)]
    return AttentionStep("share", "What this head brings", formula, vectors, gap)


def _output(trace: Trace, place: QueryPosition) -> AttentionStep:
    shares = trace[f"{place.at}.heads_out"][:, place.position]
    heard = trace[f"{place.at}.output"][place.position]
    total = shares.double().sum(0)
    vectors = [Vector(f"{'+ ' if h else ''}head {h}", share) for h, share in enumerate(shares)]
    gap: float | None = None
    bias = trace.parameter(f"{place.at}.out_proj.bias")
    if bias is not None:
        vectors.append(Vector("+ b_O", bias))
        total = total + bias.double()
    if bias is not None or not trace.config.linear_bias:
        gap = _gap(total, heard)
    vectors.append(Vector("= output", heard))
    formula = f"the shares of all {trace.config.n_heads} heads{' + b_O' if trace.config.linear_bias else ''}"
    return AttentionStep("output", "All heads together", formula, vectors, gap)


def _around(trace: Trace, place: QueryPosition) -> AttentionStep:
    before, _ = _before(trace, place)
    output = trace[f"{place.at}.output"][place.position]
    heard = trace[f"{place.at}_norm.residual"][place.position]
    gaps: list[float | None] = [_gap(before.double() + output.double(), heard)]
    vectors = [Vector("x", before), Vector("+ output", output), Vector("= x + output", heard)]
    formula = "x + output (the norm came before attention)"
    if not trace.config.norm_first:
        normed = _norm(trace, f"{place.at}_norm", heard.double())
        after = trace[f"{place.at}_norm.output"][place.position]
        gaps.append(None if normed is None else _gap(normed, after))
        vectors.append(Vector("normed", after))
        formula = f"norm(x + output); {_norm_formula(trace)}"
    return AttentionStep("residual", "The way around: x is added again", formula, vectors, _worst(gaps))


# ---- what the steps stand on -----------------------------------------------------------------------------------------


def _keys(trace: Trace, place: QueryPosition) -> tuple[list[Key], int]:
    at, h, i = place.at, place.head, place.position
    pieces = trace.source if place.crosses or place.stack == "encoder" else trace.reads
    q, bias = trace[f"{at}.q"][h, i].double(), _bias(trace, place)
    scores, weights = trace[f"{at}.scores"][h, i], trace[f"{at}.weights"][h, i]
    k, v = trace[f"{at}.k"][h], trace[f"{at}.v"][h]
    seen = [j for j in range(len(pieces)) if scores[j] > -math.inf]
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
        for j in seen
    ]
    return keys, len(pieces) - len(seen)


def _bias(trace: Trace, place: QueryPosition) -> Tensor | None:
    name = f"{place.stack}.relative_bias.output"
    return None if place.crosses or name not in trace else trace[name][place.head, place.position]


def _before(trace: Trace, place: QueryPosition) -> tuple[Tensor, str]:
    """x before attention and its norm, and where it comes from."""
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
    """What keys and values are made of."""
    if place.crosses:
        return trace["memory"], "source token, of the memory"
    return trace[f"{place.at}.input"], "token that it sees"


def _made_of(trace: Trace, place: QueryPosition) -> str:
    """What keys and values are made of, as formulas call it."""
    return "memory" if place.crosses else _input(trace)


def _input(trace: Trace) -> str:
    return "norm(x)" if trace.config.norm_first else "x"


def _columns(trace: Trace, place: QueryPosition, projection: str) -> Tensor | None:
    """The head's part of a projection's matrix: rows of W_Q, W_K, W_V as torch keeps them, columns of W_O."""
    weight = trace.parameter(f"{place.at}.{projection}_proj.weight")
    width = trace.config.d_head
    own = slice(place.head * width, (place.head + 1) * width)
    if weight is None:
        return None
    return weight[:, own] if projection == "out" else weight[own]


def _projected(trace: Trace, place: QueryPosition, letter: str, x: Tensor) -> Tensor | None:
    own = _columns(trace, place, letter)
    if own is None:
        return None
    bias = trace.parameter(f"{place.at}.{letter}_proj.bias")
    width = trace.config.d_head
    made = x.double() @ own.double().T
    return made if bias is None else made + bias[place.head * width : (place.head + 1) * width].double()


def _turned(trace: Trace, place: QueryPosition) -> bool:
    return trace.config.positions == "rotary" and not place.crosses


def _turn(trace: Trace, x: Tensor) -> Tensor:
    angles = turns(0, len(x), trace.config.d_head, trace.config.rotary_base, like=x)
    return rotate(x[None, None], angles)[0, 0]


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
    return "norm(x) = (x - mean) ÷ deviation × weight + bias"


def _scale(trace: Trace) -> float:
    return 1 / math.sqrt(trace.config.d_head) if trace.config.scale_scores else 1.0


def _b(trace: Trace, letter: str) -> str:
    return f" + b_{letter}" if trace.config.linear_bias else ""


def _gap(one: Tensor, other: Tensor) -> float:
    return float((one.double() - other.double()).abs().max())


def _worst(gaps: list[float | None]) -> float | None:
    known = [gap for gap in gaps if gap is not None]
    return max(known) if len(known) == len(gaps) else None
