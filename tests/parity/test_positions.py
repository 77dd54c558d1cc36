"""Parity with transformers for parts: T5's distance buckets and Llama's rotations (whole models: tests/interop)."""

import pytest
import torch
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
from transformers.models.t5.modeling_t5 import T5Attention

from glassformer.model import preset
from glassformer.model.position_kinds import distance_bucket
from glassformer.model.positions import rotate, rotations


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 5), (12, 100), (4, 3)])
def test_relative_buckets_are_those_of_t5(bidirectional, buckets, max_distance):
    distance = torch.arange(-300, 301)[None, :]
    expected = T5Attention._relative_position_bucket(distance, bidirectional, buckets, max_distance)
    ours = distance_bucket(distance.numpy(), buckets, max_distance, bidirectional)
    assert torch.equal(torch.from_numpy(ours), expected)


@pytest.mark.parametrize("first", [0, 5])
def test_rotary_rotations_are_those_of_llama(first):
    q, k = torch.randn(2, 2, 3, 7, 8, dtype=torch.float64)
    rotation = rotations(preset("tiny", d_model=16, n_heads=2, positions="rotary"), first, 7, q)
    angles = torch.arange(first, first + 7, dtype=torch.float64)[:, None] / 10000 ** (torch.arange(0, 8, 2) / 8)
    both = torch.cat((angles, angles), dim=-1)[None]
    expected_q, expected_k = apply_rotary_pos_emb(q, k, both.cos(), both.sin())
    torch.testing.assert_close(rotate(q, rotation), expected_q, rtol=0, atol=1e-7)  # their exponents are float32
    torch.testing.assert_close(rotate(k, rotation), expected_k, rtol=0, atol=1e-7)
