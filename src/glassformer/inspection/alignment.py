"""Which source word each target word looks at: cross-attention, with tokens put together to words.

The layer below the last, its heads' mean: of the simple choices the one that agrees best with people
(arXiv:1909.02074).
"""

from collections.abc import Sequence

import torch

from glassformer.inspection.record import record
from glassformer.inspection.words import words
from glassformer.model import Transformer
from glassformer.model.dims import Float, Tensor


@torch.no_grad()
def cross_attention(model: Transformer, source: Sequence[int], target: Sequence[int]) -> Float[Tensor, "T S"]:
    """How much each target token looked at each source token when it was written."""
    layer = max(0, model.config.decoder_layers - 2)
    name = f"decoder.layers.{layer}.cross_attention.weights"
    with record(model, name) as heard:
        model(torch.tensor([source]), torch.tensor([[model.config.bos_id, *target[:-1]]]))
    return heard[name][0].mean(0)


def word_alignment(weights: Tensor, source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int, float]]:
    """For each target word the source word that it looked at most: (source, target, share of the look).

    `weights` as `cross_attention` gives them, with the pieces of both sides, ends of sentence included.
    """
    sources = words(source)
    if not sources:
        return []
    links = []
    for number, places in enumerate(words(target)):
        looked = torch.stack([weights[places][:, own].sum(1).mean() for own in sources])
        links.append((int(looked.argmax()), number, float(looked.max())))
    return links
