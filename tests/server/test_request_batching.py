"""Continuous batching of many clients gives each the results it would get alone, on any model."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import ImportedTokenizer
from glassformer.decoding import Beam, Request, Sample
from glassformer.decoding.stepwise_search import StepwiseBatchSearch
from glassformer.engine import EngineOptions, open_search_backend
from glassformer.errors import InputError
from glassformer.server.fair_queue import FairQueue
from glassformer.server.http_errors import ClientDisconnectedError, HTTPError
from glassformer.server.language_pairs import LanguagePairs
from glassformer.server.metrics import Metrics
from glassformer.server.request_batching import Batcher, Ticket
from tests.examples import max_examples
from tests.models import build_source_sensitive, configs, seeds
from tests.small_translator import model, tokenizer


def searches(dice: random.Random):
    return dice.choice(
        [
            Beam(size=dice.randint(1, 4), n_best=dice.randint(1, 3)),
            Beam(size=3, no_repeat=2),
            Beam(size=2, diversity=0.5),
            Sample(n_best=2, seed=dice.randint(0, 3)),
        ]
    )


def requests(dice: random.Random, config) -> list[Request]:
    known = [token for token in range(config.source_vocab_size) if token != config.pad_id]
    return [Request([dice.choice(known) for _ in range(dice.randint(1, 12))]) for _ in range(dice.randint(0, 5))]


@given(configs(), seeds, st.sampled_from(["fast", "plain"]))
@max_examples(10)
def test_together_is_as_alone(config, seed, kind):
    engine = open_search_backend(
        [build_source_sensitive(config, seed)], EngineOptions(engine=kind, exact=True, workers=2)
    )
    dice = random.Random(seed)
    asked = [(requests(dice, config), searches(dice)) for _ in range(8)]
    alone = [engine.search(*one) for one in asked]
    batcher = Batcher(engine, 1000, Metrics())
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda one: Ticket(batcher).search(*one), asked))
    finally:
        batcher.stop()
    assert found == alone


@given(configs(decoder_ssru=False), seeds)
@max_examples(8)
def test_cancelled_requests_do_not_affect_others(config, seed):
    """Cancelled before, during or after their search: others get their results, and nothing is left in the batcher."""
    engine = open_search_backend([build_source_sensitive(config, seed)], EngineOptions(workers=2))
    dice = random.Random(seed)
    search = Beam(size=3)
    asked = [requests(dice, config) for _ in range(12)]
    alone = [engine.search(one, search) for one in asked]
    batcher = Batcher(engine, 1000, Metrics())
    tickets = [Ticket(batcher) for _ in asked]
    leaving = set(dice.sample(range(12), 6))

    def ask(number: int):
        try:
            return tickets[number].search(asked[number], search)
        except ClientDisconnectedError:
            return None

    def leave() -> None:
        for number in leaving:
            time.sleep(dice.random() / 500)
            tickets[number].cancel(ClientDisconnectedError())

    try:
        with ThreadPoolExecutor(13) as pool:
            pool.submit(leave)
            found = list(pool.map(ask, range(12)))
        for number, (one, own) in enumerate(zip(found, alone, strict=True)):
            assert one == own or (one is None and number in leaving)
        deadline = time.monotonic() + 60
        while batcher.under_way or batcher.waiting:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        batcher.stop()


def test_invalid_searches_are_errors_of_their_own_request():
    engine, config = open_search_backend([model()], EngineOptions(engine="plain")), model().config
    batcher = Batcher(engine, 10, Metrics())
    try:
        with pytest.raises(InputError, match="padding"):
            Ticket(batcher).search([Request([config.pad_id])], Beam())
        with pytest.raises(InputError, match="suppressed"):
            Ticket(batcher).search([Request([3])], Beam(suppress=(config.eos_id,)))
        with pytest.raises(HTTPError, match="11 sentences; the queue holds 10"):
            Ticket(batcher).search([Request([3])] * 11, Beam())
        assert len(Ticket(batcher).search([Request([3])] * 10, Beam())) == 10
    finally:
        batcher.stop()
    with pytest.raises(HTTPError, match="stopping"):
        Ticket(batcher).search([Request([3])], Beam())


@pytest.mark.parametrize("place", ["join", "advance"])
def test_a_failed_search_ends_its_own_requests_only(place, monkeypatch):
    """Other settings, and later requests with the same ones, get their results, and nothing is left in the batcher."""
    engine = open_search_backend([model()], EngineOptions(engine="plain"))
    failing, sound = Beam(size=2, no_repeat=5), Beam(size=3)
    wanted = [Request([5, 6, 2]), Request([7, 2])]
    errors = [RuntimeError("a defect"), InputError("a damaged model")]
    original = getattr(StepwiseBatchSearch, place)

    def faulty(self, *arguments):
        if self.settings == failing and errors:
            raise errors.pop(0)
        return original(self, *arguments)

    monkeypatch.setattr(StepwiseBatchSearch, place, faulty)
    batcher = Batcher(engine, 10, Metrics())
    try:
        with ThreadPoolExecutor(1) as pool:
            other = pool.submit(Ticket(batcher).search, wanted, sound)
            with pytest.raises(HTTPError, match="internal error") as caught:
                Ticket(batcher).search(wanted, failing)
            assert caught.value.status == 500
            with pytest.raises(InputError, match="a damaged model"):
                Ticket(batcher).search(wanted, failing)
            assert other.result() == engine.search(wanted, sound)
        assert Ticket(batcher).search(wanted, failing) == engine.search(wanted, failing)
        assert not batcher.under_way
        assert not batcher.waiting
    finally:
        batcher.stop()


def test_stopping_lets_nobody_wait():
    engine = open_search_backend([model()], EngineOptions(engine="plain", exact=True))
    batcher = Batcher(engine, 10_000, Metrics())
    refused: list[bool] = []

    def ask() -> None:
        try:
            Ticket(batcher).search([Request([5] * 30)] * 200, Beam(size=8, min_length_ratio=2.0))
        except HTTPError as error:
            refused.append(error.status == 503)

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    while not batcher.under_way:
        time.sleep(0.01)
    batcher.stop()
    for thread in threads:
        thread.join(60)
    assert refused == [True] * 5


def test_clients_take_turns():
    queue = FairQueue[str]()
    queue.add("a", ["a1", "a2", "a3"])
    queue.add("b", ["b1"])
    assert queue.take() == "a1"
    queue.add("c", ["c1", "c2"])
    queue.add("d", [])
    queue.add("b", ["b2"])
    queue.add("e", ["e1"])
    queue.drop("e")
    queue.drop("f")
    assert len(queue) == 6
    assert queue.first() == "b1"
    assert [queue.take() for _ in range(6)] == ["b1", "a2", "c1", "b2", "a3", "c2"]
    assert not queue


def test_a_model_of_one_pair_takes_any_codes():
    languages = LanguagePairs(tokenizer(), None, 2)
    assert languages.tokenizer("xx", "yy") is languages.tokenizer(None, "auto") is tokenizer()


def test_a_model_of_many_languages_has_a_tokenizer_for_each_pair():
    from glassformer.data.imported_tokenizer import ImportedTokenizerSettings

    known = {code: f"<{code}>" for code in ("en", "de", "fr")}
    own = ImportedTokenizerSettings(
        cut="words",
        joint=True,
        before_source=["{source}"],
        after_source=["</s>"],
        before_target=["{target}"],
        after_target=["</s>"],
        languages=known,
    )
    many = ImportedTokenizer.joint(own, ["<unk>", "</s>", *known.values(), "▁a", "a"], b"")
    languages = LanguagePairs(many, None, 2)
    assert [one["code"] for one in languages.listed()] == ["en", "de", "fr"]
    first = languages.tokenizer("en", "de")
    assert first.encode("a", "target")[0] != languages.tokenizer("en", "fr").encode("a", "target")[0]
    assert languages.tokenizer("en", "de") is first
    languages.tokenizer("de", "fr")
    languages.tokenizer("fr", "en")
    assert len(languages._cache) == 2
    with pytest.raises(InputError, match="does not support the language"):
        languages.tokenizer("en", "xx")
    assert languages.detected() is None
