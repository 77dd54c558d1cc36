"""Text that belongs together, from files: reading it, checking it."""

from glassformer.data.corpus import Corpus, Pair, corpus
from glassformer.data.doctor import Diagnosis, diagnose
from glassformer.data.tokenizer import Tokenizer, TokenizerSettings, train_tokenizer

__all__ = ["Corpus", "Diagnosis", "Pair", "Tokenizer", "TokenizerSettings", "corpus", "diagnose", "train_tokenizer"]
