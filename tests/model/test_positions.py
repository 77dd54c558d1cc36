"""Kinds of positions: what each does; sinusoids compared with the paper's formula number by number."""

import math
from typing import get_args

import pytest
import torch
from hypothesis import given

from glassformer.model import ModelConfig, preset
from glassformer.model.config import PositionName
from glassformer.model.position_kinds import KINDS, position_kind
from glassformer.model.positions import added_positions
from tests.examples import max_examples
from tests.models import build, configs, seeds, sources, targets


@pytest.mark.parametrize("offset", [0, 2])
@pytest.mark.parametrize("d_model", [8, 7])
@pytest.mark.parametrize("first", [0, 5])
def test_sinusoidal_positions_are_the_papers_formula(offset, d_model, first):
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(pos / 10000^(2i/D))."""
    options = {"d_model": d_model, "n_heads": 1, "position_offset": offset}
    tables = {
        layout: added_positions(preset("tiny", positions=layout, **options), "S")(
            first, 70, like=torch.zeros(1, dtype=torch.float64)
        )
        for layout in ("sinusoidal", "sinusoidal-halves")
    }
    sines = math.ceil(d_model / 2)
    for row in range(70):
        position = first + offset + row
        for column in range(d_model):
            i = column // 2
            angle = position / 10000 ** (2 * i / d_model)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert tables["sinusoidal"][row, column].item() == pytest.approx(expected, abs=1e-12)
            column_in_halves = i + sines if column % 2 else i
            assert tables["sinusoidal-halves"][row, column_in_halves].item() == pytest.approx(expected, abs=1e-12)


@max_examples(60)
@given(configs(), seeds)
def test_a_kind_does_what_it_says(config, seed):
    """Its description is what exporters and the explorer read, instead of the name."""
    kind, model = position_kind(config), build(config, seed)
    terms = [terms for stack in (model.encoder, model.decoder) for terms in stack.position_terms(2, 3, torch.zeros(1))]
    for stack in (model.encoder, model.decoder):
        assert (stack.position is not None) == kind.adds
    assert all((bias is not None) == kind.biases for bias, _ in terms)
    assert all((rotation is not None) == kind.rotates for _, rotation in terms)
    assert kind.explanation
    assert kind.adds + kind.biases + kind.rotates == 1
    assert len(terms) == config.encoder_layers + config.decoder_layers


def test_every_name_has_a_kind_and_every_option_of_a_kind_exists():
    assert {*KINDS} == {*get_args(PositionName)}
    assert {option for kind in KINDS.values() for option in kind.options} <= {*ModelConfig.model_fields}


@max_examples(40)
@given(configs(positions="relative"), seeds)
@torch.no_grad()
def test_a_bias_per_layer_is_one_bias_if_all_are_equal(config, seed):
    model, other = build(config, seed), build(config.model_copy(update={"positions": "relative-per-layer"}))
    weights = model.state_dict()
    for name in other.state_dict():
        stack, _, rest = name.partition(".layers.")
        if rest.endswith("relative_bias.weight"):
            weights[name] = weights[f"{stack}.relative_bias.weight"]
    other.load_state_dict({name: weights[name] for name in other.state_dict()})
    source, target = sources(config, [9, 4], seed), targets(config, [7, 7], seed)
    assert torch.equal(model(source, target), other(source, target))
