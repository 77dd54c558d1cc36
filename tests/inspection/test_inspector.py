"""The inspector: with texts and words, what the functions on token ids give."""

from itertools import islice

import pytest

from glassformer import load
from glassformer.builtin import street
from glassformer.data.word_spans import word_pair
from glassformer.inspection import inspect
from glassformer.inspection.alignment.alignment_error_rate import Links
from glassformer.inspection.alignment.head_selection import choose_heads
from glassformer.inspection.alignment.word_alignment import align


def test_alignment_takes_texts():
    inspector = inspect(load("street"))
    pairs = list(islice(street.sentences("test", 6), 6))
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    encode = inspector.tokenizer.encode
    words = [
        word_pair(inspector.tokenizer, encode(source, "source"), encode(target, "target"))
        for source, target in zip(sources, targets, strict=True)
    ]
    links = align(inspector.model, words, inspector.alignment_heads)
    for (pair, found), own_words, own in zip(inspector.align(sources, targets), words, links, strict=True):
        assert pair == own_words
        assert [(link.source, link.target, link.uncertain) for link in found] == [
            (link.source, link.target, link.uncertain) for link in own
        ]
        assert [link.weight for link in found] == pytest.approx([link.weight for link in own], abs=1e-5)
    gold = [Links(frozenset({(0, 0)}), frozenset({(0, 0)})) for _ in pairs]
    assert inspector.choose_alignment_heads(sources, targets, gold) == choose_heads(inspector.model, words, gold)
