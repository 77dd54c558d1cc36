"""Sinusoidal positions, compared with the paper's formula number by number."""

import math

import pytest
import torch

from glassformer.model import preset
from glassformer.model.positions import SinusoidalPositions


@pytest.mark.parametrize("offset", [0, 2])
@pytest.mark.parametrize("d_model", [8, 7])
@pytest.mark.parametrize("first", [0, 5])
def test_sinusoidal_positions_are_the_papers_formula(offset, d_model, first):
    """PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(pos / 10000^(2i/D))."""
    options = {"d_model": d_model, "n_heads": 1, "position_offset": offset}
    tables = {
        layout: SinusoidalPositions(preset("tiny", positions=layout, **options), "S")(
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
