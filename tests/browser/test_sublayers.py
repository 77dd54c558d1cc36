"""Residual, norm, feed-forward and the output in Chromium: the numbers are the trace's, pre-norm and post-norm."""

import math

import pytest
import torch

from glassformer import load
from glassformer.inspection import inspect
from glassformer.server.translation_service import open_served_model
from tests.browser.driving import drive, needs_chromium
from tests.browser.test_explorer import SENTENCE, SHOWN, address, number
from tests.server.running import WORDS, running, served

pytestmark = needs_chromium
COLUMNS = 16

MODELS = {
    "post-norm": {"encoder_layers": 2},
    "pre-norm": {"norm_first": True, "activation": "gelu", "output_bias": True},
    "rms": {
        "norm": "rms",
        "norm_first": True,
        "norm_eps": 1e-3,
        "gated": True,
        "activation": "silu",
        "linear_bias": False,
        "tie_output": False,
        "scale_output": True,
    },
    "recurrent": {"decoder_ssru": True, "decoder_layers": 1, "activation": "gelu-tanh", "gated": True},
}


@pytest.fixture(scope="module")
def street():
    with running(open_served_model("street")) as server:
        yield server.port


@pytest.fixture(scope="module")
def trace():
    return inspect(load("street")).trace(SENTENCE, beam=4)


def place(trace, stack):
    """An attention of the last layer of a stack."""
    return next(name for name in reversed(trace.attentions) if name.startswith(stack))


def rows_around(trace, layer, part, position, before):
    """The rows that are shown around a sub-layer, in the model's order: name, numbers."""
    config, name = trace.config, f"{layer}.{part}"
    residual, out = trace[f"{name}_norm.residual"][position], trace[f"{name}.output"][position]
    x = trace[before][position]
    torch.testing.assert_close(x + out, residual)
    inside = x if config.norm_first else residual
    mean = inside.mean() if config.norm == "layer" else torch.zeros(())
    sigma = ((inside - mean).square().mean() + config.norm_eps).sqrt()
    learned = [trace.parameter(f"{name}_norm.{which}") for which in ("weight", "bias")]
    norm = [("standard", (inside - mean) / sigma)]
    norm += [(which, found) for which, found in zip(("gamma", "beta"), learned, strict=True) if found is not None]
    norm += [("norm", trace[f"{name}_norm.output"][position])]
    around = [("x", x), *norm, ("out", out), ("sum", residual)]
    if not config.norm_first:
        around = [("x", x), ("out", out), ("sum", residual), *norm]
    return around, float(mean), float(sigma)


def check_layer(port, trace, stack, position, text):
    at = place(trace, stack)
    layer = at.rpartition(".")[0]
    index = int(layer.rpartition(".")[2])
    parts = [
        p for p in ("self_attention", "recurrence", "cross_attention", "feed_forward") if f"{layer}.{p}.output" in trace
    ]
    hash_of = address(v="sublayers", at=at, q=position, **text)
    select = {"mean": "[data-mean]", "sigma": "[data-sigma]", "neurons": "[data-neurons] tbody tr > :is(th, td)"}
    select |= {part: f"[data-numbers=residual-{part}] tbody :is(th, td)" for part in parts}
    [found] = drive(port, "texts", {"views": [{"hash": hash_of, "select": select}]})

    before = f"{stack}.input" if index == 0 else f"{stack}.layers.{index - 1}.hidden"
    means, sigmas = [], []
    for part in parts:
        around, mean, sigma = rows_around(trace, layer, part, position, before)
        before = f"{layer}.{part}_norm.{'residual' if trace.config.norm_first else 'output'}"
        means.append(mean)
        sigmas.append(sigma)
        width = min(COLUMNS, trace.config.d_model) + 1
        shown = [found[part][i : i + width] for i in range(0, len(found[part]), width)]
        assert len(shown) == len(around), part
        for (name, numbers), cells in zip(around, shown, strict=True):
            assert [number(cell) for cell in cells[1:]] == pytest.approx(numbers[:COLUMNS].tolist(), abs=SHOWN), name
    if trace.config.norm == "layer":
        assert [number(one) for one in found["mean"]][: len(means)] == pytest.approx(means, abs=SHOWN)
    assert [number(one) for one in found["sigma"]][: len(sigmas)] == pytest.approx(sigmas, abs=SHOWN)
    final = trace.config.norm_first
    assert len(found["badges"]) == len(parts) + 1 + final + ("recurrence" in parts)  # the feed-forward has its own
    assert max(found["badges"]) < 1e-4

    hidden = trace[f"{layer}.feed_forward.hidden"][position]
    lengths = hidden.abs() * trace.parameter(f"{layer}.feed_forward.down_proj.weight").norm(dim=0)
    awake = min(10, int((lengths > 0).sum()))  # relu may leave fewer than ten, and zeros have no order
    best = lengths.topk(awake)
    cells = [found["neurons"][i : i + 4] for i in range(0, 40, 4)][:awake]
    assert [int(row[0]) for row in cells] == best.indices.tolist()
    assert [number(row[1]) for row in cells] == pytest.approx(hidden[best.indices].tolist(), abs=SHOWN)
    assert [number(row[2]) for row in cells] == pytest.approx(best.values.tolist(), abs=SHOWN)


def check_output(port, trace, position, text):
    at = place(trace, "decoder")
    views = [
        {"hash": address(v="softmax", at=at, q=position, **text), "select": {
            "logits": "[data-candidates] [data-logit]", "p": "[data-candidates] tbody [data-p]",
            "rest": "[data-rest] [data-p]", "tokens": "[data-candidates] tbody th bdi", "says": "[data-entropy]",
            "loss": "[data-loss] tbody td"}},
        {"hash": address(v="softmax", at=at, q=position, **text), "slide": {"Temperature": "2"}, "select": {
            "p": "[data-candidates] tbody [data-p]", "rest": "[data-rest] [data-p]"}},
    ]  # fmt: skip
    plain, hot = drive(port, "texts", {"views": views})
    logits = trace["logits"][position].double()
    ids = trace["output.likeliest"][position].long()
    written = trace.about.target.ids[position]
    if written not in ids.tolist():
        ids = torch.cat([ids, torch.tensor([written])])
    assert len(ids) >= 50
    for found, temperature in ((plain, 1), (hot, 2)):
        p = (logits / temperature).softmax(-1)[ids]
        assert [number(one) for one in found["p"]] == pytest.approx(p.tolist(), abs=SHOWN)
        assert number(found["rest"][0]) == pytest.approx(1 - float(p.sum()), abs=SHOWN)
    assert [number(one) for one in plain["logits"]] == pytest.approx(logits[ids].tolist(), abs=SHOWN)
    assert plain["tokens"] == [trace.piece(int(token)).replace("▁", "") or "␣" for token in ids]
    assert number(plain["says"][0].split()[1]) == pytest.approx(float(trace["output.entropy"][position]), abs=SHOWN)
    costs = [
        (number(cost), number(smooth)) for cost, smooth in zip(plain["loss"][1::3], plain["loss"][2::3], strict=True)
    ]
    target = torch.tensor(trace.about.target.ids[: trace.steps])
    for k, smoothing in enumerate((0.0, 0.1)):
        wanted = torch.nn.functional.cross_entropy(trace["logits"], target, reduction="none", label_smoothing=smoothing)
        assert [pair[k] for pair in costs] == pytest.approx(wanted.tolist(), abs=SHOWN)
    assert len(plain["badges"]) == 3
    assert max(plain["badges"]) < 1e-4


def test_a_layer_of_the_built_in_model(street, trace):
    check_layer(street, trace, "encoder", 10, {})
    check_layer(street, trace, "decoder", 8, {})


def test_its_output(street, trace):
    check_output(street, trace, 8, {})


@pytest.mark.parametrize("kind", MODELS)
def test_layers_and_outputs_of_other_models(kind):
    model = served("plain", **MODELS[kind])
    text = {"s": WORDS, "t": "Das Tier ist müde"}
    trace = inspect(model.translator).trace(text["s"], text["t"], beam=4)
    with running(model) as server:
        check_layer(server.port, trace, "encoder", 2, text)
        check_layer(server.port, trace, "decoder", 1, text)
        check_output(server.port, trace, 1, text)


def test_the_feed_forwards_of_the_map_lead_to_it(street, trace):
    """A bar of the map opens a layer's feed-forward; a selected neuron shows its activation at every token."""
    at = "encoder.layers.0.self_attention"
    bars = ".stack .layer:last-child button"
    start = {"hash": address(v="sentence"), "press": [f"{bars} >> nth=1"], "select": {
        "current": f"{bars}[aria-current=page] .part", "bars": ".stack button .part"}}  # fmt: skip
    neuron = {"hash": address(v="sublayers", at=at, n=7), "press": ["[data-activations] button >> nth=1"], "select": {
        "activations": "[data-activations] [data-value]", "tokens": "[data-activations] bdi",
        "cause": "[data-cause]"}}  # fmt: skip
    opened, neuron_view = drive(street, "texts", {"views": [start, neuron]})
    assert opened["heading"].startswith("Encoder layer 0")
    assert opened["hash"].endswith(f"at={at}&part=feed_forward")
    assert opened["current"] == ["feed-forward"]
    assert opened["bars"].count("feed-forward") == trace.config.encoder_layers + trace.config.decoder_layers
    hidden = trace["encoder.layers.0.feed_forward.hidden"][:, 7]
    assert [number(one) for one in neuron_view["activations"]] == pytest.approx(hidden.tolist(), abs=SHOWN)
    assert len(neuron_view["tokens"]) == len(trace.source)
    assert number(neuron_view["cause"][0].split()[-1]) == pytest.approx(float(hidden[1]), abs=SHOWN)
    assert "q=1&n=7" in neuron_view["hash"]


def test_wide_matrices_are_fetched_on_request():
    model = served("plain", d_model=512, n_heads=8, d_ff=2048, encoder_layers=2, decoder_layers=2)
    trace = inspect(model.translator).trace(WORDS, "Das Tier")
    at, text = "encoder.layers.1.self_attention", {"s": WORDS, "t": "Das Tier"}
    lengths = {"lengths": "[data-neurons] [data-length]"}
    fetch = "button:has-text('Recompute')"
    layer, output = address(v="sublayers", at=at, q=2, **text), address(v="softmax", at=at, **text)
    views = [{"hash": layer, "select": lengths}, {"hash": layer, "press": [fetch], "select": lengths}]
    views += [{"hash": output, "select": {}}, {"hash": output, "press": [fetch], "select": {}}]
    with running(model) as server:
        without, fetched, few, all_three = drive(server.port, "texts", {"views": views})
    assert set(without["lengths"]) == {"–"}
    hidden = trace["encoder.layers.1.feed_forward.hidden"][2]
    best = (hidden.abs() * trace.parameter("encoder.layers.1.feed_forward.down_proj.weight").norm(dim=0)).topk(10)
    assert [number(one) for one in fetched["lengths"]] == pytest.approx(best.values.tolist(), abs=SHOWN)
    assert (len(without["badges"]), len(fetched["badges"])) == (2, 3)
    assert (len(few["badges"]), len(all_three["badges"])) == (2, 3)
    assert max(fetched["badges"] + all_three["badges"]) < 5e-4


def test_sixty_tokens_and_512_columns_stay_fluid():
    """A redraw within 50 ms and fewer than 5,000 nodes, with all neurons of a wide model."""
    model = served("plain", d_model=512, n_heads=8, d_ff=2048, encoder_layers=2, decoder_layers=2)
    tokenizer = model.translator.tokenizer
    words = (WORDS.split() * 10)[:80]
    while len(tokenizer.encode(" ".join(words), "source")) > 60:
        words.pop()
    text = {"s": " ".join(words), "t": " ".join(words)}
    views = {
        "encoder": address(v="sublayers", at="encoder.layers.1.self_attention", q=5, **text),
        "decoder": address(v="sublayers", at="decoder.layers.1.cross_attention", q=5, **text),
        "softmax": address(v="softmax", at="decoder.layers.1.cross_attention", q=5, **text),
    }
    with running(model, trace_tokens=64) as server:
        found = drive(server.port, "budget", {"hash": views["encoder"], "views": views})
    assert max(found["nodes"].values()) < 5000, found["nodes"]
    assert max(found["redraw"].values()) < 50, found["redraw"]
    assert math.isfinite(found["paint"])
