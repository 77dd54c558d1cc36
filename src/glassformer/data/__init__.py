"""Text that belongs together, from files: reading it, checking it."""

from glassformer.data.corpus import Corpus, Pair, corpus
from glassformer.data.doctor import Diagnosis, diagnose

__all__ = ["Corpus", "Diagnosis", "Pair", "corpus", "diagnose"]
