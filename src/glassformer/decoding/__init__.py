"""Search: from a source and a model to the target's ids. Knows ids, never text."""

from glassformer.decoding.beam import Beam, Hypothesis, search

__all__ = ["Beam", "Hypothesis", "search"]
