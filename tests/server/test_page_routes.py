"""The explorer of a trace and its story as HTML files from the server."""

import base64
import gzip
import re

import pytest
import torch
from safetensors.torch import load as read_tensors

from glassformer.figure_catalogue import VIEWS
from tests.server.running import WORDS, running, served


@pytest.fixture(scope="module")
def server():
    with running(served("plain")) as one:
        yield one


def test_it_is_a_page_with_the_traces_numbers(server):
    identity = server.post("/api/explore", {"text": WORDS, "beam": 2}).json()["id"]
    answer = server.get(f"/api/explore/{identity}/explorer.html")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-disposition"].startswith("attachment")
    numbers = re.search(r'id="glassformer-trace">([^<]+)<', answer.text)[1]
    tensors = read_tensors(gzip.decompress(base64.b64decode(numbers)))
    name = "decoder.layers.0.cross_attention.weights"
    sent = server.get(f"/api/explore/{identity}/tensor/{name}").body
    assert torch.equal(tensors[name], read_tensors(sent)[name])
    small = server.get(f"/api/explore/{identity}/explorer.html?detail=attention")
    assert len(small.body) < len(answer.body)
    assert "attention, full" in server.get(f"/api/explore/{identity}/explorer.html?detail=x").is_refused(422)


def test_the_story_is_a_page_that_python_makes_too(server):
    identity = server.post("/api/explore", {"text": WORDS, "beam": 2}).json()["id"]
    answer = server.get(f"/api/explore/{identity}/story.html?head=1&token=2&dark=1")
    assert answer.status == 200
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.text.count("<figure") == len(VIEWS)
    assert "There is no attention 'x'" in server.get(f"/api/explore/{identity}/story.html?at=x").is_refused(422)
    assert "Head 99 is out of range" in server.get(f"/api/explore/{identity}/story.html?head=99").is_refused(422)


def test_it_is_bounded():
    with running(served("plain"), answer_bytes=50_000) as server:
        identity = server.post("/api/explore", {"text": WORDS, "beam": 2}).json()["id"]
        assert "50,000" in server.get(f"/api/explore/{identity}/explorer.html").is_refused(413)
