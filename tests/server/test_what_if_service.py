"""What-ifs over HTTP: words among the changes, chrF with a reference, and the ranking of heads."""

import threading

import pytest

from glassformer import load
from glassformer.evaluation import sentence_chrf
from glassformer.inspection import inspect
from glassformer.inspection.interventions.changes import AverageHead, RemoveEdge, RemoveHead, attentions
from glassformer.server.translation_service import open_served_model
from glassformer.server.what_if_service import CancellationToken
from tests.server.running import WORDS, running, served

SENTENCE = "The animal didn't cross the street because it was too tired."
CROSS = "decoder.layers.1.cross_attention"


@pytest.fixture(scope="module")
def street():
    with running(open_served_model("street")) as server:
        yield server


@pytest.fixture(scope="module")
def before(street):
    return street.post("/api/explore", {"text": SENTENCE}).json()


def what_if(server, before, **asked):
    return server.post(f"/api/explore/{before['id']}/what-if", asked)


def word(old, new, **more):
    return {"kind": "replace-word", "old": old, "new": new, **more}


def test_words_are_changes_like_others_and_come_one_after_another(street, before):
    tired = {"changes": [word("tired", "wide")]}
    assert "weil sie zu breit" in what_if(street, before, **tired).json()["manifest"]["target"]["text"]
    chain = [word("tired", "wide"), word("wide", "tired")]
    assert what_if(street, before, changes=chain).json()["changed_words"] == []
    longer = [word("animal", "animal in the street"), word("tired", "wide")]
    found = what_if(street, before, changes=longer).json()["manifest"]
    assert found["source"]["text"] == SENTENCE.replace("animal", "animal in the street").replace("tired", "wide")
    both = {"replace": [{"old": "animal", "new": "animal in the street"}, {"old": "tired", "new": "wide"}]}
    assert what_if(street, before, **both).json()["manifest"]["source"] == found["source"]


def test_which_of_two_that_are_written_alike(street):
    before = street.post("/api/explore", {"text": "The dog saw the dog."}).json()
    for which, text in ((0, "The cat saw the dog."), (1, "The dog saw the cat.")):
        found = what_if(street, before, changes=[word("dog", "cat", which=which)]).json()
        assert found["manifest"]["source"]["text"] == text
    sentence = what_if(street, before, changes=[word("dog", "cat", which=2)]).is_refused(422)
    assert "Occurrence 2 of 'dog'" in sentence
    assert "(0 to 1)" in sentence


def test_a_translation_that_begins_as_it_is_told(street, before):
    found = what_if(street, before, changes=[{"kind": "begin-with", "text": "Die Straße"}]).json()
    assert found["manifest"]["target"]["text"].startswith("Die Straße")
    assert found["manifest"]["changes"][0]["kind"] == "force-prefix"


def test_nothing_is_no_word(street, before):
    what_if(street, before, changes=[word("tired", "")]).is_refused(422)


def test_chrf_of_both_with_a_reference(street, before):
    reference = "Das Tier überquerte die Straße nicht, weil sie zu breit war."
    found = what_if(street, before, changes=[word("tired", "wide")], reference=reference).json()
    after = found["manifest"]["target"]["text"]
    assert found["chrf"] == pytest.approx(
        [sentence_chrf(before["target"]["text"], reference), sentence_chrf(after, reference)]
    )
    assert "chrf" not in what_if(street, before, changes=[word("tired", "wide")]).json()


def test_much_text_is_refused_before_it_is_looked_at(street, before):
    what_if(street, before, changes=[word("tired", "wide " * 5000)]).is_refused(413)
    what_if(street, before, changes=[word("tired", "wide " * 200), word("wide", "tired")]).is_refused(413)
    what_if(street, before, reference="a" * 30_000).is_refused(413)
    strange = {"kind": "replace-token", "position": 1, "ids": [10**9]}
    what_if(street, before, changes=[strange, word("a", "b")]).is_refused(422)


def test_every_head_is_ranked_by_what_its_removal_costs(street, before):
    translator = load("street")
    trace = inspect(translator).trace(SENTENCE)
    heads = street.get(f"/api/explore/{before['id']}/heads").json()["heads"]
    assert {(one["at"], one["head"]) for one in heads} == {
        (at, head) for at in attentions(translator.model) for head in range(translator.model.config.n_heads)
    }
    assert [one["loss"] for one in heads] == sorted((one["loss"] for one in heads), reverse=True)
    for one in (heads[0], heads[-1]):
        differences = inspect(translator).what_if(trace, RemoveHead(at=one["at"], head=one["head"])).differences
        assert one["loss"] == pytest.approx(-sum(differences) / len(differences), abs=1e-5)


def test_heads_of_a_what_if_are_ranked_under_its_changes():
    translator = served().translator
    first = inspect(translator).trace(WORDS, beam=3)
    cut, average = RemoveEdge(at=CROSS, query=0, key=1), AverageHead(at=CROSS, head=1)
    with running(served()) as server:
        before = server.post("/api/explore", {"text": WORDS, "beam": 3}).json()
        changes = [cut.model_dump(mode="json"), average.model_dump(mode="json")]
        after = what_if(server, before, changes=changes).json()
        heads = server.get(f"/api/explore/{after['id']}/heads").json()["heads"]
        server.get("/api/explore/nobody/heads").is_refused(404)
    trace = inspect(translator).what_if(first, cut, average).after
    dearest = heads[0]
    differences = inspect(translator).what_if(trace, RemoveHead(at=dearest["at"], head=dearest["head"])).differences
    assert dearest["loss"] == pytest.approx(-sum(differences) / len(differences), abs=1e-5)


def test_a_client_that_leaves_while_heads_are_ranked_frees_the_trace_pool(monkeypatch):
    """Removing every head of a large model takes a while; it stops at the next head when the client leaves."""
    reached, asked = threading.Event(), []
    check = CancellationToken.check

    def slowly(self, done, of):
        asked.append(done)
        reached.set()
        threading.Event().wait(0.05)
        check(self, done, of)

    monkeypatch.setattr(CancellationToken, "check", slowly)
    with running(served()) as server:
        before = server.post("/api/explore", {"text": WORDS}).json()
        with server.connect() as one:
            one.sendall(f"GET /api/explore/{before['id']}/heads HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            assert reached.wait(20)
        server.until(lambda: server.state.trace_pool.count == 0)
    config = served().translator.model.config
    assert max(asked) < config.n_heads * len(attentions(served().translator.model))
