"""Pronoun analysis over HTTP: the result of `resolve_pronoun`, within limits, cancelled when its client leaves."""

import time

import pytest

from glassformer import load
from glassformer.errors import InputError
from glassformer.inspection import inspect
from glassformer.inspection.coreference.resolve_pronoun import DEFAULT_TRIES
from glassformer.inspection.coreference.translation_budget import MIN_TRIES, count_translations, tries_within
from glassformer.server.translation_service import open_served_model
from tests.server.running import LONG, WORDS, endless, running, served

TIRED = "The animal didn't cross the street because it was too tired."
MANY = "The animal and the bird and the fox saw the street and the shore because it was wide."
MANY_SENTENCES = {"waiting": 100_000, "beam_tokens": 10**9}


@pytest.fixture(scope="module")
def server():
    with running(open_served_model("street")) as server:
        yield server


@pytest.fixture(scope="module")
def street():
    return load("street")


@pytest.mark.parametrize(
    "given",
    [{"swap": {"old": "tired", "new": "wide"}}, {"candidates": ["street", "animal"]}],
    ids=["a second sentence", "candidates"],
)
def test_the_answer_is_that_of_resolve_pronoun(server, street, given):
    answer = server.post("/api/pronoun", {"text": TIRED} | given)
    assert answer.status == 200, answer.text
    found = answer.json()
    instead = given.get("swap")
    swap = (instead["old"], instead["new"]) if instead else None
    who = inspect(street).resolve_pronoun(TIRED, candidates=given.get("candidates"), swap=swap, tries=found["tries"])
    assert (tuple(found.get("swap", ())) or None, found["swap_searched"]) == (who.swap, who.swap_searched)
    assert len(found["readings"]) == len(who.readings)
    for one, reading in zip(found["readings"], who.readings, strict=True):
        assert one["translation"] == reading.translation
        assert one["candidates"] == reading.candidates
        assert one.get("verdict") == reading.verdict
        assert one["in_words"] == reading.in_words
        assert one["votes"] == list(reading.votes)
        assert one["scores"] == pytest.approx(reading.scores, abs=1e-5)
        assert [row["kind"] for row in one["evidence"]] == [row.kind for row in reading.evidence]
        for row, own in zip(one["evidence"], reading.evidence, strict=True):
            assert row["values"] == pytest.approx(own.values, abs=1e-5)
            assert row.get("points_to") == own.points_to
            assert row["counted"] == own.votes


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"text": " "}, 422),
        ({}, 422),
        ({"text": "The dog was tired."}, 422),
        ({"text": "The dog slept because it was tired."}, 422),
        ({"text": TIRED, "word": "cat"}, 422),
        ({"text": TIRED, "word": ""}, 422),
        ({"text": TIRED, "word": "it#2"}, 422),
        ({"text": TIRED, "word": "it#" + "9" * 5000}, 422),
        ({"text": TIRED, "word": "it\0"}, 422),
        ({"text": TIRED, "candidates": ["animal"]}, 422),
        ({"text": TIRED, "candidates": ["animal", "cat"]}, 422),
        ({"text": TIRED, "candidates": ["animal", "it"]}, 422),
        ({"text": TIRED, "candidates": ["animal"] * 9}, 422),
        ({"text": TIRED, "candidates": "animal,street"}, 422),
        ({"text": TIRED, "swap": {"old": "blue", "new": "wide"}}, 422),
        ({"text": TIRED, "swap": {"old": "tired"}}, 422),
        ({"text": TIRED, "swap": {"old": "tired", "new": "wide " * 200}}, 413),
        ({"text": TIRED, "nouns": ["cat"]}, 422),
        ({"text": "the animal and the street " * 100 + "it"}, 413),
    ],
)
def test_what_cannot_be_asked_is_refused_in_a_sentence(server, body, status):
    server.post("/api/pronoun", body).is_refused(status)


def test_undecided_is_an_answer(server):
    """No word of the translation changes with "old", which is not a noun."""
    found = server.post(
        "/api/pronoun", {"text": TIRED.replace("animal", "old animal"), "candidates": ["old", "street"]}
    )
    [first, *_] = found.json()["readings"]
    assert "verdict" not in first
    assert first["in_words"].startswith("Undecided")


class Counting:
    """A translator that counts the texts it translates."""

    def __init__(self, translator):
        self._translator, self.count = translator, 0

    def __getattr__(self, name):
        return getattr(self._translator, name)

    def answer(self, texts):
        self.count += len(texts)
        return self._translator.translations(texts)

    def translate(self, texts):
        self.count += len(texts)
        return self._translator.translate(texts)


@pytest.mark.parametrize("swap", [None, ("tired", "wide")])
@pytest.mark.parametrize("candidates", [None, ["animal", "street"]])
def test_a_question_costs_no_more_than_was_counted_before(street, swap, candidates):
    counting = Counting(street)
    inspect(counting).resolve_pronoun(TIRED, candidates=candidates, swap=swap, tries=20)
    assert 0 < counting.count <= count_translations(TIRED, "it", candidates, swap is not None, 20)


@pytest.mark.parametrize("most", [300, 600, 2000])
def test_as_many_words_are_tried_as_the_limit_allows(most):
    tries = tries_within(most, MANY, "it", None, False)
    assert count_translations(MANY, "it", None, False, tries) <= most
    assert tries >= MIN_TRIES
    assert tries <= tries_within(most + 1000, MANY, "it", None, False)


def test_a_sentence_of_too_many_words_is_refused():
    with pytest.raises(InputError, match="translations; at most 100 are allowed"):
        tries_within(100, MANY, "it", None, False)
    with running(served(), pronoun_translations=100) as server:
        assert "100 are allowed" in server.post("/api/pronoun", {"text": MANY}).is_refused(422)


def test_a_long_sentence_gets_fewer_trial_words():
    """The limit of a request's tokens times beam size did not hold here: 1,000 translations of 128 tokens are more."""
    with running(open_served_model("street"), beam_tokens=12_000) as server:
        few = server.post("/api/pronoun", {"text": MANY, "candidates": ["animal", "street"]})
        assert few.status == 200, few.text
        assert MIN_TRIES <= few.json()["tries"] < DEFAULT_TRIES
        assert server.metric('tokens_total{side="source"}') * server.state.service.beam(None) <= 12_000
        assert "are allowed" in server.post("/api/pronoun", {"text": MANY}).is_refused(422)


def test_a_question_that_takes_too_long_is_given_up():
    """Its sentences wait in the shared queue, so none of them is translated after its time limit."""
    with running(endless(), seconds=2, trace_tokens=1000, pronoun_translations=100_000, **MANY_SENTENCES) as server:
        began = time.process_time()
        text = f"{LONG} and the animal and the street"
        server.post("/api/pronoun", {"text": text, "candidates": ["animal", "street"]}).is_refused(503)
        assert time.process_time() - began < 50  # its work would take minutes
        server.until(lambda: server.state.trace_pool.count == 0)
        server.until(lambda: server.metric("searching_sentences") == 0)


def test_who_leaves_is_not_worked_for():
    with running(endless(), trace_tokens=1000, pronoun_translations=100_000, **MANY_SENTENCES) as server:
        text = f"{LONG} and the animal and the street"
        with server.leaving("/api/pronoun", {"text": text, "candidates": ["animal", "street"]}):
            server.until(lambda: server.state.trace_pool.count == 1)
            server.until(lambda: server.metric("searching_sentences") > 0)
        server.until(lambda: server.state.trace_pool.count == 0, 30)


def test_a_way_through_the_tree_is_forced(server, street):
    manifest = server.post("/api/explore", {"text": TIRED, "beam": 3}).json()
    second = inspect(street).trace(TIRED, beam=3).tree
    ids = second.tokens(second.finished[1])[:-3]
    assert [hypothesis["node"] for hypothesis in manifest["tree"]["finished"]] == second.finished[:16]
    forced = server.post("/api/explore", {"text": TIRED, "beam": 3, "prefix": ids}).json()
    assert forced["target"]["ids"][: len(ids)] == ids
    assert forced["changes"] == [{"kind": "force-prefix", "ids": ids}]
    other = server.post("/api/explore", {"text": TIRED, "beam": 3, "prefix": ids, "hypothesis": 1}).json()
    assert other["target"]["ids"][: len(ids)] == ids
    assert other["target"]["ids"] != forced["target"]["ids"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"prefix": [10**6]}, 422),
        ({"prefix": [-1]}, 422),
        ({"prefix": [0]}, 422),
        ({"prefix": ["Das"]}, 422),
        ({"prefix": [5], "target": "Das Tier"}, 422),
        ({"prefix": [5] * 200}, 413),
    ],
)
def test_a_prefix_of_invalid_tokens_is_refused(server, body, status):
    server.post("/api/explore", {"text": WORDS} | body).is_refused(status)
