"""Training on a device, without a GPU: an update on torch's `meta` device and on a pretended one, and the choice."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.optim import optimizer
from torch.utils import _foreach_utils

from glassformer.data.padded_batch import make_batch
from glassformer.engine import devices
from glassformer.errors import InputError, SettingsError
from glassformer.model import Transformer
from glassformer.training import run_resources
from glassformer.training.distributed import local_group, torchrun_group
from glassformer.training.loss import TrainingLoss
from glassformer.training.mixed_precision import chosen_dtype
from glassformer.training.optimiser import load_optimiser_state, make_optimiser, optimiser_state
from glassformer.training.run_settings import RunSettings, TrainingSettings
from glassformer.training.weight_averaging import MovingAverage, load_weights, mean
from tests.engine.test_devices import on_device
from tests.examples import max_examples
from tests.models import build, configs, seeds
from tests.pretended_device import DEVICE, meta_device, pretended_device
from tests.training.runs import options, train_silently
from tests.training.test_loss import OUR_IDS, pairs

FUSED_DEVICES = "_get_fused_kernels_supported_devices"
NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}


@max_examples(30)
@given(configs(**OUR_IDS), seeds, st.floats(0, 0.5), st.sampled_from([0.0, 5.0]))
def test_an_update_leaves_no_tensor_on_the_cpu(config, seed, smoothing, r_drop):
    """The loss with dropout, its gradients, clipping, the moving average; `meta` takes every target for a real one."""
    from torch.fx.experimental import _config

    with torch.device("meta"):
        model = Transformer(config).train()
    average = MovingAverage(model, 0.9)
    batch = make_batch(pairs(config, 3, seed))
    with _config.patch(meta_nonzero_assume_all_nonzero=True), meta_device():
        loss = TrainingLoss(model, smoothing, r_drop=r_drop)(batch.to(torch.device("meta")))
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        average.update(model, 1)
        load_weights(model, build(config).state_dict())
    assert loss.is_meta
    assert norm.is_meta
    assert all(weight.grad is None or weight.grad.is_meta for weight in model.parameters())


@pytest.fixture
def fused_on_every_device(monkeypatch):
    """AdamW's fused kernel is there for the pretended device, too."""
    supported = [*_foreach_utils._get_fused_kernels_supported_devices(), DEVICE]
    monkeypatch.setattr(optimizer, FUSED_DEVICES, lambda: supported)


@pytest.mark.parametrize("r_drop", [0.0, 5.0])
def test_updates_on_a_device_are_those_of_the_cpu(fused_on_every_device, r_drop):
    """Two updates, with the optimiser's state saved and restored between them."""

    @max_examples(10)
    @given(configs(**OUR_IDS, **NO_DROPOUT), seeds)
    def updates(config, seed):
        batch = make_batch(pairs(config, 3, seed))

        def updated(model, device):
            settings = TrainingSettings(learning_rate=0.01, r_drop=r_drop)
            average, state = MovingAverage(model, 0.9), {}
            for number in (1, 2):
                optimiser = make_optimiser(model, settings)
                load_optimiser_state(model, optimiser, state, "here")
                loss = TrainingLoss(model, 0.1, r_drop=r_drop)(batch.to(device))
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimiser.step()
                average.update(model, number)
                state = optimiser_state(model, optimiser)
                optimiser.zero_grad()
            averaged = mean([average.weights, {name: x.cpu() for name, x in average.weights.items()}])
            return loss.detach().cpu(), {name: x.detach().cpu() for name, x in model.named_parameters()}, averaged

        with pretended_device():
            ours = updated(on_device(build(config, seed)).train(), torch.device(DEVICE))
        torch.testing.assert_close(ours, updated(build(config, seed).train(), torch.device("cpu")))

    updates()


# ---- the choice of a device


def test_a_device_that_is_not_there_is_refused_before_anything_is_written(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU on this machine")
    with pytest.raises(InputError, match="finds no CUDA GPU: use the device cpu or auto"):
        train_silently(options(tmp_path, device="cuda"))
    assert not (tmp_path / "run").exists()
    with pytest.raises(SettingsError, match="There is no device 'gpu'"):
        RunSettings(out="run", data={"source": "a"}, training={"device": "gpu"})


def test_processes_of_one_machine_do_not_share_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "_problem", lambda name: None)
    with pytest.raises(SettingsError, match=r"training\.ranks = 2 are processes on the CPU.*: set training\.ranks=1"):
        train_silently(options(tmp_path, device="cuda", ranks=2))
    assert not (tmp_path / "run").exists()


def test_one_process_has_the_device(tmp_path):
    with local_group(1, tmp_path, "cuda:1") as group:
        assert group.device == torch.device("cuda:1")
    assert run_resources.choose_ranks(10**6, "cuda") == 1


def test_torchrun_gives_each_process_a_gpu_of_its_own(monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setattr(devices, "_problem", lambda name: None)
    for name in ("cuda:1", "mps"):
        with pytest.raises(SettingsError, match="use the device cuda, not"), torchrun_group(name):
            pass


@pytest.mark.parametrize("device", ["mps", "cpu", "cuda"])
def test_automatic_precision_asks_the_device_that_trains(monkeypatch, device):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    assert (chosen_dtype("auto", torch.device(device)) is torch.bfloat16) == (device != "mps")


def test_the_mean_of_weights_does_not_ask_where_they_are():
    with pretended_device():
        found = mean([{"w": torch.tensor([1.0], device=DEVICE)}, {"w": torch.tensor([3.0])}])
    np.testing.assert_array_equal(found["w"].numpy(), [2.0])
