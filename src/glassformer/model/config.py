"""What kind of Transformer it is. The defaults are the paper's base model; `presets` names others.

Every model this package can hold is one of these; a combination that makes no sense is refused here.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from glassformer.settings import Settings

Count = Annotated[int, Field(ge=1)]
TokenId = Annotated[int, Field(ge=0)]
Probability = Annotated[float, Field(ge=0, lt=1)]

Positions = Literal["sinusoidal", "sinusoidal-halves", "sinusoidal-fairseq", "learned", "rotary", "relative"]
Waves = Literal["sinusoidal", "sinusoidal-halves", "sinusoidal-fairseq"]


class ModelConfig(Settings):
    """The shape of one encoder-decoder Transformer."""

    vocab_size: Count
    """Tokens the target may be made of (V)."""
    source_vocab_size: Count
    """Tokens the source may be made of; the same as vocab_size unless given."""

    d_model: Count = 512
    """Width of the model (D): the length of the vector that stands for one token."""
    n_heads: Count = 8
    """Heads of every attention (H)."""
    d_head: Count
    """Width of one head (K); d_model / n_heads unless given."""
    d_ff: Count = 2048
    """Width of the feed-forward between its two matrices (F)."""
    encoder_layers: Count = 6
    """Layers of the encoder."""
    decoder_layers: Count = 6
    """Layers of the decoder."""

    positions: Positions = "sinusoidal"
    """How the model knows the order of tokens. "sinusoidal": sine and cosine in turn, as the paper writes it;
    "sinusoidal-halves": all sines, then all cosines, as Hugging Face's Marian does; "sinusoidal-fairseq": the same with
    the slowest wave exactly 10000 times slower than the fastest, as the authors' code, fairseq and Marian do;
    "learned": a table; "rotary": queries and keys of self-attention are turned by their position; "relative": T5's
    bias on the scores of self-attention."""
    max_positions: Count = 1024
    """Rows of the learned table, and so the longest sentence; the other kinds know no limit."""
    position_offset: Annotated[int, Field(ge=0)] = 0
    """Number of the first position, for learned and sinusoidal ones (BART starts at 2)."""
    rotary_base: Annotated[float, Field(gt=1)] = 10000.0
    """Base of the rotary angles: the slowest pair of columns turns once in about 6 × base positions."""
    relative_buckets: Annotated[int, Field(ge=4)] = 32
    """Distances that the relative bias tells apart."""
    relative_max_distance: Count = 128
    """From this distance on, the relative bias is the same."""

    norm: Literal["layer", "rms"] = "layer"
    """LayerNorm as in the paper, or RMSNorm (no mean taken off, no bias)."""
    norm_first: bool = False
    """False: norm(x + f(x)), as in the paper. True: x + f(norm(x)), and a last norm on top of each stack."""
    norm_eps: Annotated[float, Field(gt=0)] = 1e-5
    """What is added to the variance before its root is taken."""

    activation: Literal["relu", "gelu", "gelu-tanh", "silu"] = "relu"
    """What stands between the two matrices of the feed-forward."""
    gated: bool = False
    """Whether the activation gates a second product: act(x W_gate) * (x W_up)."""

    share_embeddings: bool = True
    """Whether source and target share one embedding table."""
    tie_output: bool = True
    """Whether the output projection is the target's embedding table."""
    scale_embeddings: bool = True
    """Whether embeddings are multiplied by √d_model (section 3.4)."""
    embedding_norm: bool = False
    """Whether the sum of embedding and position is normalised (BART does)."""
    output_bias: bool = False
    """Whether every token of the target vocabulary has a bias of its own."""
    linear_bias: bool = True
    """Whether the projections of attention and feed-forward have biases (T5's have none)."""
    scale_scores: bool = True
    """Whether scores are divided by √d_head (T5's are not)."""
    scale_output: bool = False
    """Whether the decoder's vectors are divided by √d_model before the output projection (T5 1.0's are)."""
    decoder_ssru: bool = False
    """Whether each decoder layer remembers the target so far in one vector, by a recurrent unit in place of
    self-attention, as the small students of Marian do."""

    dropout: Probability = 0.1
    """On each sub-layer's output and on the embedded input, as in section 5.4."""
    attention_dropout: Probability = 0.0
    """On the attention weights; the paper has none."""
    activation_dropout: Probability = 0.0
    """Inside the feed-forward, after the activation; the paper has none."""

    pad_id: TokenId = 0
    """The token that fills short sentences up, on the right; never looked at."""
    bos_id: TokenId = 1
    """The token that the decoder starts from."""
    eos_id: TokenId = 2
    """The token that ends a sentence."""

    @property
    def max_tokens(self) -> int | None:
        """Tokens that a sentence may have; None for any number."""
        return self.max_positions - self.position_offset if self.positions == "learned" else None

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, options: Any) -> Any:
        """Fill in what follows from other options, so that a config always says the whole."""
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
        return derived | options

    @model_validator(mode="after")
    def _make_sense(self) -> "ModelConfig":
        complaints = list(self._complaints())
        if complaints:
            raise ValueError(" ".join(complaints))
        return self

    def _complaints(self) -> Iterator[str]:
        if self.share_embeddings and self.source_vocab_size != self.vocab_size:
            yield (
                f"share_embeddings needs one vocabulary, but the source has {self.source_vocab_size} tokens "
                f"and the target {self.vocab_size}: set share_embeddings to false, or make them equal."
            )
        smallest = min(self.vocab_size, self.source_vocab_size)
        for name in ("pad_id", "bos_id", "eos_id"):
            size = smallest if name == "pad_id" else self.vocab_size  # only padding stands on both sides
            if getattr(self, name) >= size:
                yield (f"{name} = {getattr(self, name)} is outside a vocabulary of {size} tokens (0 to {size - 1}).")
        if self.pad_id == self.eos_id:
            yield f"pad_id and eos_id are both {self.pad_id}, so the end of a sentence would count as padding."
        if self.positions == "sinusoidal-fairseq" and self.d_model < 4:
            yield f"positions = 'sinusoidal-fairseq' needs two waves, so d_model = {self.d_model} must be at least 4."
        if self.positions == "relative" and self.decoder_ssru:
            yield "positions = 'relative' lies on scores of self-attention, and a decoder_ssru has none."
        if self.positions == "rotary" and self.d_head % 2:
            yield f"Rotary positions turn pairs of columns, and d_head = {self.d_head} is odd."
        if self.positions == "relative":
            if self.relative_buckets % 4:
                yield (
                    f"relative_buckets = {self.relative_buckets} must be a multiple of 4: half for each "
                    "direction, and half of those for the nearest distances."
                )
            if self.relative_max_distance <= self.relative_buckets // 2:
                yield (
                    f"relative_max_distance = {self.relative_max_distance} must be above half of "
                    f"relative_buckets = {self.relative_buckets}."
                )
        if self.positions == "learned" and self.position_offset >= self.max_positions:
            yield (
                f"position_offset = {self.position_offset} leaves none of the max_positions = "
                f"{self.max_positions} rows for a sentence."
            )
        for name, kinds in _ONLY_FOR.items():
            if self.positions not in kinds and getattr(self, name) != type(self).model_fields[name].default:
                yield (
                    f"{name} = {getattr(self, name)} has no effect with positions = {self.positions!r}; "
                    f"it belongs to {' and '.join(repr(kind) for kind in kinds)}."
                )


_ONLY_FOR: dict[str, tuple[Positions, ...]] = {
    "max_positions": ("learned",),
    "position_offset": ("learned", "sinusoidal", "sinusoidal-halves", "sinusoidal-fairseq"),
    "rotary_base": ("rotary",),
    "relative_buckets": ("relative",),
    "relative_max_distance": ("relative",),
}


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0
