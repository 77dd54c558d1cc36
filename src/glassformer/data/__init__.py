"""Parallel corpora, tokenizers, the token store and batch sampling: from text files to token ids to batches."""

from glassformer.data.batch_sampler import epoch_batches
from glassformer.data.corpus import Corpus, Pair, corpus
from glassformer.data.corpus_checks import Diagnosis, diagnose
from glassformer.data.corpus_scan import ScannedCorpus, scan
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
