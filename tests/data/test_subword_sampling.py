"""Subword sampling: other tokens, the same text; a pure function of seed, epoch and sentence."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.builtin import street
from glassformer.data import Pair, TokenizerSettings, train_tokenizer
from glassformer.data.subword_sampling import SubwordSampler, TokenSplits
from glassformer.data.tokenizer import SIDES

PAIRS = [Pair(0, s.source, s.target) for s in street.sentences("train", 300)]
TOKENIZERS = {
    (kind, joint): train_tokenizer(TokenizerSettings(kind=kind, vocab_size=500, joint=joint, tags=["<2de>"]), PAIRS)
    for kind in ("unigram", "bpe")
    for joint in (True, False)
}
tokenizers = st.sampled_from(list(TOKENIZERS.values()))
texts = st.one_of(st.text(max_size=40), st.sampled_from([text for pair in PAIRS for text in pair[1:]]))
probabilities = st.sampled_from([0.05, 0.3, 0.9])


def encoded(tokenizer, source, target):
    return tuple(np.array(tokenizer.encode(text, side)) for text, side in zip((source, target), SIDES, strict=True))


@given(tokenizers, texts, texts, probabilities, st.integers(0, 9), st.integers(0, 9))
def test_the_text_stays_the_same(tokenizer, source, target, probability, seed, epoch):
    pair = encoded(tokenizer, f"<2de> {source}", target)
    sampled = SubwordSampler.of(tokenizer, probability, seed, 1000).sample(pair, 3, epoch)
    for before, after, side in zip(pair, sampled, SIDES, strict=True):
        assert tokenizer.decode(after.tolist(), side) == tokenizer.decode(before.tolist(), side)
        assert len(after) >= len(before)
        kept = [i for i in before.tolist() if not tokenizer.is_text(i, side)]  # bytes, tags, the end of the sentence
        assert [i for i in after.tolist() if not tokenizer.is_text(i, side)] == kept


@given(tokenizers, texts, probabilities, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_the_same_seed_epoch_and_sentence_give_the_same_tokens(tokenizer, text, probability, seed, epoch, index):
    pair = encoded(tokenizer, text, text)
    first, second = (SubwordSampler.of(tokenizer, probability, seed, 1000).sample(pair, index, epoch) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@given(tokenizers, texts, st.integers(1, 20))
def test_no_side_grows_beyond_the_limit(tokenizer, text, limit):
    pair = encoded(tokenizer, text, text)
    sampled = SubwordSampler.of(tokenizer, 0.9, 0, limit).sample(pair, 0, 0)
    for before, after in zip(pair, sampled, strict=True):
        assert len(after) <= limit or np.array_equal(before, after)


@pytest.mark.parametrize(("kind", "joint"), TOKENIZERS)
def test_tokens_are_split_as_often_as_asked_for(kind, joint):
    """Counted over tokens that can be split at all; the bounds are five standard deviations."""
    splits = TokenSplits(TOKENIZERS[kind, joint], "source")
    splittable = [i for i, ways in enumerate(splits.ways) if ways]
    tokens = splittable * (20_000 // len(splittable))
    random = np.random.default_rng(0)
    unchanged = sum(splits.sample([token], 0.2, random) == [token] for token in tokens)
    assert abs(unchanged / len(tokens) - 0.8) < 5 * (0.2 * 0.8 / len(tokens)) ** 0.5


def test_all_tokens_of_several_characters_can_be_split():
    tokenizer = TOKENIZERS["unigram", True]
    ids = [i for i in range(tokenizer.vocab_size("source")) if tokenizer.is_text(i, "source")]
    ways = TokenSplits(tokenizer, "source").ways
    for token, piece in zip(ids, tokenizer.pieces(ids, "source"), strict=True):
        assert bool(ways[token]) == (len(piece) > 1)
        for way in ways[token]:
            assert "".join(tokenizer.pieces(way, "source")) == piece


def test_epochs_sentences_and_seeds_differ():
    tokenizer = TOKENIZERS["unigram", True]
    pair = encoded(tokenizer, *PAIRS[0][1:])

    def sample(seed, index, epoch):
        return SubwordSampler.of(tokenizer, 0.3, seed, 1000).sample(pair, index, epoch)[0].tolist()

    samples = [sample(0, 0, 0), sample(1, 0, 0), sample(0, 1, 0), sample(0, 0, 1)]
    assert len({tuple(ids) for ids in samples}) == 4
