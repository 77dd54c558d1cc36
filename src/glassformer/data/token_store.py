"""A corpus as token ids on disk, mapped into memory: built in a stream, opened at once, shared by all processes.

For each side a flat file of ids and one of where each sentence ends. A store is kept while what it was made from is the
same; memory does not grow with the corpus. Knows nothing of batches.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from glassformer.atomic_directory import MANIFEST, building, verify
from glassformer.data.corpus import Corpus, Pair, Watch, unwatched
from glassformer.data.tokenizer import SIDES, Side, Tokenizer
from glassformer.errors import DataError, DirectoryError, SettingsError
from glassformer.settings import Settings

FILES = {"store.json", MANIFEST, *(f"{side}.{what}" for side in SIDES for what in ("ids", "ends"))}
AT_ONCE = 1000  # pairs encoded and written together: enough to be fast, too few to be felt in memory
VERSION = 2


class StoreSettings(Settings):
    """What a store was made from, and what it holds."""

    made_from: str
    """A checksum of the corpus' files, the tokenizer and the limits."""
    pairs: int
    dropped_empty: int
    """Pairs with an empty side, from which nothing can be learned."""
    dropped_long: int
    """Pairs with a side of more tokens than max_tokens."""
    wide: bool
    """Whether ids take four bytes each instead of two."""


@dataclass(frozen=True)
class TokenStore:
    """Pairs of sentences as ids; opened by `open_store`."""

    directory: Path
    settings: StoreSettings

    def __len__(self) -> int:
        return self.settings.pairs

    def __getitem__(self, index: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Source and target of one pair, each with its end of sentence."""
        return self._sentence(0, index), self._sentence(1, index)

    def lengths(self, side: Side) -> NDArray[np.int64]:
        """Tokens of every sentence of a side."""
        return np.diff(self._ends[SIDES.index(side)], prepend=0)

    def _sentence(self, side: int, index: int) -> NDArray[np.int64]:
        ends = self._ends[side]
        start = ends[index - 1] if index else 0
        return self._ids[side][start : ends[index]].astype(np.int64)

    @cached_property
    def _ids(self) -> list[NDArray[np.uint32]]:
        number = np.uint32 if self.settings.wide else np.uint16
        return [np.memmap(self.directory / f"{side}.ids", number, "r") for side in SIDES]

    @cached_property
    def _ends(self) -> list[NDArray[np.int64]]:
        return [np.memmap(self.directory / f"{side}.ends", np.int64, "r") for side in SIDES]


def open_store(
    corpus: Corpus,
    tokenizer: Tokenizer,
    directory: Path,
    max_tokens: int = 256,
    watch: Watch = unwatched,
) -> TokenStore:
    """The corpus as ids, from `directory` if it was made from the same things; else made anew there."""
    corpus.check()
    made_from = _checksum(corpus, tokenizer, max_tokens)
    kept = _kept(directory, made_from)
    if kept is not None:
        return kept
    if directory.exists():
        shutil.rmtree(directory)  # a store holds nothing that the corpus does not
    with building(directory) as aside:
        _build(corpus, tokenizer, aside, max_tokens, made_from, watch)
    return TokenStore(directory, StoreSettings.read(directory / "store.json"))


def _kept(directory: Path, made_from: str) -> TokenStore | None:
    """The store that is there, if it is whole and of the same origin."""
    if not directory.exists():
        return None
    if not directory.is_dir() or not {path.name for path in directory.iterdir()} <= FILES:
        raise DirectoryError(f"{directory} is not a store of ours: choose another place for it.")  # or it would go
    try:
        verify(directory)
        settings = StoreSettings.read(directory / "store.json")
    except (DirectoryError, SettingsError):
        return None  # damaged, or of another version: it can be made again
    return TokenStore(directory, settings) if settings.made_from == made_from else None


def _build(
    corpus: Corpus, tokenizer: Tokenizer, directory: Path, max_tokens: int, made_from: str, watch: Watch
) -> None:
    wide = max(tokenizer.vocab_size(side) for side in SIDES) > 2**16
    number = np.uint32 if wide else np.uint16
    kept = empty = long = 0
    ends = [0, 0]
    pairs = iter(watch(corpus, "encoding"))
    with ExitStack() as stack:

        def new(name: str) -> BinaryIO:
            return stack.enter_context((directory / name).open("wb"))

        ids_files, ends_files = [new(f"{side}.ids") for side in SIDES], [new(f"{side}.ends") for side in SIDES]
        while some := list(islice(pairs, AT_ONCE)):
            encoded = [_encoded(pair, tokenizer) for pair in some]
            empty += sum(pair is None for pair in encoded)
            full = [pair for pair in encoded if pair is not None]
            fitting = [pair for pair in full if max(map(len, pair)) <= max_tokens]
            long += len(full) - len(fitting)
            kept += len(fitting)
            for side in (0, 1):
                lengths = [len(pair[side]) for pair in fitting]
                all_ends = ends[side] + np.cumsum(lengths, dtype=np.int64)
                ends[side] = int(all_ends[-1]) if len(all_ends) else ends[side]
                flat = [token for pair in fitting for token in pair[side]]
                ids_files[side].write(np.array(flat, number).tobytes())
                ends_files[side].write(all_ends.tobytes())
    if kept == 0:
        raise DataError(
            f"Nothing of {corpus} can be used: {empty:,} pairs have an empty side, and {long:,} are longer than "
            f"{max_tokens} tokens."
        )
    settings = StoreSettings(made_from=made_from, pairs=kept, dropped_empty=empty, dropped_long=long, wide=wide)
    (directory / "store.json").write_text(settings.as_json(), encoding="utf-8")


def _encoded(pair: Pair, tokenizer: Tokenizer) -> tuple[list[int], list[int]] | None:
    if not pair.has_text:
        return None
    return tokenizer.encode(pair.source, "source"), tokenizer.encode(pair.target, "target")


def _checksum(corpus: Corpus, tokenizer: Tokenizer, max_tokens: int) -> str:
    digest = hashlib.sha256(json.dumps([VERSION, corpus.selection, max_tokens, tokenizer.settings.as_json()]).encode())
    for part in _contents(corpus, tokenizer):
        digest.update(part)
    return digest.hexdigest()


def _contents(corpus: Corpus, tokenizer: Tokenizer) -> Iterator[bytes]:
    for path in corpus.files:
        with path.open("rb") as file:
            yield hashlib.file_digest(file, "sha256").digest()
    for model in tokenizer.files().values():
        yield hashlib.sha256(model).digest()
