"""Interventions: named, composable changes to a model's forward pass or to its input.

Positions, heads and layers are counted from 0. `at` is the name of an attention or a layer, as in its tap names.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import ConfigDict, Field
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

Index = Annotated[int, Field(ge=0)]
HeadMeans = Mapping[str, Float[Tensor, "H K"]]
"""Attention name -> mean context vector of each head, which `AverageHead` substitutes."""


def _described_by_first_paragraph(schema: dict[str, Any]) -> None:
    schema["description"] = schema["description"].partition("\n\n")[0]


class Change(Settings):
    """An intervention: most change the value at a tap (a named point of the forward pass), some change the input."""

    # For the server's OpenAPI document, without the examples.
    model_config = ConfigDict(use_attribute_docstrings=True, json_schema_extra=_described_by_first_paragraph)

    POSITIONAL: ClassVar[bool] = False
    """Whether the change refers to positions of one sentence, and so cannot be applied to a corpus."""

    def of(self, request: Request) -> Request:
        """The translation request with this change to its input."""
        return request

    def check(self, model: Transformer) -> None:
        """Raise if the model lacks what the change refers to."""

    def listeners(self, model: Transformer, means: HeadMeans) -> Mapping[str, Listener]:
        """Listeners that change values of the forward pass, by tap name."""
        return {}

    def replaced_projections(self, model: Transformer) -> Mapping[str, nn.Linear]:
        """Replacement projections (linear layers) by the names of those they replace."""
        return {}


class AttentionChange(Change):
    """Base class of changes to one attention."""

    at: str
    """The attention, for example decoder.layers.1.cross_attention."""

    def check(self, model: Transformer) -> None:
        check_head(model, self.at, getattr(self, "head", None) or 0)  # not every change has a head


class HeadChange(AttentionChange):
    """Base class of changes to one attention head."""

    head: Index


class RemoveHead(HeadChange):
    """Zero ablation of a head: its context becomes 0.

    >>> inspector = gf.inspect(gf.load("street"))
    >>> trace = inspector.trace("The animal slept.")
    >>> without = inspector.what_if(trace, gf.RemoveHead(at="decoder.layers.1.cross_attention", head=2))
    >>> without.after["decoder.layers.1.cross_attention.context"][2].abs().max().item()
    0.0
    """

    kind: Literal["remove-head"] = "remove-head"

    def listeners(self, model: Transformer, means: HeadMeans) -> Mapping[str, Listener]:
        def zeroed(context: Tensor) -> Tensor:
            return context.index_fill(1, torch.tensor([self.head], device=context.device), 0)

        return {f"{self.at}.context": zeroed}


class AverageHead(HeadChange):
    """Mean ablation of a head: its context becomes its mean at every position.

    >>> inspector = gf.inspect(gf.load("street"))
    >>> trace = inspector.trace("The animal slept.")
    >>> average = inspector.what_if(trace, gf.AverageHead(at="decoder.layers.1.cross_attention", head=2))
    >>> context = average.after["decoder.layers.1.cross_attention.context"][2]
    >>> bool((context == context[0]).all())
    True
    """

    kind: Literal["average-head"] = "average-head"

    def listeners(self, model: Transformer, means: HeadMeans) -> Mapping[str, Listener]:
        def averaged(context: Tensor) -> Tensor:
            changed = context.clone()
            changed[:, self.head] = means[self.at][self.head]
            return changed

        return {f"{self.at}.context": averaged}


class RemoveEdge(AttentionChange):
    """Remove one attention edge: its score becomes -inf, and the softmax redistributes its weight.

    >>> inspector = gf.inspect(gf.load("street"))
    >>> trace = inspector.trace("The animal slept.")
    >>> edge = gf.RemoveEdge(at="encoder.layers.0.self_attention", query=1, key=0)
    >>> inspector.what_if(trace, edge).after["encoder.layers.0.self_attention.weights"][:, 1, 0].abs().max().item()
    0.0
    """

    kind: Literal["remove-edge"] = "remove-edge"
    POSITIONAL = True
    query: Index
    """The query position."""
    key: Index
    """The key position that is masked for this query."""
    head: Index | None = None
    """The head; None for all heads."""

    def listeners(self, model: Transformer, means: HeadMeans) -> Mapping[str, Listener]:
        def masked(scores: Tensor) -> Tensor | None:
            if self.query >= scores.shape[2] or self.key >= scores.shape[3]:
                return None  # the target is not that long, or not yet
            heads = slice(None) if self.head is None else slice(self.head, self.head + 1)
            changed = scores.clone()
            changed[:, heads, self.query, self.key] = -math.inf
            if (changed[:, heads, self.query] == -math.inf).all(-1).any():
                only = f"Position {self.query} of {self.at} attends to position {self.key} only"
                raise InputError(f"{only}: this edge cannot be removed.")
            return changed

        return {f"{self.at}.scores": masked}


class UniformAttention(AttentionChange):
    """Uniform attention weights over all visible positions.

    >>> inspector = gf.inspect(gf.load("street"))
    >>> trace = inspector.trace("The animal slept.")
    >>> uniform = inspector.what_if(trace, gf.UniformAttention(at="encoder.layers.0.self_attention", head=0))
    >>> weights = uniform.after["encoder.layers.0.self_attention.weights"][0]
    >>> float(weights.max() - weights.min()) < 1e-6
    True
    """

    kind: Literal["uniform-attention"] = "uniform-attention"
    head: Index | None = None
    """The head; None for all heads."""

    def listeners(self, model: Transformer, means: HeadMeans) -> Mapping[str, Listener]:
        def equalised(scores: Tensor) -> Tensor:
            heads = slice(None) if self.head is None else slice(self.head, self.head + 1)
            changed = scores.clone()
            changed[:, heads] = changed[:, heads].masked_fill(changed[:, heads] > -math.inf, 0)
            return changed

        return {f"{self.at}.scores": equalised}


class SkipFeedForward(Change):
    """Skip a layer's feed-forward sub-layer: only its residual connection is left.

    >>> inspector = gf.inspect(gf.load("street"))
    >>> trace = inspector.trace("The animal slept.")
    >>> skipped = inspector.what_if(trace, gf.SkipFeedForward(at="encoder.layers.0"))
    >>> skipped.after["encoder.layers.0.feed_forward.output"].abs().max().item()
    0.0
    """

    kind: Literal["skip-feed-forward"] = "skip-feed-forward"
    at: str
    """The layer, for example encoder.layers.0."""

    def check(self, model: Transformer) -> None:
        module = dict(model.named_modules()).get(f"{self.at}.feed_forward")
        if not isinstance(module, FeedForward):
            raise InputError(f"{self.at} has no feed-forward network: give a layer, such as encoder.layers.0.")

    def listeners(self, model: Transformer, means: HeadMeans) -> Mapping[str, Listener]:
        return {f"{self.at}.feed_forward.output": torch.zeros_like}


class ReplaceMatrices(AttentionChange):
    """Replace an attention's W_K and W_V by those of another attention.

    >>> inspector = gf.inspect(gf.load("street"))
    >>> trace = inspector.trace("The animal slept.")
    >>> names = "decoder.layers.0.cross_attention", "decoder.layers.1.cross_attention"
    >>> exchanged = inspector.what_if(trace, gf.ReplaceMatrices(at=names[0], by=names[1]))
    >>> bool((exchanged.after[f"{names[0]}.k"] == exchanged.before[f"{names[1]}.k"]).all())
    True
    """

    kind: Literal["replace-matrices"] = "replace-matrices"
    by: str
    """The attention whose matrices are used."""
    which: list[Literal["q", "k", "v"]] = Field(default=["k", "v"])

    def check(self, model: Transformer) -> None:
        super().check(model)
        attention_at(model, self.by)

    def replaced_projections(self, model: Transformer) -> Mapping[str, nn.Linear]:
        other = attention_at(model, self.by)
        return {f"{self.at}.{letter}_proj": getattr(other, f"{letter}_proj") for letter in self.which}


class ReplaceToken(Change):
    """Replace one source token, or several consecutive ones.

    >>> inspector = gf.inspect(gf.load("street"))
    >>> trace = inspector.trace("The animal didn't cross the street because it was too tired.")
    >>> wide = inspector.what_if(trace, inspector.word_replacement(trace, "tired", "wide"))
    >>> wide.changed_words
    [('es', 'sie'), ('müde', 'breit')]
    """

    kind: Literal["replace-token"] = "replace-token"
    POSITIONAL = True
    position: Index
    """Position of the first replaced token in the source."""
    count: Annotated[int, Field(ge=1)] = 1
    """Number of tokens to replace."""
    ids: Annotated[list[Index], Field(min_length=1)]
    """Token ids to insert."""

    def of(self, request: Request) -> Request:
        source = list(request.source)
        last = self.position + self.count - 1
        if last >= len(source):
            raise InputError(f"Source position {last} is out of range (0 to {len(source) - 1}).")
        source[self.position : last + 1] = self.ids
        return replace(request, source=source)


class ForcePrefix(Change):
    """Force the target to begin with given tokens.

    >>> inspector = gf.inspect(gf.load("street"))
    >>> trace = inspector.trace("The animal slept.")
    >>> forced = inspector.what_if(trace, inspector.forced_prefix("Die"))
    >>> forced.after.translation.startswith("Die")
    True
    """

    kind: Literal["force-prefix"] = "force-prefix"
    POSITIONAL = True
    ids: list[Index]
    """Token ids that the target begins with, after the start and language tokens."""

    def of(self, request: Request) -> Request:
        return replace(request, prefix=(*request.prefix, *self.ids))


ModelChange = RemoveHead | AverageHead | RemoveEdge | UniformAttention | SkipFeedForward | ReplaceMatrices
AnyChange = Annotated[ModelChange | ReplaceToken | ForcePrefix, Field(discriminator="kind")]


def attention_at(model: Transformer, name: str) -> Attention:
    """The attention module of this name."""
    module = dict(model.named_modules()).get(name)
    if not isinstance(module, Attention):
        raise InputError(f"The model has no attention {name!r}; it has {', '.join(attentions(model))}.")
    return module


def attentions(model: nn.Module) -> list[str]:
    """The names of all attentions, the encoder's first."""
    return [name for name, module in model.named_modules() if isinstance(module, Attention)]


def check_head(model: Transformer, name: str, head: int) -> None:
    heads = attention_at(model, name).n_heads
    if head >= heads:
        raise InputError(f"Head {head} of {name} is out of range (0 to {heads - 1}).")


def changed_request(request: Request, changes: Sequence[Change]) -> Request:
    """The translation request with the input changes among these applied."""
    for change in changes:
        request = change.of(request)
    return request


def apply(model: Transformer, changes: Sequence[Change], means: HeadMeans) -> None:
    """Install changes in the model, permanently: pass a `weight_sharing_copy`."""
    for change in changes:
        change.check(model)
        for name, listener in change.listeners(model, means).items():
            tap = model.get_submodule(name)
            assert isinstance(tap, Tap)
            tap.listeners.append(listener)
        for name, other in change.replaced_projections(model).items():
            model.get_submodule(name).register_forward_hook(_project_with(other))


def _project_with(other: nn.Linear) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
    # Uses the other's matrix rather than calling it, because its call may be replaced too.
    return lambda module, args, output: F.linear(args[0], other.weight, other.bias)
