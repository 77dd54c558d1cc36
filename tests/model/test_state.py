"""Decoder state: caches grow in place and are seldom copied; reordered states share no memory."""

import pytest
import torch

from glassformer.errors import InputError
from glassformer.model import preset
from glassformer.model.attention import KeyValues
from glassformer.model.decoder_state import KVCache
from tests.models import build, sources, targets


def test_a_growing_cache_is_copied_only_when_its_capacity_doubles():
    """In 512 steps the buffers are reallocated at most 6 times: all copies together are less than one full copy."""
    cache, addresses, copied = KVCache(), set(), 0
    written = []
    for _ in range(512):
        new = KeyValues(*torch.randn(2, 3, 2, 1, 4))
        before = cache.length
        k, v = cache.extend(new)
        written.append(new)
        if k.data_ptr() not in addresses:
            addresses.add(k.data_ptr())
            copied += before
    assert len(addresses) <= 6
    assert copied < 512
    assert torch.equal(k, torch.cat([new.k for new in written], dim=2))
    assert torch.equal(v, torch.cat([new.v for new in written], dim=2))


def test_reordered_states_share_nothing():
    """Extending a reordered state does not change the original."""
    model = build(preset("tiny", vocab_size=20, d_model=8, n_heads=2, d_ff=4))
    source, target = sources(model.config, [5, 3], 0), targets(model.config, [4, 4], 0)
    state = model.start(source)
    model.step(target[:, :2], state)
    copy = state.reorder(torch.tensor([0, 1]))
    model.step(target[:, 3:], copy)
    torch.testing.assert_close(model.step(target[:, 2:], state), model(source, target)[:, 2:])
    assert (state.length, copy.length) == (4, 3)


def test_decoding_keeps_no_graph():
    model = build(preset("tiny", vocab_size=20, d_model=8, n_heads=2, d_ff=4))
    state = model.start(sources(model.config, [5], 0))
    assert not model.step(targets(model.config, [1], 0), state).requires_grad


def test_different_numbers_of_target_and_source_rows_are_an_error():
    model = build(preset("tiny", vocab_size=20, d_model=8, n_heads=2, d_ff=4))
    state = model.start(sources(model.config, [5, 3], 0))
    with pytest.raises(InputError, match="There are 3 target rows for 2 source rows"):
        model.step(targets(model.config, [1, 1, 1], 0), state)
