"""Training: for now its arithmetic, the loss and the learning rate."""

from glassformer.training.loss import summed_loss
from glassformer.training.schedule import learning_rate

__all__ = ["learning_rate", "summed_loss"]
