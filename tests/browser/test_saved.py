"""Pages of `Trace.to_html` in Chromium, opened from a file: they contain everything and request nothing."""

import base64
import csv
import json
from xml.etree import ElementTree

import pytest

from glassformer import load
from glassformer.inspection import inspect
from glassformer.inspection.explorer import Frame, packed, script
from glassformer.server.translation_service import open_served_model
from tests.browser.driving import drive, needs_chromium
from tests.server.running import running

pytestmark = needs_chromium
SENTENCE = "The animal didn't cross the street because it was too tired."
HOSTILE = 'The </script><img src=x onerror=alert(1)> dog <!-- was \u2028 tired & "wide".'


@pytest.fixture(scope="module")
def trace():
    return inspect(load("street")).trace(SENTENCE)


@pytest.fixture(scope="module")
def whole(trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "explorer.html"
    trace.to_html(path, name="street")
    return path.as_uri()


@pytest.mark.parametrize(
    "look",
    [{"scheme": "light"}, {"scheme": "dark"}, {"scheme": "light", "width": 320}],
    ids=["light", "dark", "narrow"],
)
def test_every_step_by_keys_alone_without_a_network(whole, look):
    """`drive` fails on any request except for the file, and if the page's policy refuses something."""
    seen = drive(whole, "tour", look)
    count = int(seen[0]["where"].split()[-1])
    assert [one["where"] for one in seen] == [f"step {i} of {count}" for i in range(1, count + 1)]
    for one in seen:
        assert one["violations"] == [], one["where"]
        assert one["beyond"] <= 0, f"{one['where']} is wider than the page"
        assert all(difference < 1e-4 for difference in one["badges"])
    assert sum(bool(one["badges"]) for one in seen) >= 8


def test_numbers_in_the_file_are_those_of_the_trace(whole, trace):
    at = "encoder.layers.1.self_attention"
    views = [{"hash": f"#v=attention&at={at}&h=1&q=10&tab=token", "rows": "[data-query-steps] tbody"}]
    [found] = drive(whole, "read", views)
    shown = [float(row[4]) for row in found["table"]]
    assert shown == pytest.approx(trace[f"{at}.weights"][1, 10].tolist(), abs=5e-4)


def test_attention_alone_is_a_smaller_tour(trace, tmp_path):
    trace.to_html(tmp_path / "attention.html", "attention")
    seen = drive((tmp_path / "attention.html").as_uri(), "tour", {})
    assert 5 <= len(seen) < 13
    for one in seen:
        assert one["violations"] == [], one["where"]
        assert one["badges"] == []  # weights alone cannot be recomputed


def test_float16_numbers_are_recomputed_within_three_digits(trace, tmp_path):
    trace.to_html(tmp_path / "half.html", half=True)
    seen = drive((tmp_path / "half.html").as_uri(), "tour", {})
    badges = [badge for one in seen for badge in one["badges"]]
    assert 1e-6 < max(badges) < 5e-2


def test_a_hostile_sentence_is_only_text(tmp_path):
    hostile = inspect(load("street")).trace(HOSTILE)
    hostile.to_html(tmp_path / "hostile.html", name="</title><script>alert(1)</script>")
    [found] = drive((tmp_path / "hostile.html").as_uri(), "read", [{"hash": "#v=sentence", "rows": "main"}])
    assert found["heading"] == "Sentence and translation"


def test_a_frame_is_as_high_as_its_content(trace, tmp_path):
    page = f"<!doctype html><html lang=en><title>report</title><h1>A report</h1>{Frame.of(trace).html}<p>and more</p>"
    (tmp_path / "report.html").write_text(page)
    [frame] = drive((tmp_path / "report.html").as_uri(), "framed")["found"]
    assert frame["heading"] == "Tokens and positions"
    assert frame["before"] == frame["after"]
    height, content, scrolled = frame["after"]
    assert abs(height - content) < 3
    assert scrolled <= height + 1


def test_the_dialog_saves_figures_numbers_and_everything(trace, tmp_path):
    at = "decoder.layers.1.cross_attention"
    hashes = [f"#v=attention&at={at}&h=2&q=8&tab=matrix&s={SENTENCE}", f"#v=tokens&s={SENTENCE}"]
    with running(open_served_model("street")) as server:
        found = drive(server.port, "save", {"folder": str(tmp_path), "views": hashes})
    attention, tokens = found
    for one in found:
        assert one["violations"] == []
        assert one["within"]  # Tab does not leave the dialog
        assert one["closed"]
        assert one["beyond"] <= 0
        assert SENTENCE in one["caption"]
        assert "street, glassformer" in one["caption"]
        assert "http://127.0.0.1" in one["caption"]
    assert "Decoder layer 1 · cross-attention, head 2" in attention["caption"]
    kinds = [name.rpartition(".")[2] for name in attention["files"]]
    assert kinds == ["svg", "png", "png", "png", "csv", "json", "html", "html"]
    assert [name.rpartition(".")[2] for name in tokens["files"]] == ["csv", "json", "html", "html"]  # no such figure
    names = dict(zip(["svg", "png", "png2", "png3", "csv", "json", "story", "html"], attention["files"], strict=True))
    files = {kind: (tmp_path / f"0-{name}").read_bytes() for kind, name in names.items()}
    assert ElementTree.fromstring(files["svg"]).tag.endswith("svg")
    widths = [int.from_bytes(files[kind][16:20], "big") for kind in ("png", "png2", "png3")]
    assert widths[1] == pytest.approx(2 * widths[0], abs=2)
    assert widths[2] == pytest.approx(3 * widths[0], abs=3)
    weights = trace[f"{at}.weights"][2]
    rows = list(csv.DictReader(files["csv"].decode().splitlines()))
    shown = {(int(one["row"]), int(one["column"])): float(one["value"]) for one in rows if ".weights" in one["table"]}
    assert shown == {
        (t, s): pytest.approx(float(weights[t, s]), rel=1e-6)
        for t in range(len(weights))
        for s in range(weights.shape[1])
    }
    tables = json.loads(files["json"])
    assert tables["model"] == "street"
    assert len(tables["tables"]) == 2
    assert b"glassformer-trace" in files["html"]
    assert "story-decoder.layers.1.cross_attention-head2" in names["story"]
    assert files["story"].decode() == trace.story(name="street", at=at, head=2, token=8).html


def test_the_dialog_of_a_saved_page_has_what_needs_no_model(whole, tmp_path):
    [found] = drive(whole, "save", {"folder": str(tmp_path), "views": ["#v=tokens"], "width": 320})
    assert [name.rpartition(".")[2] for name in found["files"]] == ["csv", "json"]
    assert found["violations"] == []
    assert found["beyond"] <= 0


def test_a_widget_in_a_page_that_imitates_vs_code(trace, tmp_path):
    """Its theme is that of the body's class; two widgets on one page leave its styles and URL unchanged."""
    page = tmp_path / "host.html"
    style = "<style>p { color: rgb(1, 2, 3) } h2 { display: none }</style>"
    page.write_text(
        f'<!doctype html><html lang="en"><title>host</title>{style}<body class="vscode-dark"><p class=outside>.'
    )
    answers = {"/trace.gz": base64.b64encode(packed(trace, name="street")).decode()}
    given = tmp_path / "given.json"
    given.write_text(json.dumps({"script": script(), "answers": answers}))
    found = drive(page.as_uri(), "widget", {"from": str(given)})
    assert found["headings"] == ["Encoder layer 0 · self-attention", "Sentence and translation"]
    assert (found["dark"], found["light"]) == ("rgb(20, 22, 26)", "rgb(255, 255, 255)")
    assert found["margin"] == "rgb(1, 2, 3)"
    assert found["violations"] == []
    assert found["address"] == page.as_uri()
    assert found["left"] == 1  # the other one still listens
