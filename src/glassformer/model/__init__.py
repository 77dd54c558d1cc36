"""The encoder-decoder Transformer: configuration, weights, network, taps, and the model directory.

What needs PyTorch is imported at first use: configurations and weights do not.
"""

from typing import TYPE_CHECKING

from glassformer.lazy_names import lazy_names
from glassformer.model.config import ModelConfig
from glassformer.model.directory import load_model, read_model, save_model
from glassformer.model.parameter_shapes import n_parameters
from glassformer.model.presets import PRESETS, preset
from glassformer.model.weights import HasWeights, ModelWeights

if TYPE_CHECKING:
    from glassformer.model.decoder_state import DecoderState
    from glassformer.model.tap import Tap, taps
    from glassformer.model.transformer import Transformer

_WITH_TORCH = {"DecoderState": "decoder_state", "Tap": "tap", "Transformer": "transformer", "taps": "tap"}

__all__ = [
    "PRESETS",
    "DecoderState",
    "HasWeights",
    "ModelConfig",
    "ModelWeights",
    "Tap",
    "Transformer",
    "load_model",
    "n_parameters",
    "preset",
    "read_model",
    "save_model",
    "taps",
]

__getattr__ = lazy_names(__name__, _WITH_TORCH)
