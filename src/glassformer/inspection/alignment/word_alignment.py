"""Word alignment with a PyTorch model: cross-attention weights at its taps, aggregated from tokens to words.

An engine gives the same weights (`Translator.align`); here they are those of any model, also a changed one.
"""

from collections.abc import Iterator, Sequence

import torch

from glassformer.data.word_spans import WordPair
from glassformer.decoding.alignment_choice import AlignmentHead, AlignmentHeads, checked, default_alignment_heads
from glassformer.decoding.attention_links import Floats, Link, by_words, word_links
from glassformer.decoding.batch_limits import batches_by_cost
from glassformer.decoding.step_model import padded
from glassformer.engine.tensor_next_tokens import at_least_float32
from glassformer.inspection.tracing.record import record
from glassformer.model import Transformer

MAX_BATCH_POSITIONS = 4_000
"""Maximum of source and target positions per batch."""


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
    for number, attention in _token_attention(model, pairs, choice.heads):
        pair = pairs[number]
        aligned[number] = word_links(attention, pair.source, pair.target, choice, at_least, both_ways)
    return aligned


def word_attention(
    model: Transformer, pairs: Sequence[WordPair], heads: Sequence[AlignmentHead]
) -> Iterator[tuple[int, Floats]]:
    """For each pair with words on both sides, its index and each head's attention from target to source words."""
    for number, attention in _token_attention(model, pairs, heads):
        yield number, by_words(attention, pairs[number].source, pairs[number].target, heads)


@torch.no_grad()
def _token_attention(
    model: Transformer, pairs: Sequence[WordPair], heads: Sequence[AlignmentHead]
) -> Iterator[tuple[int, Floats]]:
    """For each pair with words on both sides, its index and each head's attention between tokens."""
    numbers = [i for i, pair in enumerate(pairs) if pair.source and pair.target]
    names = {head.layer: f"decoder.layers.{head.layer}.cross_attention.weights" for head in heads}
    costs = [len(pairs[i].source_ids) + len(pairs[i].target_ids) for i in numbers]
    for batch in batches_by_cost(costs, MAX_BATCH_POSITIONS):
        batch_pairs = [pairs[numbers[i]] for i in batch]
        with record(model, *names.values()) as recording:
            _decode(model, batch_pairs)
        stacked = torch.stack([recording[names[head.layer]][:, head.head] for head in heads], 1)
        weights = at_least_float32(stacked).cpu().numpy()
        for row, (i, pair) in enumerate(zip(batch, batch_pairs, strict=True)):
            yield numbers[i], weights[row, :, : len(pair.target_ids), : len(pair.source_ids)]


def _decode(model: Transformer, pairs: Sequence[WordPair]) -> None:
    """Run the model on sentence pairs up to the last decoder layer; logits are not needed."""
    config, device = model.config, model.output_projection.weight.device
    source = torch.from_numpy(padded([pair.source_ids for pair in pairs], config.pad_id)).to(device)
    prefixes = [[config.bos_id, *pair.target_ids[:-1]] for pair in pairs]
    before = torch.from_numpy(padded(prefixes, config.pad_id)).to(device)
    visible = model.visible(source)
    model.decode(before, model.encode(source, visible), visible)
