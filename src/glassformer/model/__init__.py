"""The encoder-decoder Transformer: configuration, network, taps, and the model directory."""

from glassformer.model.config import ModelConfig
from glassformer.model.decoder_state import DecoderState
from glassformer.model.directory import load_model, save_model
from glassformer.model.presets import PRESETS, preset
from glassformer.model.tap import Tap, taps
from glassformer.model.transformer import Transformer, n_parameters

__all__ = [
    "PRESETS",
    "DecoderState",
    "ModelConfig",
    "Tap",
    "Transformer",
    "load_model",
    "n_parameters",
    "preset",
    "save_model",
    "taps",
]
