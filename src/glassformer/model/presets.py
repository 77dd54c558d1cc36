"""Named model configurations, each given by its differences from the paper's base model."""

from typing import Any

from glassformer.errors import SettingsError
from glassformer.model.config import ModelConfig

_LAPTOP = {"vocab_size": 8_000, "norm_first": True}  # pre-norm, because it trains without careful warm-up
PRESETS: dict[str, dict[str, Any]] = {
    # "Attention Is All You Need", table 3; about 37,000 tokens shared by English and German (section 5.1).
    "paper-base": {"vocab_size": 37_000},
    "paper-big": {"vocab_size": 37_000, "d_model": 1024, "n_heads": 16, "d_ff": 4096, "dropout": 0.3},
    # bentrevett's pytorch-seq2seq, notebook 6 (docs/coming-from-the-tutorial.md). 9,038,341 parameters.
    "tutorial": {
        "source_vocab_size": 7_853,
        "vocab_size": 5_893,
        "d_model": 256,
        "d_ff": 512,
        "encoder_layers": 3,
        "decoder_layers": 3,
        "positions": "learned",
        "max_positions": 100,
        "share_embeddings": False,
        "tie_output": False,
        "output_bias": True,
        "attention_dropout": 0.1,
        "activation_dropout": 0.1,
    },
    "tiny": {**_LAPTOP, "d_model": 128, "n_heads": 4, "d_ff": 256, "encoder_layers": 4, "decoder_layers": 4},
    "small": {**_LAPTOP, "d_model": 256, "n_heads": 8, "d_ff": 1024, "encoder_layers": 3, "decoder_layers": 3},
}


def preset(name: str, **changes: Any) -> ModelConfig:
    """A model config by name, optionally with changes.

    >>> gf.preset("tiny", vocab_size=4000).d_model
    128
    """
    if name not in PRESETS:
        raise SettingsError(f"There is no preset {name!r}; the presets are {', '.join(PRESETS)}.")
    return ModelConfig(**PRESETS[name] | changes)
