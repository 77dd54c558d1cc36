"""The explorer in a notebook: the server's routes answer its widget, in messages of bounded size."""

import json
import sys
import threading
from urllib.parse import quote

import pytest
import torch
from safetensors.torch import load as read_tensors

from glassformer import explore
from glassformer.errors import InputError
from glassformer.inspection import inspect
from glassformer.inspection.explorer import Frame, packed
from glassformer.notebook.widget_messages import RepliesFromModel, RepliesFromTrace, WidgetRequest
from glassformer.translator import Translator
from tests import small_translator
from tests.processes import ROOT

TEXT = "the animal did not cross the street"


@pytest.fixture(scope="module")
def translator():
    return Translator(small_translator.model(3), small_translator.tokenizer())


@pytest.fixture(scope="module")
def answering(translator):
    pytest.importorskip("fastapi")
    return RepliesFromModel(translator, "small")


def ask(answering, path, body=None, method=None):
    """The reply, from whichever thread it comes."""
    replies, over = [], threading.Event()
    request = WidgetRequest(
        method or ("GET" if body is None else "POST"), path, None if body is None else json.dumps(body)
    )
    answering.ask(request, lambda reply: (replies.append(reply), over.set()))
    assert over.wait(60)
    return replies[0]


def test_tensors_and_weights_come_as_from_a_server(answering, translator):
    manifest = json.loads(ask(answering, "/api/explore", {"text": TEXT}).body)
    trace = inspect(translator).trace(TEXT, beam=translator.search.size)
    name = "decoder.layers.0.cross_attention.weights"
    answer = ask(answering, f"/api/explore/{manifest['id']}/tensor/{name}")
    assert torch.equal(read_tensors(answer.body)[name], trace[name])
    weight = ask(answering, f"/api/weight/{quote('encoder.layers.0.self_attention.q_proj.weight')}?rows=0:8")
    [part] = read_tensors(weight.body).values()
    assert part.shape == (8, 16)


def test_what_is_refused_is_one_sentence(answering):
    answer = ask(answering, "/api/explore", {"text": "   "})
    assert answer.status == 422
    assert json.loads(answer.body)["error"].endswith(".")
    assert ask(answering, "/api/nothing").status == 404


def test_a_trace_alone_answers_with_what_was_packed(translator):
    carried = packed(inspect(translator).trace(TEXT), name="small")
    answering = RepliesFromTrace(carried)
    assert ask(answering, "/trace.gz").body == carried
    assert ask(answering, "/api/model").status == 404


def test_without_a_widget_there_is_a_page(translator, monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    assert isinstance(explore(translator, TEXT, static=True), Frame)
    monkeypatch.setattr("glassformer.notebook.explore_cell.find_spec", lambda name: None)
    for found in (explore(translator, TEXT), explore(inspect(translator).trace(TEXT))):
        assert isinstance(found, Frame)
        assert TEXT in repr(found)


def test_what_cannot_be_explored_is_said(translator):
    with pytest.raises(InputError, match="The explorer needs a text, as in"):
        explore(translator, "  ")
    with pytest.raises(InputError, match="A trace already has its text"):
        explore(inspect(translator).trace(TEXT), "another")


def test_the_kernels_environment_agrees_with_ours():
    """Notebook kernels see the packages of both environments."""
    ours, theirs = (
        dict(word.lower().split("==") for word in (ROOT / path).read_text().split() if "==" in word)
        for path in ("requirements.lock", "tests/browser/notebook.lock")
    )
    assert {name: theirs[name] for name in ours.keys() & theirs.keys()} == {
        name: ours[name] for name in ours.keys() & theirs.keys()
    }


def test_messages_are_small_and_whole(translator):
    pytest.importorskip("anywidget")
    from glassformer.notebook.widget import MAX_MESSAGE_BYTES, pieces_of

    body = bytes(range(256)) * 10_000
    pieces = pieces_of(body)
    assert b"".join(pieces) == body
    assert max(len(piece) for piece in pieces) <= MAX_MESSAGE_BYTES < 2_000_000
    assert pieces_of(b"") == [b""]


def test_a_widget_answers_and_stands_in_for_itself(translator):
    pytest.importorskip("anywidget")
    widget = explore(translator, TEXT, name="small")
    heard, over = [], threading.Event()
    widget.send = lambda content, buffers: (heard.append((content, buffers)), over.set())
    widget._handle_custom_msg({"id": "a", "method": "GET", "path": "/api/model", "body": None}, [])
    assert over.wait(60)
    [(content, [body])] = heard
    assert content["id"] == "a"
    assert (content["piece"], content["pieces"], content["status"]) == (0, 1, 200)
    assert json.loads(body)["name"] == "small"
    widget._handle_custom_msg("nonsense", [])  # other messages on the same channel are ignored
    bundle, _ = widget._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "srcdoc=" in bundle["text/html"]
    assert TEXT in bundle["text/plain"]
    assert explore(translator, TEXT, name="small")._replies is widget._replies
