"""Marian's vocabularies as a tokenizer: SentencePiece models (.spm), numbered as the model is, or lists of words."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.data import ForeignTokenizer
from glassformer.data.foreign_tokenizer import ForeignSettings, by_number
from glassformer.data.subword_segmentation import Cut, SentencePieceSegmenter
from glassformer.data.tokenizer import SIDES, Side
from glassformer.errors import DataError, DirectoryError
from glassformer.interop.bounded_files import read_spm
from glassformer.interop.marian.marian_text import read_vocabulary
from glassformer.interop.untrusted_files import inside, naming, read_bytes

END, UNKNOWN = "</s>", "<unk>"
LISTS = (".yml", ".yaml", ".json", ".txt")
OF_SIDE: dict[Side, re.Pattern[str]] = {"source": re.compile("src|source"), "target": re.compile("trg|tgt|target")}
TAG = re.compile(r">>[\w.-]+<<")
"""How OPUS-MT writes the language that is wanted, in front of the source."""


class _Vocabulary(NamedTuple):
    pieces: list[str]
    """By their numbers."""
    model: bytes
    """How text is cut into them; empty where spaces do it."""


def marian_tokenizer(model_file: Path, named: Any, size: int, notes: list[str]) -> tuple[ForeignTokenizer | None, int]:
    """For a model of `size` rows, of which the last is no token; and the number of the end of a sentence.

    `named`: the files that the decoder's options name, if they do.
    """
    files = _named(model_file.parent, named) if named else _beside(model_file.parent, notes)
    if files is None:
        return None, 0
    source, target = files
    sides: dict[Side, _Vocabulary] = {"source": _read(source, "source", size)}
    sides["target"] = sides["source"] if source == target and source.suffix == ".spm" else _read(target, "target", size)
    cut: Cut = "sentencepiece" if all(side.model for side in sides.values()) else "words"
    if cut == "words":
        notes.append("Its vocabulary is a list of words: a text's tokens must be separated by spaces.")
    settings = ForeignSettings(
        cut=cut,
        joint=sides["source"].pieces == sides["target"].pieces,
        unknown=UNKNOWN,
        after_source=[END],
        after_target=[END],
        tags=[piece for piece in sides["source"].pieces if TAG.fullmatch(piece)],
        hidden=[sides["target"].pieces[-1]],
    )
    vocabularies = {side: own.pieces for side, own in sides.items()}
    models = {side: own.model if cut == "sentencepiece" else b"" for side, own in sides.items()}
    return ForeignTokenizer(settings, vocabularies, models), sides["target"].pieces.index(END)


def _read(path: Path, side: Side, size: int) -> _Vocabulary:
    raw = read_spm(path, size) if path.suffix == ".spm" else read_bytes(path)
    with naming(path):
        if path.suffix == ".spm":
            numbers = {piece: number for number, piece in enumerate(SentencePieceSegmenter(raw).pieces())}
        else:
            numbers = read_vocabulary(raw, str(path), size)
            cutter = path.with_name(f"{side}.spm")  # OPUS-MT cuts text before Marian sees it
            raw = read_spm(inside(path.parent, cutter.name), size) if cutter.exists() else b""
            if raw:
                SentencePieceSegmenter(raw)
        if missing := [piece for piece in (END, UNKNOWN) if piece not in numbers]:
            raise DataError(f"the vocabulary has no {' and no '.join(missing)}, which every vocabulary of Marian has.")
        return _Vocabulary([*by_number(numbers, size - 1), f"<no. {size - 1}>"], raw)


def _named(directory: Path, names: Any) -> list[Path]:
    if not isinstance(names, list) or len(names) != 2 or not all(isinstance(name, str) for name in names):
        raise DirectoryError(f"{directory}: its options name {names} as `vocabs` instead of two files.")
    return [inside(directory, name) for name in names]


def _beside(directory: Path, notes: list[str]) -> Sequence[Path] | None:
    """The vocabularies in a directory where nothing says which they are."""
    lists = sorted(path for path in directory.iterdir() if path.suffix in LISTS and "vocab" in path.name)
    found = lists or sorted(directory.glob("*.spm"))
    if len(found) == 1:
        return [inside(directory, found[0].name)] * 2
    by_side = [[path for path in found if OF_SIDE[side].search(path.name)] for side in SIDES]
    if all(len(own) == 1 for own in by_side):
        return [inside(directory, own[0].name) for own in by_side]
    several = f"several vocabularies ({', '.join(path.name for path in found[:8])})" if found else "no vocabulary"
    notes.append(f"There is {several} beside the model, so it takes ids, not text.")
    return None
