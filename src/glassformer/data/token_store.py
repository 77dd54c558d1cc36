"""Memory-mapped token store: a corpus as token ids on disk, built by streaming, shared by all processes.

Per side, one flat file of ids and one of sentence end offsets. A store is reused as long as its inputs are unchanged.
Memory use does not grow with the corpus.
"""

import hashlib
import json
import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from glassformer.atomic_directory import MANIFEST, building, verify
from glassformer.data.corpus import Watch, unwatched
from glassformer.data.corpus_scan import ScannedCorpus
from glassformer.data.tokenizer import SIDES, Side, Tokenizer
from glassformer.errors import DataError, DirectoryError, SettingsError
from glassformer.settings import Settings

FILES = {"store.json", MANIFEST, *(f"{side}.{what}" for side in SIDES for what in ("ids", "ends"))}
PAIRS_PER_WRITE = 1000  # encoded and written together: enough to be fast, few enough for negligible memory
VERSION = 2


class StoreSettings(Settings):
    """Provenance and contents of a token store (store.json)."""

    made_from: str
    """Checksum of the corpus files, the tokenizer and max_tokens."""
    pairs: int
    """Number of pairs in the store."""
    dropped_empty: int
    """Number of pairs left out because a side is empty."""
    dropped_long: int
    """Number of pairs left out because a side has more than max_tokens tokens."""
    wide: bool
    """Whether ids are stored as 32-bit integers instead of 16-bit."""


@dataclass(frozen=True)
class TokenStore:
    """Sentence pairs as token ids, memory-mapped from disk; opened by `open_store`."""

    directory: Path
    settings: StoreSettings

    def __len__(self) -> int:
        return self.settings.pairs

    def __getitem__(self, index: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Source and target ids of one pair, each ending with EOS."""
        return self._sentence(0, index), self._sentence(1, index)

    def lengths(self, side: Side) -> NDArray[np.int64]:
        """Number of tokens of every sentence of a side."""
        return np.diff(self._ends[SIDES.index(side)], prepend=0)

    def _sentence(self, side: int, index: int) -> NDArray[np.int64]:
        ends = self._ends[side]
        start = ends[index - 1] if index else 0
        return self._ids[side][start : ends[index]].astype(np.int64)

    @cached_property
    def _ids(self) -> list[NDArray[np.uint32]]:
        dtype = np.uint32 if self.settings.wide else np.uint16
        return [np.memmap(self.directory / f"{side}.ids", dtype, "r") for side in SIDES]

    @cached_property
    def _ends(self) -> list[NDArray[np.int64]]:
        return [np.memmap(self.directory / f"{side}.ends", np.int64, "r") for side in SIDES]


def open_store(
    corpus: ScannedCorpus, tokenizer: Tokenizer, directory: Path, max_tokens: int = 256, watch: Watch = unwatched
) -> TokenStore:
    """Open the token store of a corpus: reused from `directory` if built from the same inputs, else rebuilt there."""
    made_from = _checksum(corpus, tokenizer, max_tokens)
    store = _existing_store(directory, made_from)
    if store is not None:
        return store
    if directory.exists():
        shutil.rmtree(directory)  # a store can always be rebuilt from the corpus
    with building(directory) as temporary:
        _build(corpus, tokenizer, temporary, max_tokens, made_from, watch)
    return read_store(directory)


def read_store(directory: Path) -> TokenStore:
    """Open a token store that `open_store` has just built or verified, as another process of the same run does."""
    return TokenStore(directory, StoreSettings.read(directory / "store.json"))


def _existing_store(directory: Path, made_from: str) -> TokenStore | None:
    """The token store in a directory, if it is intact and built from the same inputs; else None."""
    if not directory.exists():
        return None
    if not directory.is_dir() or not {path.name for path in directory.iterdir()} <= FILES:
        raise DirectoryError(f"{directory} is not a token store: choose another directory.")  # it would be deleted
    try:
        verify(directory)
        store = read_store(directory)
    except (DirectoryError, SettingsError):
        return None  # damaged, or of another version: it is rebuilt
    return store if store.settings.made_from == made_from else None


def _build(
    corpus: ScannedCorpus, tokenizer: Tokenizer, directory: Path, max_tokens: int, made_from: str, watch: Watch
) -> None:
    wide = max(tokenizer.vocab_size(side) for side in SIDES) > 2**16
    dtype = np.uint32 if wide else np.uint16
    n_pairs = n_empty = n_long = 0
    ends = [0, 0]
    pairs = iter(watch(corpus, "encoding"))
    with ExitStack() as stack:

        def create(name: str) -> BinaryIO:
            return stack.enter_context((directory / name).open("wb"))

        ids_files, ends_files = [create(f"{side}.ids") for side in SIDES], [create(f"{side}.ends") for side in SIDES]
        while chunk := list(islice(pairs, PAIRS_PER_WRITE)):
            with_text = [pair for pair in chunk if pair.has_text]
            encoded = [[tokenizer.encode(getattr(pair, side), side) for side in SIDES] for pair in with_text]
            fitting = [pair for pair in encoded if max(map(len, pair)) <= max_tokens]
            n_empty += len(chunk) - len(with_text)
            n_long += len(encoded) - len(fitting)
            n_pairs += len(fitting)
            for side in (0, 1):
                lengths = [len(pair[side]) for pair in fitting]
                chunk_ends = ends[side] + np.cumsum(lengths, dtype=np.int64)
                ends[side] = int(chunk_ends[-1]) if len(chunk_ends) else ends[side]
                flat = [token for pair in fitting for token in pair[side]]
                ids_files[side].write(np.array(flat, dtype).tobytes())
                ends_files[side].write(chunk_ends.tobytes())
    if n_pairs == 0:
        raise DataError(
            f"No pair of {corpus} is usable: {n_empty:,} pairs have an empty side, and {n_long:,} are longer than "
            f"{max_tokens} tokens. Check the files, or raise data.max_tokens."
        )
    settings = StoreSettings(made_from=made_from, pairs=n_pairs, dropped_empty=n_empty, dropped_long=n_long, wide=wide)
    (directory / "store.json").write_text(settings.as_json(), encoding="utf-8")


def _checksum(corpus: ScannedCorpus, tokenizer: Tokenizer, max_tokens: int) -> str:
    digest = hashlib.sha256(json.dumps([VERSION, corpus.selection, max_tokens, tokenizer.settings.as_json()]).encode())
    models = tokenizer.files().values()
    for file_digest in (*corpus.digests, *(hashlib.sha256(model).digest() for model in models)):
        digest.update(file_digest)
    return digest.hexdigest()
