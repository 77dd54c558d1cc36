"""A trace: one sentence's way through a model, every tap by name, with axes and tokens. One safetensors file.

Knows no model: what is in it can be read, drawn and compared where the model is not.
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


class Side(Settings):
    """One side of a sentence."""

    text: str
    ids: list[int]
    """With the end of sentence."""
    pieces: list[str]
    """Each token as one would show it; ▁ stands for a space."""


class TraceInfo(Settings):
    """What a trace is of: everything but the tensors."""

    format: int = FORMAT
    version: str
    """Of glassformer."""
    config: ModelConfig
    shared: dict[str, str] = Field(default_factory=dict)
    """Parameters that are others: name -> the name of the one whose numbers they are."""
    asked: Side
    """The source as it was asked for, before any change."""
    source: Side
    """The source as it went in."""
    target: Side
    """What was written, or what was given."""
    first: str
    """The piece that the decoder starts from."""
    pieces: dict[str, str] = Field(default_factory=dict)
    """Every target token that the search or the output looked at, by its id."""
    prefix: list[int] = Field(default_factory=list)
    """How the target had to begin."""
    given: bool
    """Whether the target was given; else the model found it."""
    search: Beam
    """How it was found, or would have been."""
    hypothesis: int = 0
    """Which of the hypotheses found was followed, the best first."""
    changes: list[AnyChange] = Field(default_factory=list)
    """What-ifs under which all this came to be."""
    limit: int = 0
    """Tokens that a target may have."""
    axes: dict[str, str]
    """Each tensor's dimensions: letters of `glassformer.model.dims`, B left out."""
    same: dict[str, str] = Field(default_factory=dict)
    """Taps that heard what another had said: name -> the name under which it is kept."""


@dataclass(frozen=True)
class DecodingStep:
    """One step of decoding: what it read and wrote, and what both caches held after it."""

    number: int
    reads: str
    """The piece that goes in: the one written before."""
    writes: str
    """The piece that comes out."""
    past: list[KeyValues | Tensor]
    """Each decoder layer's keys and values of the target so far, H t K, this step's own last; or its cell, D."""
    source: list[KeyValues]
    """Each decoder layer's keys and values of the memory, H S K: made once, before the first step."""
    computed: int = 1
    """Positions of the target that the decoder computed in this step."""

    @property
    def reused(self) -> int:
        """Positions whose keys and values were remembered."""
        return self.number


class Trace(Mapping[str, Tensor]):
    """What passed each tap, by name: `trace["decoder.layers.0.cross_attention.weights"]` is H T S.

    Beside the taps there are `output.*`: the likeliest tokens at each target position; and `heads_out_norm` of every
    attention: how much each head brings. A tensor is read from the file when it is asked for.
    """

    def __init__(
        self,
        about: TraceInfo,
        kept: Mapping[str, Callable[[], Tensor]],
        tree: SearchTree | None,
        parameters: Mapping[str, Callable[[], Tensor]],
    ) -> None:
        self.about = about
        self.kept = kept
        """How each tensor is had; `same` names the others."""
        self.parameters = parameters
        """How each weight that is at hand is had."""
        self.tree = tree
        """Every hypothesis that the search looked at; None where the target was given."""

    def __getitem__(self, name: str) -> Tensor:
        place = self.about.same.get(name, name)
        if place in self.kept:
            return self.kept[place]()
        close = next((known for known in self if known.endswith(name.rpartition(".")[2])), next(iter(self), None))
        raise InputError(
            f"The trace has no {name!r}; {len(self)} others, {close!r} for one. If it was left out when the trace was "
            "saved, save it with detail='everything'."
        )

    def __contains__(self, name: object) -> bool:
        return self.about.same.get(str(name), name) in self.kept

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.about.axes if self.about.same.get(name, name) in self.kept)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def axes(self, name: str) -> tuple[str, ...]:
        """The letters of a tensor's dimensions."""
        if name not in self.about.axes:
            self[name]  # says what is wrong
        return tuple(self.about.axes[name].split())

    def parameter(self, name: str) -> Tensor | None:
        """A weight of the model, by its name; None where the trace was saved without it."""
        name = self.about.shared.get(name, name)
        return self.parameters[name]() if name in self.parameters else None

    def __repr__(self) -> str:
        return f"<Trace: {self.about.source.text!r} → {self.about.target.text!r}, {len(self)} tensors>"

    @property
    def config(self) -> ModelConfig:
        return self.about.config

    @property
    def source(self) -> list[str]:
        """The pieces of the source, S of them."""
        return self.about.source.pieces

    @property
    def target(self) -> list[str]:
        """The piece written at each target position, T of them."""
        return self.about.target.pieces[: self.steps]

    @property
    def reads(self) -> list[str]:
        """The piece that went in at each target position, T of them."""
        return [self.about.first, *self.about.target.pieces][: self.steps]

    @cached_property
    def steps(self) -> int:
        """Target positions that were traced."""
        return len(self["output.log_probability"])

    def piece(self, token: int) -> str:
        """A target token as one would show it; one that was never looked at, as its number."""
        return self.about.pieces.get(str(token), f"#{token}")

    @property
    def text(self) -> str:
        return self.about.source.text

    @property
    def translation(self) -> str:
        return self.about.target.text

    @property
    def log_probabilities(self) -> list[float]:
        """Of each target token after those before it, in nats."""
        return list(self["output.log_probability"].tolist())

    @property
    def attentions(self) -> list[str]:
        """The addresses of all attentions, the encoder's first."""
        return [name.removesuffix(".weights") for name in self if name.endswith("attention.weights")]

    def step(self, number: int) -> DecodingStep:
        """One step of decoding. What a cached step computes is a row of the whole, which is what the trace has."""
        if not 0 <= number < self.steps:
            raise InputError(f"There are {self.steps} steps, counted from 0, and none is {number}.")
        past: list[KeyValues | Tensor] = []
        source = []
        for i in range(self.config.decoder_layers):
            layer = f"decoder.layers.{i}"
            if self.config.decoder_ssru:
                past.append(self[f"{layer}.recurrence.cell"][number])
            else:
                own = (self[f"{layer}.self_attention.{letter}"][:, : number + 1] for letter in "kv")
                past.append(KeyValues(*own))
            source.append(KeyValues(*(self[f"{layer}.cross_attention.{letter}"] for letter in "kv")))
        return DecodingStep(number, self.reads[number], self.target[number], past, source)

    def figure(self, view: str, **options: Any) -> "Figure":
        """A picture of the trace: `trace.figure("attention", head=2).save("it.svg")`; see `inspection.figures`."""
        from glassformer.inspection.figures import figure  # it knows traces, and not every trace is drawn

        return figure(self, view, **options)

    def story(self, *, name: str = "", dark: bool = False, **options: Any) -> "Story":
        """All pictures on one page that is read from top to bottom: `trace.story(at=..., head=2).save("it.html")`."""
        from glassformer.inspection.figures import story

        return story(self, name=name, dark=dark, **options)

    def save(
        self,
        path: str | os.PathLike[str],
        detail: Detail = "full",
        half: bool = False,
        parameters: Sequence[str] = (),
    ) -> None:
        """One file, whole or not at all. `half` writes float16: half as large, three digits.

        `parameters`: patterns of weights that go with it, "decoder.layers.0.*" say; they are the large part of a model.
        """
        from glassformer.inspection.tracing.trace_file import write_trace  # which knows traces

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
        """The explorer of this trace as one HTML file that loads nothing; whole or not at all.

        `detail`: "attention" has the weights of all attentions, "full" every step. `name`: the model's, to be shown.
        `weights`: whether the model's go with it, so that every step can be redone; small models' do unless you say.
        `half`: float16, half as large; by size unless you say. A page of more than `largest` bytes is refused.
        """
        from glassformer.inspection.explorer import write_page  # which knows traces

        write_page(self, path, detail, name=name, weights=weights, half=half, largest=largest)

    def explore(self, *, static: bool = False, name: str = "") -> Any:
        """The explorer of this trace in a notebook: a widget, or with `static` a page that needs no kernel."""
        import glassformer  # the front door, because notebooks stand above this room

        return glassformer.explore(self, static=static, name=name)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Trace":
        """The trace in a file; its tensors are read when they are asked for."""
        from glassformer.inspection.tracing.trace_file import read_trace

        return read_trace(Path(path))


def in_memory(
    about: TraceInfo, tensors: Mapping[str, Tensor], tree: SearchTree | None, parameters: Mapping[str, Tensor]
) -> Trace:
    """A trace of tensors that are there already."""
    return Trace(about, _at_hand(tensors), tree, _at_hand(parameters))


def _at_hand(tensors: Mapping[str, Tensor]) -> dict[str, Callable[[], Tensor]]:
    return {name: partial(tensors.__getitem__, name) for name in tensors}


def request_of(about: TraceInfo) -> Request:
    """What was asked for, before any change."""
    return Request(about.asked.ids, tuple(about.prefix))
