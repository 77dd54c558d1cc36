"""Which W_K and W_V cross-attention uses: tested by exchanging the matrices, and by recomputing keys and values.

Works on token ids, independent of text.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from glassformer.decoding import Beam, Request, search
from glassformer.decoding.batch_limits import batches_by_cost
from glassformer.decoding.step_model import padded
from glassformer.engine.tensor_next_tokens import at_least_float32
from glassformer.engine.torch_step_model import PlainStepModel
from glassformer.errors import InputError
from glassformer.inspection.interventions.changes import ReplaceMatrices, apply, attention_at, attentions
from glassformer.inspection.interventions.weight_sharing_copy import weight_sharing_copy
from glassformer.inspection.tracing.record import record
from glassformer.inspection.tracing.trace_builder import batch_of_one
from glassformer.model import ModelConfig, Transformer
from glassformer.model.attention import split_heads
from glassformer.model.dims import Tensor

MAX_BATCH_POSITIONS = 4_000
"""Maximum of source and target positions per batch."""
CLEAR_DROP_NATS = 0.1
"""Minimum drop in log-probability per token for the conclusion to call the matrices different."""


@dataclass(frozen=True)
class MatrixSource:
    """A choice of W_K and W_V for each decoder layer's cross-attention."""

    name: str
    taken: list[str]
    """For each decoder layer, the attention whose W_K and W_V it uses."""
    note: str = ""


@dataclass(frozen=True)
class MatrixSourceResult:
    """Effect of a choice of W_K and W_V on the translations."""

    choice: MatrixSource
    own: bool
    """Whether every layer uses its own W_K and W_V, or others that share their memory."""
    log_probability: float
    """Mean log-probability per target token, in nats."""
    likeliest: int
    """Number of target tokens that are the model's most likely token, given those before them."""
    same: int
    """Number of sentences whose greedy translation is unchanged."""


@dataclass(frozen=True)
class Matrices:
    """One decoder layer's W_K and W_V compared with other layers', and its keys and values recomputed."""

    at: str
    shared_k: list[str]
    """Other attentions whose W_K is the same tensor in memory."""
    shared_v: list[str]
    cosine_encoder: tuple[float, float]
    """Cosine of W_K and W_V with the top encoder layer's."""
    cosine_first: tuple[float, float]
    """Cosine of W_K and W_V with decoder layer 0's."""
    differs: tuple[float, float]
    """Largest difference between the K (and V) used and memory × this layer's W_K (W_V) + bias."""
    from_first: float
    """Distance of K from decoder layer 0's: ‖K - K₀‖ / ‖K₀‖."""


@dataclass(frozen=True)
class MatrixExchange:
    """Results of testing whose W_K and W_V cross-attention uses: exchanged, compared and recomputed matrices."""

    sentences: int
    tokens: int
    given: bool
    """Whether the targets were given; otherwise they are the model's own greedy translations."""
    rows: list[MatrixSourceResult]
    matrices: list[Matrices]

    @property
    def own(self) -> MatrixSourceResult:
        return self.rows[0]

    @property
    def others(self) -> list[MatrixSourceResult]:
        """Results for choices of matrices that differ from the layers' own."""
        return [row for row in self.rows if not row.own]


def choices(config: ModelConfig) -> list[MatrixSource]:
    """The choices of W_K and W_V to compare: each layer's own first."""
    depth, encoder = config.decoder_layers, config.encoder_layers
    own = [cross(i) for i in range(depth)]
    numbered = [i * encoder // depth for i in range(depth)]
    note = "" if depth == encoder else f"decoder layers {_listed(range(depth))} use encoder layers {_listed(numbered)}"
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
    """The name of a decoder layer's cross-attention."""
    return f"decoder.layers.{layer}.cross_attention"


def _listed(numbers: Sequence[int] | range) -> str:
    return ", ".join(map(str, numbers))


@torch.no_grad()
def exchange_matrices(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]] | None = None,
    prefix: tuple[int, ...] = (),
    progress: Callable[[], None] = lambda: None,
) -> MatrixExchange:
    """Exchange and recompute the matrices on these sources. Without targets, greedy translations are scored.

    `prefix`: tokens that every target begins with, such as its language. `progress` is called after each row.
    """
    if not sources:
        raise InputError("There are no sentences: give at least one.")
    requests = [Request(list(source), prefix) for source in sources]
    own = [hypotheses[0].tokens for hypotheses in search(PlainStepModel(weight_sharing_copy(model)), requests, GREEDY)]
    scored = own if targets is None else [list(target) for target in targets]
    rows = []
    for choice in choices(model.config):
        changed = with_matrices(model, choice)
        log_p, likeliest = _scored(changed, sources, scored)
        translations = [hypotheses[0].tokens for hypotheses in search(PlainStepModel(changed), requests, GREEDY)]
        same = sum(new == old for new, old in zip(translations, own, strict=True))
        rows.append(MatrixSourceResult(choice, _is_own(model, choice), log_p, likeliest, same))
        progress()
    matrices = _matrices(model, sources, scored)
    return MatrixExchange(len(sources), sum(map(len, scored)), targets is not None, rows, matrices)


GREEDY = Beam(size=1)


def with_matrices(model: Transformer, choice: MatrixSource) -> Transformer:
    """A weight-sharing copy whose decoder layers compute K and V with the chosen matrices."""
    copy = weight_sharing_copy(model)
    changes = [ReplaceMatrices(at=cross(i), by=by) for i, by in enumerate(choice.taken) if by != cross(i)]
    apply(copy, changes, {})
    return copy


def in_words(found: MatrixExchange) -> str:
    """The conclusion about W_K and W_V in one sentence, derived from the numbers."""
    if not found.others:
        return "All layers of this model share one W_K and one W_V: there are no others to compare them with."
    best = max(found.others, key=lambda row: row.log_probability)
    drop = found.own.log_probability - best.log_probability
    numbers = f"from {found.own.log_probability:.2f} to {best.log_probability:.2f} nats"
    if drop < CLEAR_DROP_NATS:
        return (
            "The choice of W_K and W_V makes little difference here: the log-probability per token goes "
            f"{numbers} with {best.choice.name}. Is this model trained?"
        )
    if any(layer.shared_k or layer.shared_v for layer in found.matrices):
        begin = "Some of these matrices share memory, as marked, but not all do"
    else:
        begin = "Each decoder layer uses its own W_K and W_V on the encoder's output"
    return f"{begin}: with the best alternative, {best.choice.name}, the log-probability per token falls {numbers}."


def _is_own(model: Transformer, choice: MatrixSource) -> bool:
    """Whether every layer gets its own W_K and W_V, or others that are the same tensors in memory."""
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
    """The mean log-probability per target token, and the number of tokens that are the model's most likely."""
    config, device = model.config, model.output_projection.weight.device
    total, likeliest = 0.0, 0
    costs = [len(s) + len(t) for s, t in zip(sources, targets, strict=True)]
    for batch in batches_by_cost(costs, MAX_BATCH_POSITIONS):
        batch_targets = [targets[i] for i in batch]
        shifted = [[config.bos_id, *target[:-1]] for target in batch_targets]
        source, labels, before = (
            torch.from_numpy(padded(ids, config.pad_id)).to(device)
            for ids in ([sources[i] for i in batch], batch_targets, shifted)
        )
        logits = at_least_float32(model(source, before))
        real = torch.arange(labels.shape[1]) < torch.tensor([len(target) for target in batch_targets])[:, None]
        log_ps = logits.log_softmax(-1).gather(-1, labels[:, :, None])[:, :, 0].cpu()
        total += float(log_ps[real].double().sum())
        likeliest += int((logits.argmax(-1) == labels).cpu()[real].sum())
    return total / sum(map(len, targets)), likeliest


def _matrices(model: Transformer, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Matrices]:
    top = f"encoder.layers.{model.config.encoder_layers - 1}.self_attention"
    differences, from_first = _recomputed(model, sources, targets)
    return [
        Matrices(
            at=at,
            shared_k=_shared(model, at, "k"),
            shared_v=_shared(model, at, "v"),
            cosine_encoder=_cosines(model, at, top),
            cosine_first=_cosines(model, at, cross(0)),
            differs=differences[i],
            from_first=from_first[i],
        )
        for i, at in enumerate(map(cross, range(model.config.decoder_layers)))
    ]


def _shared(model: Transformer, at: str, letter: str) -> list[str]:
    own, others = _memory_of(model, at, letter), [name for name in attentions(model) if name != at]
    return [name for name in others if _memory_of(model, name, letter) == own]


def _cosines(model: Transformer, one: str, other: str) -> tuple[float, float]:
    def cosine(letter: str) -> float:
        first, second = (
            getattr(attention_at(model, at), f"{letter}_proj").weight.cpu().double() for at in (one, other)
        )
        return float(F.cosine_similarity(first.flatten(), second.flatten(), dim=0))

    return cosine("k"), cosine("v")


def _recomputed(
    model: Transformer, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> tuple[list[tuple[float, float]], list[float]]:
    """Per decoder layer, the largest difference of K, V from memory × its W_K, W_V; and how far K is from layer 0's."""
    copy, depth = weight_sharing_copy(model), model.config.decoder_layers
    differences = [[0.0, 0.0] for _ in range(depth)]
    squared_distance, squared_norm = [0.0] * depth, 0.0
    for source, target in zip(sources, targets, strict=True):
        with record(copy, "memory", "decoder.*.cross_attention.k", "decoder.*.cross_attention.v") as recording:
            copy(*batch_of_one(copy, source, target))
        first = recording[f"{cross(0)}.k"].cpu().double()
        squared_norm += float(first.square().sum())
        for i in range(depth):
            for number, letter in enumerate("kv"):
                used = recording[f"{cross(i)}.{letter}"]
                recomputed = projected(model, cross(i), letter, recording["memory"])
                difference = float((used.cpu().double() - recomputed).abs().max())
                differences[i][number] = max(differences[i][number], difference)
            squared_distance[i] += float((recording[f"{cross(i)}.k"].cpu().double() - first).square().sum())
    from_first = [(squared / squared_norm) ** 0.5 if squared_norm else 0.0 for squared in squared_distance]
    return [(k, v) for k, v in differences], from_first


def projected(model: Transformer, at: str, letter: str, memory: Tensor) -> Tensor:
    """memory × W_K + b_K (or W_V, b_V) of an attention, split into heads, in float64."""
    projection = getattr(attention_at(model, at), f"{letter}_proj")
    bias = None if projection.bias is None else projection.bias.cpu().double()
    return split_heads(F.linear(memory.cpu().double(), projection.weight.cpu().double(), bias), model.config.n_heads)
