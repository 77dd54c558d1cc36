"""Self-contained explorer pages: they hold the trace's exact numbers, escape all text, and need no network."""

import base64
import gzip
import hashlib
import html
import json
import re
from html.parser import HTMLParser

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load as read_tensors

from glassformer.decoding import Beam, Request
from glassformer.errors import DirectoryError, InputError
from glassformer.inspection import Trace, inspect
from glassformer.inspection.explorer import Frame, packed
from glassformer.inspection.explorer.standalone_page import SCRIPT, page_of
from glassformer.inspection.tracing.tensor_groups import TensorGroup, tensor_names
from glassformer.inspection.tracing.trace_builder import trace
from glassformer.translator import Translator
from tests import small_translator
from tests.examples import max_examples
from tests.models import build, configs, seeds, sources

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!-- <script> -->",
    "]]> & &lt; \u2028 \u2029 \x00 \"'`",
    "{policy} {0} %s",
    "\N{RIGHT-TO-LEFT OVERRIDE}txt.exe <img src=x onerror=alert(1)>",
]


class Parts(HTMLParser):
    """The elements of a page and their text, as a browser would parse them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes), ""))

    def handle_data(self, data):
        if self.found:
            tag, attributes, text = self.found[-1]
            self.found[-1] = (tag, attributes, text + data)

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attributes, text) for own, attributes, text in self.found if own == tag]


def carried(page: str) -> tuple[dict, dict[str, torch.Tensor]]:
    """The manifest and the tensors of the trace file embedded in a page."""
    texts = {attributes.get("id"): text for attributes, text in Parts(page).all("script")}
    content = gzip.decompress(base64.b64decode(texts["glassformer-trace"]))
    return page_info(content), read_tensors(content)


def page_info(content: bytes) -> dict:
    """The part of a trace file's metadata that is for the explorer."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return json.loads(header["__metadata__"]["glassformer.trace"])["page"]


@pytest.fixture(scope="module")
def translator():
    return Translator(small_translator.model(3), small_translator.tokenizer())


@pytest.fixture(scope="module")
def traced(translator):
    return inspect(translator).trace("the animal did not cross the street")


def test_the_numbers_in_a_page_are_the_traces_bit_for_bit(traced, tmp_path):
    traced.to_html(tmp_path / "page.html", name="small")
    about, tensors = carried((tmp_path / "page.html").read_text())
    listed = tensor_names(TensorGroup(**one) for one in about["manifest"]["tensors"])
    kept = set(traced) - {name for name in traced if name.endswith(".heads_out") or name == "logits"}
    assert set(listed) == kept
    for name in listed:
        assert torch.equal(tensors[traced.about.same.get(name, name)], traced[name]), name
    for name in tensor_names(TensorGroup(**one) for one in about["manifest"]["parameters"]):
        owner = traced.about.shared.get(name, name)
        assert torch.equal(tensors[f"parameters.{owner}"], traced.parameter(name)), name
    assert about["model"]["name"] == "small"
    assert about["manifest"]["target"]["text"] == traced.translation
    assert about["half"] is False


def test_a_page_embeds_a_trace_file(traced, tmp_path):
    path = tmp_path / "trace.safetensors"
    path.write_bytes(gzip.decompress(packed(traced, name="small")))
    again = Trace.load(path)
    assert again.tree == traced.tree
    assert again.source == traced.source
    assert all(torch.equal(again[name], traced[name]) for name in again)
    again.save(path, parameters=["*"])  # without the part for the explorer, the page's bytes are the file's
    traced.save(tmp_path / "own.safetensors", parameters=["*"])
    assert path.read_bytes() == (tmp_path / "own.safetensors").read_bytes()


def test_a_page_of_attention_has_the_weights_and_little_else(traced, tmp_path):
    traced.to_html(tmp_path / "page.html", "attention")
    about, tensors = carried((tmp_path / "page.html").read_text())
    assert {f"{name}.weights" for name in traced.attentions} <= set(tensors)
    assert not any(name.endswith((".q", ".k", ".v")) or name.startswith("parameters.") for name in tensors)
    assert about["manifest"]["parameters"] == []


def test_a_trace_from_a_file_makes_the_same_page_as_the_one_in_memory(traced, tmp_path):
    traced.save(tmp_path / "trace.safetensors", parameters=["*"])
    first = page_of(traced, packed(traced))
    again = Trace.load(tmp_path / "trace.safetensors")
    about, tensors = carried(page_of(again, packed(again)))
    ours, own = carried(first)
    assert about == ours
    assert tensors.keys() == own.keys()
    assert all(torch.equal(tensors[name], own[name]) for name in own)
    assert page_of(traced, packed(traced)) == first  # and the same bytes each time


@max_examples(15)
@given(configs(), seeds)
@torch.no_grad()
def test_every_kind_of_model_has_a_page(config, seed):
    made = build(config, seed, torch.float32)
    request = Request(sources(config, [5], seed)[0].tolist())
    found = trace(made, request, search=Beam(size=2, max_length_ratio=0.5, max_length_extra=4))
    about, tensors = carried(page_of(found, packed(found)))
    assert about["manifest"]["config"]["decoder_layers"] == config.decoder_layers
    listed = tensor_names(TensorGroup(**one) for one in about["manifest"]["tensors"])
    assert all(found.about.same.get(name, name) in tensors for name in listed)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_sentence_stays_text(translator, text):
    found = inspect(translator).trace(f"the animal {text}", text)
    page = page_of(found, packed(found, name=text), text)
    parts = Parts(page)
    assert len(parts.all("script")) == 2
    assert not parts.all("img")
    assert len(parts.all("iframe")) == 0
    about, _ = carried(page)
    assert about["manifest"]["source"]["text"] == found.text
    assert about["model"]["name"] == text
    assert re.search(r"<title>[^<]*</title>", page)


@max_examples(50)
@given(st.text())
def test_any_name_stays_text(text):
    found = _SMALL
    about, _ = carried(page_of(found, packed(found, "attention", name=text), text))
    assert about["model"]["name"] == text


_SMALL = inspect(Translator(small_translator.model(3), small_translator.tokenizer())).trace("the dog")


def test_a_page_allows_its_one_script_and_nothing_else(traced):
    page = page_of(traced, packed(traced))
    parts = Parts(page)
    [policy] = [one["content"] for one, _ in parts.all("meta") if one.get("http-equiv") == "Content-Security-Policy"]
    [script] = [text for one, text in parts.all("script") if one.get("type") == "module"]
    digest = base64.b64encode(hashlib.sha256(script.rstrip("\n").encode()).digest()).decode()
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == f"'sha256-{digest}'"
    assert "connect-src" not in rules
    assert parts.all("html")[0][0]["lang"] == "en"
    for tag, attributes, _ in parts.found:
        assert not any(str(attributes.get(name, "data:")).partition(":")[0] != "data" for name in ("src", "href")), tag


def test_the_script_can_be_embedded_in_a_page():
    assert SCRIPT.stat().st_size < 350_000
    assert not re.search(r"\beval\(|new Function\(|\bimport\(", SCRIPT.read_text()), "the policy would refuse that"


def test_a_large_page_is_refused_unless_allowed(traced, tmp_path):
    path = tmp_path / "page.html"
    with pytest.raises(InputError, match=r"would have [\d,]+ bytes; the maximum is 10,000"):
        traced.to_html(path, largest=10_000)
    assert not path.exists()
    traced.to_html(path, largest=None)
    with pytest.raises(InputError, match="Unknown detail 'everything' for the explorer; choose one of attention, full"):
        traced.to_html(path, "everything")
    with pytest.raises(DirectoryError, match="cannot be written"):
        traced.to_html(tmp_path / "nowhere" / "page.html")


def test_half_precision_is_smaller_and_marked(traced):
    whole, half = (packed(traced, half=one, weights=False) for one in (False, True))
    assert len(half) < 0.7 * len(whole)
    assert page_info(gzip.decompress(half))["half"] is True


def test_bfloat16_stays_bit_for_bit():
    made = build(_SMALL.config, 1, torch.bfloat16)
    found = trace(made, Request([5, 6, 2]), [7, 8, 2])
    _, tensors = carried(page_of(found, packed(found)))
    kept = found.about.same.get("memory", "memory")
    assert tensors[kept].dtype == torch.bfloat16
    assert torch.equal(tensors[kept], found["memory"])


def test_a_frame_holds_the_whole_page(traced):
    frame = Frame.of(traced, name="small")
    [(attributes, _)] = Parts(frame.html).all("iframe")
    about, _ = carried(attributes["srcdoc"])
    assert about["manifest"]["source"]["text"] == traced.text
    assert html.unescape(attributes["title"]).endswith(traced.text)
    assert frame._repr_html_() == frame.html
