"""How far a model is from its targets, summed over tokens: whoever sums over batches and ranks divides, once."""

from torch import Tensor
from torch.nn import functional as F

from glassformer.data.batch import Batch
from glassformer.model import Transformer


def summed_loss(model: Transformer, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """The label-smoothed cross-entropy in nats (section 5.4), summed over the batch's real target tokens.

    Smoothing ε asks for 1 - ε on the right token and shares ε evenly among all. Only real positions are projected to
    the vocabulary, which is the widest product of a small model.
    """
    visible = model.visible(batch.source)
    hidden = model.decode(batch.target_in, model.encode(batch.source, visible), visible)
    real = batch.real
    logits = model.project(hidden[real])
    return F.cross_entropy(logits, batch.target_out[real], reduction="sum", label_smoothing=smoothing)
