"""Query position: one attention, one head and one token of a trace, and a default with the sharpest attention."""

from dataclasses import dataclass
from typing import Literal

import torch

from glassformer.data.word_spans import words
from glassformer.errors import InputError
from glassformer.inspection.explanation.token_lookup import find_token, is_word, plain
from glassformer.inspection.tracing.trace import Trace
from glassformer.model.dims import Float, Tensor


@dataclass(frozen=True)
class QueryPosition:
    """Query position: one attention, one of its heads, and the position of the query token."""

    at: str
    """Name of the attention, for example encoder.layers.1.self_attention."""
    head: int
    position: int
    """Position of the query token: in the source for the encoder's attention, in the target for the decoder's."""

    @property
    def stack(self) -> Literal["encoder", "decoder"]:
        return "encoder" if self.at.startswith("encoder.") else "decoder"

    @property
    def layer(self) -> int:
        return int(self.at.split(".")[2])

    @property
    def crosses(self) -> bool:
        """Whether the attention is cross-attention."""
        return self.at.endswith("cross_attention")


def check(trace: Trace, place: QueryPosition) -> None:
    """Raise if the trace does not have this attention, head or position."""
    if place.at not in trace.attentions:
        if trace.config.decoder_ssru and place.at.startswith("decoder.") and place.at.endswith(".self_attention"):
            raise InputError(
                "This model's decoder has no self-attention: each layer keeps the target so far in one vector, with "
                "a recurrent unit (SSRU). Choose a cross-attention instead."
            )
        raise InputError(f"The model has no attention {place.at!r}; it has {', '.join(trace.attentions)}.")
    if not 0 <= place.head < trace.config.n_heads:
        raise InputError(f"Head {place.head} of {place.at} is out of range (0 to {trace.config.n_heads - 1}).")
    count = trace[f"{place.at}.input"].shape[0]
    if not 0 <= place.position < count:
        raise InputError(f"Position {place.position} of {place.at} is out of range (0 to {count - 1}).")


def telling(trace: Trace) -> QueryPosition:
    """The place to look at first: a target word that looks back at a source word translated before, as a pronoun does.

    In the last cross-attention, which is closest to the output; of several, the one with the largest value-weighted
    attention. Without any, the largest contribution of a word to another; without words, `choose`.
    """
    at = next(name for name in reversed(trace.attentions) if name.endswith("cross_attention"))
    sizes = _contributions(trace, at)
    queries, keys = ([word for word in words(side) if is_word(word.text)] for side in (trace.target, trace.source))
    ranked = []
    for key in keys:
        share = sizes[..., key.first]
        number_written = max(range(len(queries)), key=lambda i: float(share[:, queries[i].first].sum()), default=0)
        for number, query in enumerate(queries):
            head = int(share[:, query.first].argmax())
            weight = float(trace[f"{at}.weights"][head, query.first, key.first])
            looks_back = number > number_written + 1 and weight >= 0.5
            ranked.append((looks_back, float(share[head, query.first]), QueryPosition(at, head, query.first)))
    return max(ranked, key=lambda place: place[:2])[2] if ranked else choose(trace)


def _contributions(trace: Trace, at: str) -> Float[Tensor, "H Q M"]:
    """Value-weighted attention ‖α v W_O‖ of each head; the weights alone where the trace has no parameters."""
    weights, w_o = trace[f"{at}.weights"].double(), trace.parameter(f"{at}.out_proj.weight")
    if w_o is None:
        return weights
    values = trace[f"{at}.v"].double()
    by_head = w_o.double().unflatten(1, (len(values), -1))
    return weights * torch.einsum("hmk,dhk->hmd", values, by_head).norm(dim=-1)[:, None]


def choose(trace: Trace, token: str | None = None, at: str | None = None, head: int | None = None) -> QueryPosition:
    """Choose a query position: what is not given, by the largest attention weight on another, non-adjacent word.

    With no token given, the source's "it" if there is one. A source token is looked up in the encoder; a token that
    only the target has, in the decoder's cross-attention.
    """
    check(trace, QueryPosition(at or trace.attentions[0], head or 0, 0))
    attentions = [at] if at else [name for name in trace.attentions if name.startswith("encoder.")]
    in_source, in_target = (None if token is None else find_token(side, token) for side in (trace.source, trace.target))
    if at is None and in_source is None and in_target is not None:
        attentions = [name for name in trace.attentions if name.endswith("cross_attention")]
    side = "source" if attentions[0].startswith("encoder.") else "target"
    pieces = trace.source if side == "source" else trace.target
    if token is None:
        pronouns = [i for i, piece in enumerate(pieces) if side == "source" and plain(piece).lower() == "it"]
        position = pronouns[0] if pronouns else None
    elif (position := find_token(pieces, token)) is None:
        raise InputError(f"The {side} has no token {token!r}; its tokens are: {' '.join(map(plain, pieces))}.")
    word_positions = [i for i, piece in enumerate(pieces) if is_word(piece)] or list(range(len(pieces)))
    candidates = [
        (_sharpness(trace, name, h, i), QueryPosition(name, h, i))
        for name in attentions
        for h in ([head] if head is not None else range(trace.config.n_heads))
        for i in ([position] if position is not None else word_positions)
    ]
    return max(candidates, key=lambda candidate: candidate[0])[1]


def _sharpness(trace: Trace, at: str, head: int, position: int) -> tuple[bool, float]:
    """The largest weight on another, non-adjacent word, preceded by whether it is the largest weight of all."""
    weights = trace[f"{at}.weights"][head, position].double()
    pieces = trace.reads if at.startswith("decoder.") and at.endswith("self_attention") else trace.source
    others = [
        float(weight)
        for j, (weight, piece) in enumerate(zip(weights, pieces, strict=True))
        # Many self-attention heads attend to neighbours.
        if is_word(piece) and (at.endswith("cross_attention") or abs(j - position) > 1)
    ]
    best = max(others, default=0.0)
    return best >= float(weights.max()), best
