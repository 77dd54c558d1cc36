"""Progress of a training run on stderr: a live progress bar on a terminal, or lines for a log."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Column

from glassformer.data import Pair
from glassformer.evaluation import Scores
from glassformer.text_layout import cut
from glassformer.training.progress_listener import Progress, ProgressListener
from glassformer.training.run_report import duration

SECONDS_BETWEEN_LINES = 30.0
SAMPLE_INDENT = "    "


@contextmanager
def shown_on_stderr() -> Iterator[ProgressListener]:
    """A listener that shows the progress of a run on stderr, until the end of the block."""
    display = LiveDisplay() if sys.stderr.isatty() else LogDisplay()
    try:
        yield display
    finally:
        display.close()


class LogDisplay(ProgressListener):
    """Training progress as log lines: one per message and validation, and one every `SECONDS_BETWEEN_LINES`."""

    def __init__(self) -> None:
        self._rate = TokenRate()
        self._last = 0.0
        self._dev = ""

    def began(self, done: int, total: int, prediction: tuple[float, int]) -> None:
        self._last = time.monotonic()
        self._rate = TokenRate()
        seconds, memory = prediction
        self.message(
            f"Update {done:,} of {total:,}. Estimated from the first batches: {duration(seconds)} of training left, "
            f"{memory / 1e9:.1f} GB of memory."
        )

    def updated(self, progress: Progress) -> None:
        self._rate.add(progress.tokens)
        if time.monotonic() - self._last > SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            self.message(f"update {progress.update:,}/{progress.total:,}  {self._details(progress)}")

    def validated(
        self, update: int, loss: float, scores: Scores, better: bool, samples: Sequence[tuple[Pair, str]]
    ) -> None:
        best = "  (best so far)" if better else ""
        self.message(f"dev at {update:,}: loss {loss:.3f}  BLEU {scores.bleu:.2f}  chrF {scores.chrf:.2f}{best}")
        if samples:
            self.message(f"{cut(samples[0][0].source, SAMPLE_INDENT)}\n{cut(samples[0][1], SAMPLE_INDENT)}")
        self._rate = TokenRate()
        self._dev = f"  dev BLEU {scores.bleu:.2f}"

    def _details(self, progress: Progress) -> str:
        speed = f"{self._rate.now:,.0f} tokens/s"
        return f"loss {progress.loss:.3f}  lr {progress.learning_rate:.1e}  {speed}{self._dev}"

    def message(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")

    def close(self) -> None:
        pass


class LiveDisplay(LogDisplay):
    """Training progress on a terminal: messages and validations as lines, with a progress bar below them."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(stderr=True, highlight=False)
        self._bar: Bar | None = None

    def began(self, done: int, total: int, prediction: tuple[float, int]) -> None:
        super().began(done, total, prediction)
        self._bar = Bar(
            MofNCompleteColumn(),
            BarColumn(bar_width=None, table_column=Column(ratio=1)),
            TextColumn("{task.fields[details]}", table_column=Column(no_wrap=True)),  # the bar shrinks instead
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            refresh_per_second=4,
        )
        self._task = self._bar.add_task("training", total=total, completed=done, details="")
        self._bar.start()

    def updated(self, progress: Progress) -> None:
        self._rate.add(progress.tokens)
        if self._bar is not None:
            self._bar.update(self._task, completed=progress.update, details=self._details(progress))

    def message(self, text: str) -> None:
        self._console.print(text, markup=False)  # the text may contain [brackets]

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class TokenRate:
    """Counter of tokens per second since its creation."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._tokens = 0

    def add(self, tokens: int) -> None:
        self._tokens += tokens

    @property
    def now(self) -> float:
        return self._tokens / max(1e-9, time.monotonic() - self._began)
