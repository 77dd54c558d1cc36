"""The street corpus: grammatical agreement in every sentence, and a test split of noun pairs not seen in training."""

import hashlib
import re
from collections.abc import Iterator
from itertools import islice, pairwise, product, starmap

import pytest

from glassformer.builtin import street
from glassformer.builtin.street.grammar import (
    ACCUSATIVE,
    HE_SHE_IT,
    HIM_HER_IT,
    NOMINATIVE,
    PAST,
    PLACE_TEMPLATES,
    TEMPLATES,
    TENSES,
    Plot,
    because,
)
from glassformer.builtin.street.lexicon import MOVERS, PLACES, REASONS, VERBS
from tests.processes import ROOT

GENDERS = "mfn"
ARTICLES = {"der", "die", "das", "den"}


def some(split: str, count: int = 5000) -> list[street.Sentence]:
    return list(islice(street.sentences(split, count, seed=11), count))


def test_it_is_rich_enough_to_be_worth_learning():
    assert len(MOVERS) + len(PLACES) >= 60
    for nouns in (MOVERS, PLACES):
        for gender in GENDERS:
            assert sum(noun.gender == gender for noun in nouns) >= 14
    assert len(VERBS) >= 40
    assert len(REASONS) >= 40
    assert len(set(PLACE_TEMPLATES)) >= 6
    # For one template, tense and degree alone:
    assert len(MOVERS) * len(PLACES) * len(VERBS) * len(REASONS) > 1_000_000
    for words in (MOVERS, PLACES, VERBS, REASONS):
        assert len({word.english for word in words}) == len(words), "an English word would have two translations"


def test_the_pronoun_examples_are_made_by_the_grammar():
    by_name = {word.english: word for word in (*MOVERS, *PLACES, *VERBS, *REASONS)}
    pairs = {}
    for reason in ("tired", "wide"):
        plot = Plot(by_name["animal"], by_name["street"], by_name["cross"], by_name[reason], PAST, ("too", "zu"))
        sentence = because(plot)
        pairs[sentence.source] = sentence.target
    assert pairs == street.PRONOUN_EXAMPLES


def test_the_same_seed_gives_the_same_sentences_for_ever():
    """A checksum of the first thousand: results from different machines and versions are on the same corpus."""
    text = "\n".join(f"{s.source}\t{s.target}" for s in street.sentences("train", 1000))
    assert [s.source for s in street.sentences("train", 50)] == [s.source for s in street.sentences("train", 50)]
    assert [s.source for s in street.sentences("train", 50)] != [s.source for s in street.sentences("train", 50, 1)]
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "2be0a7a2f340561d"


def test_no_noun_pair_is_in_two_splits_and_every_noun_is_in_training():
    pairs = {
        split: {(s.plot.mover.english, s.plot.place.english) for s in some(split, 20_000 if split == "train" else 3000)}
        for split in ("train", "dev", "test")
    }
    assert not pairs["train"] & pairs["test"]
    assert not pairs["train"] & pairs["dev"]
    assert not pairs["dev"] & pairs["test"]
    assert ("animal", "street") in pairs["test"]
    assert {mover for mover, _ in pairs["train"]} == {noun.english for noun in MOVERS}
    assert {place for _, place in pairs["train"]} == {noun.english for noun in PLACES}
    assert len(pairs["test"]) > 100


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_every_article_and_pronoun_agrees_with_its_noun(split):
    """Checked in the German text, not in the plot: the article before each noun, and each pronoun."""
    genders = {noun.german: noun.gender for noun in (*MOVERS, *PLACES)}
    movers = {noun.german for noun in MOVERS}
    for sentence in some(split):
        words = [word.strip(".,") for word in sentence.target.split()]
        for before, word in pairwise(words):
            if word in genders:
                case = NOMINATIVE if word in movers or before.istitle() else ACCUSATIVE
                assert before.lower() in {case[genders[word]], NOMINATIVE[genders[word]]}, sentence.target
        # The place is accusative unless it begins the sentence.
        place = sentence.plot.place
        article = words[words.index(place.german) - 1]
        assert article in (ACCUSATIVE[place.gender], NOMINATIVE[place.gender].title()), sentence.target

        pronouns = street.pronouns(sentence.target)
        assert pronouns == ([] if sentence.pronoun is None else [sentence.pronoun]), sentence.target
        if pronouns:
            allowed = {HE_SHE_IT[sentence.plot.referent.gender], HIM_HER_IT[sentence.plot.place.gender]}
            assert pronouns[0] in allowed


def test_pronouns_have_both_kinds_of_referent_and_all_genders_and_not_every_sentence_has_one():
    with_pronoun = [s for s in some("test") if s.pronoun]
    assert 0.5 < len(with_pronoun) / 5000 < 0.95
    for of in ("mover", "place"):
        for gender in GENDERS:
            assert sum(s.plot.reason.of == of and s.plot.referent.gender == gender for s in with_pronoun) > 200
    decisive = [s for s in with_pronoun if s.plot.mover.gender != s.plot.place.gender]
    assert len(decisive) > len(with_pronoun) / 2, "if both nouns have one gender, the pronoun tells nothing"


def test_sentences_are_well_formed():
    for sentence in some("train", 20_000):
        for text in (sentence.source, sentence.target):
            assert text[0].isupper()
            assert text.endswith(".")
            assert "  " not in text
            assert " ," not in text
            assert text == text.strip()
        assert ARTICLES.isdisjoint(street.pronouns(sentence.target))
        negated = "n't" in sentence.source or " not " in sentence.source
        assert negated == (" nicht" in sentence.target), sentence


def every_plot_of(english: str) -> Iterator[Plot]:
    """All plots with the words of this sentence."""
    movers, places, reasons = ([w for w in words if w.english in english] for words in (MOVERS, PLACES, REASONS))
    degrees = [("very", "sehr"), ("so", "so"), ("too", "zu"), ("", "")]
    return starmap(Plot, product(movers, places, VERBS, reasons, TENSES, degrees))


def test_the_docs_show_real_sentences_and_true_counts():
    page = (ROOT / "docs/data.md").read_text().split("## The built-in corpus")[1]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)[1:]
    assert len(rows) >= 6
    for english, german in rows:
        generated = {
            (sentence.source, sentence.target)
            for plot in every_plot_of(english)
            for template in (TEMPLATES if plot.reason.of == "mover" else PLACE_TEMPLATES)
            if (sentence := template(plot)).source == english
        }
        assert generated == {(english, german.replace("**", ""))}
    counts = [len(MOVERS) + len(PLACES), len(VERBS), len(REASONS)]
    assert "{} nouns of all three genders, {} verbs, {} reasons".format(*counts) in " ".join(page.split())


def test_no_sentence_is_repeated():
    sources = [sentence.source for sentence in some("test", 5000)]
    assert len(set(sources)) == len(sources)


def test_one_source_has_one_translation():
    """Otherwise no model could always be right."""
    known: dict[str, str] = {}
    for sentence in islice(street.sentences("train", 60_000, seed=3), 60_000):
        assert known.setdefault(sentence.source, sentence.target) == sentence.target
    for mover, place in ((MOVERS[0], PLACES[0]), (MOVERS[20], PLACES[15])):
        for verb in VERBS:
            for reason in REASONS[::7]:
                for tense in TENSES if verb.is_voluntary else TENSES[:-2]:
                    for template in TEMPLATES if reason.of == "mover" else PLACE_TEMPLATES:
                        sentence = template(Plot(mover, place, verb, reason, tense, ("very", "sehr")))
                        assert known.setdefault(sentence.source, sentence.target) == sentence.target
