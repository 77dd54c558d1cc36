"""Who is told how a run goes. The loop speaks; a terminal, a test or nobody listens."""

from collections.abc import Sequence
from dataclasses import dataclass

from glassformer.data import Pair
from glassformer.evaluation import Scores


@dataclass(frozen=True)
class Progress:
    """One update, as one would like to see it."""

    update: int
    total: int
    epoch: int
    loss: float
    learning_rate: float
    tokens: int


class ProgressListener:
    """Listens to nothing; override what is of interest."""

    def said(self, text: str) -> None:
        """A sentence that somebody should read."""

    def began(self, done: int, total: int, prediction: tuple[float, int]) -> None:
        """The updates begin (or go on), with the predicted seconds and bytes."""

    def updated(self, progress: Progress) -> None:
        """One update is done."""

    def validated(
        self, update: int, loss: float, scores: Scores, better: bool, samples: Sequence[tuple[Pair, str]]
    ) -> None:
        """A validation is done."""
