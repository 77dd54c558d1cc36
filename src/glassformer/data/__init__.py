"""Text that belongs together: from files to tokens to batches."""

from glassformer.data.batching import epoch_batches
from glassformer.data.corpus import Corpus, Pair, corpus
from glassformer.data.doctor import Diagnosis, diagnose
from glassformer.data.foreign import AnyTokenizer, ForeignSettings, ForeignTokenizer, IdsOnly, read_tokenizer
from glassformer.data.store import Store, open_store
from glassformer.data.tokenizer import Tokenizer, TokenizerSettings, train_tokenizer

__all__ = [
    "AnyTokenizer",
    "Corpus",
    "Diagnosis",
    "ForeignSettings",
    "ForeignTokenizer",
    "IdsOnly",
    "Pair",
    "Store",
    "Tokenizer",
    "TokenizerSettings",
    "corpus",
    "diagnose",
    "epoch_batches",
    "open_store",
    "read_tokenizer",
    "train_tokenizer",
]
