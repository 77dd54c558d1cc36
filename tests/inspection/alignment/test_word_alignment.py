"""Word alignment: links, alignment error rate, the IBM model 1 aligner, and head selection."""

import json
import math
import random
import shutil

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from glassformer import ModelConfig, load, load_model
from glassformer.atomic_directory import verify
from glassformer.builtin import street
from glassformer.builtin.street.word_links import links as true_links
from glassformer.builtin.street.word_links import words as street_words
from glassformer.data.word_spans import Word, WordPair, word_pair
from glassformer.decoding.alignment_choice import (
    AlignmentHead,
    AlignmentHeads,
    default_alignment_heads,
    read_alignment_heads,
    write_alignment_heads,
)
from glassformer.decoding.attention_links import shares, spread
from glassformer.errors import DataError, DirectoryError, InputError
from glassformer.inspection import record
from glassformer.inspection.alignment.alignment_error_rate import (
    AlignmentScore,
    Links,
    alignment_score,
    read_links,
    written,
)
from glassformer.inspection.alignment.head_selection import choose_heads, evenly, every_alignment_head
from glassformer.inspection.alignment.ibm_aligner import learned_links, one_way
from glassformer.inspection.alignment.word_alignment import align, word_attention
from glassformer.model_location import find_model
from tests.examples import max_examples
from tests.models import build, configs, seeds
from tests.small_translator import model as small_model
from tests.small_translator import saved

# ---- alignment error rate

pairs_of_numbers = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8)
golds = st.builds(lambda sure, more: Links(sure, sure | more), pairs_of_numbers, pairs_of_numbers)


@given(st.lists(st.tuples(pairs_of_numbers, golds), max_size=5))
def test_the_error_rate_is_its_formula(rows):
    found, gold = [row[0] for row in rows], [row[1] for row in rows]
    a, s = sum(map(len, found)), sum(len(own.sure) for own in gold)
    in_sure = sum(1 for own, given in rows for link in own if link in given.sure)
    in_possible = sum(1 for own, given in rows for link in own if link in given.possible)
    measured = alignment_score(found, gold)
    assert measured == AlignmentScore(a, s, in_sure, in_possible)
    if a + s:
        assert measured.aer == pytest.approx(1 - (in_sure + in_possible) / (a + s))
    assert 0 <= measured.aer <= 1
    assert 0 <= measured.precision <= 1
    assert 0 <= measured.recall <= 1


@given(st.lists(golds, min_size=1, max_size=5))
def test_gold_against_itself_has_error_0_and_no_links_have_error_1(gold):
    assert alignment_score([own.sure for own in gold], gold).aer == 0
    any_sure = any(own.sure for own in gold)
    assert alignment_score([[] for _ in gold], gold).aer == (1 if any_sure else 0)


@given(pairs_of_numbers, pairs_of_numbers)
def test_with_sure_links_only_the_error_rate_is_symmetric(one, other):
    forth, back = (alignment_score([a], [Links(b, b)]) for a, b in ((one, other), (other, one)))
    assert forth.aer == pytest.approx(back.aer)
    if one and other:
        f1 = 2 * forth.precision * forth.recall / (forth.precision + forth.recall or 1)
        assert forth.aer == pytest.approx(1 - f1)


@given(golds)
def test_links_are_read_as_they_are_written(gold):
    loose = gold.possible - gold.sure
    line = " ".join([written(gold.sure), *(f"{i}?{j}" for i, j in loose), *(f"{i}p{j}" for i, j in loose)])
    assert read_links(line, "here") == gold


@pytest.mark.parametrize("entry", ["0", "0-", "-0", "a-b", "0-1-2", "0:1", "٣-٤", "0-9999999999999"])
def test_an_invalid_link_is_named_with_its_line(entry):
    with pytest.raises(DataError, match=r"gold, line 3: .* is not a link"):
        read_links(f"0-0 {entry}", "gold, line 3")


# ---- links of a model


def word_pairs(config, seed, count=3):
    """Sentences of random ids, randomly divided into words; some tokens belong to no word."""
    chance = random.Random(seed)

    def side(vocab_size):
        ids = [chance.randrange(vocab_size - 1) for _ in range(chance.randint(1, 9))]
        ids = [i + (i >= config.pad_id) for i in ids]
        words, first = [], 0
        while first < len(ids) - 1:
            end = min(len(ids) - 1, first + chance.randint(1, 3))
            if chance.random() < 0.8:
                words.append(Word(f"w{first}", first, end))
            first = end
        return ids, words

    made = []
    for _ in range(chance.randint(1, count)):
        (source, source_words), (target, target_words) = side(config.source_vocab_size), side(config.vocab_size)
        made.append(WordPair(source, target, source_words, target_words))
    return made


def random_heads(config, seed):
    heads = every_alignment_head(config)
    chance = random.Random(seed)
    return AlignmentHeads(heads=chance.sample(heads, chance.randint(1, len(heads))))


def naive(model, pair, choice):
    """Shares of one pair, computed word by word and token by token."""
    with record(model, "decoder.layers.*.cross_attention.weights") as recording:
        model(torch.tensor([pair.source_ids]), torch.tensor([[model.config.bos_id, *pair.target_ids[:-1]]]))
    rows = []
    for target in pair.target:
        row = []
        for source in pair.source:
            total = 0.0
            for head in choice.heads:
                weights = recording[f"decoder.layers.{head.layer}.cross_attention.weights"][0, head.head]
                for position in range(target.first, target.end):
                    step = position + 1 if head.target_token == "input" else position
                    total += float(sum(weights[step, s] for s in range(source.first, source.end)))
            row.append(total / len(choice.heads) / (target.end - target.first))
        rest = 1 - sum(row)
        rows.append([value + rest / len(row) for value in row])
    return rows


@max_examples(40)
@given(configs(), seeds)
def test_word_attention_equals_a_naive_computation(config, seed):
    model = build(config, seed)
    pairs = word_pairs(config, seed)
    choice = random_heads(config, seed)
    found = {number: shares(attention.mean(0)) for number, attention in word_attention(model, pairs, choice.heads)}
    for number, pair in enumerate(pairs):
        if not (pair.source and pair.target):
            assert number not in found
            continue
        expected = torch.tensor(naive(model, pair, choice), dtype=torch.float64)
        torch.testing.assert_close(torch.from_numpy(found[number]), expected, atol=1e-9, rtol=0)


@max_examples(40)
@given(configs(), seeds)
def test_every_target_word_has_one_link_whose_weight_is_a_share_of_one(config, seed):
    model = build(config, seed)
    pairs = word_pairs(config, seed)
    choice = random_heads(config, seed)
    for number, attention in word_attention(model, pairs, choice.heads):
        weights = shares(attention.mean(0))
        assert weights.sum(-1) == pytest.approx(1)
        assert (weights >= 0).all()
        [links] = align(model, [pairs[number]], choice)
        assert [link.target for link in links] == list(range(len(pairs[number].target)))
        for link in links:
            assert link.weight == pytest.approx(float(weights[link.target].max()))
            assert link.weight >= 1 / len(pairs[number].source) - 1e-9
            assert 0 <= link.spread <= 1
            assert link.uncertain == (link.spread > choice.warn_above)


@max_examples(30)
@given(configs(), seeds)
def test_links_do_not_depend_on_the_order_or_the_batch(config, seed):
    model = build(config, seed)
    pairs = word_pairs(config, seed, count=5)
    choice = random_heads(config, seed)
    together = align(model, pairs, choice)
    order = random.Random(seed).sample(range(len(pairs)), len(pairs))
    reordered = align(model, [pairs[i] for i in order], choice)
    alone = [align(model, [pair], choice)[0] for pair in pairs]
    for i, number in enumerate(order):
        assert_alike(reordered[i], together[number])
        assert_alike(alone[number], together[number])


def assert_alike(links, others):
    assert [(link.source, link.target) for link in links] == [(link.source, link.target) for link in others]
    assert [link.weight for link in links] == pytest.approx([link.weight for link in others])


@given(st.integers(1, 9), st.integers(1, 5), seeds)
def test_the_spread_goes_from_one_word_to_uniform(words, rows, seed):
    assert not spread(np.tile(np.eye(words), (rows, 1))).any()
    if words > 1:
        assert spread(np.full((rows, words), 1 / words)) == pytest.approx(1)
    weights = np.random.default_rng(seed).dirichlet(np.ones(words), rows)
    entropy = -(weights * np.log(weights)).sum(-1) / math.log(max(words, 2))
    assert spread(weights) == pytest.approx(entropy)


@max_examples(30)
@given(configs(), seeds)
def test_mutual_links_and_links_above_a_weight_are_subsets(config, seed):
    model = build(config, seed)
    pairs = word_pairs(config, seed)
    every = align(model, pairs)
    mutual = align(model, pairs, both_ways=True)
    strong = align(model, pairs, at_least=0.5)
    for all_links, both, large in zip(every, mutual, strong, strict=True):
        assert set(both) <= set(all_links)
        assert len({link.source for link in both}) == len(both)
        assert large == [link for link in all_links if link.weight >= 0.5]


def test_a_head_that_the_model_does_not_have_is_named():
    model = small_model()
    with pytest.raises(
        InputError, match=r"no head 0 in decoder layer 2: it has 2 decoder layers with 2 heads each, counted from 0"
    ):
        align(model, [], AlignmentHeads(heads=[AlignmentHead(layer=2, head=0, target_token="input")]))


# ---- head selection


# Two features whose norms are ±1: every source token has the same key, so that all weights are equal up to rounding.
same_keys = {"d_model": 2, "n_heads": 1, "d_head": 1, "d_ff": 1, "encoder_layers": 2, "decoder_layers": 1}
same_keys |= {"positions": "learned", "max_positions": 40, "tie_output": False, "scale_embeddings": False}


@max_examples(30)
@given(config=configs(), seed=seeds)
@example(config=ModelConfig(vocab_size=9, linear_bias=False, norm_eps=1e-5, **same_keys), seed=1257)
@example(config=ModelConfig(vocab_size=7, linear_bias=False, norm_eps=1e-5, **same_keys), seed=155)
def test_a_selection_is_no_worse_on_its_own_pairs_than_any_head_or_the_default(config, seed):
    model = build(config, seed)
    pairs = word_pairs(config, seed, count=6)
    chance = random.Random(seed)

    def gold(pair):
        every = [(i, j) for i in range(len(pair.source)) for j in range(len(pair.target))]
        sure = frozenset(link for link in every if chance.random() < 0.3)
        return Links(sure, sure | frozenset(link for link in every if chance.random() < 0.2))

    given = [gold(pair) for pair in pairs]
    if not any(own.sure for own in given):
        return
    chosen = choose_heads(model, pairs, given)

    def measured(choice):
        usable = [(pair, own) for pair, own in zip(pairs, given, strict=True) if pair.source and pair.target]
        found = align(model, [pair for pair, _ in usable], choice)
        return alignment_score([[(a.source, a.target) for a in own] for own in found], [own for _, own in usable]).aer

    assert chosen.choice.aer == pytest.approx(measured(chosen.choice), abs=1e-6)
    assert chosen.simple == pytest.approx(measured(None))
    assert chosen.choice.aer <= chosen.simple + 1e-6
    assert len(chosen.singles) == len(every_alignment_head(config))
    for head, aer in chosen.singles[:4]:
        assert aer == pytest.approx(measured(AlignmentHeads(heads=[head])))
        assert chosen.choice.aer <= aer + 1e-6
    assert [aer for _, aer in chosen.singles] == sorted(aer for _, aer in chosen.singles)


def test_what_cannot_be_measured_is_said():
    model = small_model()
    pair = WordPair([5, 6, 2], [5, 6, 2], [Word("a", 0, 1)], [Word("b", 0, 1)])
    nothing = Links(frozenset(), frozenset())
    with pytest.raises(InputError, match="There are gold links for 0 pairs, but 1 sentence pairs"):
        choose_heads(model, [pair], [])
    with pytest.raises(InputError, match="No pair has a sure link"):
        choose_heads(model, [pair], [nothing])
    with pytest.raises(InputError, match="words on both sides"):
        choose_heads(model, [WordPair([2], [2], [], [])])
    with pytest.raises(InputError, match=r"The link 1-0 is out of range: the pair has 1 source and 1 target words"):
        choose_heads(model, [pair], [Links(frozenset({(1, 0)}), frozenset({(1, 0)}))])


@given(st.integers(0, 300), st.integers(1, 300))
def test_evenly_chosen_numbers_are_as_many_as_wanted_and_in_order(count, wanted):
    found = evenly(count, wanted)
    assert len(found) == min(count, wanted)
    assert found == sorted(set(found))
    assert all(0 <= i < count for i in found)


# ---- on the built-in corpus, whose true links are known


@pytest.fixture(scope="module")
def translator():
    return load("street")


def street_pairs(translator, split, count):
    made = list(street.sentences(split, count))
    encode = translator.tokenizer.encode
    pairs = [
        word_pair(translator.tokenizer, encode(one.source, "source"), encode(one.target, "target")) for one in made
    ]
    for one, pair in zip(made, pairs, strict=True):
        assert pair.texts == (street_words(one.source), street_words(one.target))
    return pairs, [Links(*true_links(one)) for one in made]


def error_rate(translator, pairs, gold, choice=None):
    found = align(translator.model, pairs, choice)
    return alignment_score([[(link.source, link.target) for link in own] for own in found], gold).aer


def test_every_word_of_the_street_has_a_true_link():
    for one in street.sentences("train", 2000):
        sure, possible = true_links(one)
        english, german = street_words(one.source), street_words(one.target)
        assert sure <= possible
        assert {i for i, _ in possible} == set(range(len(english)))
        assert {j for _, j in possible} == set(range(len(german)))
        assert all((english[i] == ".") == (german[j] == ".") for i, j in possible)


def test_heads_selected_without_gold_are_clearly_better_than_the_default(translator):
    dev, _ = street_pairs(translator, "dev", 1000)
    pairs, gold = street_pairs(translator, "test", 200)
    selection = choose_heads(translator.model, dev)
    chosen = selection.choice
    simple = error_rate(translator, pairs, gold)
    assert error_rate(translator, pairs, gold, chosen) < simple / 2
    single = AlignmentHeads(heads=[selection.singles[0][0]])
    assert error_rate(translator, pairs, gold, chosen) < error_rate(translator, pairs, gold, single) < simple


def test_the_built_in_model_has_selected_heads_and_warns_of_wrong_links(translator):
    pairs, gold = street_pairs(translator, "test", 200)
    choice = read_alignment_heads(find_model("street"), translator.model.config)
    assert choice.measured_by == "learned"
    assert error_rate(translator, pairs, gold, choice) < error_rate(translator, pairs, gold) / 2
    right = {True: [], False: []}
    for links, own in zip(align(translator.model, pairs, choice), gold, strict=True):
        for link in links:
            right[link.uncertain].append((link.source, link.target) in own.possible)
    assert sum(right[True]) < len(right[True]) / 2  # with a warning, more often wrong than right
    assert sum(right[False]) > 0.85 * len(right[False])


# ---- links learned with IBM model 1


def made_up(seed, count, order):
    """Sentences of invented words, translated word by word with a lexicon and reordered."""
    chance = random.Random(seed)
    lexicon = {f"s{i}": f"t{i}" for i in range(60)}
    pairs, true = [], []
    for _ in range(count):
        source = chance.sample(list(lexicon), chance.randint(3, 9))
        places = order(chance, len(source))
        pairs.append((source, [lexicon[source[place]] for place in places]))
        true.append(frozenset((place, number) for number, place in enumerate(places)))
    return pairs, true


ORDERS = {
    "the same": lambda chance, n: list(range(n)),
    "reversed": lambda chance, n: list(reversed(range(n))),
    "any": lambda chance, n: chance.sample(range(n), n),
}


@pytest.mark.parametrize("order", ORDERS)
def test_a_lexicon_is_recovered_with_any_word_order(order):
    pairs, true = made_up(0, 800, ORDERS[order])
    learned = learned_links(pairs)
    assert alignment_score([own.sure for own in learned], [Links(own, own) for own in true]).aer < 0.02
    assert learned == learned_links(pairs)


def test_a_word_without_a_counterpart_is_left_alone():
    pairs, true = made_up(1, 800, ORDERS["the same"])
    pairs = [(source, [*target, "ja"]) for source, target in pairs]
    learned = learned_links(pairs)
    assert alignment_score([own.sure for own in learned], [Links(own, own) for own in true]).aer < 0.05


def test_what_both_directions_find_is_sure_and_what_one_finds_is_possible():
    pairs, _ = made_up(2, 50, ORDERS["any"])
    forth, back = one_way(pairs), one_way([(target, source) for source, target in pairs])
    for links, there, again in zip(learned_links(pairs), forth, back, strict=True):
        turned = {(source, target) for target, source in again}
        assert links.sure == there & turned
        assert links.possible == there | turned


def test_blank_sides_have_no_links_and_pairs_without_any_link_are_an_error():
    pairs, _ = made_up(3, 50, ORDERS["the same"])
    learned = learned_links([([], ["t1"]), *pairs, (["s1"], [])])
    assert learned[0] == learned[-1] == Links(frozenset(), frozenset())
    with pytest.raises(InputError, match="No words of these pairs could be aligned"):
        learned_links([([], ["a"])])


# ---- alignment.json in a model directory


def test_a_selection_is_stored_and_replaced_and_the_checksums_stay_valid(tmp_path):
    directory = saved(tmp_path / "model")
    config = load_model(directory).config
    assert read_alignment_heads(directory, config) == default_alignment_heads(config)
    for head in (0, 1):
        choice = AlignmentHeads(
            heads=[AlignmentHead(layer=1, head=head, target_token="input")], measured_by="learned", pairs=7, aer=0.25
        )
        write_alignment_heads(choice, directory)
        assert read_alignment_heads(directory, config) == choice
        assert "alignment.json" in verify(directory)
        load_model(directory)
    assert not [path for path in directory.iterdir() if path.name.startswith(".")]


def test_a_selection_that_is_damaged_or_of_another_model_is_refused(tmp_path):
    directory = saved(tmp_path / "model")
    config = load_model(directory).config
    write_alignment_heads(AlignmentHeads(heads=[AlignmentHead(layer=0, head=5, target_token="input")]), directory)
    with pytest.raises(
        DirectoryError, match=r"alignment\.json is not a valid selection .* no head 5 in decoder layer 0"
    ):
        read_alignment_heads(directory, config)
    path = directory / "alignment.json"
    path.write_text(path.read_text().replace("5", "1"))
    with pytest.raises(DirectoryError, match=r"alignment\.json does not match its checksum"):
        read_alignment_heads(directory, config)
    path.unlink()
    with pytest.raises(DirectoryError, match=r"alignment\.json is missing"):
        read_alignment_heads(directory, config)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"heads": []}', '{"heads": [1]}', '{"heads": 5}', "[" * 5000])
def test_an_invalid_selection_is_an_error(tmp_path, content):
    from glassformer.atomic_directory import add_file

    directory = saved(tmp_path / "model")
    add_file(directory, "alignment.json", content.encode())
    with pytest.raises(DirectoryError, match=r"is not a valid selection of heads.*\. `glassformer align --choose`"):
        read_alignment_heads(directory, load_model(directory).config)


def test_a_file_that_the_manifest_does_not_list_is_not_read(tmp_path):
    directory = saved(tmp_path / "model")
    config = load_model(directory).config
    choice = AlignmentHeads(heads=[AlignmentHead(layer=1, head=1, target_token="input")])
    (directory / "alignment.json").write_text(choice.as_json())
    assert read_alignment_heads(directory, config) == default_alignment_heads(config)


def test_a_directory_without_a_manifest_cannot_store_a_selection(tmp_path):
    directory = saved(tmp_path / "model")
    copy = tmp_path / "copy"
    shutil.copytree(directory, copy)
    (copy / "manifest.json").unlink()
    with pytest.raises(DirectoryError, match=r"has no manifest\.json"):
        write_alignment_heads(default_alignment_heads(load_model(directory).config), copy)
    assert json.loads((directory / "manifest.json").read_text())["files"].keys() == set(verify(directory))
