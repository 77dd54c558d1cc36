"""Training: from options to a finished run, and the arithmetic it is made of."""

from glassformer.training.loss import summed_loss
from glassformer.training.schedule import learning_rate
from glassformer.training.settings import RunSettings
from glassformer.training.stop import Interrupted
from glassformer.training.train import train
from glassformer.training.watcher import Progress, Watcher

__all__ = ["Interrupted", "Progress", "RunSettings", "Watcher", "learning_rate", "summed_loss", "train"]
