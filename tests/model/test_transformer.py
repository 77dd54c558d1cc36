"""Transformer: errors for invalid input, devices, and number formats."""

import pytest
import torch

from glassformer.errors import InputError
from glassformer.model import Transformer, preset
from tests.models import KINDS_OF_POSITIONS, build, sources, targets
from tests.processes import run_plainly


@pytest.mark.parametrize(
    ("source", "target", "says"),
    [
        ("torch.tensor([[5, 6, 99]])", "torch.tensor([[1]])", "from 0 to 29; these go from 5 to 99"),
        ("torch.tensor([[5, -1]])", "torch.tensor([[1]])", "these go from -1 to 5"),
        ("torch.tensor([[5]])", "torch.tensor([[1, 30]])", "from 0 to 29; these go from 1 to 30"),
        ("torch.tensor([5, 6])", "torch.tensor([[1]])", "torch.int64 of shape [2]"),
        ("torch.tensor([[5.0]])", "torch.tensor([[1]])", "torch.float32 of shape [1, 1]"),
        ("torch.tensor([[5]])", "torch.tensor([[1], [1]])", "There are 2 target rows for 1 source rows"),
        ("torch.full((1, 12), 5)", "torch.tensor([[1]])", "12 tokens, but this model has learned only 9 positions"),
        ("torch.tensor([[5]])", "torch.full((1, 10), 5)", "10 tokens, but this model has learned only 9 positions"),
    ],
)
def test_impossible_input_is_one_sentence(source, target, says):
    """As a user would call it, in an interpreter without shape checks."""
    output = run_plainly(f"""
        import torch
        from glassformer import GlassformerError, Transformer, preset
        config = preset("tiny", vocab_size=30, positions="learned", max_positions=11, position_offset=2)
        try:
            Transformer(config)({source}, {target})
        except GlassformerError as error:
            print(error)
    """)
    assert says in output
    assert output.count("\n") == 1


def test_decoding_past_the_learned_positions_is_an_error_too():
    model = build(preset("tiny", vocab_size=30, positions="learned", max_positions=5))
    state = model.start(sources(model.config, [5], 0))
    for _ in range(5):
        model.step(targets(model.config, [1], 0), state)
    with pytest.raises(InputError, match="6 tokens, but this model has learned only 5 positions"):
        model.step(targets(model.config, [1], 0), state)


@pytest.mark.parametrize("positions", KINDS_OF_POSITIONS)
def test_nothing_is_made_on_another_device_than_the_weights(positions):
    """On torch's meta device, an operand on the CPU would be an error."""
    model = Transformer(preset("tiny", vocab_size=20, positions=positions)).to("meta")
    source, target = sources(model.config, [5, 3], 0).to("meta"), targets(model.config, [4, 4], 0).to("meta")
    assert model(source, target).device.type == "meta"
    state = model.start(source)
    model.step(target[:, :3], state)
    assert model.step(target[:, 3:], state).device.type == "meta"
    reordered = state.reorder(torch.tensor([1], device="meta"))
    assert model.step(target[:1, 3:], reordered).device.type == "meta"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("positions", KINDS_OF_POSITIONS)
@torch.no_grad()
def test_every_number_format_runs_and_stays_near_float64(positions, dtype):
    config = preset("tiny", vocab_size=20, positions=positions)
    exact, model = Transformer(config).double().eval(), Transformer(config).eval()
    model.load_state_dict(exact.state_dict())
    model.to(dtype)
    source, target = sources(config, [5, 3], 0), targets(config, [4, 4], 0)
    logits = model(source, target)
    assert logits.dtype is dtype
    tolerance = {torch.bfloat16: 0.2, torch.float16: 0.03, torch.float32: 1e-4}[dtype]
    torch.testing.assert_close(logits.double(), exact(source, target), rtol=0, atol=tolerance)
    state = model.start(source)
    assert model.step(target, state).dtype is dtype
