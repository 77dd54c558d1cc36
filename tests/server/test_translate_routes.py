"""Translations over HTTP are the translator's own, whatever other clients request at the same time."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import pytest

from glassformer import load
from glassformer.builtin.street import sentences
from glassformer.data.word_spans import word_pair
from glassformer.decoding import Beam
from glassformer.engine import EngineOptions, describe_engine, open_engine
from glassformer.inspection.alignment.word_alignment import align
from glassformer.server.translation_service import ServedModel, open_served_model
from glassformer.translator import Translator
from tests.server.running import LONG, WORDS, running, served

SOURCES = [one.source for one in sentences("train", 60)]


def alone(translator: Translator, asked: dict) -> list:
    """The translator's results for the same request, without a server."""
    search = Beam(
        size=asked.get("beam", 4),
        n_best=asked.get("n_best", 1),
        length_penalty=asked.get("length_penalty", 1.0),
        no_repeat=asked.get("no_repeat", 0),
    )
    mine = Translator(translator.model, translator.tokenizer, search, engine=translator.engine)
    return mine.translations([asked["text"]] if isinstance(asked["text"], str) else asked["text"])


def agrees(found: dict, own) -> None:
    """Every text, token and number, to the last bit."""
    assert found["parts"] == own.parts
    if not own.candidates:
        assert found["text"] == ""
        assert found["alternatives"] == []
        return
    for told, answer in zip([found, *found["alternatives"]], own.candidates, strict=True):
        assert told["text"] == answer.text
        assert told["score"] == answer.score
        assert told["tokens"] == answer.tokens
        assert told["log_probabilities"] == answer.log_probabilities


def random_question(seed: int, longest: str = LONG) -> dict:
    dice = random.Random(seed)
    texts = [dice.choice([*SOURCES, "", "  ", longest]) for _ in range(dice.randint(1, 5))]
    return {
        "text": texts if dice.random() < 0.8 else texts[0],
        "beam": dice.choice([1, 2, 4, 5]),
        "n_best": dice.randint(1, 3),
        "length_penalty": dice.choice([0, 0.5, 1.0, 1]),
        "no_repeat": dice.choice([0, 0, 0, 3]),
        "tokens": True,
    }


@pytest.mark.parametrize(("engine", "clients", "longest"), [("fast", 50, LONG), ("plain", 4, WORDS)])
def test_many_clients_at_once_get_what_each_would_get_alone(engine, clients, longest):
    translator = served(engine).translator
    questions = [random_question(seed, longest) for seed in range(clients)]
    own = [alone(translator, question) for question in questions]
    with running(served(engine)) as server:
        gate = threading.Barrier(clients)

        def ask(question: dict):
            gate.wait()
            return server.post("/api/translate", question)

        with ThreadPoolExecutor(clients) as pool:
            answers = list(pool.map(ask, questions))
        if engine == "fast":  # the plain one runs with exact=True, one sentence at a time
            assert server.metric("batch_sentences_sum") > server.metric("batch_sentences_count") > 0
    for answer, translations in zip(answers, own, strict=True):
        assert answer.status == 200, answer.text
        for found, one in zip(answer.json()["translations"], translations, strict=True):
            agrees(found, one)


def test_the_built_in_model_answers_as_it_does_by_itself():
    with running(open_served_model("street")) as server:
        text = "The animal didn't cross the street because it was too tired."
        [found] = server.post("/api/translate", {"text": text, "n_best": 3, "tokens": True}).json()["translations"]
        [own] = load("street", search=Beam(n_best=3)).translations([text])
        agrees(found, own)
        assert "es zu müde" in found["text"]


def test_another_engine_answers_too():
    """CTranslate2 takes sentences only all at once; its results are its own."""
    pytest.importorskip("ctranslate2")
    model = served().translator.model
    engine = open_engine([model], EngineOptions(engine="ctranslate2", workers=1))
    translator = Translator(model, served().translator.tokenizer, engine=engine)
    own = [alone(translator, {"text": text, "beam": 2, "n_best": 2}) for text in SOURCES[:6]]
    with running(ServedModel("other", translator, served().alignment_heads)) as server, ThreadPoolExecutor(6) as pool:
        asked = [{"text": text, "beam": 2, "n_best": 2, "tokens": True} for text in SOURCES[:6]]
        answers = list(pool.map(lambda one: server.post("/api/translate", one).json(), asked))
        for answer, [one] in zip(answers, own, strict=True):
            [found] = answer["translations"]
            assert found["text"] == one.text
            assert found["score"] == pytest.approx(one.candidates[0].score, abs=1e-4)


@pytest.mark.parametrize("engine", ["fast", "plain"])
def test_the_engine_in_use_is_told(engine):
    with running(served(engine)) as server:
        told = server.get("/api/model").json()["engine"]
        metrics = server.get("/metrics").text
    assert told == asdict(describe_engine(served(engine).translator.engine))
    labels = ",".join(f'{name}="{value}"' for name, value in told.items() if value is not None)
    assert f"\nglassformer_engine_info{{{labels}}} 1\n" in metrics


def test_as_many_come_back_as_went_in_and_in_their_order():
    with running(served()) as server:
        texts = [" ".join(random.Random(i).sample(WORDS.split(), 5)) for i in range(100)]
        answer = server.post("/api/translate", {"text": texts, "beam": 1}).json()
        one_by_one = [server.post("/api/translate", {"text": text, "beam": 1}).json() for text in texts]
        assert [one["text"] for one in answer["translations"]] == [one["translations"][0]["text"] for one in one_by_one]
        assert server.post("/api/translate", {"text": []}).json() == {"translations": []}


def test_alignments_are_those_of_align():
    with running(served()) as server:
        answer = server.post("/api/translate", {"text": [SOURCES[0], "", LONG], "alignment": True, "tokens": True})
        first, blank, long = answer.json()["translations"]
        translator = served().translator
        ids = translator.tokenizer.encode(SOURCES[0], "source")
        [own] = alone(translator, {"text": SOURCES[0]})
        pair = word_pair(translator.tokenizer, ids, own.candidates[0].ids)
        [links] = align(translator.model, [pair], served().alignment_heads)
        assert [first["source_words"], first["target_words"]] == list(pair.texts)
        assert [(one["source"], one["target"]) for one in first["alignment"]] == [
            (link.source, link.target) for link in links
        ]
        assert [one["weight"] for one in first["alignment"]] == pytest.approx([link.weight for link in links])
        assert "alignment" not in blank
        assert ("alignment" in long) == (long["parts"] == 1)


def test_tokens_are_left_out_unless_asked_for():
    with running(served()) as server:
        [found] = server.post("/api/translate", {"text": "the street"}).json()["translations"]
        assert set(found) == {"text", "score", "alternatives", "parts"}
