"""ONNX graph builder: nodes, weights and constant tables by name, written to a file.

Independent of the Transformer's structure: uses only the names of its parameters and modules.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from io import BufferedWriter
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from glassformer import __version__
from glassformer.extras import explained

OPSET, IR = 20, 9
"""Versions of operator set and format: ONNX 1.15, the first with Gelu; fixed, since a newer library writes newer."""
MAX_INLINE_BYTES = 1_500_000_000
"""Maximum bytes of weights inside a file, as protobuf is limited to 2 GB; more go to an external data file."""
PAGE_BYTES = 4096
"""Alignment of external data, so that it can be memory-mapped."""


class Graph:
    """An ONNX graph under construction: nodes in topological order; tensors are identified by name, defined once."""

    def __init__(self, model: nn.Module) -> None:
        self.onnx = library("onnx")
        self._module_names = {module: name for name, module in model.named_modules()}
        # named_parameters gives a shared parameter once, under its first name.
        self._weight_names = {id(weight): name for name, weight in model.named_parameters()}
        self._nodes: list[Any] = []
        self._arrays: dict[str, Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._defined: set[str] = set()

    def name_of(self, module: nn.Module) -> str:
        """The module's name in the model: `decoder.layers.0.self_attention`."""
        return self._module_names[module]

    def input(self, name: str, kind: str, axes: Sequence[str | int]) -> str:
        """Add a graph input; an axis is a fixed size, or a letter for a dynamic one."""
        self._inputs.append(self._value_info(name, kind, axes))
        self._defined.add(name)
        return name

    def output(self, name: str, kind: str, axes: Sequence[str | int]) -> None:
        """Make an existing tensor a graph output."""
        self._outputs.append(self._value_info(name, kind, axes))

    def node(self, name: str, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node: name = operator(inputs)."""
        return self.nodes([name], operator, *inputs, **attributes)[0]

    def nodes(self, names: Sequence[str], operator: str, *inputs: str, **attributes: Any) -> Sequence[str]:
        """Add a node for an operator with several outputs: names = operator(inputs)."""
        assert not self._defined.intersection(names), names
        self._defined.update(names)
        self._nodes.append(self.onnx.helper.make_node(operator, inputs, names, name=names[0], **attributes))
        return names

    def weight(self, weight: Tensor) -> str:
        """Add a model parameter under its own name and with its own shape."""
        name = self._weight_names[id(weight)]
        return name if name in self._arrays else self.table(name, weight.detach().float())

    def table(self, name: str, values: Tensor) -> str:
        """Add a constant tensor, float32 or int64."""
        self._arrays[name] = values.cpu().contiguous().numpy()
        return name

    def float_scalar(self, value: float) -> str:
        return self._constant(np.float32(value))

    def int_list(self, *values: int) -> str:
        """Add a constant list of integers, such as the axes and sizes that operators take."""
        return self._constant(np.array(values, dtype=np.int64))

    def int_scalar(self, value: int) -> str:
        return self._constant(np.int64(value))

    def save(self, path: Path, metadata: Mapping[str, str]) -> None:
        """Write the file and check it with ONNX's checker."""
        helper, external = self.onnx.helper, path.with_name(f"{path.name}.data")
        external.unlink(missing_ok=True)
        inline = sum(array.nbytes for array in self._arrays.values()) <= MAX_INLINE_BYTES
        proto = helper.make_model(
            self.proto(path.stem, None if inline else external),
            ir_version=IR,
            opset_imports=[helper.make_opsetid("", OPSET)],
            producer_name="glassformer",
            producer_version=__version__,
        )
        helper.set_model_props(proto, dict(metadata))
        path.write_bytes(proto.SerializeToString(deterministic=True))
        library("onnx.checker").check_model(path, full_check=True)

    def proto(self, name: str, external: Path | None = None) -> Any:
        """The graph as protobuf, with its weights in an external data file if one is given."""
        if external is None:
            arrays = [self._inline(name, array) for name, array in self._arrays.items()]
        else:
            with external.open("wb") as file:
                arrays = [self._external(name, array, file) for name, array in self._arrays.items()]
        return self.onnx.helper.make_graph(self._nodes, name, self._inputs, self._outputs, arrays)

    def _inline(self, name: str, array: Any) -> Any:
        return self.onnx.numpy_helper.from_array(array, name)

    def _external(self, name: str, array: Any, file: BufferedWriter) -> Any:
        if array.nbytes < PAGE_BYTES:  # sizes and axes, which the checker must read
            return self._inline(name, array)
        file.write(bytes(-file.tell() % PAGE_BYTES))
        tensor = self.onnx.TensorProto(name=name, dims=array.shape, data_location=self.onnx.TensorProto.EXTERNAL)
        tensor.data_type = self.onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        location = {"location": Path(file.name).name, "offset": file.tell(), "length": array.nbytes}
        for key, value in location.items():
            tensor.external_data.add(key=key, value=str(value))
        file.write(memoryview(array))
        return tensor

    def _constant(self, value: Any) -> str:
        name = f"{value.dtype}:{value.tolist()}"
        self._arrays.setdefault(name, value)
        return name

    def _value_info(self, name: str, kind: str, axes: Sequence[str | int]) -> Any:
        return self.onnx.helper.make_tensor_value_info(name, getattr(self.onnx.TensorProto, kind), axes)


def library(name: str) -> Any:
    """Import a module of onnx or onnxruntime on demand."""
    with explained():
        return import_module(name)
