"""A model as its configuration and named arrays, which needs no PyTorch until the network itself is asked for."""

import threading
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from glassformer.extras import explained
from glassformer.model.config import ModelConfig
from glassformer.model.parameter_shapes import n_parameters, stored_name
from glassformer.model.saved_tensor import SavedTensor, saved_tensor

if TYPE_CHECKING:
    from glassformer.model.transformer import Transformer


class ModelWeights:
    """A model's configuration and its weights as NumPy arrays by name; the PyTorch model is built when first used."""

    def __init__(
        self,
        config: ModelConfig,
        tensors: dict[str, SavedTensor],
        network: "Transformer | None" = None,
        device: str = "cpu",
        network_dtype: str | None = None,
    ) -> None:
        self.config = config
        self.tensors = tensors
        """Every weight, under its first name if it is shared; all have the same floating-point type."""
        self.device = device
        """The device of the PyTorch model."""
        self.network_dtype = network_dtype or self.dtype
        """The type of the PyTorch model's weights, by its name in torch."""
        self._network = network
        self._lock = threading.Lock()

    @classmethod
    def of(cls, model: "Transformer | ModelWeights") -> "ModelWeights":
        """The weights of a PyTorch model, which share its memory; a model's weights are returned as they are."""
        if isinstance(model, ModelWeights):
            return model
        tensors = {name: saved_tensor(weight) for name, weight in model.named_parameters()}
        return cls(model.config, tensors, model, str(model.output_projection.weight.device))

    def on(self, device: str, dtype: str | None = None) -> "ModelWeights":
        """The same weights, whose PyTorch model is on this device (`cuda`: any GPU) and of this type, if given."""
        dtype = dtype or self.network_dtype
        if dtype == self.network_dtype and device in (self.device, self.device.partition(":")[0]):
            return self
        return ModelWeights(self.config, self.tensors, device=device, network_dtype=dtype)

    def __reduce__(self) -> tuple[object, ...]:  # pickled as configuration and arrays, without the PyTorch model
        return type(self), (self.config, self.tensors)

    def get(self, name: str) -> NDArray[Any] | None:
        """A weight's numbers by any of its names; None if the model has no such weight."""
        tensor = self.tensors.get(stored_name(self.config, name))
        return None if tensor is None else tensor.values

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.tensors[stored_name(self.config, name)].values

    @property
    def dtype(self) -> str:
        """The name of the type of all weights, as in torch."""
        return next(iter(self.tensors.values())).dtype

    @property
    def n_parameters(self) -> int:
        """Number of trainable parameters; shared ones count once."""
        return n_parameters(self.config)

    @property
    def network(self) -> "Transformer":
        """The PyTorch model of these weights, in `eval` mode, made when first used. On a CPU it shares their memory."""
        with self._lock:
            if self._network is None:
                with explained():
                    self._network = _network(self)
        return self._network


class HasWeights:
    """Something that holds a model as `ModelWeights`."""

    weights: ModelWeights

    @property
    def config(self) -> ModelConfig:
        return self.weights.config

    @property
    def model(self) -> "Transformer":
        """The PyTorch model, made when first used: translating may not need it."""
        return self.weights.network


def _network(weights: ModelWeights) -> "Transformer":
    import torch

    from glassformer.model.transformer import Transformer

    with torch.device("meta"):  # shapes only: no memory is filled with values that would be replaced
        model = Transformer(weights.config)
    dtype = getattr(torch, weights.network_dtype)
    tensors = {name: tensor.tensor().to(dtype).to(weights.device) for name, tensor in weights.tensors.items()}
    model.load_state_dict(tensors, strict=False, assign=True)
    model.tie()  # assigning set only the first name of each shared weight
    model.requires_grad_()
    return model.eval()
