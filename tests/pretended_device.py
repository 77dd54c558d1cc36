"""Devices that are not there: a second one, pretended with the CPU's memory, and a guard against mixing devices.

The pretended device is called `meta`, a name that torch accepts everywhere. Its tensors wrap those of the CPU, so they
have values; an operation on tensors of both devices is an error, as on a GPU, and only copies go from one to the other.
`Module.to` does not move a model there, since it assigns to `.data`: `ModelWeights.on` does.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from glassformer.model import positions

DEVICE = "meta"
COPIES = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default}


class MixedDevicesError(Exception):
    """An operation has tensors of two devices."""


def check_devices(func, tensors: list[Tensor], is_on_device) -> bool:
    """Whether an operation is the device's; tensors of both are an error, except in copies and numbers of the CPU."""
    on_device = [x for x in tensors if is_on_device(x)]
    on_cpu = [x for x in tensors if not is_on_device(x) and x.dim()]
    if on_device and on_cpu and func not in COPIES:
        raise MixedDevicesError(f"{func} has tensors of both devices, of shapes {[tuple(x.shape) for x in tensors]}")
    return bool(on_device)


def mapped(function, value):
    """An operation's value with a function applied to its tensors; torch's tree_map takes several times as long."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, dict):
        return {name: mapped(function, one) for name, one in value.items()}
    return type(value)(mapped(function, one) for one in value) if isinstance(value, list | tuple) else value


def tensors_in(*values) -> list[Tensor]:
    found: list[Tensor] = []
    mapped(found.append, list(values))
    return found


class Mode(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls):
        return False  # True would import torch's compiler, for seconds


class OneDeviceMode(Mode):
    """Context in which a tensor of the CPU among tensors of the (real) meta device is an error."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        check_devices(func, tensors_in(args, kwargs), lambda x: x.is_meta)
        return func(*args, **(kwargs or {}))


class DeviceTensor(torch.Tensor):
    """A tensor of the pretended device; `inner` has its values."""

    @staticmethod
    def __new__(cls, inner):
        place = (inner.shape, inner.stride(), inner.storage_offset())
        return torch.Tensor._make_wrapper_subclass(cls, *place, dtype=inner.dtype, device=DEVICE)

    def __init__(self, inner):
        self.inner = inner

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return computed(func, args, kwargs or {})


class PretendedMode(Mode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return computed(func, args, kwargs or {})


class TensorsThroughCopies(TorchFunctionMode):
    """`torch.tensor(..., device=...)` as a copy: torch makes one of its own device `meta` before any mode sees it."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        device = kwargs.pop("device", None) if func is torch.tensor else None
        result = func(*args, **kwargs)
        return result if device is None else result.to(device)


def computed(func, args, kwargs):
    """Compute an operation on the CPU; the result is where its tensors are, or where it says."""
    tensors = tensors_in(args, kwargs)
    result_is_ours = check_devices(func, tensors, lambda x: isinstance(x, DeviceTensor))
    if kwargs.get("device") is not None:
        result_is_ours = torch.device(kwargs["device"]).type == DEVICE
        kwargs = kwargs | {"device": "cpu"}
    if func is torch.ops.aten.copy_.default:
        result_is_ours = isinstance(args[0], DeviceTensor)
    wrappers = {id(x.inner): x for x in tensors if isinstance(x, DeviceTensor)}

    def unwrapped(x):
        return x.inner if isinstance(x, DeviceTensor) else x

    def wrapped(x):
        return wrappers[id(x)] if id(x) in wrappers else DeviceTensor(x)  # of an operation in place, the same object

    result = func(*mapped(unwrapped, args), **mapped(unwrapped, kwargs))
    return mapped(wrapped, result) if result_is_ours else result


@contextmanager
def meta_device() -> Iterator[None]:
    """Context in which operations on tensors of torch's device `meta` and others are errors."""
    positions._cached.cache_clear()  # of the other kind
    with OneDeviceMode():
        yield


@contextmanager
def pretended_device() -> Iterator[None]:
    """Context in which the device `meta` has memory and computes."""
    positions._cached.cache_clear()
    try:
        with PretendedMode(), TensorsThroughCopies():
            yield
    finally:
        positions._cached.cache_clear()
