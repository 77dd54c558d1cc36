"""Tokenizers of imported models: a segmenter, the id of each piece, and the special tokens around a text.

Independent of the programs they come from: each importer in `interop` describes its tokenizer by
`ImportedTokenizerSettings`.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NoReturn

from pydantic import Field

from glassformer.data.given_texts import check_text
from glassformer.data.subword_segmentation import SEGMENTERS, ByteLevelSegmenter, Segmenter, SegmenterKind
from glassformer.data.tokenizer import SETTINGS, SIDES, Side, Tokenizer, lookup_pieces
from glassformer.errors import DataError, DirectoryError, InputError
from glassformer.settings import Settings

SOURCE, TARGET = "{source}", "{target}"
"""Placeholders for the language tokens in the special tokens around a text."""


class ImportedTokenizerSettings(Settings):
    """Settings of an imported tokenizer: how it goes from text to ids."""

    kind: Literal["foreign"] = "foreign"
    """Always "foreign"; distinguishes imported tokenizers from those trained by glassformer."""
    cut: SegmenterKind
    """The segmenter that splits text into pieces."""
    joint: bool
    """Whether source and target share one vocabulary."""
    unknown: str = "<unk>"
    """The unknown token."""
    before_source: list[str] = Field(default_factory=list)
    """Special tokens before a source; {source} and {target} stand for the language tokens."""
    after_source: list[str]
    """Special tokens after a source."""
    before_target: list[str] = Field(default_factory=list)
    """Special tokens at the start of a target."""
    after_target: list[str]
    """Special tokens after a target, such as the end of sentence."""
    languages: dict[str, str] = Field(default_factory=dict)
    """Language tokens by language code; empty for a model of a single language pair."""
    source_language: str | None = None
    """The source language code, if the source has a language token."""
    target_language: str | None = None
    """The target language code."""
    tags: list[str] = Field(default_factory=list)
    """Pieces that are matched in the text as they are, before segmentation."""
    opening: Annotated[list[str], Field(max_length=2)] = Field(default_factory=list)
    """Delimiters of a tag at the start of a text, such as >> and << in >>fra<<; empty if the model has no tags.

    The text from the first delimiter to the second is a single piece, in the vocabulary or not."""
    hidden: list[str] = Field(default_factory=list)
    """Pieces that are left out when ids are decoded."""


class ImportedTokenizer:
    """Tokenizer of an imported model: text to ids and back, as in the program that the model comes from."""

    def __init__(
        self,
        settings: ImportedTokenizerSettings,
        vocabularies: Mapping[Side, Sequence[str]],
        models: Mapping[Side, bytes],
        loaded: Mapping[bytes, Segmenter] | None = None,
    ) -> None:
        """Load the segmenters, except those in `loaded`, whose keys are the contents of their models."""
        self.settings = settings
        self._vocabularies = {side: list(vocabularies[side]) for side in SIDES}
        self._models = dict(models)
        segmenters = dict(loaded or {})
        load = _pipeline if settings.cut == "pipeline" else SEGMENTERS[settings.cut]
        segmenters |= {model: load(model) for model in {*models.values()} - segmenters.keys()}  # a joint one only once
        self._segmenters = {side: segmenters[models[side]] for side in SIDES}
        ids = [_ids_by_piece(self._vocabularies["source"])]
        ids.append(ids[0] if settings.joint else _ids_by_piece(self._vocabularies["target"]))
        self._ids = dict(zip(SIDES, ids, strict=True))
        for side in SIDES:
            if settings.unknown not in self._ids[side]:
                raise DataError(f"the {side} vocabulary has no {settings.unknown!r}, the unknown token.")
        for code in (settings.source_language, settings.target_language):
            if code is not None and code not in settings.languages:
                raise DataError(f"the language {code!r} has no language token.")
        longest_first = sorted(settings.tags, key=len, reverse=True)
        self._tags = re.compile(f"({'|'.join(map(re.escape, longest_first))})") if longest_first else None
        hidden = {*settings.hidden, *settings.languages.values(), *settings.before_target, *settings.after_target}
        self._hidden = {
            side: {i for i, piece in enumerate(self._vocabularies[side]) if piece in hidden or piece == _placeholder(i)}
            for side in SIDES
        }

    @classmethod
    def joint(cls, settings: ImportedTokenizerSettings, vocabulary: Sequence[str], model: bytes) -> "ImportedTokenizer":
        """A tokenizer with the same vocabulary and model for both sides."""
        return cls(settings, dict.fromkeys(SIDES, vocabulary), dict.fromkeys(SIDES, model))

    def __reduce__(self) -> tuple[object, ...]:  # pickled for worker processes as its settings and files
        return type(self), (self.settings, self._vocabularies, self._models)

    def vocab_size(self, side: Side) -> int:
        return len(self._vocabularies[side])

    @property
    def marks(self) -> SegmenterKind:
        """The segmenter whose marks for spaces the pieces have; for a pipeline, SentencePiece or byte-level BPE."""
        segmenter = self._segmenters["target"]
        if self.settings.cut == "pipeline":
            return "byte-level" if getattr(segmenter, "byte_level", False) else "sentencepiece"
        return "byte-level" if isinstance(segmenter, ByteLevelSegmenter) else self.settings.cut

    def encode(self, text: str, side: Side) -> list[int]:
        """The ids of a text, with the special tokens around it."""
        check_text(text)
        ids = self._ids[side]
        unknown = ids[self.settings.unknown]
        before, after = (
            self._special_tokens(getattr(self.settings, f"{place}_{side}")) for place in ("before", "after")
        )
        return [ids.get(piece, unknown) for piece in (*before, *self._segment(text, side), *after)]

    def decode(self, ids: Iterable[int], side: Side = "target") -> str:
        """The text of ids; hidden pieces are skipped."""
        pieces = [self._vocabularies[side][i] for i in ids if i not in self._hidden[side]]
        return self._segmenters[side].join(pieces)

    def pieces(self, ids: Iterable[int], side: Side) -> list[str]:
        """The piece of each id, for display."""
        return [self._vocabularies[side][i] for i in ids]

    def ids_of(self, pieces: Sequence[str], side: Side = "target") -> tuple[int, ...]:
        """The ids of tokens given as `pieces` returns them; the ▁ or Ġ at the start of a word is optional."""
        return lookup_pieces(self._ids[side], pieces, "▁Ġ")

    def with_languages(self, source: str | None, target: str | None) -> "ImportedTokenizer":
        """A copy of the tokenizer for another language pair; None keeps a language as it is."""
        settings = self.settings
        languages = settings.languages
        for code in (source, target):
            if code is not None and code not in languages:
                examples = ", ".join(list(languages)[:8]) + (", ..." if len(languages) > 8 else "")
                way_out = (
                    f"it supports {examples}"
                    if languages
                    else "it was trained for one language pair. Leave out the language options"
                )
                raise InputError(f"This model does not support the language {code!r}: {way_out}.")
        selectable = TARGET in (*settings.before_source, *settings.after_source, *settings.before_target)
        if not selectable and target not in (None, settings.target_language):
            only = settings.target_language or "one language"
            raise InputError(
                f"This model translates into {only} only, not into {target!r}: its start token fixes the language."
            )
        codes = {"source_language": source, "target_language": target}
        chosen = settings.model_copy(update={name: code for name, code in codes.items() if code is not None})
        segmenters = {self._models[side]: self._segmenters[side] for side in SIDES}
        return ImportedTokenizer(chosen, self._vocabularies, self._models, segmenters)

    def write(self, directory: Path) -> None:
        """Write the tokenizer's files into a directory under construction."""
        directory.mkdir(exist_ok=True)
        for name, content in self.files().items():
            (directory / name).write_bytes(content)

    @classmethod
    def read(cls, directory: Path) -> "ImportedTokenizer":
        """Read a tokenizer from the files written by `write`."""
        settings = ImportedTokenizerSettings.read(directory / SETTINGS)
        try:
            names = {side: _vocabulary_name(settings, side) for side in SIDES}
            vocabularies = {
                name: _parse_vocabulary((directory / f"{name}.json").read_bytes()) for name in names.values()
            }
            return cls(
                settings,
                {side: vocabularies[name] for side, name in names.items()},
                {side: (directory / f"{side}.model").read_bytes() for side in SIDES},
            )
        except OSError as error:
            raise DirectoryError(f"{error.filename} cannot be read: {error.strerror}.") from None
        except DataError as error:
            raise DirectoryError(f"{directory}: {error}") from None

    def files(self) -> dict[str, bytes]:
        """The contents of the tokenizer's files, by file name."""
        vocabularies = {
            f"{_vocabulary_name(self.settings, side)}.json": json.dumps(
                self._vocabularies[side], ensure_ascii=False
            ).encode()
            for side in SIDES
        }
        models = {f"{side}.model": self._models[side] for side in SIDES}
        return {SETTINGS: self.settings.as_json().encode(), **vocabularies, **models}

    def _segment(self, text: str, side: Side) -> list[str]:
        opening = _opening_tag(text, self.settings.opening)
        pieces = [opening] if opening else []
        text = text[len(opening) :]
        if self._tags is None:
            return pieces + self._segmenters[side].segment(text)
        for part in self._tags.split(text):
            if part in self.settings.tags:
                pieces.append(part)
            elif part:
                pieces += self._segmenters[side].segment(part)
        return pieces

    def _special_tokens(self, pieces: Sequence[str]) -> list[str]:
        """Special tokens around a text, with the language tokens in place of the placeholders."""
        settings = self.settings
        codes = {SOURCE: settings.source_language, TARGET: settings.target_language}
        filled = []
        for piece in pieces:
            code = codes.get(piece)
            if piece in codes and code is None:
                raise InputError(
                    f"This model translates between {len(settings.languages)} languages: choose two of them with "
                    f"--source-language and --target-language (such as {next(iter(settings.languages), 'none')})."
                )
            filled.append(piece if code is None else settings.languages[code])
        return filled


class IdsOnly:
    """Placeholder for the tokenizer of a model that has none: every use raises an error that says so."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise InputError(
            "This model has no tokenizer: it takes token ids, not text, as in model(source_ids, target_ids)."
        )

    encode = decode = pieces = ids_of = _refuse


AnyTokenizer = Tokenizer | ImportedTokenizer


def read_tokenizer(directory: Path) -> AnyTokenizer:
    """Read the tokenizer of a model directory, trained by glassformer or imported."""
    try:
        kind = json.loads((directory / SETTINGS).read_bytes()).get("kind")
    except (OSError, ValueError, AttributeError, RecursionError):
        kind = None  # `Tokenizer.read` reports what is wrong
    return ImportedTokenizer.read(directory) if kind == "foreign" else Tokenizer.read(directory)


def pieces_by_id(ids: Mapping[str, int], size: int) -> list[str]:
    """A vocabulary of this size as a list, from the id of each piece; unused ids get a placeholder."""
    pieces = [_placeholder(piece_id) for piece_id in range(size)]
    for piece, piece_id in ids.items():
        if not 0 <= piece_id < size:
            raise DataError(f"{piece!r} has the id {piece_id}, out of range for the model's {size} tokens.")
        pieces[piece_id] = piece
    return pieces


def _placeholder(piece_id: int) -> str:
    return f"<no. {piece_id}>"


def _opening_tag(text: str, delimiters: Sequence[str]) -> str:
    """The tag at the start of a text, from one delimiter to the other, such as >>fra<<; empty without a tag."""
    first, last = delimiters if len(delimiters) == 2 else ("", "")
    end = text.find(last) if first and text.startswith(first) else -1
    return text[: end + len(last)] if end >= 0 else ""


def _vocabulary_name(settings: ImportedTokenizerSettings, side: Side) -> str:
    return "joint" if settings.joint else side


def _ids_by_piece(vocabulary: Sequence[str]) -> dict[str, int]:
    try:
        "".join(vocabulary).encode()
    except UnicodeEncodeError:
        raise DataError("the vocabulary contains an unpaired surrogate, which is not a valid character.") from None
    ids: dict[str, int] = {}
    for piece_id, piece in enumerate(vocabulary):
        ids.setdefault(piece, piece_id)  # the first of duplicates counts
    return ids


def _parse_vocabulary(content: bytes) -> list[str]:
    from glassformer.data.json_streaming import TableError, check_end, read_string_list, value_start
    from glassformer.data.tokenizer_pipeline.tokenizer_json_file import MAX_PIECES

    try:
        pieces, end = read_string_list(content, value_start(content), MAX_PIECES)
        check_end(content, end)
    except TableError as error:
        raise DataError(f"the vocabulary is not a list of pieces: {error}.") from None
    return pieces


def _pipeline(model: bytes) -> Segmenter:
    from glassformer.data.tokenizer_pipeline import Pipeline  # imports much, and few models need it

    return Pipeline(model)
