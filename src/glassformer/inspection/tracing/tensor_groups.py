"""Tensors grouped by layer: one entry for the tensors of all layers that differ only in the layer's number."""

import re
from collections.abc import Iterable, Mapping

from pydantic import BaseModel, ConfigDict

LAYER = re.compile(r"\.layers\.(\d+)\.")
TensorFacts = tuple[tuple[int, ...], bool]
"""Shape of a tensor, and whether it holds floating-point numbers."""


class TensorGroup(BaseModel):
    """Tensors that differ only in the layer number of their names."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    name: str
    """Tensor name, with * for the layer number if it has one."""
    layers: int | list[int] | None = None
    """Layers of the group: n for layers 0 to n - 1, or a list of layer numbers; None if the name has no *."""
    axes: str | None = None
    """Letters of the tensors' dimensions, as in `glassformer.model.dims`."""
    shape: list[int]
    dtype: str | None = None
    """Data type of the tensors; float32 if omitted."""


def group_layers(tensors: Mapping[str, TensorFacts], axes: Mapping[str, str]) -> list[TensorGroup]:
    """Group tensors by name: one entry per tensor, with the same tensor of all layers as one entry."""
    groups: dict[tuple[str, tuple[int, ...], str | None], list[int]] = {}
    for name, (shape, is_float) in tensors.items():
        key = (_pattern(name), shape, None if is_float else "int32")
        groups.setdefault(key, []).extend(map(int, LAYER.findall(name)[:1]))
    letters = {_pattern(name): tensor_axes for name, tensor_axes in axes.items()}
    return [
        TensorGroup(name=name, layers=_layer_range(layers), axes=letters.get(name), shape=list(shape), dtype=dtype)
        for (name, shape, dtype), layers in groups.items()
    ]


def tensor_names(entries: Iterable[TensorGroup]) -> list[str]:
    """The tensor names that these groups stand for."""
    names = []
    for entry in entries:
        layers = range(entry.layers) if isinstance(entry.layers, int) else entry.layers
        names += [entry.name] if layers is None else [entry.name.replace("*", str(i), 1) for i in layers]
    return names


def _pattern(name: str) -> str:
    return LAYER.sub(".layers.*.", name, count=1)


def _layer_range(layers: list[int]) -> int | list[int] | None:
    if not layers:
        return None
    return len(layers) if sorted(layers) == list(range(len(layers))) else sorted(layers)
