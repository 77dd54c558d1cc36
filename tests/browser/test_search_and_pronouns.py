"""Search tree and pronoun resolution in Chromium: numbers and verdicts are Python's, keys reach everything."""

from urllib.parse import parse_qs

import pytest

from glassformer import load
from glassformer.decoding.hypothesis import penalised
from glassformer.inspection import inspect
from glassformer.server.translation_service import open_served_model
from tests.browser.driving import drive, needs_chromium
from tests.browser.test_explorer import SHOWN, address, number
from tests.server.running import WORDS, running, served

pytestmark = needs_chromium
SENTENCE = "The animal didn't cross the street because it was too tired."
UNDECIDED = "The old animal didn't cross the street because it was too tired."
DROPPED = ("outranked", "displaced")


@pytest.fixture(scope="module")
def port():
    with running(open_served_model("street")) as server:
        yield server.port


@pytest.fixture(scope="module")
def street():
    return load("street")


@pytest.fixture(scope="module")
def tree(street):
    return inspect(street).trace(SENTENCE, beam=4).tree


def selected(hash_: str) -> dict[str, str]:
    return {name: value for name, [value] in parse_qs(hash_.removeprefix("#")).items()}


def branching(tree) -> int:
    """The first node of the second hypothesis that is not in the best one."""
    best = set(tree.path(tree.finished[0]))
    return next(node for node in tree.path(tree.finished[1]) if node not in best)


def test_the_tree_has_the_searchs_numbers_and_is_navigated_by_keys(port, street, tree):
    leaves = next(n for n, fate in enumerate(tree.fate) if fate in DROPPED and tree.parent[n] > 0)
    keys = ["Home", "ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowDown", " ", "ArrowDown", "Enter"]
    found = drive(port, "tree", {"hash": address(v="beam"), "keys": keys, "force": address(v="beam", node=leaves)})

    drawn = [node for node, fate in enumerate(tree.fate) if fate not in DROPPED]
    assert sorted(node for node, *_ in found["cells"]) == drawn
    for node, *written in found["cells"]:
        if node > 0:
            log_p, score = map(number, written)
            assert log_p == pytest.approx(tree.log_probability[node], abs=SHOWN)
            assert score == pytest.approx(tree.score[node], abs=SHOWN)
    assert sorted(found["best"]) == [0, *tree.path(tree.finished[0])]
    assert found["badges"]
    assert max(found["badges"]) < 1e-9

    best = tree.path(tree.finished[0])
    moves = {step["key"]: step for step in found["moves"][:5]}
    assert [step["node"] for step in found["moves"][:5]] == [0, best[0], best[1], best[0], best[-1]]
    assert moves["Home"]["why"] == "the start"
    for step in found["moves"]:
        assert step["why"].startswith(tree.why(step["node"])), step
        assert step["focus"] == "tree"
    last = found["moves"][-1]
    if any(last["node"] in tree.path(end) for end in tree.finished):
        which = next(i for i, end in enumerate(tree.finished) if last["node"] in tree.path(end))
        assert selected(last["hash"]).get("y", "0") == str(which)

    path = tree.tokens(leaves)
    assert selected(found["forced"]["hash"])["f"] == ".".join(map(str, path))
    pieces = [piece.lstrip("▁") for piece in street.tokenizer.pieces(path, "target")]
    assert found["forced"]["pieces"][: len(path)] == pieces
    assert "f" not in selected(found["unforced"])


def test_another_hypothesis_is_followed_by_every_screen(port, street, tree):
    second = inspect(street).trace(SENTENCE, beam=4, hypothesis=1)
    node = branching(tree)
    keys = ["Enter"]
    start = address(v="beam", node=node)
    found = drive(port, "tree", {"hash": start, "keys": keys, "force": address(v="beam", node=1)})
    [step] = found["moves"]
    assert selected(step["hash"])["y"] == "1"
    assert "node" not in selected(step["hash"])  # the node is now a token of the translation
    assert selected(step["hash"])["q"] == str(len(tree.path(node)) - 1)
    assert found["translation"].replace(" ", "") == "".join(piece.lstrip("▁") for piece in second.target)
    at, query = "decoder.layers.1.cross_attention", len(tree.path(node)) - 1
    view = {"hash": address(v="attention", at=at, h=0, q=query, tab="token", y=1), "rows": "[data-query-steps] tbody"}
    [table] = drive(port, "read", [view])
    weights = second[f"{at}.weights"][0, query].tolist()
    assert [number(row[4]) for row in table["table"]] == pytest.approx(weights, abs=SHOWN)


def test_finished_hypotheses_are_re_ranked_by_the_formula(port, tree):
    penalties = [0, 60, 100, 200]
    found = drive(port, "ranking", {"hash": address(v="beam"), "penalties": penalties})
    for penalty, seen in zip(penalties, found, strict=True):
        scores = {
            node: penalised(tree.hypothesis(node).log_probability, len(tree.path(node)), penalty / 100)
            for node in tree.finished
        }
        order = sorted(tree.finished, key=lambda node: (-scores[node], node))
        assert [number(row[5]) for row in seen["rows"]] == pytest.approx([scores[n] for n in order], abs=SHOWN)
        assert sorted(seen["best"]) == [0, *tree.path(order[0])]
    own = [row[1][:1] for row in found[2]["rows"]]
    assert own == [str(place + 1) for place in range(len(tree.finished))]  # 1.00 is the search's own


def test_pronoun_resolution_has_pythons_numbers_and_verdict(port, street):
    """With the form's defaults: the explorer finds the pronoun, and the second sentence among its examples."""
    found = drive(port, "pronoun", {"hash": address(v="pronoun"), "press": True})
    assert selected(found["hash"])["pronoun"] == "it"
    assert selected(found["hash"])["i"] == "tired=wide"
    verdict = inspect(street).resolve_pronoun(SENTENCE, swap=("tired", "wide"))
    assert found["verdicts"] == [
        [reading.candidates[reading.verdict], " ".join(reading.in_words.split())] for reading in verdict.readings
    ]
    assert found["badges"]
    assert max(found["badges"]) < 1e-4
    rows = {row["kind"]: row for row in found["rows"]}
    kinds = {row.kind for reading in verdict.readings for row in reading.evidence}
    assert rows.keys() == kinds
    for kind in kinds:
        both = [next(row for row in reading.evidence if row.kind == kind) for reading in verdict.readings]
        values = [value for row in both for value in row.values]
        cells = [number(cell.removesuffix(" %")) for cell in rows[kind]["cells"]]
        if kind == "following":
            assert cells == pytest.approx([100 * value for value in values], abs=0.5)
        else:
            assert cells == pytest.approx(values, abs=SHOWN)
        points = [row.votes and row.points_to == i for row in both for i in range(len(row.values))]
        assert rows[kind]["points"] == points


def test_undecided_and_missing_pronouns_are_explained(port, street):
    found = drive(port, "pronoun", {"hash": address(v="pronoun", s=UNDECIDED, pronoun="it", c="old,street")})
    [reading, *_] = inspect(street).resolve_pronoun(UNDECIDED, candidates=["old", "street"]).readings
    assert reading.verdict is None
    assert found["verdicts"][0] == ["", reading.in_words]
    none = {"look": {}, "hashes": [address(v="pronoun", s="The dog was tired."), address(v="beam", t="Das Tier")]}
    [no_pronoun, given] = drive(port, "barriers", none)
    assert "This sentence contains no known pronoun" in no_pronoun["text"]
    assert "The translation was given" in given["text"]


@pytest.mark.parametrize(
    "look",
    [{"scheme": "light"}, {"scheme": "dark"}, {"scheme": "light", "width": 320}, {"forced": "active", "width": 640}],
    ids=["light", "dark", "narrow", "forced-colours"],
)
def test_no_barriers(port, tree, look):
    dropped = next(n for n, fate in enumerate(tree.fate) if fate in DROPPED and tree.parent[n] > 0)
    hashes = [
        address(v="beam", node=branching(tree)),
        address(v="beam", node=dropped, y=1, a=40),
        address(v="beam", t="Das Tier"),
        address(v="pronoun", pronoun="it", c="animal,street", i="tired=wide"),
        address(v="pronoun", s=UNDECIDED, pronoun="it", c="old,street", i="tired=wide"),
    ]
    for seen in drive(port, "barriers", {"look": look, "hashes": hashes}):
        assert seen["violations"] == [], seen["hash"]
        assert seen["beyond"] <= 0, f"{seen['hash']} is wider than the page"


def test_a_tree_of_sixty_steps_stays_fluid():
    """Beam 5: fewer than 5,000 nodes, an arrow key within 50 ms."""
    model = served("plain")
    words = (WORDS.split() * 10)[:80]
    while len(model.translator.tokenizer.encode(" ".join(words), "source")) > 25:
        words.pop()
    with running(model) as server:
        found = drive(server.port, "treeBudget", {"hash": address(v="beam", s=" ".join(words), b=5)})
    assert found["steps"] >= 50
    assert found["nodes"] < 5000
    assert found["redraw"] < 50
