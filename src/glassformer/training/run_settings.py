"""What a run is: its data, tokenizer, model and training, as options with their meaning under them.

What is left out is chosen from the corpus (`choices`); `run.toml` in the run's directory says what was used.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from glassformer.data import TokenizerSettings
from glassformer.evaluation import Tokenization
from glassformer.settings import Settings
from glassformer.training.learning_rate_schedule import Decay

Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
Amount = Annotated[float, Field(ge=0)]


class DataSettings(Settings):
    """The texts. Each is a file of sentences a line each, or one .tsv or .jsonl with both sides; all may end in .gz."""

    source: str
    """What is translated from."""
    target: str | None = None
    """What is translated to; left out when `source` holds both sides."""
    dev_source: str | None = None
    """Sentences to watch the training with; split off the others when left out."""
    dev_target: str | None = None
    test_source: str | None = None
    """Sentences for the last score of all; never looked at before."""
    test_target: str | None = None
    max_tokens: Count = 256
    """Pairs with a longer side are left out, and counted."""

    @model_validator(mode="after")
    def _make_sense(self) -> "DataSettings":
        for part in ("dev", "test"):
            if getattr(self, f"{part}_target") and not getattr(self, f"{part}_source"):
                raise ValueError(f"data.{part}_target is given and data.{part}_source is not: name both.")
        return self


class TrainingSettings(Settings):
    """How the model learns."""

    updates: Count | None = None
    """Steps of the optimiser in all; chosen from the corpus when neither this nor `epochs` is given."""
    epochs: Positive | None = None
    """The same, as passes over the corpus."""
    batch_tokens: Annotated[int, Field(ge=16)] = 4096
    """Positions of an update, source and target with their padding."""
    parts: Count | None = None
    """Batches that an update is made of, one after another or side by side on the ranks; their gradients are added up,
    so the result is the same. Chosen to be one for each rank when left out."""
    learning_rate: Positive = 2e-3
    """At its peak."""
    warmup: Whole | None = None
    """Updates until the peak; a tenth of all, and 400 at most, when left out."""
    decay: Decay = "linear"
    """How it falls: "inverse-sqrt" as in the paper, "cosine" or "linear" to zero, or "constant"."""
    label_smoothing: Share = 0.1
    """Probability shared among all tokens instead of given to the right one (section 5.4)."""
    r_drop: Amount = 0.0
    """R-Drop (Liang et al., 2021), for scarce text: each sentence passes twice, each time with other dropout, and shall
    be given the same both times. How much that counts; 5 in the paper. An update takes twice as long."""
    betas: Annotated[list[Share], Field(min_length=2, max_length=2)] = Field(default=[0.9, 0.98])
    """Adam's memory of gradients and of their squares."""
    epsilon: Positive = 1e-9
    weight_decay: Amount = 0.01
    """AdamW's pull of matrices towards zero; biases, norms and embeddings are left alone."""
    clip: Amount = 1.0
    """Longest gradient; a longer one is shortened to it. 0 does not shorten."""
    average: Literal["none", "ema", "last"] = "ema"
    """The weights that are validated and kept: the newest, a moving average of all, or the mean of the last few
    validations'."""
    ema_decay: Annotated[float, Field(gt=0, lt=1)] = 0.999
    """How much of the moving average stays at each update."""
    average_last: Count = 5
    """Over how many validations `average = "last"` takes the mean."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """"bfloat16" multiplies in half the bits; "auto" does so where the hardware is faster with it."""
    ranks: Count | None = None
    """Processes that share the work on this machine; chosen when left out. Under torchrun, its own count is used."""
    log_every: Count = 50
    """Updates between two lines of metrics.jsonl."""
    save_minutes: Positive = 10.0
    """A checkpoint is saved at every validation, and at least this often."""
    keep: Count = 2
    """Checkpoints kept, the newest ones."""
    stop_after_skipped: Count = 5
    """Updates in a row whose gradient is not finite, before the run stops."""

    @model_validator(mode="after")
    def _make_sense(self) -> "TrainingSettings":
        if self.updates is not None and self.epochs is not None:
            raise ValueError("training.updates and training.epochs are both given: say it one way.")
        if self.parts is not None and self.batch_tokens // self.parts < 16:
            raise ValueError(
                f"training.batch_tokens = {self.batch_tokens} in training.parts = {self.parts} leaves less than 16 "
                "tokens for each."
            )
        return self


class ValidationSettings(Settings):
    """How the training is watched."""

    every: Count | None = None
    """Updates between two validations; chosen when left out."""
    metric: Literal["bleu", "chrf", "loss"] = "bleu"
    """What decides which weights are the best."""
    patience: Whole = 10
    """Validations without a better score before the run ends early; 0 never does."""
    sentences: Count = 1000
    """Dev sentences translated each time, at most."""
    beam: Count = 1
    """Beam at each validation."""
    final_beam: Count = 5
    """Beam for the last score and the report."""
    tokenize: Tokenization = "13a"
    """How BLEU finds words; "none" for text that is tokenized already."""


class RunSettings(Settings):
    """A whole run."""

    out: str
    """The run's directory."""
    seed: Whole = 1
    """Of everything random: the first weights, the order of the data, dropout."""
    finetune: str | None = None
    """A model directory to go on from (fine-tuning): its weights, its vocabulary, its shape."""
    data: DataSettings
    tokenizer: TokenizerSettings | None = None
    """Chosen from the corpus when left out."""
    model: dict[str, Any] = Field(default_factory=dict)
    """`preset`, and any option of a model's config that shall differ from it."""
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    validation: ValidationSettings = Field(default_factory=ValidationSettings)
