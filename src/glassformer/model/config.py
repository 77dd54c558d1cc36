"""The architecture of a Transformer. The defaults are the paper's base model; `presets` names others.

Every model of this package is described by one `ModelConfig`; inconsistent combinations of options are refused here.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from glassformer.settings import Settings

Count = Annotated[int, Field(ge=1)]
TokenId = Annotated[int, Field(ge=0)]
Probability = Annotated[float, Field(ge=0, lt=1)]

PositionName = Literal[
    "sinusoidal", "sinusoidal-halves", "sinusoidal-fairseq", "learned", "rotary", "relative", "relative-per-layer"
]


class ModelConfig(Settings):
    """Architecture and special tokens of one encoder-decoder Transformer.

    >>> gf.ModelConfig(vocab_size=100, d_model=64, n_heads=4).d_head
    16
    """

    vocab_size: Count
    """Size of the target vocabulary (V)."""
    source_vocab_size: Count
    """Size of the source vocabulary; default: vocab_size."""

    d_model: Count = 512
    """Width of the model (D): the length of the vector of one token."""
    n_heads: Count = 8
    """Number of attention heads (H)."""
    d_head: Count
    """Width of one head (K); default: d_model / n_heads."""
    d_ff: Count = 2048
    """Inner width of the feed-forward (F)."""
    encoder_layers: Count = 6
    """Number of encoder layers."""
    decoder_layers: Count = 6
    """Number of decoder layers."""

    positions: PositionName = "sinusoidal"
    """Position encoding.

    "sinusoidal": alternating sines and cosines, as in the paper's formula; "sinusoidal-halves": all sines, then all
    cosines, as Hugging Face's Marian does; "sinusoidal-fairseq": the same with the slowest wave exactly 10000 times
    slower than the fastest, as the authors' code, fairseq and Marian do; "learned": a learned table; "rotary": queries
    and keys of self-attention are rotated by their position; "relative": T5's bias on the scores of self-attention;
    "relative-per-layer": the same with a bias of its own in each layer, as umT5 has."""
    max_positions: Count = 1024
    """Rows of the learned position table, which limit the sentence length; the other kinds have no limit."""
    position_offset: Annotated[int, Field(ge=0)] = 0
    """Index of the first position, for learned and sinusoidal positions (BART starts at 2)."""
    rotary_base: Annotated[float, Field(gt=1)] = 10000.0
    """Base of the rotary angles: the slowest pair of columns makes one rotation in about 6 × base positions."""
    relative_buckets: Annotated[int, Field(ge=4)] = 32
    """Number of buckets into which the relative bias sorts distances."""
    relative_max_distance: Count = 128
    """From this distance on, all distances share one relative bias."""

    norm: Literal["layer", "rms"] = "layer"
    """Kind of norm: LayerNorm as in the paper, or RMSNorm (no mean subtracted, no bias)."""
    norm_first: bool = False
    """Whether the model is pre-norm, x + f(norm(x)), or post-norm, norm(x + f(x)), as in the paper.

    Pre-norm has a final norm on top of each stack."""
    norm_eps: Annotated[float, Field(gt=0)] = 1e-5
    """Epsilon of the norms, added to the variance before the square root."""

    activation: Literal["relu", "gelu", "gelu-tanh", "silu"] = "relu"
    """Activation between the two matrices of the feed-forward."""
    gated: bool = False
    """Whether the feed-forward is gated: act(x W_gate) * (x W_up)."""

    share_embeddings: bool = True
    """Whether source and target share one embedding table."""
    tie_output: bool = True
    """Whether the output projection is the target's embedding table."""
    scale_embeddings: bool = True
    """Whether embeddings are multiplied by √d_model (section 3.4)."""
    embedding_norm: bool = False
    """Whether the sum of embedding and position is normalised (as in BART)."""
    output_bias: bool = False
    """Whether the output projection has a bias per token of the target vocabulary."""
    linear_bias: bool = True
    """Whether the projections of attention and feed-forward have biases (T5's have none)."""
    scale_scores: bool = True
    """Whether attention scores are divided by √d_head (T5's are not)."""
    scale_output: bool = False
    """Whether decoder outputs are divided by √d_model before the output projection (T5 1.0's are)."""
    decoder_ssru: bool = False
    """Whether the decoder layers have a recurrent unit (SSRU) in place of self-attention.

    It has one state vector for the target so far. Marian's small student models have it."""

    dropout: Probability = 0.1
    """Dropout on each sub-layer's output and on the embedded input, as in section 5.4."""
    attention_dropout: Probability = 0.0
    """Dropout on the attention weights; the paper has none."""
    activation_dropout: Probability = 0.0
    """Dropout inside the feed-forward, after the activation; the paper has none."""

    pad_id: TokenId = 0
    """Padding token, on the right of short sentences; always masked."""
    bos_id: TokenId = 1
    """Start token: the first input of the decoder."""
    eos_id: TokenId = 2
    """End-of-sentence token."""

    @property
    def max_tokens(self) -> int | None:
        """Maximum length of a sentence in tokens; None if unlimited."""
        from glassformer.model.position_kinds import position_kind  # which needs this module

        return position_kind(self).max_tokens(self)

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, options: Any) -> Any:
        """Fill in the defaults that follow from other options, so that a config is always complete."""
        defaults = {name: field.default for name, field in cls.model_fields.items()}
        d_model, n_heads = (options.get(name, defaults[name]) for name in ("d_model", "n_heads"))
        derived = {}
        if "source_vocab_size" not in options and "vocab_size" in options:
            derived["source_vocab_size"] = options["vocab_size"]
        if "d_head" not in options and _is_count(d_model) and _is_count(n_heads):
            if d_model % n_heads:
                raise ValueError(
                    f"d_model = {d_model} cannot be split evenly into n_heads = {n_heads}: "
                    "change one of them, or give d_head."
                )
            derived["d_head"] = d_model // n_heads
        elif "d_head" not in options:
            derived["d_head"] = 1  # d_model or n_heads is an error of its own
        return derived | options

    @model_validator(mode="after")
    def _check_consistency(self) -> "ModelConfig":
        problems = list(self._problems())
        if problems:
            raise ValueError(" ".join(problems))
        return self

    def _problems(self) -> Iterator[str]:
        if self.share_embeddings and self.source_vocab_size != self.vocab_size:
            yield (
                f"share_embeddings needs one vocabulary, but the source has {self.source_vocab_size} tokens "
                f"and the target {self.vocab_size}: set share_embeddings to false, or make them equal."
            )
        smallest = min(self.vocab_size, self.source_vocab_size)
        for name in ("pad_id", "bos_id", "eos_id"):
            size = smallest if name == "pad_id" else self.vocab_size  # only padding occurs in source and target
            if getattr(self, name) >= size:
                yield (f"{name} = {getattr(self, name)} is outside a vocabulary of {size} tokens (0 to {size - 1}).")
        if self.pad_id == self.eos_id:
            yield f"pad_id and eos_id are both {self.pad_id}, so the end of a sentence would count as padding."
        from glassformer.model.position_kinds import position_problems  # which needs this module

        yield from position_problems(self)


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0
