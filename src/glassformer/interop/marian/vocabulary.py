"""Tokenizer from Marian's vocabularies: SentencePiece models (.spm) with the model's ids, or word lists."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.data import ImportedTokenizer
from glassformer.data.imported_tokenizer import ImportedTokenizerSettings, pieces_by_id
from glassformer.data.subword_segmentation import SegmenterKind, SentencePieceSegmenter
from glassformer.data.tokenizer import SIDES, Side
from glassformer.errors import DataError, DirectoryError
from glassformer.interop.bounded_files import read_spm
from glassformer.interop.marian.marian_text import read_vocabulary
from glassformer.interop.untrusted_files import error_context, inside, read_bytes

END, UNKNOWN = "</s>", "<unk>"
LIST_SUFFIXES = (".yml", ".yaml", ".json", ".txt")
SIDE_PATTERNS: dict[Side, str] = {"source": "src|source", "target": "trg|tgt|target"}
TAG = re.compile(r">>[\w.-]+<<")
"""OPUS-MT's target language tag, at the start of the source."""


class _Vocabulary(NamedTuple):
    pieces: list[str]
    """The pieces in the order of their ids."""
    model: bytes
    """The SentencePiece model; empty if text is split at spaces."""


def marian_tokenizer(model_file: Path, names: Any, size: int, notes: list[str]) -> tuple[ImportedTokenizer | None, int]:
    """Build the tokenizer of a model of `size` rows, the last of which is no token; also returns the EOS id.

    `names`: the vocabulary files in the decoder's options, if there are any.
    """
    files = _named(model_file.parent, names) if names else _find(model_file.parent, notes)
    if files is None:
        return None, 0
    source, target = files
    sides: dict[Side, _Vocabulary] = {"source": _read(source, "source", size)}
    sides["target"] = sides["source"] if source == target and source.suffix == ".spm" else _read(target, "target", size)
    cut: SegmenterKind = "sentencepiece" if all(side.model for side in sides.values()) else "words"
    if cut == "words":
        notes.append("The vocabulary is a word list: tokens in a text must be separated by spaces.")
    settings = ImportedTokenizerSettings(
        cut=cut,
        joint=sides["source"].pieces == sides["target"].pieces,
        unknown=UNKNOWN,
        after_source=[END],
        after_target=[END],
        tags=[piece for piece in sides["source"].pieces if TAG.fullmatch(piece)],
        hidden=[sides["target"].pieces[-1]],
    )
    vocabularies = {side: vocabulary.pieces for side, vocabulary in sides.items()}
    models = {side: sides[side].model if cut == "sentencepiece" else b"" for side in sides}
    return ImportedTokenizer(settings, vocabularies, models), sides["target"].pieces.index(END)


def _read(path: Path, side: Side, size: int) -> _Vocabulary:
    raw = read_spm(path, size) if path.suffix == ".spm" else read_bytes(path)
    with error_context(path):
        if path.suffix == ".spm":
            ids = {piece: i for i, piece in enumerate(SentencePieceSegmenter(raw).pieces())}
        else:
            ids = read_vocabulary(raw, str(path), size)
            spm = path.with_name(f"{side}.spm")  # OPUS-MT segments text before Marian reads it
            raw = read_spm(inside(path.parent, spm.name), size) if spm.exists() else b""
            if raw:
                SentencePieceSegmenter(raw)
        if missing := [piece for piece in (END, UNKNOWN) if piece not in ids]:
            raise DataError(f"the vocabulary lacks {' and '.join(missing)}, which every Marian vocabulary has.")
        return _Vocabulary([*pieces_by_id(ids, size - 1), f"<no. {size - 1}>"], raw)


def _named(directory: Path, names: Any) -> list[Path]:
    if not isinstance(names, list) or len(names) != 2 or not all(isinstance(name, str) for name in names):
        raise DirectoryError(f"{directory}: the options list {names} as `vocabs` instead of two files.")
    return [inside(directory, name) for name in names]


def _find(directory: Path, notes: list[str]) -> Sequence[Path] | None:
    """Find a directory's vocabularies by file name, if no options name them."""
    lists = sorted(path for path in directory.iterdir() if path.suffix in LIST_SUFFIXES and "vocab" in path.name)
    files = lists or sorted(directory.glob("*.spm"))
    if len(files) == 1:
        return [inside(directory, files[0].name)] * 2
    by_side = [[path for path in files if re.search(SIDE_PATTERNS[side], path.name)] for side in SIDES]
    if all(len(paths) == 1 for paths in by_side):
        return [inside(directory, paths[0].name) for paths in by_side]
    found = f"several vocabularies ({', '.join(path.name for path in files[:8])})" if files else "no vocabulary"
    notes.append(f"The directory has {found}: the model takes token ids, not text.")
    return None
