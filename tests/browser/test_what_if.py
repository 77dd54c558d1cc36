"""What-if in Chromium: its numbers are Python's, keys reach everything, and undoing restores the original."""

import json
from urllib.parse import urlencode

import pytest

from glassformer import load
from glassformer.inspection import inspect
from glassformer.inspection.interventions.changes import RemoveHead, UniformAttention, attentions
from glassformer.server.translation_service import open_served_model
from tests.browser.driving import drive, needs_chromium
from tests.server.running import WORDS, running, served

pytestmark = needs_chromium
SENTENCE = "The animal didn't cross the street because it was too tired."
SHOWN = 5e-4
"""Half a unit of the last digit in tables."""
SELF, CROSS = "encoder.layers.1.self_attention", "decoder.layers.1.cross_attention"
WIDE = {"kind": "replace-word", "old": "tired", "new": "wide"}


@pytest.fixture(scope="module")
def port():
    with running(open_served_model("street")) as server:
        yield server.port


@pytest.fixture(scope="module")
def translator():
    return load("street")


@pytest.fixture(scope="module")
def before(translator):
    return inspect(translator).trace(SENTENCE, beam=4)


def address(*changes, **selection):
    return "#" + urlencode(selection | ({"w": json.dumps(changes)} if changes else {}))


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def length_at(tensor, position: int) -> float:
    """The length of a position's vector; for keys and values, over all heads."""
    return float((tensor[:, position] if tensor.dim() == 3 else tensor[position]).norm())


def test_another_word_changes_the_pronoun_and_undoing_restores_it(port, translator, before):
    given = {"hash": address(v="whatif", at=SELF, q=0), "old": "tired", "new": "wide"}
    found = drive(port, "replaceWord", given)
    own = inspect(translator).what_if(before, inspect(translator).word_replacement(before, "tired", "wide"))
    assert found["changed"]["before"] == before.translation
    assert found["changed"]["after"] == own.after.translation
    assert "weil sie zu breit" in found["changed"]["after"]
    assert json.loads(found["changed"]["w"]) == [WIDE]
    assert found["changed"]["chips"] == ["tired → wide"]
    assert "sie" in found["changed"]["bar"].split()
    assert [tuple(pair) for pair in found["words"]] == own.changed_words
    for row, difference, first, then in zip(
        found["deltas"], own.differences, before.log_probabilities, own.original_log_probabilities, strict=True
    ):
        assert [number(row[i]) for i in (1, 3, 4)] == pytest.approx([difference, first, then], abs=SHOWN)
    assert number(found["sum"]) == pytest.approx(sum(own.differences), abs=SHOWN)
    parting = before.target.index("▁es")
    was, now = (trace["logits"][parting].softmax(-1) for trace in (before, own.after))
    assert [row[1] for row in found["next"][:2]] == ["es", "sie"]
    for row in found["next"]:
        token = int(row[0])
        assert number(row[2]) == pytest.approx(float(now[token] - was[token]), abs=SHOWN)
    for how in ("chip", "back", "button"):
        for name in ("bar", "before", "after", "chips", "w"):
            assert found[how][name] == found["first"][name], (how, name)
    assert found["forth"]["after"] == own.after.translation
    assert found["chip"]["focus"] == found["button"]["focus"] == "main", "the focus does not fall off the page"


def test_forms_begin_with_what_is_chosen(port):
    given = {"hash": address(v="whatif", at=SELF, h=2, q=10, k=1), "count": 7, "text": "Das"}
    found = drive(port, "forms", given)
    assert [one["changes"] for one in found.values()] == [
        [{"kind": "replace-word", "old": "it", "new": "Das"}],
        [{"kind": "remove-head", "at": SELF, "head": 2}],
        [{"kind": "remove-edge", "at": SELF, "query": 10, "key": 1, "head": 2}],
        [{"kind": "uniform-attention", "at": SELF, "head": 2}],
        [{"kind": "skip-feed-forward", "at": "encoder.layers.1"}],
        [{"kind": "replace-matrices", "at": SELF, "by": "encoder.layers.0.self_attention"}],
        [{"kind": "begin-with", "text": "Das"}],
    ]
    assert all(one["error"] == [] for one in found.values())


@pytest.mark.parametrize(
    "look",
    [{"scheme": "light"}, {"scheme": "dark"}, {"scheme": "light", "width": 320}, {"forced": "active", "width": 640}],
    ids=["light", "dark", "narrow", "forced-colours"],
)
def test_views_under_changes_have_no_barrier_and_say_the_difference(port, look, translator, before):
    own = inspect(translator).what_if(before, inspect(translator).word_replacement(before, "tired", "wide")).after
    views = [
        {"v": "whatif", "r": before.translation},
        {"v": "attention", "at": CROSS, "h": 1, "q": 8, "tab": "token", "ab": "b-a"},
        {"v": "attention", "at": CROSS, "h": 1, "q": 8, "k": 1, "tab": "matrix", "ab": "b-a"},
        {"v": "attention", "at": SELF, "h": 1, "q": 8, "tab": "heads", "ab": "b-a"},
        {"v": "attention", "at": SELF, "q": 8, "tab": "compare", "ab": "b-a"},
        {"v": "tokens", "at": SELF, "q": 12, "ab": "b-a"},
        {"v": "sublayers", "at": CROSS, "q": 8, "ab": "b-a"},
        {"v": "memory", "at": SELF, "q": 12, "ab": "b-a"},
        {"v": "decoding", "at": CROSS, "q": 9, "ab": "b-a"},
        {"v": "sentence", "ab": "b-a"},
        {"v": "beam", "ab": "b-a"},
        {"v": "pronoun", "ab": "b-a"},
    ]
    seen = drive(port, "under", {"look": look, "hashes": [address(WIDE, **view) for view in views]})
    for one in seen:
        assert one["violations"] == [], one["hash"]
        assert one["beyond"] <= 0, f"{one['hash']} is wider than the page"
        assert all(difference < 1e-4 for difference in one["badges"]), one["hash"]
    what_if, word, matrix, heads, _, tokens, sublayers, memory, decoding, sentence, search, pronoun = seen
    after, then = (trace[f"{CROSS}.weights"][1, 8] for trace in (own, before))
    for row, now, was in zip(word["table"], after.tolist(), then.tolist(), strict=True):
        assert [number(row[i]) for i in (3, 4, 5)] == pytest.approx([was, now, now - was], abs=SHOWN)
    assert number(matrix["says"][0].split()[-1]) == pytest.approx(float(after[1] - then[1]), abs=SHOWN)
    moved = (own[f"{SELF}.weights"] - before[f"{SELF}.weights"]).abs().sum(-1).mean(-1) / 2
    assert heads["moved"][-4:] == pytest.approx(moved.tolist(), abs=1e-6)
    assert [one["hash"] for one in seen if one["note"]] == [pronoun["hash"]]
    assert "no difference" in pronoun["note"][0]
    for one, at, count in ((tokens, 12, 3), (sublayers, 8, 10), (memory, 12, 5), (decoding, 9, 4)):
        assert len(one["changed"]) == count
        for name, was, by, share in one["changed"]:
            then, change = length_at(before[name], at), length_at(own[name] - before[name], at)
            assert number(was) == pytest.approx(then, rel=0.01)
            assert number(by) == pytest.approx(change, rel=0.01, abs=6e-3)
            assert number(share.removesuffix(" %")) == pytest.approx(100 * change / then, abs=0.6)
    assert sentence["words"] == [["es", "sie"], ["müde", "breit"]]
    scores = [[trace.tree.score[node] for node in trace.tree.finished] for trace in (own, before)]
    assert [number(row[2]) for row in search["finished"] if row[2] != "—"] == pytest.approx(scores[0], abs=SHOWN)
    assert [number(row[1]) for row in search["finished"] if row[1] != "—"] == pytest.approx(scores[1], abs=SHOWN)
    ranked = {(one.at, one.head): one.loss for one in inspect(translator).rank_heads([SENTENCE], [before.translation])}
    assert len(what_if["heads"]) == len(ranked)
    for name, text in what_if["heads"]:
        at, head = name.split()
        assert number(text) == pytest.approx(-ranked[at, int(head)] * before.steps, abs=6e-3)


@pytest.mark.parametrize(
    "options",
    [
        {"decoder_ssru": True},
        {"positions": "rotary", "encoder_layers": 3, "decoder_layers": 1},
        {"positions": "relative", "linear_bias": False, "scale_scores": False},
    ],
    ids=["recurrent", "rotary", "like-t5"],
)
def test_other_kinds_of_models(options):
    change = {"kind": "remove-head", "at": "decoder.layers.0.cross_attention", "head": 1}
    text = {"s": WORDS, "t": WORDS}
    views = [{"v": "whatif", **text}, {"v": "attention", "tab": "token", "ab": "b-a", **text}]
    views += [{"v": view, "ab": "b-a", **text} for view in ("tokens", "sublayers", "memory", "decoding")]
    with running(served("plain", **options)) as server:
        hashes = [address(change, **view) for view in views]
        what_if, word, *vectors = drive(server.port, "under", {"look": {}, "hashes": hashes})
    model = served("plain", **options).translator.model
    assert len(what_if["heads"]) == len(attentions(model)) * model.config.n_heads
    assert len(word["table"]) > 5
    assert what_if["violations"] == word["violations"] == []
    for view in vectors:
        assert view["changed"], view["hash"]
        assert view["violations"] == view["note"] == []


def test_sixty_tokens_and_512_columns_stay_fluid_under_changes():
    """A redraw within 50 ms, fewer than 5,000 nodes; as without changes."""
    options = {"d_model": 512, "n_heads": 8, "d_ff": 64, "encoder_layers": 2, "decoder_layers": 2}
    model = served("plain", **options)
    words = (WORDS.split() * 10)[:80]
    while len(model.translator.tokenizer.encode(" ".join(words), "source")) > 60:
        words.pop()
    text = {"s": " ".join(words), "t": " ".join(words), "b": 1, "at": SELF, "h": 1, "q": 5}
    change = {"kind": "remove-head", "at": "encoder.layers.0.self_attention", "head": 1}
    views = {"whatif": address(change, v="whatif", **text)}
    views |= {
        tab: address(change, v="attention", tab=tab, ab="b-a", **text)
        for tab in ("token", "matrix", "heads", "compare")
    }
    with running(model, trace_tokens=64) as server:
        found = drive(server.port, "budget", {"hash": views["whatif"], "views": views})
    assert max(found["nodes"].values()) < 5000, found["nodes"]
    assert max(found["redraw"].values()) < 50, found["redraw"]


def test_different_lengths_have_no_difference_and_show_b(port):
    longer = {"kind": "replace-word", "old": "animal", "new": "animal in the street"}
    views = [{"v": "attention", "at": SELF, "tab": "matrix", "ab": "b-a"}, {"v": "memory", "ab": "b-a"}]
    matrix, memory = drive(port, "under", {"look": {}, "hashes": [address(longer, **view) for view in views]})
    assert "16 × 16" in matrix["note"][0]
    assert "16 positions" in memory["note"][0]
    assert memory["badges"], "below it is B"


def test_no_badge_claims_a_step_that_a_change_has_replaced(port):
    """The scores of a uniform attention are not q · k, and a removed head's z is not its sum: no badge."""
    changes = [
        UniformAttention(at=SELF, head=1).model_dump(mode="json"),
        RemoveHead(at=CROSS, head=2).model_dump(mode="json"),
        {"kind": "replace-matrices", "at": CROSS, "by": "decoder.layers.0.cross_attention"},
    ]
    views = [
        {"v": "attention", "at": at, "h": head, "q": 3, "tab": tab}
        for at, head in ((SELF, 1), (CROSS, 2), (CROSS, 0))
        for tab in ("token", "matrix", "heads")
    ]
    views.append({"v": "memory"})
    seen = drive(port, "under", {"look": {}, "hashes": [address(*changes, **view) for view in views]})
    assert all(difference < 1e-4 for one in seen for difference in one["badges"])
    assert seen[0]["badges"] == seen[3]["badges"] == []
    assert seen[6]["badges"], "other heads' steps are still recomputed"


def test_a_ranked_head_is_removed_by_keys_and_an_invalid_url_is_explained(port):
    invalid = address({"kind": "remove-head", "at": "decoder.layers.9.cross_attention", "head": 0}, v="whatif")
    found = drive(port, "ranked", {"hash": address(v="whatif"), "invalid": invalid})
    assert json.loads(found["removed"]) == [{"kind": "remove-head", "at": "encoder.layers.0.self_attention", "head": 3}]
    assert found["focus"] == "encoder.layers.0.self_attention 3"
    assert found["again"] is None
    assert "no attention" in found["error"]
    assert found["alive"]
