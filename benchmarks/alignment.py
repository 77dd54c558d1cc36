"""Word alignment error of cross-attention: the default heads compared with heads selected by measurement.

On the built-in corpus, whose gold links are known; heads are selected on 1,000 dev sentences and measured on 200 test
sentences. For other models and files there is no gold: then the reference is the links learned by an IBM aligner from
all sentences together, and some alignments are printed for inspection.

    python benchmarks/alignment.py
    python benchmarks/alignment.py --model runs/multi30k-en-de --train train.en train.de --dev val.en val.de \
        --test test.en test.de
"""

import argparse
import time
from collections.abc import Sequence
from typing import Any

import torch

from glassformer import Translator, load
from glassformer.builtin import street
from glassformer.builtin.street.word_links import links as true_links
from glassformer.data import corpus
from glassformer.data.word_spans import WordPair, word_pair
from glassformer.decoding.alignment_choice import AlignmentHeads
from glassformer.decoding.attention_links import Link
from glassformer.inspection.alignment.alignment_error_rate import Links, alignment_score
from glassformer.inspection.alignment.head_selection import choose_heads
from glassformer.inspection.alignment.ibm_aligner import learned_links
from glassformer.inspection.alignment.word_alignment import align

DEV_SENTENCES, TEST_SENTENCES, SHOWN_SENTENCES = 1000, 200, 10


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="street")
    for part in ("train", "dev", "test"):
        parser.add_argument(f"--{part}", nargs=2, metavar=("SOURCE", "TARGET"))
    options = parser.parse_args()
    translator = load(options.model)
    if options.test is None:
        _street(translator)
    else:
        _files(translator, *([*corpus(*files)] for files in (options.train, options.dev, options.test)))


def _street(translator: Translator) -> None:
    splits = {
        "dev": list(street.sentences("dev", DEV_SENTENCES)),
        "test": list(street.sentences("test", TEST_SENTENCES)),
    }
    pairs = {split: _pairs(translator, sentences) for split, sentences in splits.items()}
    gold = {split: [Links(*true_links(sentence)) for sentence in sentences] for split, sentences in splits.items()}
    ibm_links = learned_links([pair.texts for pair in pairs["dev"]])
    print(f"IBM aligner on {DEV_SENTENCES:,} dev sentences, against their gold links:")
    _print("  sure (both directions)", [links.sure for links in ibm_links], gold["dev"])
    _print("  possible (either direction)", [links.possible for links in ibm_links], gold["dev"])
    print(f"Attention heads on {TEST_SENTENCES} test sentences:")
    _compare(translator, pairs, gold["dev"], gold["test"])


def _files(translator: Translator, train: Sequence[Any], dev: Sequence[Any], test: Sequence[Any]) -> None:
    pairs = {"dev": _pairs(translator, dev), "test": _pairs(translator, test)}
    train_pairs = _pairs(translator, train)
    start = time.monotonic()
    ibm_links = learned_links([pair.texts for pair in (*pairs["dev"], *pairs["test"], *train_pairs)])
    print(f"IBM aligner on {len(ibm_links):,} pairs: {time.monotonic() - start:.1f} s.")
    on_dev, on_test = ibm_links[: len(dev)], ibm_links[len(dev) : len(dev) + len(test)]
    print(f"Attention heads on {len(test):,} test sentences, against the IBM aligner's links:")
    choice = _compare(translator, pairs, on_dev, on_test)
    shown = [i * len(test) // SHOWN_SENTENCES for i in range(SHOWN_SENTENCES)]
    print("Examples (? uncertain, * not a link of the IBM aligner):")
    for number, links in zip(shown, align(translator.model, [pairs["test"][i] for i in shown], choice), strict=True):
        source, target = pairs["test"][number].texts
        print(f"  {' '.join(source)}")
        words = (
            f"{target[link.target]}={source[link.source]}{'?' * link.uncertain}"
            f"{'' if (link.source, link.target) in on_test[number].possible else '*'}"
            for link in links
        )
        print(f"    {' '.join(words)}")


def _compare(
    translator: Translator, pairs: dict[str, list[WordPair]], on_dev: list[Links], on_test: list[Links]
) -> AlignmentHeads:
    model = translator.model
    _print("  default: mean of the layer below the last", _index_pairs(align(model, pairs["test"])), on_test)
    start = time.monotonic()
    by_ibm_links = choose_heads(model, pairs["dev"])
    seconds = time.monotonic() - start
    by_reference = choose_heads(model, pairs["dev"], on_dev)
    choices = {
        "best single head, selected by IBM links": AlignmentHeads(heads=[by_ibm_links.singles[0][0]]),
        "selected heads, by IBM links": by_ibm_links.choice,
        "selected heads, by reference links": by_reference.choice,
    }
    for name, choice in choices.items():
        links = align(model, pairs["test"], choice)
        _print(f"  {name}", _index_pairs(links), on_test, "; ".join(map(str, choice.heads)))
    print(f"  selected in {seconds:.1f} s on {by_ibm_links.choice.pairs} pairs")
    for name in list(choices)[1:]:
        _print_certainty(name, align(model, pairs["test"], choices[name]), on_test)
    _print(
        "  selected heads, mutual links only",
        _index_pairs(align(model, pairs["test"], by_reference.choice, both_ways=True)),
        on_test,
    )
    return by_reference.choice


def _print_certainty(name: str, links: list[list[Link]], gold: list[Links]) -> None:
    """Accuracy of certain and of uncertain links, for target words that have a reference link."""
    correct: dict[bool, list[bool]] = {True: [], False: []}
    for sentence_links, reference in zip(links, gold, strict=True):
        known = {target for _, target in reference.possible}
        for link in sentence_links:
            if link.target in known:
                correct[link.uncertain].append((link.source, link.target) in reference.possible)
    shares = {
        flag: f"{len(hits):,} links, {sum(hits) / max(1, len(hits)):.1%} correct" for flag, hits in correct.items()
    }
    print(f"  {name}: certain {shares[False]}; uncertain {shares[True]}")


def _index_pairs(links: list[list[Link]]) -> list[list[tuple[int, int]]]:
    return [[(link.source, link.target) for link in sentence_links] for sentence_links in links]


def _pairs(translator: Translator, sentences: Sequence[Any]) -> list[WordPair]:
    tokenizer = translator.tokenizer
    return [
        word_pair(tokenizer, tokenizer.encode(sentence.source, "source"), tokenizer.encode(sentence.target, "target"))
        for sentence in sentences
    ]


def _print(name: str, links: Sequence[Any], gold: list[Links], note: str = "") -> None:
    score = alignment_score(links, gold)
    print(f"{name:46s} AER {score.aer:.4f}  precision {score.precision:.4f}  recall {score.recall:.4f}  {note}")


if __name__ == "__main__":
    main()
