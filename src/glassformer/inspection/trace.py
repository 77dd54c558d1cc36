"""A trace: one sentence's way through a model, every tap by name, with axes and tokens. One safetensors file.

Knows no model: what is in it can be read, drawn and compared where the model is not.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from glassformer.decoding import Beam, Request
from glassformer.decoding.tree import FATES, Fate, Tree
from glassformer.errors import DirectoryError, GlassformerError, InputError
from glassformer.inspection.changes import AnyChange
from glassformer.model import ModelConfig
from glassformer.model.attention import KeyValues
from glassformer.model.dims import Tensor
from glassformer.sealed import replace_file
from glassformer.settings import Settings

FORMAT = 1
HEADER = "glassformer.trace"
LARGEST_HEADER = 2**24
"""Bytes of the list that a file begins with; that of a long sentence and a wide beam has a few hundred thousand."""
LARGEST_HALF = 65504.0
WEIGHT = "parameters."
"""What the names of weights begin with in a file, so that they are not taken for taps."""
Detail = Literal["attention", "full", "everything"]
DETAILS: dict[Detail, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "attention": (("*_attention.weights", "output.log_probability", "output.entropy"), ()),
    # heads_out and logits are H and V times as large as the rest, and can be made again from it.
    "full": (("*",), ("*.heads_out", "logits")),
    "everything": (("*",), ()),
}
"""What a file keeps, and what of that it leaves out."""


class Side(Settings):
    """One side of a sentence."""

    text: str
    ids: list[int]
    """With the end of sentence."""
    pieces: list[str]
    """Each token as one would show it; ▁ stands for a space."""


class About(Settings):
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
class Step:
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
        about: About,
        kept: Mapping[str, Callable[[], Tensor]],
        tree: Tree | None,
        parameters: Mapping[str, Callable[[], Tensor]],
    ) -> None:
        self.about = about
        self._kept = kept
        self._parameters = parameters
        self.tree = tree
        """Every hypothesis that the search looked at; None where the target was given."""

    def __getitem__(self, name: str) -> Tensor:
        place = self.about.same.get(name, name)
        if place in self._kept:
            return self._kept[place]()
        close = next((known for known in self if known.endswith(name.rpartition(".")[2])), next(iter(self), None))
        raise InputError(
            f"The trace has no {name!r}; {len(self)} others, {close!r} for one. If it was left out when the trace was "
            "saved, save it with detail='everything'."
        )

    def __contains__(self, name: object) -> bool:
        return self.about.same.get(str(name), name) in self._kept

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.about.axes if self.about.same.get(name, name) in self._kept)

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
        return self._parameters[name]() if name in self._parameters else None

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

    def step(self, number: int) -> Step:
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
        return Step(number, self.reads[number], self.target[number], past, source)

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
        tensors = {name: self[name] for name in self._names(detail)}
        weights = {f"{WEIGHT}{name}": get() for name, get in self._parameters.items() if _matches(name, parameters)}
        tensors |= weights
        if half:
            tensors = {name: _halved(name, tensor) for name, tensor in tensors.items()}
        same = {name: kept for name, kept in self.about.same.items() if kept in tensors}
        axes = {name: letters for name, letters in self.about.axes.items() if same.get(name, name) in tensors}
        about = self.about.model_copy(update={"same": same, "axes": axes})
        header = {HEADER: json.dumps(about.model_dump(mode="json"), ensure_ascii=False)}
        contents = {  # copies, because some are parts of one table
            name: tensor.clone(memory_format=torch.contiguous_format)
            for name, tensor in (tensors | _tree_tensors(self.tree)).items()
        }
        replace_file(Path(path), save(contents, header))

    def _names(self, detail: Detail) -> list[str]:
        if detail not in DETAILS:
            raise InputError(f"detail is one of {', '.join(DETAILS)}, and not {detail!r}.")
        wanted, but_not = DETAILS[detail]
        return [name for name in self._kept if _matches(name, wanted) and not _matches(name, but_not)]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Trace":
        """The trace in a file; its tensors are read when they are asked for."""
        try:
            return _opened(Path(path))
        except (SafetensorError, OSError) as error:
            why = str(error).splitlines()[0].removesuffix(".")
            raise DirectoryError(f"{path} is not a readable trace: {why}.") from None
        except GlassformerError as error:
            raise DirectoryError(f"{path} is not a readable trace: {error}") from None


def in_memory(
    about: About, tensors: Mapping[str, Tensor], tree: Tree | None, parameters: Mapping[str, Tensor]
) -> Trace:
    """A trace of tensors that are there already."""
    return Trace(about, _at_hand(tensors), tree, _at_hand(parameters))


def _at_hand(tensors: Mapping[str, Tensor]) -> dict[str, Callable[[], Tensor]]:
    return {name: partial(tensors.__getitem__, name) for name in tensors}


def request_of(about: About) -> Request:
    """What was asked for, before any change."""
    return Request(about.asked.ids, tuple(about.prefix))


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _halved(name: str, tensor: Tensor) -> Tensor:
    """In float16, unless it is a small one that is computed with, or holds numbers that float16 does not."""
    if not tensor.is_floating_point() or name.startswith("output."):
        return tensor
    finite = tensor.nan_to_num(0, 0, 0)
    return tensor if finite.numel() and finite.abs().max() > LARGEST_HALF else tensor.half()


def _tree_tensors(tree: Tree | None) -> dict[str, Tensor]:
    if tree is None:
        return {}
    return {
        "search.parent": torch.tensor(tree.parent, dtype=torch.int32),
        "search.token": torch.tensor(tree.token, dtype=torch.int32),
        "search.log_probability": torch.tensor(tree.log_probability, dtype=torch.float64),
        "search.score": torch.tensor(tree.score, dtype=torch.float64),
        "search.fate": torch.tensor([FATES.index(fate) for fate in tree.fate], dtype=torch.uint8),
    }


def _tree(tensors: dict[str, Tensor], about: About) -> Tree | None:
    if not tensors:
        return None
    try:
        parent, token, log_probability, score, fate = (
            tensors[name].tolist() for name in ("parent", "token", "log_probability", "score", "fate")
        )
        fates: list[Fate] = [FATES[code] for code in fate]
        whole = len(parent) == len(token) == len(log_probability) == len(score) == len(fates)
        # A parent stands before its children: so every way back ends at the start.
        rooted = parent[:1] == [-1] and all(0 <= own < number for number, own in enumerate(parent[1:], start=1))
    except (KeyError, IndexError, TypeError):
        whole = rooted = False
    if not (whole and rooted):
        raise DirectoryError("its tree of hypotheses is none.")
    return Tree(parent, token, log_probability, score, fates, about.search.length_penalty, about.limit)


def _opened(path: Path) -> Trace:
    with path.open("rb") as raw:
        header = int.from_bytes(raw.read(8), "little")
    if header > LARGEST_HEADER:
        raise DirectoryError(f"its list has {header:,} bytes, and may have {LARGEST_HEADER:,}.")
    file = safe_open(path, framework="pt")
    about = _about((file.metadata() or {}).get(HEADER))
    names = set(file.keys())
    searched = {name.removeprefix("search."): file.get_tensor(name) for name in names if name.startswith("search.")}
    kept = {name: partial(file.get_tensor, name) for name in about.axes if name in names}
    weights = {name.removeprefix(WEIGHT): partial(file.get_tensor, name) for name in names if name.startswith(WEIGHT)}
    return Trace(about, kept, _tree(searched, about), weights)


def _about(text: str | None) -> About:
    if text is None:
        raise DirectoryError("it is a safetensors file, but not one of a trace.")
    try:
        table: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise DirectoryError("what it says of itself is not JSON.") from None
    if not isinstance(table, dict):
        raise DirectoryError("what it says of itself is no table.")
    if table.get("format") != FORMAT:
        raise DirectoryError(f"it is of format {table.get('format')!r}, and this version reads {FORMAT}.")
    return About(**table)
