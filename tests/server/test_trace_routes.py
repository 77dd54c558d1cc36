"""The inspection routes return the model's and the trace's own values, bit for bit."""

import json
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load as read_tensors

from glassformer.decoding.search_tree import FATES
from glassformer.inspection import Trace, inspect
from glassformer.inspection.interventions.changes import RemoveHead
from glassformer.inspection.tracing.tensor_groups import TensorGroup, group_layers, tensor_names
from glassformer.inspection.tracing.trace_file import as_float16, safetensors_bytes, tree_tensors
from glassformer.server.tensor_slices import summary
from glassformer.server.translation_service import open_served_model
from tests.examples import max_examples
from tests.server.running import WORDS, running, served

SENTENCE = "The animal didn't cross the street because it was too tired."


@pytest.fixture(scope="module")
def server():
    with running(served()) as server:
        yield server


@pytest.fixture(scope="module")
def manifest(server):
    answer = server.post("/api/explore", {"text": WORDS, "beam": 3})
    assert answer.status == 200, answer.text
    return answer.json()


@pytest.fixture(scope="module")
def trace():
    return inspect(served().translator).trace(WORDS, beam=3)


def numbers(answer) -> np.ndarray:
    [values] = read_tensors(answer.body).values()
    return values


def names(entries) -> list[str]:
    return tensor_names([TensorGroup(**entry) for entry in entries])


def test_every_tensor_of_a_trace_comes_bit_for_bit(server, manifest, trace):
    assert sorted(names(manifest["tensors"])) == sorted(trace)
    for name in trace:
        answer = server.get(f"/api/explore/{manifest['id']}/tensor/{name}")
        assert "immutable" in answer.headers["cache-control"]
        assert [*read_tensors(answer.body)] == [name]
        assert numbers(answer).dtype == trace[name].numpy().dtype
        assert np.array_equal(numbers(answer), trace[name].numpy(), equal_nan=True), name


def test_parts_and_halves_of_tensors(server, manifest, trace):
    at = f"/api/explore/{manifest['id']}/tensor/decoder.layers.0.cross_attention.weights"
    whole = trace["decoder.layers.0.cross_attention.weights"]
    assert np.array_equal(numbers(server.get(f"{at}?rows=1:3&cols=2")), whole[:, 1:3, 2:3].numpy())
    assert np.array_equal(numbers(server.get(f"{at}?cols=:2")), whole[:, :, :2].numpy())
    assert np.array_equal(numbers(server.get(f"{at}?half=1")), whole.half().numpy())
    server.get(f"{at}?rows=0:1000").is_refused(422)
    server.get(f"{at}?rows=2:1").is_refused(422)
    server.get(f"{at}?half=perhaps").is_refused(422)


def test_the_manifest_says_what_the_trace_is_of(server, manifest, trace):
    assert manifest["source"]["pieces"] == trace.source
    assert manifest["target"]["text"] == trace.translation
    likeliest = {str(token) for token in trace["output.likeliest"].flatten().tolist()}
    assert likeliest <= manifest["pieces"].keys()
    assert all(piece == trace.piece(int(token)) for token, piece in manifest["pieces"].items())
    assert manifest["log_probabilities"] == pytest.approx(trace.log_probabilities)
    assert manifest["config"] == json.loads(json.dumps(trace.config.model_dump(mode="json")))
    assert manifest["tree"]["nodes"] == len(trace.tree)
    assert [one["node"] for one in manifest["tree"]["finished"]] == trace.tree.finished[:16]
    assert server.get(f"/api/explore/{manifest['id']}").json() == manifest
    for side in ("source", "target"):
        assert all(first < end for first, end in manifest[side]["words"])


def test_the_search_tree_comes_as_it_is_in_a_trace_file(server, manifest, trace):
    sent = server.get(f"/api/explore/{manifest['id']}/tree")
    assert sent.body == safetensors_bytes(tree_tensors(trace.tree))
    tree = read_tensors(sent.body)
    assert tree["search.parent"].tolist() == trace.tree.parent
    assert tree["search.token"].tolist() == trace.tree.token
    assert tree["search.score"].tolist() == trace.tree.score
    assert [FATES[code] for code in tree["search.fate"]] == trace.tree.fate


def test_a_manifest_is_small_however_deep_the_model_is():
    """Below 20 kB for usual sentences, so that the page can show something at once."""
    with running(served(encoder_layers=6, decoder_layers=6)) as deep, running(open_served_model("street")) as street:
        for server in (deep, street):
            assert len(server.post("/api/explore", {"text": SENTENCE}).body) < 20_000


def test_the_whole_trace_as_a_file(server, manifest, trace, tmp_path):
    for query, half in (("?detail=everything", False), ("?detail=attention&half=1", True), ("", False)):
        answer = server.get(f"/api/explore/{manifest['id']}/trace{query}")
        (tmp_path / "it").write_bytes(answer.body)
        loaded = Trace.load(tmp_path / "it")
        assert loaded.translation == trace.translation
        name = "decoder.layers.0.cross_attention.weights"
        assert torch.equal(loaded[name], trace[name].half() if half else trace[name])
    server.get(f"/api/explore/{manifest['id']}/trace?detail=nonsense").is_refused(422)


def test_weights_come_bit_for_bit_under_every_name(server, manifest):
    model = served().translator.model
    own = dict(model.named_parameters(remove_duplicate=False))
    assert sorted(names(manifest["parameters"])) == sorted(own)
    for name, weight in own.items():
        answer = server.get(f"/api/weight/{name}")
        assert [*read_tensors(answer.body)] == [f"parameters.{name}"]
        assert np.array_equal(numbers(answer), weight.detach().numpy())
    answer = server.get("/api/weight/encoder.embedding.weight?rows=5")
    assert np.array_equal(numbers(answer), own["encoder.embedding.weight"].detach()[5:6].numpy())
    assert server.get("/api/weight/encoder.embedding.weight", **{"if-none-match": answer.headers["etag"]}).status == 304


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**31))
@max_examples(40)
def test_a_summary_has_the_largest_of_every_block(rows, columns, to_rows, to_columns, seed):
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))
    small = summary(weight, f"{to_rows}x{to_columns}")
    assert small.shape == (min(rows, to_rows), min(columns, to_columns))
    edges = [
        [i * size // count for i in range(count + 1)] for size, count in zip(weight.shape, small.shape, strict=True)
    ]
    for i in range(small.shape[0]):
        for j in range(small.shape[1]):
            block = weight[edges[0][i] : edges[0][i + 1], edges[1][j] : edges[1][j + 1]]
            assert block.abs().max() == small[i, j].abs()
            assert small[i, j] in block


def test_numbers_that_float16_does_not_hold_stay_float32():
    assert as_float16(torch.tensor([1e6, -torch.inf])).dtype == torch.float32
    assert as_float16(torch.tensor([1.0, -torch.inf])).dtype == torch.float16


def test_layers_are_grouped_and_ungrouped():
    tensors = {f"encoder.layers.{i}.x": ((2,), True) for i in range(3)} | {"decoder.layers.1.y": ((3,), True)}
    tensors |= {"memory": ((1,), True)}
    entries = group_layers(tensors, dict.fromkeys(tensors, "D"))
    assert len(entries) == 3
    assert tensor_names(entries) == list(tensors)


def test_a_given_target_is_looked_at_and_has_no_search(server):
    found = server.post("/api/explore", {"text": WORDS, "target": "das Tier"}).json()
    assert found["target_given"] is True
    assert found["tree"] is None
    own = inspect(served().translator).trace(WORDS, "das Tier")
    assert found["log_probabilities"] == pytest.approx(own.log_probabilities)
    server.get(f"/api/explore/{found['id']}/tree").is_refused(404)


def test_a_hypothesis_of_the_search_can_be_followed(server, trace):
    finished = trace.tree.finished
    if len(finished) > 1:
        found = server.post("/api/explore", {"text": WORDS, "beam": 3, "hypothesis": 1}).json()
        assert found["target"]["ids"] == trace.tree.tokens(finished[1])
    server.post("/api/explore", {"text": WORDS, "hypothesis": 10_000}).is_refused(422)
    server.post("/api/explore", {"text": "   "}).is_refused(422)


def test_what_if_is_the_translators(server, manifest, trace):
    change = {"kind": "remove-head", "at": "decoder.layers.1.cross_attention", "head": 1}
    found = server.post(f"/api/explore/{manifest['id']}/what-if", {"changes": [change]}).json()
    own = inspect(served().translator).what_if(trace, RemoveHead(at=change["at"], head=1))
    assert found["manifest"]["target"]["text"] == own.after.translation
    assert [tuple(pair) for pair in found["changed_words"]] == own.changed_words
    assert found["original_log_probabilities"] == pytest.approx(own.original_log_probabilities)
    assert found["differences"] == pytest.approx(own.differences)
    name = "decoder.layers.1.cross_attention.output"
    answer = server.get(f"/api/explore/{found['id']}/tensor/{name}")
    assert np.array_equal(numbers(answer), own.after[name].numpy())
    again = server.post(f"/api/explore/{found['id']}/what-if", {"changes": [change | {"head": 0}]}).json()
    assert len(again["manifest"]["changes"]) == 2


def test_another_word_changes_who_it_is():
    """The example of what "it" refers to, over HTTP."""
    with running(open_served_model("street")) as server:
        before = server.post("/api/explore", {"text": SENTENCE}).json()
        assert "weil es zu müde" in before["target"]["text"]
        words = {"replace": [{"old": "tired", "new": "wide"}]}
        after = server.post(f"/api/explore/{before['id']}/what-if", words).json()
        assert "weil sie zu breit" in after["manifest"]["target"]["text"]
        server.post(f"/api/explore/{before['id']}/what-if", {"replace": [{"old": "dog", "new": "cat"}]}).is_refused(422)


def test_figures(server, manifest, trace):
    pytest.importorskip("quickjs")
    at = f"/api/explore/{manifest['id']}/figure"
    answer = server.get(f"{at}/attention.svg?at=decoder.layers.0.cross_attention&head=1&dark=1")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert "sandbox" in answer.headers["content-security-policy"]
    own = trace.figure("attention", at="decoder.layers.0.cross_attention", head=1, dark=True)
    assert answer.text == own.svg
    for view in ("softmax", "beam"):
        assert server.get(f"{at}/{view}.svg").status == 200
    server.get(f"{at}/nonsense.svg").is_refused(422)
    server.get(f"{at}/attention.gif").is_refused(404)
    server.get(f"{at}/attention.svg?head=99").is_refused(422)
    server.get(f"{at}/attention.svg?width=2km").is_refused(422)
    png = server.get(f"{at}/attention.png?scale=1")
    assert png.status in (200, 501)  # 501 on a machine without fonts
    assert png.status == 501 or png.body.startswith(b"\x89PNG")


def test_traces_may_be_made_while_others_translate(server):
    """Traces record a copy of the model that shares its weights, so that requests do not disturb each other."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        translations = [
            pool.submit(server.post, "/api/translate", {"text": WORDS, "alignment": True}) for _ in range(12)
        ]
        traces = [pool.submit(server.post, "/api/explore", {"text": WORDS, "beam": 3}) for _ in range(6)]
    assert len({answer.result().text for answer in translations}) == 1
    bodies = [{**answer.result().json(), "id": ""} for answer in traces]
    assert all(body == bodies[0] for body in bodies)


def test_openapi_describes_what_is_asked(server):
    description = server.get("/openapi.json").json()
    asked = description["paths"]["/api/translate"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    schema = description["components"]["schemas"][asked["$ref"].rpartition("/")[2]]
    assert set(schema["properties"]) >= {"text", "beam", "n_best", "alignment", "tokens"}
    assert all(option["description"] for option in schema["properties"].values())
    written = json.dumps(description)
    for reference in set(re.findall(r"#/components/schemas/(\w+)", written)):
        assert reference in description["components"]["schemas"]
    page = server.get("/docs").text
    assert all(path in page for path in description["paths"])


def test_openapi_says_what_every_request_may_be_answered(server):
    """The middleware's errors, Retry-After, the server's own limits, and links from a trace's id."""
    description = server.get("/openapi.json").json()
    operations = [about for methods in description["paths"].values() for about in methods.values()]
    names = [about["operationId"] for about in operations]
    assert len(set(names)) == len(names)
    for about in operations:
        assert {"400", "401", "403", "413", "421", "431", "503"} <= set(about["responses"])
        assert about["responses"]["503"]["headers"]["Retry-After"]["required"]
        assert "500" not in about["responses"]
    schemas, limits = description["components"]["schemas"], server.state.limits
    assert schemas["TranslateRequest"]["properties"]["n_best"]["maximum"] == limits.n_best
    assert schemas["TraceRequest"]["properties"]["beam"]["maximum"] == limits.trace_beam
    assert schemas["LibreTranslateRequest"]["properties"]["q"]["maxItems"] == limits.texts
    links = description["paths"]["/api/explore"]["post"]["responses"]["200"]["links"]
    assert {link["operationId"] for link in links.values()} >= {"tensor", "tree", "what_if", "figure"}
    assert "security" not in description["paths"]["/api/translate"]["post"]


def test_openapi_says_where_a_key_is_asked_for():
    with running(served(), keys=["a-key-that-is-long-enough"]) as server:
        paths = server.get("/openapi.json").json()["paths"]
        assert {"bearer": []} in paths["/api/translate"]["post"]["security"]
        assert {} in paths["/translate"]["post"]["security"]  # it may stand in the body
        assert "security" not in paths["/health"]["get"]


def test_a_page_that_was_built_is_served_by_its_names(tmp_path):
    from glassformer.server.page_routes import page_files

    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "assets" / "app.js").write_text("1")
    (tmp_path / "assets" / "secret.py").write_text("1")
    (tmp_path / "assets" / "link.js").symlink_to("/etc/passwd")
    script = "/assets/try_request.js"  # of /docs, which is there without the explorer, too
    assert sorted(page_files(tmp_path)) == ["/", "/assets/app.js", script]
    assert list(page_files(tmp_path / "absent")) == [script]
