"""How well cross-attention aligns words: the simple rule beside heads chosen by measurement.

On the built-in corpus, whose true links are known; heads are chosen on 1,000 dev sentences and measured on 200 of the
test. With a model and files of one's own there is no gold: then the measure is the links learned from all sentences
together, and some are printed to look at.

    python benchmarks/alignment.py
    python benchmarks/alignment.py --model runs/multi30k-en-de --train train.en train.de --dev val.en val.de \
        --test test.en test.de
"""

import argparse
import time
from collections.abc import Sequence
from typing import Any

import torch

from glassformer import Translator
from glassformer.builtin import street
from glassformer.builtin.street.word_links import links as true_links
from glassformer.data import corpus
from glassformer.inspection.alignment.alignment_error_rate import Links, alignment_score
from glassformer.inspection.alignment.head_selection import choose_heads
from glassformer.inspection.alignment.ibm_aligner import learned_links
from glassformer.inspection.alignment.word_alignment import AlignmentHeads, Link, WordPair, align, word_pair

DEV, TEST, SHOWN = 1000, 200, 10


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="street")
    for part in ("train", "dev", "test"):
        parser.add_argument(f"--{part}", nargs=2, metavar=("SOURCE", "TARGET"))
    asked = parser.parse_args()
    translator = Translator.load(asked.model)
    if asked.test is None:
        _street(translator)
    else:
        _files(translator, *([*corpus(*files)] for files in (asked.train, asked.dev, asked.test)))


def _street(translator: Translator) -> None:
    made = {"dev": list(street.sentences("dev", DEV)), "test": list(street.sentences("test", TEST))}
    pairs = {split: _pairs(translator, sentences) for split, sentences in made.items()}
    gold = {split: [Links(*true_links(one)) for one in sentences] for split, sentences in made.items()}
    silver = learned_links([pair.texts for pair in pairs["dev"]])
    print(f"Links learned from {DEV:,} dev sentences, against the true ones there:")
    _print("  sure (both directions)", [own.sure for own in silver], gold["dev"])
    _print("  possible (either direction)", [own.possible for own in silver], gold["dev"])
    print(f"Heads, on {TEST} test sentences:")
    _compare(translator, pairs, gold["dev"], gold["test"])


def _files(translator: Translator, train: Sequence[Any], dev: Sequence[Any], test: Sequence[Any]) -> None:
    pairs = {"dev": _pairs(translator, dev), "test": _pairs(translator, test)}
    more = _pairs(translator, train)
    start = time.monotonic()
    silver = learned_links([pair.texts for pair in (*pairs["dev"], *pairs["test"], *more)])
    print(f"Links learned from {len(silver):,} pairs in {time.monotonic() - start:.1f} s.")
    on_dev, on_test = silver[: len(dev)], silver[len(dev) : len(dev) + len(test)]
    print(f"Heads, on {len(test):,} test sentences, against those links:")
    choice = _compare(translator, pairs, on_dev, on_test)
    shown = [i * len(test) // SHOWN for i in range(SHOWN)]
    print("Some to look at (? uncertain, * not among the links learned):")
    for number, own in zip(shown, align(translator.model, [pairs["test"][i] for i in shown], choice), strict=True):
        source, target = pairs["test"][number].texts
        print(f"  {' '.join(source)}")
        words = (
            f"{target[link.target]}={source[link.source]}{'?' * link.uncertain}"
            f"{'' if (link.source, link.target) in on_test[number].possible else '*'}"
            for link in own
        )
        print(f"    {' '.join(words)}")


def _compare(
    translator: Translator, pairs: dict[str, list[WordPair]], on_dev: list[Links], on_test: list[Links]
) -> AlignmentHeads:
    model = translator.model
    _print("  the layer below the last, its mean", _plain(align(model, pairs["test"])), on_test)
    start = time.monotonic()
    by_silver = choose_heads(model, pairs["dev"])
    seconds = time.monotonic() - start
    by_gold = choose_heads(model, pairs["dev"], on_dev)
    choices = {
        "the best single head, by dev's own links": AlignmentHeads(looks=[by_silver.singles[0][0]]),
        "the chosen set, by dev's own links": by_silver.choice,
        "the chosen set, by the links given for dev": by_gold.choice,
    }
    for name, choice in choices.items():
        links = align(model, pairs["test"], choice)
        _print(f"  {name}", _plain(links), on_test, "; ".join(map(str, choice.looks)))
    print(f"  chosen in {seconds:.1f} s on {by_silver.choice.pairs} pairs")
    for name in list(choices)[1:]:
        _warnings(name, align(model, pairs["test"], choices[name]), on_test)
    _print(
        "  the chosen set, both ways only", _plain(align(model, pairs["test"], by_gold.choice, both_ways=True)), on_test
    )
    return by_gold.choice


def _warnings(name: str, links: list[list[Link]], gold: list[Links]) -> None:
    """How often a link is right that has a warning, and one that has none; where any link is possible."""
    right: dict[bool, list[bool]] = {True: [], False: []}
    for own, given in zip(links, gold, strict=True):
        known = {target for _, target in given.possible}
        for link in own:
            if link.target in known:
                right[link.uncertain].append((link.source, link.target) in given.possible)
    shares = {flag: f"{len(hits):,} links, {sum(hits) / max(1, len(hits)):.1%} right" for flag, hits in right.items()}
    print(f"  {name}: without a warning {shares[False]}; with one {shares[True]}")


def _plain(links: list[list[Link]]) -> list[list[tuple[int, int]]]:
    return [[(link.source, link.target) for link in own] for own in links]


def _pairs(translator: Translator, sentences: Sequence[Any]) -> list[WordPair]:
    tokenizer = translator.tokenizer
    return [
        word_pair(tokenizer, tokenizer.encode(one.source, "source"), tokenizer.encode(one.target, "target"))
        for one in sentences
    ]


def _print(name: str, found: Sequence[Any], gold: list[Links], more: str = "") -> None:
    how = alignment_score(found, gold)
    print(f"{name:46s} AER {how.aer:.4f}  precision {how.precision:.4f}  recall {how.recall:.4f}  {more}")


if __name__ == "__main__":
    main()
