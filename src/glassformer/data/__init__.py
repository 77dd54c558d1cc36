"""Parallel corpora, tokenizers, the token store and batch sampling: from text files to token ids to batches."""

from glassformer.data.batch_sampler import epoch_batches
from glassformer.data.corpus import Corpus, Pair, corpus
from glassformer.data.doctor import Diagnosis, diagnose
from glassformer.data.imported_tokenizer import (
    AnyTokenizer,
    IdsOnly,
    ImportedTokenizer,
    ImportedTokenizerSettings,
    read_tokenizer,
)
from glassformer.data.token_store import TokenStore, open_store
from glassformer.data.tokenizer import Tokenizer, TokenizerSettings, train_tokenizer

__all__ = [
    "AnyTokenizer",
    "Corpus",
    "Diagnosis",
    "IdsOnly",
    "ImportedTokenizer",
    "ImportedTokenizerSettings",
    "Pair",
    "TokenStore",
    "Tokenizer",
    "TokenizerSettings",
    "corpus",
    "diagnose",
    "epoch_batches",
    "open_store",
    "read_tokenizer",
    "train_tokenizer",
]
