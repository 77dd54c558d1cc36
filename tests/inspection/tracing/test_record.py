"""Activation recording: by tap name, while a block runs, and an error where nothing could be recorded."""

import pytest
import torch

from glassformer.errors import InputError
from glassformer.inspection import record
from glassformer.model import Transformer, preset, taps
from tests.examples import only_in_test_all
from tests.models import build, sources, targets
from tests.processes import run_plainly


@pytest.fixture
def model() -> Transformer:
    return build(preset("tiny", vocab_size=20, d_model=8, n_heads=2, d_ff=4, decoder_layers=3))


@pytest.fixture
def batch(model) -> tuple[torch.Tensor, torch.Tensor]:
    return sources(model.config, [5, 3], 0), targets(model.config, [4, 4], 0)


def test_a_pattern_chooses_by_name(model, batch):
    with record(model, "decoder.*.cross_attention.weights") as recording:
        model(*batch)
    assert list(recording) == [f"decoder.layers.{i}.cross_attention.weights" for i in range(3)]
    assert recording["decoder.layers.1.cross_attention.weights"].shape == (2, 2, 4, 5)
    assert recording.axes("decoder.layers.1.cross_attention.weights") == ("B", "H", "T", "S")


def test_several_patterns_and_none(model, batch):
    with record(model, "memory", "encoder.layers.0.*.q") as some, record(model) as everything:
        model(*batch)
    assert sorted(some) == ["encoder.layers.0.self_attention.q", "memory"]
    assert set(everything) == set(taps(model))


def test_a_pattern_that_names_nothing_is_an_error(model):
    with pytest.raises(InputError, match=r"No tap matches 'decoder\.weights'"), record(model, "decoder.weights"):
        pass


def test_what_was_not_recorded_says_why(model, batch):
    with record(model, "logits", "memory") as recording:
        with pytest.raises(InputError, match="Nothing was recorded at logits: run the model inside"):
            recording["logits"]
        model(*batch)
    with pytest.raises(InputError, match=r"encoder\.input is not part of this recording, which covers 2 other taps"):
        recording["encoder.input"]


def test_decoding_is_recorded_step_by_step(model, batch):
    source, target = batch
    with record(model, "decoder.layers.0.self_attention.weights") as recording:
        state = model.start(source)
        for column in target.split(1, dim=1):
            model.step(column, state)
    shapes = [tuple(x.shape) for x in recording.all("decoder.layers.0.self_attention.weights")]
    assert shapes == [(2, 2, 1, n) for n in range(1, 5)]


def test_recording_ends_with_the_block_even_when_it_fails(model, batch):
    with pytest.raises(ZeroDivisionError), record(model):
        raise ZeroDivisionError
    assert not any(tap.has_listeners for tap in taps(model).values())


def test_what_was_recorded_holds_no_graph(model, batch):
    with record(model, "logits") as recording:
        model(*batch)
    assert not recording["logits"].requires_grad


def test_a_listener_may_replace_the_value(model, batch):
    """Interventions rely on this: zero head 1 of one layer, and its contribution is gone from the output."""
    attention = model.encoder.layers[0].self_attention

    def without_head_1(heads_out):
        return torch.cat((heads_out[:, :1], torch.zeros_like(heads_out[:, 1:])), dim=1)

    before = model(*batch)
    attention.heads_out.listeners.append(without_head_1)
    with record(model, "encoder.layers.0.self_attention.*") as recording:
        changed = model(*batch)
    attention.heads_out.listeners.clear()
    name = "encoder.layers.0.self_attention"
    assert torch.all(recording[f"{name}.heads_out"][:, 1] == 0)
    head_0 = recording[f"{name}.heads_out"][:, 0]
    torch.testing.assert_close(recording[f"{name}.output"], head_0 + attention.out_proj.bias)
    assert (changed - before).abs().max() > 1e-3
    assert torch.equal(model(*batch), before)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's, on importing its own compiler
@pytest.mark.parametrize("how", ["torch.compile(model)", "model.compile()", "a part of it"])
def test_a_compiled_model_is_refused(model, how):
    if how == "torch.compile(model)":
        compiled = torch.compile(model)
    elif how == "model.compile()":
        model.compile()
        compiled = model
    else:
        model.decoder = torch.compile(model.decoder)
        compiled = model
    with pytest.raises(InputError, match="is compiled, and compiled code has no taps"), record(compiled):
        pass


@only_in_test_all  # importing the compiler alone takes ten seconds
@pytest.mark.parametrize(
    "options",
    ['dynamic=True, positions="sinusoidal"', 'positions="rotary"', 'positions="relative"', 'positions="learned"'],
)
def test_compiled_equals_eager_in_one_graph(options):
    """The whole model is one graph, without a break. Annotations are unchecked here: the checks do not compile."""
    run_plainly(f"""
        import torch
        from glassformer import Transformer, preset

        def check(positions, dynamic=None):
            config = preset("tiny", vocab_size=20, encoder_layers=1, decoder_layers=1, positions=positions)
            model = Transformer(config).double().eval()
            compiled = torch.compile(model, backend="aot_eager", fullgraph=True, dynamic=dynamic)
            for s, t in ((3, 2), (70, 80)) if dynamic else ((3, 2),):
                source, target = torch.randint(3, 20, (2, s)), torch.randint(3, 20, (2, t))
                source[1, 2:] = 0
                torch.testing.assert_close(compiled(source, target), model(source, target))

        check({options})
    """)
