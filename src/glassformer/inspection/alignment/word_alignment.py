"""Which source word each target word looks at: cross-attention of chosen heads, with tokens put together to words.

Which heads, and at which moment, differs from model to model: `choosing` measures it, and what was chosen is kept in
the model's directory. Without a choice it is the mean over the heads of the layer below the last, of the simple rules
the one that agrees best with people (arXiv:1909.02074).
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
from pydantic import Field

from glassformer.atomic_directory import add_file, read_file
from glassformer.data import AnyTokenizer, IdsOnly
from glassformer.decoding.continuous_batching import alike
from glassformer.decoding.step_model import padded
from glassformer.errors import DirectoryError, InputError, SettingsError
from glassformer.inspection.alignment.word_spans import Word, marks_of, words
from glassformer.inspection.tracing.record import record
from glassformer.model import ModelConfig, Transformer
from glassformer.model.dims import Float, Int, Tensor
from glassformer.settings import Settings

FILE = "alignment.json"
POSITIONS = 4_000
"""Source and target positions looked at at once."""
WARN_ABOVE = 0.6
"""The spread from which on a look is not to be trusted, where nothing was measured."""


class AlignmentHead(Settings):
    """One head of a decoder layer's cross-attention, at one moment of every target token."""

    layer: Annotated[int, Field(ge=0)]
    head: Annotated[int, Field(ge=0)]
    when: Literal["written", "read"]
    """While the token is being written, or one step later, when it has just been read (arXiv:2004.14837)."""

    def __str__(self) -> str:
        return f"layer {self.layer}, head {self.head}, {self.when}"


class AlignmentHeads(Settings):
    """Whose looks are taken as alignment, and how that was found."""

    looks: Annotated[list[AlignmentHead], Field(min_length=1)]
    """Their mean is taken."""
    warn_above: Annotated[float, Field(ge=0, le=1)] = WARN_ABOVE
    """The spread (entropy, from 0 to 1) from which on a link is uncertain."""
    measured_by: Literal["gold", "silver", "nothing"] = "nothing"
    """Links that people drew, links learned from the sentences themselves, or none: then it is the simple rule."""
    pairs: int = 0
    """On how many pairs."""
    aer: float | None = None
    """The alignment error rate there."""


def default_alignment_heads(config: ModelConfig) -> AlignmentHeads:
    """All heads of the layer below the last, as each token is written."""
    layer = max(0, config.decoder_layers - 2)
    return AlignmentHeads(
        looks=[AlignmentHead(layer=layer, head=head, when="written") for head in range(config.n_heads)]
    )


def read_alignment_heads(directory: Path, config: ModelConfig) -> AlignmentHeads:
    """What was chosen for the model of a directory; without that, the simple rule."""
    content = read_file(directory, FILE)
    if content is None:
        return default_alignment_heads(config)
    try:
        table = json.loads(content)
        return checked(AlignmentHeads(**table | {"looks": [AlignmentHead(**look) for look in table["looks"]]}), config)
    except (ValueError, TypeError, KeyError, RecursionError, SettingsError, InputError) as error:
        raise DirectoryError(f"{directory / FILE} is no choice of heads for this model: {error}") from None


def write_alignment_heads(choice: AlignmentHeads, directory: Path) -> None:
    """Put a choice into a model's directory, in the place of the one before."""
    add_file(directory, FILE, choice.as_json().encode())


def checked(choice: AlignmentHeads, config: ModelConfig) -> AlignmentHeads:
    """The choice, if the model has all its heads."""
    for look in choice.looks:
        if look.layer >= config.decoder_layers or look.head >= config.n_heads:
            raise InputError(
                f"The model has {config.decoder_layers} decoder layers of {config.n_heads} heads, counted from 0, and "
                f"no {look}."
            )
    return choice


@dataclass(frozen=True)
class WordPair:
    """A sentence and its counterpart as ids and as words."""

    source_ids: Sequence[int]
    target_ids: Sequence[int]
    """With the end of sentence, without the start."""
    source: list[Word]
    target: list[Word]

    @property
    def texts(self) -> tuple[list[str], list[str]]:
        return [word.text for word in self.source], [word.text for word in self.target]


@dataclass(frozen=True)
class Link:
    """A target word and the source word that it looks at most: numbers of words, from 0."""

    source: int
    target: int
    weight: float
    """Its share of all that the target word looks at."""
    spread: float
    """The entropy of those shares, from 0 (one word) to 1 (all alike)."""
    uncertain: bool
    """Whether the look is spread too far to be trusted."""


def word_pair(
    tokenizer: AnyTokenizer | IdsOnly, source: Sequence[int], target: Sequence[int], apart: bool = True
) -> WordPair:
    """Two sides' ids with their words; without `apart`, words are what stands between spaces."""
    marks = marks_of(tokenizer)
    pieces = tokenizer.pieces(source, "source"), tokenizer.pieces(target, "target")
    return WordPair(source, target, words(pieces[0], marks, apart), words(pieces[1], marks, apart))


def align(
    model: Transformer,
    pairs: Sequence[WordPair],
    choice: AlignmentHeads | None = None,
    at_least: float = 0.0,
    both_ways: bool = False,
) -> list[list[Link]]:
    """For each target word of each pair, the source word that it looks at most.

    `at_least` leaves out links of a smaller share; `both_ways` those whose source word is looked at more by another.
    """
    choice = checked(choice, model.config) if choice else default_alignment_heads(model.config)
    found: list[list[Link]] = [[] for _ in pairs]
    for number, looks in word_looks(model, pairs, choice.looks):
        weights = shares(looks.mean(0))
        own = links(weights, choice.warn_above)
        own = mutual(weights, own) if both_ways else own
        found[number] = [link for link in own if link.weight >= at_least]
    return found


def links(weights: Float[Tensor, "T S"], warn_above: float = WARN_ABOVE) -> list[Link]:
    """One link for each target word, to the source word with the largest share; of equals the first."""
    if not weights.numel():
        return []
    best, spreads = weights.max(-1), spread(weights).tolist()
    return [
        Link(source, target, weight, wide, wide > warn_above)
        for target, (source, weight, wide) in enumerate(
            zip(best.indices.tolist(), best.values.tolist(), spreads, strict=True)
        )
    ]


def mutual(weights: Float[Tensor, "T S"], found: Sequence[Link]) -> list[Link]:
    """Those links whose source word, too, is looked at by no target word more than by this one."""
    most = weights.argmax(0).tolist() if weights.numel() else []
    return [link for link in found if most[link.source] == link.target]


def shares(looks: Float[Tensor, "T S"]) -> Float[Tensor, "T S"]:
    """What each target word looks at as shares of 1. What falls on no word (tags, the end) goes to all words alike.

    For it says nothing of any: a head that has nothing to look for looks at the end of sentence.
    """
    elsewhere = (1 - looks.sum(-1, keepdim=True)).clamp(min=0)
    return looks + elsewhere / max(1, looks.shape[-1])


def spread(weights: Float[Tensor, "T S"]) -> Float[Tensor, " T"]:
    """-Σ w log w / log S: 0 where all falls on one word, 1 where all words have the same share."""
    entropy = torch.special.entr(weights).sum(-1)
    return (entropy / math.log(max(2, weights.shape[-1]))).clamp(0, 1)


@torch.no_grad()
def word_looks(
    model: Transformer, pairs: Sequence[WordPair], looks: Sequence[AlignmentHead]
) -> Iterator[tuple[int, Float[Tensor, "C T S"]]]:
    """Number of each pair with words on both sides, and how much each target word looks at each source word, by look.

    A word's look is the mean over its tokens, and falls on all tokens of a source word together.
    """
    numbers = [i for i, pair in enumerate(pairs) if pair.source and pair.target]
    names = {look.layer: f"decoder.layers.{look.layer}.cross_attention.weights" for look in looks}
    for batch in alike([len(pairs[i].source_ids) + len(pairs[i].target_ids) for i in numbers], POSITIONS):
        own = [pairs[numbers[i]] for i in batch]
        with record(model, *names.values()) as heard:
            _decode(model, own)
        heads = torch.stack([heard[names[look.layer]][:, look.head] for look in looks])
        for row, (i, pair) in enumerate(zip(batch, own, strict=True)):
            yield numbers[i], _in_words(heads[:, row], pair, looks)


def _decode(model: Transformer, pairs: Sequence[WordPair]) -> None:
    """Read the pairs up to the decoder's last layer: nobody asks for logits."""
    config, device = model.config, model.output_projection.weight.device
    source = padded([pair.source_ids for pair in pairs], config.pad_id).to(device)
    before = padded([[config.bos_id, *pair.target_ids[:-1]] for pair in pairs], config.pad_id).to(device)
    visible = model.visible(source)
    model.decode(before, model.encode(source, visible), visible)


def _in_words(
    heads: Float[Tensor, "C T S"], pair: WordPair, looks: Sequence[AlignmentHead]
) -> Float[Tensor, "C words_T words_S"]:
    """Σ over the tokens of a source word, mean over those of a target word, each at its head's moment."""
    columns, source = _tokens(pair.source, heads.device)
    rows, target = _tokens(pair.target, heads.device)
    looked = heads.new_zeros(*heads.shape[:2], len(pair.source)).index_add_(2, source, heads[:, :, columns])
    last = len(pair.target_ids) - 1  # a target without an end has no step behind its last token
    later = torch.tensor([look.when == "read" for look in looks], device=heads.device)
    moments = (rows + later[:, None]).clamp(max=last)
    at = looked.gather(1, moments[:, :, None].expand(-1, -1, len(pair.source)))
    summed = heads.new_zeros(len(looks), len(pair.target), len(pair.source)).index_add_(1, target, at)
    return summed / target.bincount()[:, None]


def _tokens(side: Sequence[Word], device: torch.device) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """The places of all tokens that belong to words, and the number of each one's word."""
    places = [(place, number) for number, word in enumerate(side) for place in range(word.first, word.end)]
    both = torch.tensor(places, device=device)
    return both[:, 0], both[:, 1]
