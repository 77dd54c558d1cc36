"""Progress listener: the training loop reports progress to one; a terminal display or a test overrides its methods."""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.data import Pair
from glassformer.evaluation import Scores


@dataclass(frozen=True)
class Progress:
    """Progress of a training run: the figures of one completed update."""

    update: int
    total: int
    epoch: int
    loss: float
    learning_rate: float
    tokens: int


class ProgressListener:
    """Base class of progress listeners of a training run: ignores everything; override the methods of interest.

    >>> class Losses(gf.ProgressListener):
    ...     def updated(self, progress):
    ...         print(f"{progress.update} of {progress.total}: {progress.loss:.2f}")
    >>> losses = Losses()  # for gf.train(..., listener=losses)
    """

    def message(self, text: str) -> None:
        """Called with a sentence for the user."""

    def began(self, done: int, total: int, prediction: tuple[float, int]) -> None:
        """Called when the updates start (or resume), with the predicted seconds and bytes of memory."""

    def updated(self, progress: Progress) -> None:
        """Called when an update is completed."""

    def validated(
        self, update: int, loss: float, scores: Scores, better: bool, samples: Sequence[tuple[Pair, str]]
    ) -> None:
        """Called when a validation is completed."""
