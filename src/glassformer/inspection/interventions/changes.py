"""What if? Changes to a model's pass, or to what goes in: each small, each named, all of them stackable.

Positions, heads and layers are counted from 0. `at` is an attention's or a layer's address, as in its taps' names.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import nn
from torch.nn import functional as F

from glassformer.decoding import Request
from glassformer.errors import InputError
from glassformer.model import Transformer
from glassformer.model.attention import Attention
from glassformer.model.dims import Float, Tensor
from glassformer.model.layers import FeedForward
from glassformer.model.tap import Listener, Tap
from glassformer.settings import Settings

Place = Annotated[int, Field(ge=0)]
Means = Mapping[str, Float[Tensor, "H K"]]
"""An attention's mean context of each head, by the attention's address: what `AverageHead` puts."""


class Change(Settings):
    """A what-if. Most change what passes a tap; some change what goes in."""

    POSITIONAL: ClassVar[bool] = False
    """Whether it speaks of positions of one sentence, and so makes no sense for a corpus."""

    def of(self, request: Request) -> Request:
        """What goes in instead."""
        return request

    def check(self, model: Transformer) -> None:
        """Refuse what the model does not have."""

    def listeners(self, model: Transformer, means: Means) -> Mapping[str, Listener]:
        """What is put at which taps."""
        return {}

    def instead(self, model: Transformer) -> Mapping[str, nn.Linear]:
        """Which projections are replaced by which."""
        return {}


class OfAttention(Change):
    """A change to one attention."""

    at: str
    """The attention: decoder.layers.1.cross_attention, say."""

    def check(self, model: Transformer) -> None:
        attention_at(model, self.at)


class OfHead(OfAttention):
    """A change to one head."""

    head: Place

    def check(self, model: Transformer) -> None:
        check_head(model, self.at, self.head)


class RemoveHead(OfHead):
    """The head says nothing: its context is 0."""

    kind: Literal["remove-head"] = "remove-head"

    def listeners(self, model: Transformer, means: Means) -> Mapping[str, Listener]:
        def put(context: Tensor) -> Tensor:
            return context.index_fill(1, torch.tensor([self.head], device=context.device), 0)

        return {f"{self.at}.context": put}


class AverageHead(OfHead):
    """The head says the same everywhere: the mean of what it says otherwise."""

    kind: Literal["average-head"] = "average-head"

    def listeners(self, model: Transformer, means: Means) -> Mapping[str, Listener]:
        def put(context: Tensor) -> Tensor:
            changed = context.clone()
            changed[:, self.head] = means[self.at][self.head]
            return changed

        return {f"{self.at}.context": put}


class CutEdge(OfAttention):
    """One position may not look at another; what is left is shared among the others it sees."""

    kind: Literal["cut-edge"] = "cut-edge"
    POSITIONAL = True
    query: Place
    """Who may not look."""
    key: Place
    """At whom."""
    head: Place | None = None
    """In which head; None for all."""

    def check(self, model: Transformer) -> None:
        check_head(model, self.at, self.head or 0)

    def listeners(self, model: Transformer, means: Means) -> Mapping[str, Listener]:
        def put(scores: Tensor) -> Tensor | None:
            if self.query >= scores.shape[2] or self.key >= scores.shape[3]:
                return None  # a target that is not yet, or no longer, that long
            heads = slice(None) if self.head is None else slice(self.head, self.head + 1)
            changed = scores.clone()
            changed[:, heads, self.query, self.key] = -math.inf
            if (changed[:, heads, self.query] == -math.inf).all(-1).any():
                raise InputError(f"Position {self.query} of {self.at} sees nothing but {self.key}: this edge stays.")
            return changed

        return {f"{self.at}.scores": put}


class UniformAttention(OfAttention):
    """Every position looks at all that it sees alike."""

    kind: Literal["uniform-attention"] = "uniform-attention"
    head: Place | None = None
    """In which head; None for all."""

    def check(self, model: Transformer) -> None:
        check_head(model, self.at, self.head or 0)

    def listeners(self, model: Transformer, means: Means) -> Mapping[str, Listener]:
        def put(scores: Tensor) -> Tensor:
            heads = slice(None) if self.head is None else slice(self.head, self.head + 1)
            changed = scores.clone()
            changed[:, heads] = changed[:, heads].masked_fill(changed[:, heads] > -math.inf, 0)
            return changed

        return {f"{self.at}.scores": put}


class SkipFeedForward(Change):
    """A layer goes on without its feed-forward: only the way around it is left."""

    kind: Literal["skip-feed-forward"] = "skip-feed-forward"
    at: str
    """The layer: encoder.layers.0, say."""

    def check(self, model: Transformer) -> None:
        found = dict(model.named_modules()).get(f"{self.at}.feed_forward")
        if not isinstance(found, FeedForward):
            raise InputError(f"{self.at} has no feed-forward; encoder.layers.0 is how a layer is called.")

    def listeners(self, model: Transformer, means: Means) -> Mapping[str, Listener]:
        return {f"{self.at}.feed_forward.output": torch.zeros_like}


class ReplaceMatrices(OfAttention):
    """An attention makes its keys and values with another's W_K and W_V."""

    kind: Literal["replace-matrices"] = "replace-matrices"
    by: str
    """The attention whose matrices are taken."""
    which: list[Literal["q", "k", "v"]] = Field(default=["k", "v"])

    def check(self, model: Transformer) -> None:
        attention_at(model, self.at)
        attention_at(model, self.by)

    def instead(self, model: Transformer) -> Mapping[str, nn.Linear]:
        other = attention_at(model, self.by)
        return {f"{self.at}.{letter}_proj": getattr(other, f"{letter}_proj") for letter in self.which}


class ReplaceToken(Change):
    """A source token, or several in a row, are others."""

    kind: Literal["replace-token"] = "replace-token"
    POSITIONAL = True
    position: Place
    """In the source."""
    count: Annotated[int, Field(ge=1)] = 1
    """How many go."""
    ids: Annotated[list[Place], Field(min_length=1)]
    """What stands there instead."""

    def of(self, request: Request) -> Request:
        source = list(request.source)
        last = self.position + self.count - 1
        if last >= len(source):
            raise InputError(f"The source has {len(source)} tokens, counted from 0, and none at position {last}.")
        source[self.position : last + 1] = self.ids
        return replace(request, source=source)


class ForcePrefix(Change):
    """The target begins as it is told."""

    kind: Literal["force-prefix"] = "force-prefix"
    POSITIONAL = True
    ids: list[Place]
    """What it begins with, behind the start and the language."""

    def of(self, request: Request) -> Request:
        return replace(request, prefix=(*request.prefix, *self.ids))


AnyChange = Annotated[
    RemoveHead
    | AverageHead
    | CutEdge
    | UniformAttention
    | SkipFeedForward
    | ReplaceMatrices
    | ReplaceToken
    | ForcePrefix,
    Field(discriminator="kind"),
]


def attention_at(model: Transformer, name: str) -> Attention:
    """The attention of this name."""
    found = dict(model.named_modules()).get(name)
    if not isinstance(found, Attention):
        raise InputError(f"The model has no attention {name!r}; it has {', '.join(attentions(model))}.")
    return found


def attentions(model: nn.Module) -> list[str]:
    """The names of all attentions, the encoder's first."""
    return [name for name, module in model.named_modules() if isinstance(module, Attention)]


def check_head(model: Transformer, name: str, head: int) -> None:
    heads = attention_at(model, name).n_heads
    if head >= heads:
        raise InputError(f"{name} has {heads} heads, counted from 0, and none is {head}.")


def changed_request(request: Request, changes: Sequence[Change]) -> Request:
    """What goes in after these changes."""
    for change in changes:
        request = change.of(request)
    return request


def apply(model: Transformer, changes: Sequence[Change], means: Means) -> None:
    """From now on the model passes as changed: give it a `twin`."""
    for change in changes:
        change.check(model)
        for name, listener in change.listeners(model, means).items():
            tap = model.get_submodule(name)
            assert isinstance(tap, Tap)
            tap.listeners.append(listener)
        for name, other in change.instead(model).items():
            model.get_submodule(name).register_forward_hook(_taken_from(other))


def _taken_from(other: nn.Linear) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
    # Its matrix, not its call: that may be replaced too.
    return lambda module, args, output: F.linear(args[0], other.weight, other.bias)
