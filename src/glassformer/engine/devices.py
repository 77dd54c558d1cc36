"""Devices that PyTorch runs a model on: the choice of one, without importing PyTorch where there is no GPU."""

import os
import re
import sys
from typing import Annotated

from pydantic import AfterValidator

from glassformer.errors import InputError
from glassformer.extras import explained, is_installed

CUDA_DRIVER_FILES = (
    "/dev/nvidiactl",
    "/dev/nvhost-gpu",  # NVIDIA Jetson
    "/dev/dxg",  # the GPUs of Windows in WSL
    "/dev/kfd",  # AMD: PyTorch calls its GPUs cuda, too
)
"""Files that a driver for CUDA creates on Linux, one of them for each kind."""


def _checked(name: str) -> str:
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,4})?", name):
        raise ValueError(f"There is no device {name!r}: choose auto, cpu, cuda (or cuda:1 and so on) or mps.")
    return name


DeviceName = Annotated[str, AfterValidator(_checked)]


def chosen_device(name: str) -> str:
    """The device that a name stands for on this machine: `auto` for a CUDA GPU if there is one, else for the CPU.

    A device that is not there is an error.
    """
    if name == "auto":
        return "cuda" if has_cuda_driver() and is_installed("torch") and _problem("cuda") is None else "cpu"
    if name != "cpu" and (problem := _problem(name)) is not None:
        raise InputError(f"{problem}: use the device cpu or auto, or install a PyTorch for your GPU (pytorch.org).")
    return name


def has_cuda_driver() -> bool:
    """Whether a driver for CUDA may be installed: importing PyTorch to ask it takes longer than translating."""
    if sys.platform == "win32":
        return os.path.exists(os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "nvcuda.dll"))
    return any(map(os.path.exists, CUDA_DRIVER_FILES))


def _problem(name: str) -> str | None:
    """Why PyTorch cannot use a device; None if it can."""
    with explained():
        import torch
    if name == "mps":
        return None if torch.backends.mps.is_available() else f"PyTorch {torch.__version__} finds no Apple GPU (mps)"
    if not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} finds no CUDA GPU"
    count, number = torch.cuda.device_count(), int(name.partition(":")[2] or 0)
    return None if number < count else f"There is no device {name}: PyTorch finds {count}, counted from cuda:0"
