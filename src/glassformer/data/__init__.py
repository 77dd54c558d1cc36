"""Parallel corpora, tokenizers, the token store and batch sampling: from text files to token ids to batches.

What only training and the doctor need is imported at first use.
"""

from typing import TYPE_CHECKING

from glassformer.data.corpus import Corpus, Pair, corpus
from glassformer.data.imported_tokenizer import (
    AnyTokenizer,
    IdsOnly,
    ImportedTokenizer,
    ImportedTokenizerSettings,
    read_tokenizer,
)
from glassformer.data.tokenizer import Tokenizer, TokenizerSettings, train_tokenizer
from glassformer.lazy_names import lazy_names

if TYPE_CHECKING:
    from glassformer.data.batch_sampler import epoch_batches
    from glassformer.data.corpus_checks import Diagnosis, diagnose
    from glassformer.data.corpus_scan import ScannedCorpus, scan
    from glassformer.data.token_store import TokenStore, open_store

_MODULES = {
    "Diagnosis": "corpus_checks",
    "ScannedCorpus": "corpus_scan",
    "TokenStore": "token_store",
    "diagnose": "corpus_checks",
    "epoch_batches": "batch_sampler",
    "open_store": "token_store",
    "scan": "corpus_scan",
}

__all__ = [
    "AnyTokenizer",
    "Corpus",
    "Diagnosis",
    "IdsOnly",
    "ImportedTokenizer",
    "ImportedTokenizerSettings",
    "Pair",
    "ScannedCorpus",
    "TokenStore",
    "Tokenizer",
    "TokenizerSettings",
    "corpus",
    "diagnose",
    "epoch_batches",
    "open_store",
    "read_tokenizer",
    "scan",
    "train_tokenizer",
]

__getattr__ = lazy_names(__name__, _MODULES)
