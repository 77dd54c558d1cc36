"""The explorer in Chromium: its numbers are the model's, keys reach everything, nothing is sent to other hosts."""

import re
from urllib.parse import urlencode

import pytest

from glassformer import load
from glassformer.inspection import inspect
from glassformer.server.translation_service import open_served_model
from tests.browser.driving import drive, needs_chromium
from tests.server.running import WORDS, running, served

pytestmark = needs_chromium
SENTENCE = "The animal didn't cross the street because it was too tired."
SHOWN = 5e-4
"""Half a unit of the last digit in tables."""
PLACES = {
    "encoder.layers.1.self_attention": (1, 10),
    "decoder.layers.1.self_attention": (0, 8),
    "decoder.layers.0.cross_attention": (3, 8),
}


@pytest.fixture(scope="module")
def port():
    with running(open_served_model("street")) as server:
        yield server.port


@pytest.fixture(scope="module")
def trace():
    return inspect(load("street")).trace(SENTENCE, beam=4)


def address(**selection):
    return "#" + urlencode(selection)


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def test_numbers_on_the_page_are_those_of_the_trace(port, trace):
    views = [
        {"hash": address(v="attention", at=at, h=head, q=query, tab="token"), "rows": "[data-query-steps] tbody"}
        for at, (head, query) in PLACES.items()
    ]
    views.append({"hash": address(v="tokens", q=10), "rows": "[data-numbers] tbody"})
    *attentions, tokens = drive(port, "read", views)
    for (at, (head, query)), found in zip(PLACES.items(), attentions, strict=True):
        scores, weights = trace[f"{at}.scores"][head, query], trace[f"{at}.weights"][head, query]
        assert len(found["table"]) == len(weights)
        for row, score, weight in zip(found["table"], scores.tolist(), weights.tolist(), strict=True):
            if score == float("-inf"):
                assert row[1] == "masked"
            else:
                assert number(row[3]) == pytest.approx(score, abs=SHOWN)
                assert number(row[4]) == pytest.approx(weight, abs=SHOWN)
        assert found["badges"]
        assert max(found["badges"]) < 1e-4
    names = ("encoder.embedding.output", "encoder.position.output", "encoder.input")
    for name, row in zip(names, tokens["table"], strict=True):
        assert [number(cell) for cell in row[1:]] == pytest.approx(trace[name][10, :16].tolist(), abs=SHOWN)


@pytest.mark.parametrize(
    "look",
    [{"scheme": "light"}, {"scheme": "dark"}, {"scheme": "light", "width": 320}, {"forced": "active", "width": 640}],
    ids=["light", "dark", "narrow", "forced-colours"],
)
def test_every_step_by_keys_alone_without_a_barrier(port, look):
    """640 pixels are the width of a 1280 pixel window at 200 % zoom."""
    seen = drive(port, "tour", look)
    count = int(seen[0]["where"].split()[-1])
    assert [one["where"] for one in seen] == [f"step {i} of {count}" for i in range(1, count + 1)]
    assert len({one["heading"] for one in seen}) >= 6
    for one in seen:
        assert one["violations"] == [], one["where"]
        assert one["beyond"] <= 0, f"{one['where']} is wider than the page"
        assert all(difference < 1e-4 for difference in one["badges"])
    assert sum(bool(one["badges"]) for one in seen) >= 8


def test_the_heatmap_is_navigated_by_keys(port, trace):
    at = "encoder.layers.0.self_attention"
    found = drive(port, "grid", {"hash": address(v="attention", at=at, h=0, q=0, tab="matrix")})
    assert found["role"] == found["focus"] == "grid"
    weights = trace[f"{at}.weights"][0, 1]
    said = re.fullmatch(r"animal attends to animal, (\S+), rank (\d+) of 16", found["ArrowDown"])
    assert said, found["ArrowDown"]
    assert float(said[1]) == pytest.approx(float(weights[1]), abs=0.005)
    assert int(said[2]) == 1 + int((weights > weights[1]).sum())
    assert "h=1" in found["] at"]
    assert "encoder.layers.1.self_attention" in found["PageUp at"]
    assert found["End"].startswith("animal attends to </s>")
    assert found["open"] == 1


def test_masked_cells_are_described_as_masked(port):
    where = {"hash": address(v="attention", at="decoder.layers.0.self_attention", h=0, q=2, tab="matrix")}
    assert "masked" in drive(port, "grid", where)["End"]


def test_a_link_opens_the_same_view(port):
    at = "decoder.layers.1.cross_attention"
    found = drive(port, "links", {"hash": address(v="attention", at=at, h=2, q=8, k=1)})
    assert found["first"] == found["again"] == found["back"]
    assert "tab=heads" in found["away"]
    assert "Decoder layer 1" in found["first"][0]


def test_another_sentence_and_other_matrices(port):
    text = "The animal didn't cross the street because it was too wide."
    [translation] = load("street").translate([text])
    found = drive(
        port, "translate", {"text": text, "translation": translation, "button": "Use those of the top encoder"}
    )
    assert found["hash"].startswith("#v=sentence")
    assert found["otherMatrices"] != translation
    assert found["error"].endswith(".")


@pytest.mark.parametrize(
    "options",
    [
        {"encoder_layers": 1, "decoder_layers": 3},
        {"encoder_layers": 3, "decoder_layers": 1, "norm_first": True},
        {"share_embeddings": True, "tie_output": True},
    ],
    ids=["unequal-depths", "deeper-encoder", "tied"],
)
def test_any_shape_has_all_its_attentions_with_its_numbers(options):
    """Assuming one depth for both stacks would lose decoder layers; attentions are found by name instead."""
    model = served("plain", **options)
    text = " ".join(WORDS.split()[:5])
    trace = inspect(model.translator).trace(text, text, beam=1)
    names = [name.removesuffix(".weights") for name in trace if name.endswith("_attention.weights")]
    places = [
        {
            "hash": address(v="attention", at=at, h=1, q=2, tab="token", s=text, t=text, b=1),
            "rows": "[data-query-steps] tbody",
        }
        for at in names
    ]
    with running(model) as server:
        found = drive(server.port, "read", places)
    config = model.translator.model.config
    assert len(names) == config.encoder_layers + 2 * config.decoder_layers
    for at, seen in zip(names, found, strict=True):
        weights, scores = trace[f"{at}.weights"][1, 2], trace[f"{at}.scores"][1, 2]
        assert len(seen["table"]) == len(weights), at
        for row, score, weight in zip(seen["table"], scores.tolist(), weights.tolist(), strict=True):
            if score != float("-inf"):
                assert number(row[4]) == pytest.approx(weight, abs=SHOWN), at
        assert max(seen["badges"]) < 1e-4, at


def test_sixty_tokens_and_512_columns_stay_fluid():
    """First paint within a second, a redraw within 50 ms, fewer than 5,000 nodes."""
    options = {"d_model": 512, "n_heads": 8, "d_ff": 64, "encoder_layers": 2, "decoder_layers": 2}
    model = served("plain", **options)
    tokenizer = model.translator.tokenizer
    words = (WORDS.split() * 10)[:80]
    while len(tokenizer.encode(" ".join(words), "source")) > 60:
        words.pop()
    sentence = {"s": " ".join(words), "t": " ".join(words), "b": 1}
    at = "encoder.layers.1.self_attention"
    views = {"tokens": address(v="tokens", at=at, **sentence), "memory": address(v="memory", at=at, **sentence)}
    views |= {
        tab: address(v="attention", at=at, h=1, q=5, tab=tab, **sentence)
        for tab in ("token", "matrix", "heads", "compare")
    }
    with running(model, trace_tokens=64) as server:
        found = drive(server.port, "budget", {"hash": views["token"], "views": views})
    assert found["paint"] < 1000
    assert max(found["nodes"].values()) < 5000, found["nodes"]
    assert max(found["redraw"].values()) < 50, found["redraw"]
