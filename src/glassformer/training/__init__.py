"""Training: from run settings to a trained model with checkpoints and a report."""

from glassformer.training.dry_run import plan
from glassformer.training.finished_run import FinishedRun, train
from glassformer.training.learning_rate_schedule import learning_rate
from glassformer.training.loss import summed_loss
from glassformer.training.progress_listener import Progress, ProgressListener
from glassformer.training.run import train_run
from glassformer.training.run_settings import RunSettings
from glassformer.training.stop_signals import Interrupted

__all__ = [
    "FinishedRun",
    "Interrupted",
    "Progress",
    "ProgressListener",
    "RunSettings",
    "learning_rate",
    "plan",
    "summed_loss",
    "train",
    "train_run",
]
