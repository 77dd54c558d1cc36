"""Whose W_K and W_V does the decoder use? Asked of a model by giving it others', and by doing it again.

Knows ids; knows nothing of text.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from glassformer.decoding import Beam, PlainStepModel, Request, search
from glassformer.decoding.continuous_batching import alike
from glassformer.decoding.step_model import at_least_float32, padded
from glassformer.errors import InputError
from glassformer.inspection.interventions.changes import ReplaceMatrices, apply, attention_at, attentions
from glassformer.inspection.interventions.weight_sharing_copy import weight_sharing_copy
from glassformer.inspection.tracing.record import record
from glassformer.model import ModelConfig, Transformer
from glassformer.model.attention import split_heads
from glassformer.model.dims import Tensor

POSITIONS = 4_000
"""Source and target positions looked at at once."""
MUCH = 0.1
"""Nats a token by which own matrices must be better for a plain word about it."""


@dataclass(frozen=True)
class MatrixSource:
    """K and V made with these matrices: for each decoder layer, the attention that they are taken from."""

    name: str
    taken: list[str]
    note: str = ""


@dataclass(frozen=True)
class MatrixSourceResult:
    """What becomes of translations when K and V are made so."""

    choice: MatrixSource
    own: bool
    """Whether they are the own ones, as they stand in memory."""
    log_probability: float
    """Of a target token, on average, in nats."""
    likeliest: int
    """Target tokens that the model finds likeliest, after those before them."""
    same: int
    """Sentences whose greedy translation stays as it is."""


@dataclass(frozen=True)
class Matrices:
    """One decoder layer's W_K and W_V beside others', and its keys and values done again."""

    at: str
    shared_k: list[str]
    """Other attentions whose W_K is the same memory."""
    shared_v: list[str]
    cosine_encoder: tuple[float, float]
    """Of W_K and W_V with the top encoder layer's."""
    cosine_first: tuple[float, float]
    """Of W_K and W_V with decoder layer 0's."""
    differs: tuple[float, float]
    """The largest difference between the K (and V) used and memory × this layer's W_K (W_V) + bias."""
    from_first: float
    """‖K - K of decoder layer 0‖ / ‖K of decoder layer 0‖."""


@dataclass(frozen=True)
class KeysValues:
    """The whole answer."""

    sentences: int
    tokens: int
    given: bool
    """Whether the targets were given; else they are the model's own greedy translations."""
    rows: list[MatrixSourceResult]
    matrices: list[Matrices]

    @property
    def own(self) -> MatrixSourceResult:
        return self.rows[0]

    @property
    def others(self) -> list[MatrixSourceResult]:
        """Rows with matrices that are truly others."""
        return [row for row in self.rows if not row.own]


def choices(config: ModelConfig) -> list[MatrixSource]:
    """What K and V may be made with: the own matrices first."""
    depth, encoder = config.decoder_layers, config.encoder_layers
    own = [cross(i) for i in range(depth)]
    numbered = [i * encoder // depth for i in range(depth)]
    note = "" if depth == encoder else f"decoder {_row(range(depth))} take encoder {_row(numbered)}"
    return [
        MatrixSource("each layer's own", own),
        MatrixSource("the top encoder layer's", [f"encoder.layers.{encoder - 1}.self_attention"] * depth),
        MatrixSource(
            "the same-numbered encoder layer's", [f"encoder.layers.{n}.self_attention" for n in numbered], note
        ),
        MatrixSource("decoder layer 0's for all", [cross(0)] * depth),
        MatrixSource("the last decoder layer's for all", [cross(depth - 1)] * depth),
        MatrixSource("the next decoder layer's", [*own[1:], own[0]]),
    ]


def cross(layer: int) -> str:
    return f"decoder.layers.{layer}.cross_attention"


def _row(numbers: Sequence[int] | range) -> str:
    return ", ".join(map(str, numbers))


@torch.no_grad()
def keys_values(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]] | None = None,
    prefix: tuple[int, ...] = (),
    tell: Callable[[], None] = lambda: None,
) -> KeysValues:
    """The table for these sources. Without targets, the model's own greedy translations are scored.

    `prefix`: what every target begins with, its language say. `tell` hears of each row that is done.
    """
    if not sources:
        raise InputError("There is no sentence to ask about.")
    requests = [Request(list(source), prefix) for source in sources]
    own = [hypotheses[0].tokens for hypotheses in search(PlainStepModel(weight_sharing_copy(model)), requests, GREEDY)]
    wanted = own if targets is None else [list(target) for target in targets]
    rows = []
    for choice in choices(model.config):
        mine = with_matrices(model, choice)
        log_p, likeliest = _scored(mine, sources, wanted)
        found = [hypotheses[0].tokens for hypotheses in search(PlainStepModel(mine), requests, GREEDY)]
        same = sum(one == other for one, other in zip(found, own, strict=True))
        rows.append(MatrixSourceResult(choice, _is_own(model, choice), log_p, likeliest, same))
        tell()
    matrices = _matrices(model, sources, wanted)
    return KeysValues(len(sources), sum(map(len, wanted)), targets is not None, rows, matrices)


GREEDY = Beam(size=1)


def with_matrices(model: Transformer, choice: MatrixSource) -> Transformer:
    """A twin whose decoder layers make K and V with the chosen matrices."""
    mine = weight_sharing_copy(model)
    changes = [ReplaceMatrices(at=cross(i), by=by) for i, by in enumerate(choice.taken) if by != cross(i)]
    apply(mine, changes, {})
    return mine


def in_words(found: KeysValues) -> str:
    """One plain sentence of conclusion, from the numbers."""
    if not found.others:
        return "This model has one pair of W_K and W_V for all: there are no others to compare them with."
    best = max(found.others, key=lambda row: row.log_probability)
    fall = found.own.log_probability - best.log_probability
    numbers = f"from {found.own.log_probability:.2f} to {best.log_probability:.2f} nats"
    if fall < MUCH:
        return (
            "Here it makes little difference whose W_K and W_V are used: the log-probability of a token goes "
            f"{numbers} with {best.choice.name}. Was this model trained?"
        )
    if any(one.shared_k or one.shared_v for one in found.matrices):
        begin = "Some of these matrices are one in memory, as marked, but not all are"
    else:
        begin = "Each decoder layer uses its own W_K and W_V on the encoder's output"
    return f"{begin}: with the best of the others, {best.choice.name}, the log-probability of a token falls {numbers}."


def _is_own(model: Transformer, choice: MatrixSource) -> bool:
    """Whether every layer gets the numbers that it has: its own, or others that are the same memory."""
    return all(
        _memory_of(model, by, letter) == _memory_of(model, cross(i), letter)
        for i, by in enumerate(choice.taken)
        for letter in "kv"
    )


def _memory_of(model: Transformer, at: str, letter: str) -> tuple[int, int]:
    projection = getattr(attention_at(model, at), f"{letter}_proj")
    return projection.weight.data_ptr(), 0 if projection.bias is None else projection.bias.data_ptr()


def _scored(
    model: Transformer, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> tuple[float, int]:
    """The log-probability of a target token, on average, and how many of them are the likeliest."""
    config, device = model.config, model.output_projection.weight.device
    total, likeliest = 0.0, 0
    for batch in alike([len(s) + len(t) for s, t in zip(sources, targets, strict=True)], POSITIONS):
        own = [targets[i] for i in batch]
        wanted = padded(own, config.pad_id).to(device)
        before = padded([[config.bos_id, *target[:-1]] for target in own], config.pad_id).to(device)
        logits = at_least_float32(model(padded([sources[i] for i in batch], config.pad_id).to(device), before))
        there = torch.arange(wanted.shape[1]) < torch.tensor([len(target) for target in own])[:, None]
        log_ps = logits.log_softmax(-1).gather(-1, wanted[:, :, None])[:, :, 0].cpu()
        total += float(log_ps[there].double().sum())
        likeliest += int((logits.argmax(-1) == wanted).cpu()[there].sum())
    return total / sum(map(len, targets)), likeliest


def _matrices(model: Transformer, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Matrices]:
    top = f"encoder.layers.{model.config.encoder_layers - 1}.self_attention"
    gaps, apart = _recomputed(model, sources, targets)
    found = []
    for i in range(model.config.decoder_layers):
        at = cross(i)
        others = [name for name in attentions(model) if name != at]
        found.append(
            Matrices(
                at=at,
                shared_k=[name for name in others if _memory_of(model, name, "k") == _memory_of(model, at, "k")],
                shared_v=[name for name in others if _memory_of(model, name, "v") == _memory_of(model, at, "v")],
                cosine_encoder=_cosines(model, at, top),
                cosine_first=_cosines(model, at, cross(0)),
                differs=gaps[i],
                from_first=apart[i],
            )
        )
    return found


def _cosines(model: Transformer, one: str, other: str) -> tuple[float, float]:
    def cosine(letter: str) -> float:
        first, second = (getattr(attention_at(model, at), f"{letter}_proj").weight.double() for at in (one, other))
        return float(F.cosine_similarity(first.flatten(), second.flatten(), dim=0))

    return cosine("k"), cosine("v")


def _recomputed(
    model: Transformer, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> tuple[list[tuple[float, float]], list[float]]:
    """How far K and V are from memory × own W_K, W_V, at most; and how far K is from layer 0's."""
    mine, config = weight_sharing_copy(model), model.config
    device = model.output_projection.weight.device
    gaps = [[0.0, 0.0] for _ in range(config.decoder_layers)]
    apart, whole = [0.0] * config.decoder_layers, 0.0
    for source, target in zip(sources, targets, strict=True):
        with record(mine, "memory", "decoder.*.cross_attention.k", "decoder.*.cross_attention.v") as heard:
            before = [config.bos_id, *target[:-1]]
            mine(torch.tensor([list(source)], device=device), torch.tensor([before], device=device))
        first = heard[f"{cross(0)}.k"].double()
        whole += float(first.square().sum())
        for i in range(config.decoder_layers):
            for number, letter in enumerate("kv"):
                made, again = heard[f"{cross(i)}.{letter}"], again_from(model, cross(i), letter, heard["memory"])
                gaps[i][number] = max(gaps[i][number], float((made.double() - again).abs().max()))
            apart[i] += float((heard[f"{cross(i)}.k"].double() - first).square().sum())
    return [(k, v) for k, v in gaps], [(one / whole) ** 0.5 if whole else 0.0 for one in apart]


def again_from(model: Transformer, at: str, letter: str, memory: Tensor) -> Tensor:
    """memory × W_K + b_K (or W_V, b_V) of an attention, split into heads, in float64."""
    projection = getattr(attention_at(model, at), f"{letter}_proj")
    bias = None if projection.bias is None else projection.bias.double()
    return split_heads(F.linear(memory.double(), projection.weight.double(), bias), model.config.n_heads)
