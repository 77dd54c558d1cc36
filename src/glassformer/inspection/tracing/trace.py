"""Trace of one translation: every activation by tap name, with axes and tokens, stored as one safetensors file.

Independent of the model: a trace can be read, drawn and compared without it.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from glassformer.decoding import Beam, Request
from glassformer.decoding.search_tree import SearchTree
from glassformer.errors import InputError
from glassformer.inspection.interventions.changes import AnyChange
from glassformer.model import ModelConfig
from glassformer.model.attention import KeyValues
from glassformer.model.dims import Tensor
from glassformer.settings import Settings

if TYPE_CHECKING:
    from glassformer.inspection.figures import Figure, Story

FORMAT = 1
Detail = Literal["attention", "full", "everything"]
Loaders = Mapping[str, Callable[[], Tensor]]
"""Tensor name -> the function that loads it."""


class Side(Settings):
    """Source or target of a traced sentence pair: text, token ids, pieces."""

    text: str
    ids: list[int]
    """Token ids, including the end of sentence."""
    pieces: list[str]
    """Display text of each token; ▁ stands for a space."""


class TraceInfo(Settings):
    """Metadata of a trace: everything but the tensors."""

    format: int = FORMAT
    version: str
    """The version of glassformer that made the trace."""
    config: ModelConfig
    shared: dict[str, str] = Field(default_factory=dict)
    """Tied parameters: name -> the name of the parameter that they share their values with."""
    asked: Side
    """The source as requested, before any change."""
    source: Side
    """The source that the model read."""
    target: Side
    """The target that the model generated, or that was given."""
    start_token: str
    """The token that the decoder starts from."""
    pieces: dict[str, str] = Field(default_factory=dict)
    """Display text, by id, of every target token that occurs in the search tree or the output tensors."""
    prefix: list[int] = Field(default_factory=list)
    """Tokens that the target was forced to begin with."""
    target_given: bool
    """Whether the target was given; otherwise the model searched for it."""
    search: Beam
    """Beam search settings, unused where the target was given."""
    hypothesis: int = 0
    """Which of the finished hypotheses was traced, counted from the best, which is 0."""
    changes: list[AnyChange] = Field(default_factory=list)
    """Interventions that were applied to the model or the input."""
    limit: int = 0
    """Maximum target length in tokens."""
    axes: dict[str, str]
    """Each tensor's dimensions: letters of `glassformer.model.dims`, without B."""
    same: dict[str, str] = Field(default_factory=dict)
    """Taps that passed the same tensor as another tap: name -> the name under which it is stored."""


@dataclass(frozen=True)
class DecodingStep:
    """One decoding step: its input and output token, and both key/value caches after it."""

    number: int
    reads: str
    """The decoder's input token: the one written in the step before."""
    writes: str
    """The token written in this step."""
    past: list[KeyValues | Tensor]
    """Per decoder layer, keys and values of the target so far, H t K, this step's last; or the SSRU's cell, D."""
    source: list[KeyValues]
    """Per decoder layer, keys and values of the memory, H S K: computed once, before the first step."""
    computed: int = 1
    """Target positions that the decoder computed in this step."""

    @property
    def reused(self) -> int:
        """Target positions whose keys and values came from the cache."""
        return self.number


class Trace(Mapping[str, Tensor]):
    """Activations by tap name: `trace["decoder.layers.0.cross_attention.weights"]` is H T S.

    In addition to the taps, `output.*` has the most likely tokens at each target position, and `heads_out_norm` of
    every attention the norm of each head's contribution. Tensors of a file are read on access.

    >>> trace = gf.inspect(gf.load("street")).trace("The animal slept.")
    >>> weights = trace["decoder.layers.0.cross_attention.weights"]
    >>> weights.shape[-1] == len(trace.about.source.ids)
    True
    """

    def __init__(self, about: TraceInfo, loaders: Loaders, tree: SearchTree | None, parameters: Loaders) -> None:
        self.about = about
        self.loaders = loaders
        """Loader functions of the stored tensors, by tap name; `about.same` maps the other names to these."""
        self.parameters = parameters
        """Loader functions of the available model parameters, by name."""
        self.tree = tree
        """The search tree: every hypothesis considered; None where the target was given."""

    def __getitem__(self, name: str) -> Tensor:
        stored = self.about.same.get(name, name)
        if stored in self.loaders:
            return self.loaders[stored]()
        similar = next((known for known in self if known.endswith(name.rpartition(".")[2])), next(iter(self), None))
        raise InputError(
            f"The trace has no tensor {name!r}. It has {len(self)} others, for example {similar!r}. If the tensor was "
            "left out when the trace was saved, save it with detail='everything'."
        )

    def __contains__(self, name: object) -> bool:
        return self.about.same.get(str(name), name) in self.loaders

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.about.axes if self.about.same.get(name, name) in self.loaders)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def axes(self, name: str) -> tuple[str, ...]:
        """The letters of a tensor's dimensions."""
        if name not in self.about.axes:
            self[name]  # raises the error for an unknown name
        return tuple(self.about.axes[name].split())

    def parameter(self, name: str) -> Tensor | None:
        """A parameter of the model by name; None where the trace was saved without it."""
        name = self.about.shared.get(name, name)
        return self.parameters[name]() if name in self.parameters else None

    def __repr__(self) -> str:
        return f"<Trace: {self.about.source.text!r} → {self.about.target.text!r}, {len(self)} tensors>"

    @property
    def config(self) -> ModelConfig:
        return self.about.config

    @property
    def source(self) -> list[str]:
        """The source tokens (S)."""
        return self.about.source.pieces

    @property
    def target(self) -> list[str]:
        """The token written at each target position (T)."""
        return self.about.target.pieces[: self.steps]

    @property
    def reads(self) -> list[str]:
        """The decoder's input token at each target position (T)."""
        return [self.about.start_token, *self.about.target.pieces][: self.steps]

    @cached_property
    def steps(self) -> int:
        """Number of target positions in the trace."""
        return len(self["output.log_probability"])

    def piece(self, token: int) -> str:
        """Display text of a target token; the id for a token that does not occur in the trace."""
        return self.about.pieces.get(str(token), f"#{token}")

    @property
    def text(self) -> str:
        return self.about.source.text

    @property
    def translation(self) -> str:
        return self.about.target.text

    @property
    def log_probabilities(self) -> list[float]:
        """Log-probability of each target token given the tokens before it, in nats."""
        return list(self["output.log_probability"].tolist())

    @property
    def attentions(self) -> list[str]:
        """The names of all attentions, the encoder's first."""
        return [name.removesuffix(".weights") for name in self if name.endswith("attention.weights")]

    def step(self, number: int) -> DecodingStep:
        """One decoding step, sliced from the full pass: what a cached step computes is one row of it."""
        if not 0 <= number < self.steps:
            raise InputError(f"Step {number} is out of range (0 to {self.steps - 1}).")
        past: list[KeyValues | Tensor] = []
        source = []
        for layer in (f"decoder.layers.{i}" for i in range(self.config.decoder_layers)):
            if self.config.decoder_ssru:
                past.append(self[f"{layer}.recurrence.cell"][number])
            else:
                past.append(KeyValues(*(self[f"{layer}.self_attention.{x}"][:, : number + 1] for x in "kv")))
            source.append(KeyValues(*(self[f"{layer}.cross_attention.{x}"] for x in "kv")))
        return DecodingStep(number, self.reads[number], self.target[number], past, source)

    def figure(self, view: str, **options: Any) -> "Figure":
        """A figure of the trace: `trace.figure("attention", head=2).save("it.svg")`; see `inspection.figures`."""
        from glassformer.inspection.figures import figure  # imports this module; and not every trace is drawn

        return figure(self, view, **options)

    def story(self, *, name: str = "", dark: bool = False, **options: Any) -> "Story":
        """All figures with explanations on one HTML page: `trace.story(at=..., head=2).save("it.html")`."""
        from glassformer.inspection.figures import story

        return story(self, name=name, dark=dark, **options)

    def save(
        self, path: str | os.PathLike[str], detail: Detail = "full", half: bool = False, parameters: Sequence[str] = ()
    ) -> None:
        """Write the trace to a file, atomically. `half` writes float16: half the size, about three significant digits.

        `parameters`: name patterns of model parameters to include, such as "decoder.layers.0.*"; they are large.
        """
        from glassformer.inspection.tracing.trace_file import write_trace  # imports this module

        write_trace(self, Path(path), detail, half, parameters)

    def to_html(
        self,
        path: str | os.PathLike[str],
        detail: Detail = "full",
        *,
        name: str = "",
        weights: bool | None = None,
        half: bool | None = None,
        largest: int | None = 25_000_000,
    ) -> None:
        """Write the explorer of this trace as one self-contained HTML file, atomically.

        `detail`: "attention" includes all attention weights, "full" every step. `name`: the model's name to show.
        `weights`: include the model's parameters, so that the page can recompute every step; by default if they are
        small. `half`: store float16, half the size; by default if the page is large. A page of more than `largest`
        bytes is an error.
        """
        from glassformer.inspection.explorer import packed, page_of, write_page  # imports this module

        page = page_of(self, packed(self, detail, name=name, weights=weights, half=half), name)
        write_page(page, path, largest)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Trace":
        """Open a trace file; its tensors are read on access."""
        from glassformer.inspection.tracing.trace_file import read_trace

        return read_trace(Path(path))


def in_memory(
    about: TraceInfo, tensors: Mapping[str, Tensor], tree: SearchTree | None, parameters: Mapping[str, Tensor]
) -> Trace:
    """A trace whose tensors are already loaded."""
    return Trace(about, _loaders(tensors), tree, _loaders(parameters))


def _loaders(tensors: Mapping[str, Tensor]) -> Loaders:
    return {name: partial(tensors.__getitem__, name) for name in tensors}


def request_of(about: TraceInfo) -> Request:
    """The original translation request of a trace, before any change."""
    return Request(about.asked.ids, tuple(about.prefix))
