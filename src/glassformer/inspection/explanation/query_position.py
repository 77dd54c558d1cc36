"""Who looks, and where: one token, one head, one attention of a trace; the most telling one unless it is named."""

from dataclasses import dataclass
from typing import Literal

from glassformer.errors import InputError
from glassformer.inspection.explanation.token_names import find_token, is_word, plain
from glassformer.inspection.tracing.trace import Trace


@dataclass(frozen=True)
class QueryPosition:
    """Who looks, and where."""

    at: str
    """The attention: encoder.layers.1.self_attention, say."""
    head: int
    position: int
    """Of the token that looks: in the source for the encoder's attention, in the target for the decoder's."""

    @property
    def stack(self) -> Literal["encoder", "decoder"]:
        return "encoder" if self.at.startswith("encoder.") else "decoder"

    @property
    def layer(self) -> int:
        return int(self.at.split(".")[2])

    @property
    def crosses(self) -> bool:
        """Whether it looks at the other side."""
        return self.at.endswith("cross_attention")


def check(trace: Trace, place: QueryPosition) -> None:
    """Refuse what the trace does not have."""
    if place.at not in trace.attentions:
        if trace.config.decoder_ssru and place.at.startswith("decoder.") and place.at.endswith(".self_attention"):
            raise InputError(
                "This model's decoder has no self-attention: each layer remembers the target so far in one vector, by "
                "a recurrent unit (SSRU). Its cross-attention can be walked through."
            )
        raise InputError(f"The model has no attention {place.at!r}; it has {', '.join(trace.attentions)}.")
    if not 0 <= place.head < trace.config.n_heads:
        raise InputError(f"{place.at} has {trace.config.n_heads} heads, counted from 0, and none is {place.head}.")
    count = trace[f"{place.at}.input"].shape[0]
    if not 0 <= place.position < count:
        raise InputError(f"{place.at} has {count} positions, counted from 0, and none is {place.position}.")


def choose(trace: Trace, token: str | None = None, at: str | None = None, head: int | None = None) -> QueryPosition:
    """What is named, and for the rest the sharpest look at another word, not a neighbour.

    With nothing named, the source's "it" if there is one. A token of the source looks in the encoder; one that only
    the target has, in the decoder's cross-attention.
    """
    check(trace, QueryPosition(at or trace.attentions[0], head or 0, 0))
    position = None
    places = [at] if at else [name for name in trace.attentions if name.startswith("encoder.")]
    if token is None and (at is None or at.startswith("encoder.")):
        position = next((i for i, piece in enumerate(trace.source) if plain(piece).lower() == "it"), None)
    if token is not None:
        if at is None and find_token(trace.source, token) is None and find_token(trace.target, token) is not None:
            places = [name for name in trace.attentions if name.endswith("cross_attention")]
        pieces = trace.source if places[0].startswith("encoder.") else trace.target
        position = find_token(pieces, token)
        if position is None:
            side = "source" if places[0].startswith("encoder.") else "target"
            raise InputError(f"The {side} has no token {token!r}; it has {' '.join(map(plain, pieces))}.")
    looks = [
        (_sharpness(trace, name, h, i), QueryPosition(name, h, i))
        for name in places
        for h in ([head] if head is not None else range(trace.config.n_heads))
        for i in ([position] if position is not None else _lookers(trace, name))
    ]
    return max(looks, key=lambda look: look[0])[1]


def _lookers(trace: Trace, at: str) -> list[int]:
    pieces = trace.source if at.startswith("encoder.") else trace.target
    return [i for i, piece in enumerate(pieces) if is_word(piece)] or list(range(len(pieces)))


def _sharpness(trace: Trace, at: str, head: int, position: int) -> tuple[bool, float]:
    """The heaviest look at another word that is no neighbour; first of all, whether this token looks there most."""
    weights = trace[f"{at}.weights"][head, position].double()
    pieces = trace.reads if at.startswith("decoder.") and at.endswith("self_attention") else trace.source
    others = [
        float(weight)
        for j, (weight, piece) in enumerate(zip(weights, pieces, strict=True))
        if is_word(piece) and (at.endswith("cross_attention") or abs(j - position) > 1)  # many heads see neighbours
    ]
    best = max(others, default=0.0)
    return best >= float(weights.max()), best
