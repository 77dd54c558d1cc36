"""Settings of a run: data, tokenizer, model, training and validation; each option is documented below its field.

Options left out are chosen from the corpus (`default_choices`); `run.toml` in the run's directory records all of them.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from glassformer.data import TokenizerSettings
from glassformer.engine.devices import DeviceName
from glassformer.evaluation import Tokenization
from glassformer.settings import Settings
from glassformer.training.learning_rate_schedule import Decay

Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class DataSettings(Settings):
    """Text files of a run: one sentence per line, or a .tsv, .csv or .jsonl file with both sides; all may be .gz."""

    source: str
    """Source sentences of the training set."""
    target: str | None = None
    """Target sentences of the training set; leave out when `source` holds both sides."""
    dev_source: str | None = None
    """Source sentences of the development (validation) set; split off the training set when left out."""
    dev_target: str | None = None
    """Target sentences of the development set."""
    test_source: str | None = None
    """Source sentences of the test set, translated once, for the final score."""
    test_target: str | None = None
    """Target sentences of the test set."""
    max_tokens: Count = 256
    """Maximum number of tokens per side; pairs with a longer side are skipped and counted."""

    @model_validator(mode="after")
    def _check(self) -> "DataSettings":
        for part in ("dev", "test"):
            if getattr(self, f"{part}_target") and not getattr(self, f"{part}_source"):
                raise ValueError(f"data.{part}_target is given but data.{part}_source is not: give both.")
        return self


class TrainingSettings(Settings):
    """Training settings: optimisation, averaging, checkpoints and parallelism."""

    updates: Count | None = None
    """Total optimiser steps; chosen from the corpus when neither this nor `epochs` is given."""
    epochs: Positive | None = None
    """Total passes over the corpus, instead of `updates`."""
    batch_tokens: Annotated[int, Field(ge=16)] = 4096
    """Positions per update, source and target, including padding."""
    micro_batches: Count | None = None
    """Micro-batches per update (gradient accumulation), computed one after another or in parallel on the ranks.

    Their gradients are summed, so the result is the same. One per rank when left out."""
    learning_rate: Positive = 2e-3
    """Peak learning rate."""
    warmup: Whole | None = None
    """Updates of warm-up, until the peak learning rate; a tenth of all updates, at most 400, when left out."""
    decay: Decay = "linear"
    """Learning-rate schedule after the peak: "inverse-sqrt" (the paper's), "cosine" or "linear" to 0, "constant"."""
    label_smoothing: Share = 0.1
    """Probability spread over all tokens instead of given to the correct one (section 5.4)."""
    r_drop: Amount = 0.0
    """Weight of R-Drop (Liang et al., 2021), for small corpora: 5 in the paper; 0 is off.

    Each sentence passes twice with different dropout, and differences between the two outputs are penalised. An update
    takes twice as long."""
    subword_sampling: Share = 0.0
    """Probability of splitting a token into shorter ones, anew in every epoch; for small corpora and rare words.

    The parts may be split again. Only in training: validation and translation use the tokenizer's segmentation."""
    betas: Annotated[list[Share], Field(min_length=2, max_length=2)] = Field(default=[0.9, 0.98])
    """Adam's decay rates of the gradient average and of the squared-gradient average."""
    epsilon: Positive = 1e-9
    """Added to Adam's denominator, against division by zero."""
    weight_decay: Amount = 0.01
    """AdamW's weight decay of matrices; biases, norms and embeddings are not decayed."""
    clip: Amount = 1.0
    """Maximum gradient norm; longer gradients are scaled down to it. 0 disables clipping."""
    average: Literal["none", "ema", "last"] = "ema"
    """Weight averaging: which weights are validated and saved as the best model.

    The current ones ("none"), their exponential moving average ("ema"), or the mean of those at the last few
    validations ("last")."""
    ema_decay: Annotated[float, Field(gt=0, lt=1)] = 0.999
    """Decay of the exponential moving average: how much of it is kept at each update."""
    average_last: Count = 5
    """Number of validations that `average = "last"` takes the mean over."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Mixed precision: "bfloat16" computes matrix products in half the bits; "auto" does so where that is faster."""
    device: DeviceName = "auto"
    """Device: "auto" for a CUDA GPU if there is one, else the CPU; or "cpu", "cuda" ("cuda:1" and so on), "mps"."""
    ranks: Count | None = None
    """Number of processes that share the work on this machine; chosen when left out. Under torchrun, its world size."""
    log_every: Count = 50
    """Updates between two lines of metrics.jsonl."""
    save_minutes: Positive = 10.0
    """Maximum minutes between checkpoints; one is also saved at every validation."""
    keep: Count = 2
    """Number of checkpoints to keep, the newest ones."""
    stop_after_skipped: Count = 5
    """Stop the run after this many consecutive updates whose gradient is not finite."""

    @model_validator(mode="after")
    def _check(self) -> "TrainingSettings":
        if self.updates is not None and self.epochs is not None:
            raise ValueError("training.updates and training.epochs are both given: use only one of them.")
        if self.micro_batches is not None and self.batch_tokens // self.micro_batches < 16:
            raise ValueError(
                f"training.batch_tokens = {self.batch_tokens} divided by "
                f"training.micro_batches = {self.micro_batches} leaves fewer than 16 tokens per micro-batch: "
                "raise the first or lower the second."
            )
        return self


class ValidationSettings(Settings):
    """Settings of validation on the development set, and of early stopping."""

    every: Count | None = None
    """Updates between two validations; chosen when left out."""
    metric: Literal["bleu", "chrf", "loss"] = "bleu"
    """Metric that selects the best weights."""
    patience: Whole = 10
    """Early stopping: validations without improvement before the run ends; 0 disables it."""
    sentences: Count = 1000
    """Maximum number of development sentences to translate at each validation."""
    beam: Count = 1
    """Beam size at each validation."""
    final_beam: Count = 5
    """Beam size for the final score and the report."""
    tokenize: Tokenization = "13a"
    """BLEU's tokenisation; "none" for text that is already tokenised."""


class RunSettings(Settings):
    """All settings of a training run (run.toml)."""

    out: str
    """The run's directory."""
    seed: Seed = 1
    """Random seed of the initial weights, the order of the data, and dropout."""
    finetune: str | None = None
    """A model directory to fine-tune: its weights, vocabulary and shape are used."""
    data: DataSettings
    tokenizer: TokenizerSettings | None = None
    """Tokenizer settings; chosen from the corpus when left out."""
    model: dict[str, Any] = Field(default_factory=dict)
    """Model options: a `preset`, and any options of the model's config that override it."""
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    validation: ValidationSettings = Field(default_factory=ValidationSettings)

    @model_validator(mode="after")
    def _check(self) -> "RunSettings":
        kind = self.tokenizer.kind if self.tokenizer else "unigram"
        if self.training.subword_sampling and kind in ("char", "word"):
            raise ValueError(
                f"training.subword_sampling splits tokens, and those of tokenizer.kind = {kind!r} cannot be split: "
                "leave it out, or choose unigram or bpe."
            )
        return self
