"""Small random models and batches for the tests: every option of ModelConfig is drawn, nothing is mocked."""

from typing import Any, get_args

import torch
from hypothesis import strategies as st
from torch import Tensor

from glassformer.model import ModelConfig, Transformer
from glassformer.model.config import PositionName
from glassformer.model.position_kinds import KINDS

KINDS_OF_POSITIONS = [*get_args(PositionName)]


@st.composite
def configs(draw: st.DrawFn, **fixed: Any) -> ModelConfig:
    """A random small config over all options; `fixed` options stay as given."""
    share_embeddings = draw(st.booleans())
    vocab_size = draw(st.integers(6, 24))
    positions = fixed.get("positions") or draw(st.sampled_from(KINDS_OF_POSITIONS))
    options: dict[str, Any] = {
        "vocab_size": vocab_size,
        "source_vocab_size": vocab_size if share_embeddings else draw(st.integers(6, 24)),
        "d_model": draw(st.integers(4 if positions == "sinusoidal-fairseq" else 2, 17)),
        "n_heads": draw(st.integers(1, 4)),
        "d_head": draw(st.sampled_from([2, 4, 6] if positions == "rotary" else [1, 2, 3, 5])),
        "d_ff": draw(st.integers(1, 19)),
        "encoder_layers": draw(st.integers(1, 3)),
        "decoder_layers": draw(st.integers(1, 3)),
        "positions": positions,
        "norm": draw(st.sampled_from(["layer", "rms"])),
        "norm_first": draw(st.booleans()),
        "norm_eps": draw(st.sampled_from([1e-6, 1e-5, 1e-3])),
        "activation": draw(st.sampled_from(["relu", "gelu", "gelu-tanh", "silu"])),
        "gated": draw(st.booleans()),
        "share_embeddings": share_embeddings,
        "tie_output": draw(st.booleans()),
        "scale_embeddings": draw(st.booleans()),
        "embedding_norm": draw(st.booleans()),
        "output_bias": draw(st.booleans()),
        "linear_bias": draw(st.booleans()),
        "scale_scores": draw(st.booleans()),
        "scale_output": draw(st.booleans()),
        "decoder_ssru": not KINDS[positions].biases and draw(st.sampled_from([False, False, True])),
        "dropout": draw(st.sampled_from([0.0, 0.1])),
        "attention_dropout": draw(st.sampled_from([0.0, 0.1])),
        "activation_dropout": draw(st.sampled_from([0.0, 0.1])),
    }
    options["pad_id"], options["bos_id"], options["eos_id"] = draw(
        # The default, BART's ids, BART's start token (eos), Marian's start token (padding).
        st.sampled_from([(0, 1, 2), (1, 0, 2), (3, 2, 2), (5, 5, 0)])
    )
    if positions == "learned":
        options["max_positions"] = draw(st.integers(40, 60))
    if KINDS[positions].adds:
        options["position_offset"] = draw(st.sampled_from([0, 2]))
    if positions == "rotary":
        options["rotary_base"] = draw(st.sampled_from([100.0, 10000.0]))
    if KINDS[positions].biases:
        options["relative_buckets"] = draw(st.sampled_from([4, 8, 12]))
        options["relative_max_distance"] = draw(st.integers(7, 20))
    return ModelConfig(**options | fixed)


seeds = st.integers(0, 2**32 - 1)


def build(config: ModelConfig, seed: int = 0, dtype: torch.dtype = torch.float64) -> Transformer:
    """A model with every parameter random: no bias is 0 and no norm is 1, so that tests notice one that is ignored."""
    generator = torch.Generator().manual_seed(seed)
    model = Transformer(config).to(dtype)
    with torch.no_grad():
        for weight in model.parameters():
            noise = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            weight.copy_(0.2 + 0.3 * noise if weight.dim() == 1 else 0.5 * noise)
    return model.eval()


def build_source_sensitive(config, seed):
    """A model whose output depends on its source: one from `build` mostly repeats a single token."""
    model = build(config, seed, torch.float32)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.mul_(2 if "embedding" in name or "position" in name else 2 / weight.shape[1] ** 0.5)
            else:
                weight.mul_(0.3).add_(0.9 if name.endswith("norm.weight") else 0)
    return model


def sentences(vocab_size: int, pad_id: int, lengths: list[int], seed: int, total: int | None = None) -> Tensor:
    """Random ids other than padding, padded on the right to `total`."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.full((len(lengths), total or max(lengths)), pad_id)
    for row, length in zip(ids, lengths, strict=True):
        drawn = torch.randint(0, vocab_size - 1, (length,), generator=generator)
        row[:length] = drawn + (drawn >= pad_id)  # any token except padding
    return ids


def sources(config: ModelConfig, lengths: list[int], seed: int, total: int | None = None) -> Tensor:
    return sentences(config.source_vocab_size, config.pad_id, lengths, seed, total)


def targets(config: ModelConfig, lengths: list[int], seed: int) -> Tensor:
    ids = sentences(config.vocab_size, config.pad_id, lengths, seed + 1)
    ids[:, 0] = config.bos_id
    return ids


lengths = st.lists(st.integers(1, 9), min_size=1, max_size=4)
