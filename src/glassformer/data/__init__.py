"""Text that belongs together: from files to tokens to batches."""

from glassformer.data.batching import epoch_batches
from glassformer.data.corpus import Corpus, Pair, corpus
from glassformer.data.doctor import Diagnosis, diagnose
from glassformer.data.store import Store, open_store
from glassformer.data.tokenizer import Tokenizer, TokenizerSettings, train_tokenizer

__all__ = [
    "Corpus",
    "Diagnosis",
    "Pair",
    "Store",
    "Tokenizer",
    "TokenizerSettings",
    "corpus",
    "diagnose",
    "epoch_batches",
    "open_store",
    "train_tokenizer",
]
