"""Word alignment: cross-attention weights of selected heads, aggregated from tokens to words.

Which heads align, and at which time step, differs between models: `head_selection` measures it, and the selection is
stored in the model directory. The default is the mean over the heads of the layer below the last, of the simple rules
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
from glassformer.decoding.continuous_batching import batches_by_cost
from glassformer.decoding.step_model import padded
from glassformer.errors import DirectoryError, InputError, SettingsError
from glassformer.inspection.alignment.word_spans import Word, marks_of, words
from glassformer.inspection.tracing.record import record
from glassformer.model import ModelConfig, Transformer
from glassformer.model.dims import Float, Int, Tensor
from glassformer.settings import Settings

FILE = "alignment.json"
MAX_BATCH_POSITIONS = 4_000
"""Maximum of source and target positions per batch."""
TIE = 1e-6
"""Largest difference of attention weights, from 0 to 1, that rounding in float32 may have made."""
WARN_ABOVE = 0.6
"""Default spread above which a link is uncertain, for models without a measurement."""


class AlignmentHead(Settings):
    """One cross-attention head of a decoder layer, at one of two time steps of each target token."""

    layer: Annotated[int, Field(ge=0)]
    head: Annotated[int, Field(ge=0)]
    target_token: Literal["output", "input"]
    """The decoding step: the one that outputs the target token, or the next, which reads it (arXiv:2004.14837)."""

    def __str__(self) -> str:
        return f"layer {self.layer}, head {self.head}, target token as {self.target_token}"


class AlignmentHeads(Settings):
    """The heads used for word alignment, and how they were selected: the contents of alignment.json."""

    heads: Annotated[list[AlignmentHead], Field(min_length=1)]
    """The heads; their attention weights are averaged."""
    warn_above: Annotated[float, Field(ge=0, le=1)] = WARN_ABOVE
    """The spread (normalised entropy, 0 to 1) above which a link is uncertain."""
    measured_by: Literal["gold", "learned", "nothing"] = "nothing"
    """Links used to select the heads: gold (drawn by people), learned (IBM model 1), or nothing (default heads)."""
    pairs: int = 0
    """Number of sentence pairs that the heads were measured on."""
    aer: float | None = None
    """The alignment error rate on these sentence pairs."""


def default_alignment_heads(config: ModelConfig) -> AlignmentHeads:
    """Default heads for word alignment: all of the layer below the last, at the step that writes each token."""
    layer = max(0, config.decoder_layers - 2)
    return AlignmentHeads(
        heads=[AlignmentHead(layer=layer, head=head, target_token="output") for head in range(config.n_heads)]
    )


def read_alignment_heads(directory: Path | None, config: ModelConfig) -> AlignmentHeads:
    """Read the alignment heads selected for the model in a directory; the default heads without a selection."""
    content = None if directory is None else read_file(directory, FILE)
    if directory is None or content is None:
        return default_alignment_heads(config)
    try:
        table = json.loads(content)
        return checked(AlignmentHeads(**table | {"heads": [AlignmentHead(**head) for head in table["heads"]]}), config)
    except (TypeError, KeyError):
        reason = "expected a JSON object with a list of `heads`."
    except (ValueError, RecursionError, SettingsError, InputError) as error:
        reason = str(error)
    raise DirectoryError(
        f"{directory / FILE} is not a valid selection of heads for this model: {reason.removesuffix('.')}. "
        "`glassformer align --choose` selects heads again."
    )


def write_alignment_heads(choice: AlignmentHeads, directory: Path) -> None:
    """Write a selection of alignment heads into a model directory, replacing the one before."""
    add_file(directory, FILE, choice.as_json().encode())


def checked(choice: AlignmentHeads, config: ModelConfig) -> AlignmentHeads:
    """Check that the model has the selected heads; returns the selection."""
    for selected in choice.heads:
        if selected.layer >= config.decoder_layers or selected.head >= config.n_heads:
            raise InputError(
                f"The model has no head {selected.head} in decoder layer {selected.layer}: it has "
                f"{config.decoder_layers} decoder layers with {config.n_heads} heads each, counted from 0."
            )
    return choice


@dataclass(frozen=True)
class WordPair:
    """A sentence pair as token ids and as words."""

    source_ids: Sequence[int]
    target_ids: Sequence[int]
    """Target token ids, with the end-of-sentence token, without the start token."""
    source: list[Word]
    target: list[Word]

    @property
    def texts(self) -> tuple[list[str], list[str]]:
        return [word.text for word in self.source], [word.text for word in self.target]


@dataclass(frozen=True)
class Link:
    """A word link: a target word and the source word with the largest attention weight; indices from 0."""

    source: int
    target: int
    weight: float
    """The source word's share of the target word's attention."""
    spread: float
    """Normalised entropy of the target word's attention, from 0 (one source word) to 1 (uniform)."""
    uncertain: bool
    """Whether the spread is above the selection's `warn_above`."""


def word_pair(
    tokenizer: AnyTokenizer | IdsOnly, source: Sequence[int], target: Sequence[int], apart: bool = True
) -> WordPair:
    """A sentence pair with token ids and words; without `apart`, words are split at spaces only."""
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
    """Align sentence pairs: link each target word to the source word with the largest attention weight.

    `at_least` drops links with a smaller weight; `both_ways` keeps only links that are the largest for both words.
    """
    choice = checked(choice, model.config) if choice else default_alignment_heads(model.config)
    aligned: list[list[Link]] = [[] for _ in pairs]
    for number, attention in word_attention(model, pairs, choice.heads):
        weights = shares(attention.mean(0))
        pair_links = links(weights, choice.warn_above)
        pair_links = mutual(weights, pair_links) if both_ways else pair_links
        aligned[number] = [link for link in pair_links if link.weight >= at_least]
    return aligned


def align_ids(
    model: Transformer,
    tokenizer: AnyTokenizer | IdsOnly,
    ids: Sequence[tuple[Sequence[int], Sequence[int]] | None],
    choice: AlignmentHeads | None = None,
) -> list[tuple[WordPair, list[Link]] | None]:
    """Align translations, given as source and target ids, in one pass through the model; None stays None."""
    pairs = [None if pair is None else word_pair(tokenizer, *pair) for pair in ids]
    aligned = iter(align(model, [pair for pair in pairs if pair is not None], choice))
    return [None if pair is None else (pair, next(aligned)) for pair in pairs]


def links(weights: Float[Tensor, "T S"], warn_above: float = WARN_ABOVE) -> list[Link]:
    """Links from attention shares: each target word to the source word with the largest share; of ties, the first."""
    if not weights.numel():
        return []
    columns = zip(first_largest(weights).tolist(), weights.amax(-1).tolist(), spread(weights).tolist(), strict=True)
    return [
        Link(source, target, weight, word_spread, word_spread > warn_above)
        for target, (source, weight, word_spread) in enumerate(columns)
    ]


def first_largest(weights: Float[Tensor, "*rows S"]) -> Int[Tensor, "*rows"]:
    """Index of the largest weight of each row; of weights that differ only by rounding, the first.

    So a link does not depend on the precision or on the engine.
    """
    return (weights >= weights.amax(-1, keepdim=True) - TIE).byte().argmax(-1)


def mutual(weights: Float[Tensor, "T S"], found: Sequence[Link]) -> list[Link]:
    """The links that hold in both directions: no other target word has a larger share for the source word."""
    best_targets = first_largest(weights.T).tolist() if weights.numel() else []
    return [link for link in found if best_targets[link.source] == link.target]


def shares(attention: Float[Tensor, "T S"]) -> Float[Tensor, "T S"]:
    """Attention per target word normalised to 1; weight on tokens outside words (tags, end) is spread over all words.

    Such weight says nothing about any word: a head without a match attends to the end of sentence.
    """
    outside_words = (1 - attention.sum(-1, keepdim=True)).clamp(min=0)
    return attention + outside_words / max(1, attention.shape[-1])


def spread(weights: Float[Tensor, "T S"]) -> Float[Tensor, " T"]:
    """-Σ w log w / log S: 0 if one word has all the weight, 1 if the weights are uniform."""
    entropy = torch.special.entr(weights).sum(-1)
    return (entropy / math.log(max(2, weights.shape[-1]))).clamp(0, 1)


@torch.no_grad()
def word_attention(
    model: Transformer, pairs: Sequence[WordPair], heads: Sequence[AlignmentHead]
) -> Iterator[tuple[int, Float[Tensor, "C T S"]]]:
    """For each pair with words on both sides, its index and each head's attention from target to source words.

    Summed over the tokens of a source word, mean over the tokens of a target word.
    """
    numbers = [i for i, pair in enumerate(pairs) if pair.source and pair.target]
    names = {head.layer: f"decoder.layers.{head.layer}.cross_attention.weights" for head in heads}
    costs = [len(pairs[i].source_ids) + len(pairs[i].target_ids) for i in numbers]
    for batch in batches_by_cost(costs, MAX_BATCH_POSITIONS):
        batch_pairs = [pairs[numbers[i]] for i in batch]
        with record(model, *names.values()) as recording:
            _decode(model, batch_pairs)
        weights = torch.stack([recording[names[head.layer]][:, head.head] for head in heads])
        for row, (i, pair) in enumerate(zip(batch, batch_pairs, strict=True)):
            yield numbers[i], _by_words(weights[:, row], pair, heads)


def _decode(model: Transformer, pairs: Sequence[WordPair]) -> None:
    """Run the model on sentence pairs up to the last decoder layer; logits are not needed."""
    config, device = model.config, model.output_projection.weight.device
    source = padded([pair.source_ids for pair in pairs], config.pad_id).to(device)
    before = padded([[config.bos_id, *pair.target_ids[:-1]] for pair in pairs], config.pad_id).to(device)
    visible = model.visible(source)
    model.decode(before, model.encode(source, visible), visible)


def _by_words(
    weights: Float[Tensor, "C T S"], pair: WordPair, heads: Sequence[AlignmentHead]
) -> Float[Tensor, "C words_T words_S"]:
    """Attention between words: Σ over a source word's tokens, mean over a target word's, at the head's time step."""
    columns, source = _word_tokens(pair.source, weights.device)
    rows, target = _word_tokens(pair.target, weights.device)
    to_words = weights.new_zeros(*weights.shape[:2], len(pair.source)).index_add_(2, source, weights[:, :, columns])
    last = len(pair.target_ids) - 1  # without an end-of-sentence token there is no step after the last token
    one_later = torch.tensor([head.target_token == "input" for head in heads], device=weights.device)
    steps = (rows + one_later[:, None]).clamp(max=last)
    at_steps = to_words.gather(1, steps[:, :, None].expand(-1, -1, len(pair.source)))
    summed = weights.new_zeros(len(heads), len(pair.target), len(pair.source)).index_add_(1, target, at_steps)
    return summed / target.bincount()[:, None]


def _word_tokens(side: Sequence[Word], device: torch.device) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"]]:
    """Positions of all tokens that belong to words, and the index of the word of each."""
    rows = [(position, number) for number, word in enumerate(side) for position in range(word.first, word.end)]
    table = torch.tensor(rows, device=device)
    return table[:, 0], table[:, 1]
