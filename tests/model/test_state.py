"""The memory of decoding: written in place, moved seldom, cut loose from its rows when they change places."""

import pytest
import torch

from glassformer.errors import InputError
from glassformer.model import preset
from glassformer.model.attention import KeyValues
from glassformer.model.state import KVCache
from tests.models import build, sources, targets


def test_growing_moves_what_is_there_only_when_the_room_doubles():
    """512 steps, and the buffers move at most 6 times: all copies together are less than one more whole copy."""
    past, places, moved = KVCache(), set(), 0
    written = []
    for _ in range(512):
        new = KeyValues(*torch.randn(2, 3, 2, 1, 4))
        before = past.length
        k, v = past.extend(new)
        written.append(new)
        if k.data_ptr() not in places:
            places.add(k.data_ptr())
            moved += before
    assert len(places) <= 6
    assert moved < 512
    assert torch.equal(k, torch.cat([new.k for new in written], dim=2))
    assert torch.equal(v, torch.cat([new.v for new in written], dim=2))


def test_reordered_states_share_nothing():
    """One hypothesis goes on and does not feel what its twin writes."""
    model = build(preset("tiny", vocab_size=20, d_model=8, n_heads=2, d_ff=4))
    source, target = sources(model.config, [5, 3], 0), targets(model.config, [4, 4], 0)
    state = model.start(source)
    model.step(target[:, :2], state)
    twin = state.reorder(torch.tensor([0, 1]))
    model.step(target[:, 3:], twin)
    torch.testing.assert_close(model.step(target[:, 2:], state), model(source, target)[:, 2:])
    assert (state.length, twin.length) == (4, 3)


def test_decoding_keeps_no_graph():
    model = build(preset("tiny", vocab_size=20, d_model=8, n_heads=2, d_ff=4))
    state = model.start(sources(model.config, [5], 0))
    assert not model.step(targets(model.config, [1], 0), state).requires_grad


def test_rows_that_do_not_belong_together_are_an_error():
    model = build(preset("tiny", vocab_size=20, d_model=8, n_heads=2, d_ff=4))
    state = model.start(sources(model.config, [5, 3], 0))
    with pytest.raises(InputError, match="There are 3 target rows for 2 source rows"):
        model.step(targets(model.config, [1, 1, 1], 0), state)
