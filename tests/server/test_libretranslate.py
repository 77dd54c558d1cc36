"""LibreTranslate's API works with its clients: libretranslatepy sends forms, others JSON."""

import json
from urllib.parse import urlencode

import pytest

from glassformer.decoding import Beam
from glassformer.translator import Translator
from tests.server.running import running, served

TEXT = "the animal was tired"
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def server():
    with running(served()) as server:
        yield server


def own(texts, n_best=1):
    translator = served().translator
    beam = Beam(size=max(4, n_best), n_best=n_best)
    mine = Translator(translator.model, translator.tokenizer, beam, engine=translator.engine)
    return [[answer.text for answer in one.candidates] for one in mine.translations(texts)]


def test_a_text_as_json_or_as_a_form(server):
    asked = {"q": TEXT, "source": "en", "target": "de", "format": "text", "api_key": "", "apiKey": "passed over"}
    [[wanted]] = own([TEXT])
    assert server.post("/translate", asked).json() == {"translatedText": wanted}
    assert server.ask("POST", "/translate", urlencode(asked), FORM).json() == {"translatedText": wanted}


def test_several_texts_and_alternatives(server):
    answer = server.post("/translate", {"q": [TEXT, "the street"], "source": "auto", "target": "x", "alternatives": 2})
    wanted = own([TEXT, "the street"], 3)
    found = answer.json()
    assert found["translatedText"] == [one[0] for one in wanted]
    assert found["alternatives"] == [one[1:] for one in wanted]
    assert [one["confidence"] for one in found["detectedLanguage"]] == [0.0, 0.0]
    form = urlencode({"q": TEXT, "source": "auto", "target": "de", "alternatives": "2"})
    found = server.ask("POST", "/translate", form, FORM).json()
    assert [found["translatedText"], *found["alternatives"]] == wanted[0]


def test_lines_stay_lines(server):
    found = server.post("/translate", {"q": f"{TEXT}\n\nthe street\n", "source": "en", "target": "de"}).json()
    [[first], [second]] = own([TEXT, "the street"])
    assert found["translatedText"] == f"{first}\n\n{second}\n"


def test_what_clients_ask_beside(server):
    first, second = server.get("/languages").json()
    assert first["targets"] == [second["code"]]
    assert server.post("/detect", {"q": TEXT}).json() == [{"language": first["code"], "confidence": 0.0}]
    settings = server.get("/frontend/settings").json()
    assert settings["charLimit"] == 20_000
    assert settings["keyRequired"] is False


@pytest.mark.parametrize(
    ("body", "about"),
    [
        ({}, "missing q"),
        ({"q": "", "source": "en", "target": "de"}, "missing q"),
        ({"q": TEXT, "format": "html"}, "html format"),
        ({"q": TEXT, "alternatives": -1}, "alternatives"),
        ({"q": TEXT, "alternatives": "many"}, "alternatives should be a whole number from 0 to 999."),
        ({"q": TEXT, "alternatives": 1.5}, "alternatives = 1.5 should be a whole number."),
        ({"q": {"a": 1}}, "q = {'a': 1} should be a string or a list."),
        ({"q": [TEXT, 3]}, "q.1 = 3 should be a string."),
        ({"q": TEXT, "target": [1]}, "target = [1] should be a string."),
    ],
)
def test_what_is_wrong_is_said_as_they_say_it(server, body, about):
    assert about in server.post("/translate", body).is_refused(400)


def test_ten_thousand_alternatives_are_refused(server):
    """LibreTranslate once computed them (its issue 978)."""
    server.post("/translate", {"q": TEXT, "alternatives": 10_000}).is_refused(400)
    server.post("/translate", {"q": TEXT, "alternatives": 999}).is_refused(422)


def test_codes_that_were_named_are_the_only_ones():
    with running(served(), named=("en", "de")) as server:
        assert [one["code"] for one in server.get("/languages").json()] == ["en", "de"]
        assert server.post("/translate", {"q": TEXT, "source": "auto", "target": "de"}).status == 200
        assert "fr" in server.post("/translate", {"q": TEXT, "source": "en", "target": "fr"}).is_refused(400)
        assert "fr" in server.post("/api/translate", {"text": TEXT, "source": "fr"}).is_refused(400)


def test_their_own_python_client(server, monkeypatch):
    libretranslatepy = pytest.importorskip("libretranslatepy")
    client = libretranslatepy.LibreTranslateAPI(f"http://127.0.0.1:{server.port}/")
    [[wanted]] = own([TEXT])
    assert client.translate(TEXT, "en", "de") == wanted
    assert client.languages() == server.get("/languages").json()
    assert client.detect(TEXT)[0]["language"] == "source"


def test_a_key_may_stand_in_the_body():
    key = "a key of sufficient length".replace(" ", "-")
    with running(served(), keys=[key]) as server:
        asked = {"q": TEXT, "source": "en", "target": "de"}
        server.post("/translate", asked).is_refused(401)
        server.post("/translate", asked | {"api_key": "wrong"}).is_refused(403)
        assert server.post("/translate", asked | {"api_key": key}).status == 200
        body = json.dumps(asked)
        headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
        assert server.ask("POST", "/translate", body, headers).status == 200
