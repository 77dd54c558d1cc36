"""An ONNX graph under construction: nodes, weights and tables by name, and the file they become.

Knows how ONNX is written; knows of a Transformer only what its parameters and modules are called.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from io import BufferedWriter
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from glassformer import __version__
from glassformer.errors import InputError

OPSET, IR = 20, 9
"""The operators of ONNX 1.15, the first with Gelu: said outright, since a newer library would write newer ones."""
INSIDE = 1_500_000_000
"""Bytes of weights that a file may hold itself, which cannot pass 2 GB; more stand in a file beside it."""
PAGE = 4096
"""What begins at a multiple of this many bytes can be read in place."""


class Graph:
    """Nodes in the order in which they are computed. A tensor is known by its name, and made once."""

    def __init__(self, model: nn.Module) -> None:
        self.onnx = library("onnx")
        self._places = {module: name for name, module in model.named_modules()}
        # named_parameters gives a shared parameter once, under its first name.
        self._names = {id(weight): name for name, weight in model.named_parameters()}
        self._nodes: list[Any] = []
        self._arrays: dict[str, Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._made: set[str] = set()

    def place(self, module: nn.Module) -> str:
        """The module's address in the model: `decoder.layers.0.self_attention`."""
        return self._places[module]

    def input(self, name: str, kind: str, axes: Sequence[str | int]) -> str:
        """A tensor that comes from outside; an axis is a size, or a letter where any size will do."""
        self._inputs.append(self._described(name, kind, axes))
        self._made.add(name)
        return name

    def output(self, name: str, kind: str, axes: Sequence[str | int]) -> None:
        """A tensor, made before, that is handed out."""
        self._outputs.append(self._described(name, kind, axes))

    def node(self, name: str, operator: str, *inputs: str, **attributes: Any) -> str:
        """name = operator(inputs)."""
        return self.nodes([name], operator, *inputs, **attributes)[0]

    def nodes(self, names: Sequence[str], operator: str, *inputs: str, **attributes: Any) -> Sequence[str]:
        """names = operator(inputs), for an operator that gives several."""
        assert not self._made.intersection(names), names
        self._made.update(names)
        self._nodes.append(self.onnx.helper.make_node(operator, inputs, names, name=names[0], **attributes))
        return names

    def weight(self, weight: Tensor) -> str:
        """A parameter under its own name and in its own shape."""
        name = self._names[id(weight)]
        return name if name in self._arrays else self.table(name, weight.detach().float())

    def table(self, name: str, values: Tensor) -> str:
        """Fixed numbers, float32 or int64."""
        self._arrays[name] = values.cpu().contiguous().numpy()
        return name

    def number(self, value: float) -> str:
        return self._constant(np.float32(value))

    def whole(self, *values: int) -> str:
        """A list of whole numbers, for what operators want to know of axes and sizes."""
        return self._constant(np.array(values, dtype=np.int64))

    def scalar(self, value: int) -> str:
        return self._constant(np.int64(value))

    def save(self, path: Path, told: Mapping[str, str]) -> None:
        """Write the file and have it checked; `told` stands in its metadata."""
        helper, beside = self.onnx.helper, path.with_name(f"{path.name}.data")
        beside.unlink(missing_ok=True)
        inside = sum(array.nbytes for array in self._arrays.values()) <= INSIDE
        proto = helper.make_model(
            self.proto(path.stem, None if inside else beside),
            ir_version=IR,
            opset_imports=[helper.make_opsetid("", OPSET)],
            producer_name="glassformer",
            producer_version=__version__,
        )
        helper.set_model_props(proto, dict(told))
        path.write_bytes(proto.SerializeToString(deterministic=True))
        library("onnx.checker").check_model(path, full_check=True)

    def proto(self, name: str, beside: Path | None = None) -> Any:
        """The graph as ONNX has it: a file's, with its weights in a file beside it if told so, or an operator's own."""
        if beside is None:
            arrays = [self._inside(name, array) for name, array in self._arrays.items()]
        else:
            with beside.open("wb") as file:
                arrays = [self._outside(name, array, file) for name, array in self._arrays.items()]
        return self.onnx.helper.make_graph(self._nodes, name, self._inputs, self._outputs, arrays)

    def _inside(self, name: str, array: Any) -> Any:
        return self.onnx.numpy_helper.from_array(array, name)

    def _outside(self, name: str, array: Any, file: BufferedWriter) -> Any:
        if array.nbytes < PAGE:  # sizes and axes, which a checker wants to read
            return self._inside(name, array)
        file.write(bytes(-file.tell() % PAGE))
        tensor = self.onnx.TensorProto(name=name, dims=array.shape, data_location=self.onnx.TensorProto.EXTERNAL)
        tensor.data_type = self.onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        where = {"location": Path(file.name).name, "offset": file.tell(), "length": array.nbytes}
        for key, value in where.items():
            tensor.external_data.add(key=key, value=str(value))
        file.write(memoryview(array))
        return tensor

    def _constant(self, value: Any) -> str:
        name = f"{value.dtype}:{value.tolist()}"
        self._arrays.setdefault(name, value)
        return name

    def _described(self, name: str, kind: str, axes: Sequence[str | int]) -> Any:
        return self.onnx.helper.make_tensor_value_info(name, getattr(self.onnx.TensorProto, kind), axes)


def library(name: str) -> Any:
    """A module of onnx or onnxruntime, imported only when somebody wants one."""
    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"{name.split('.')[0]} is not installed: `pip install 'glassformer[onnx]'`.") from None
