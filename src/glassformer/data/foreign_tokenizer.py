"""Tokenizers that came with a model from elsewhere: how text is cut, the number of each piece, what stands around them.

Knows nothing of the programs they come from: whoever brings one in says what it is like.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NoReturn

from pydantic import Field

from glassformer.data.json_tables import TableError, check_end, listed, start_of
from glassformer.data.subword_segmentation import (
    ByteLevelSegmenter,
    Cut,
    Segmenter,
    SentencePieceSegmenter,
    SubwordNMTSegmenter,
    WordSegmenter,
)
from glassformer.data.tokenizer import SETTINGS, SIDES, Side, Tokenizer, check_text, ids_among
from glassformer.data.tokenizer_pipeline import Pipeline
from glassformer.data.tokenizer_pipeline.tokenizer_json_file import MOST_PIECES
from glassformer.errors import DataError, DirectoryError, InputError
from glassformer.settings import Settings

CUTTERS: dict[Cut, Callable[[bytes], Segmenter]] = {
    "sentencepiece": SentencePieceSegmenter,
    "byte-level": ByteLevelSegmenter,
    "subword-nmt": SubwordNMTSegmenter,
    "words": WordSegmenter,
    "pipeline": Pipeline,
}
SOURCE, TARGET = "{source}", "{target}"
"""Stand for the pieces of the two languages in what is put around a text."""


class ForeignSettings(Settings):
    """How such a tokenizer goes from text to numbers."""

    kind: Literal["foreign"] = "foreign"
    """Tells it from tokenizers that were trained here."""
    cut: Cut
    """How text becomes pieces."""
    joint: bool
    """Whether source and target share one vocabulary."""
    unknown: str = "<unk>"
    """The piece that stands for all others."""
    before_source: list[str] = Field(default_factory=list)
    """Pieces before a source; {source} and {target} stand for the pieces of the languages."""
    after_source: list[str]
    """Pieces behind a source."""
    before_target: list[str] = Field(default_factory=list)
    """Pieces that a target begins with."""
    after_target: list[str]
    """Pieces behind a target: its end."""
    languages: dict[str, str] = Field(default_factory=dict)
    """Codes of languages and the pieces that stand for them; none where the model knows one pair only."""
    source_language: str | None = None
    """The code of the source's language, where the text must say it."""
    target_language: str | None = None
    """The code of the target's language."""
    tags: list[str] = Field(default_factory=list)
    """Pieces that may be written in the text as they are."""
    opening: Annotated[list[str], Field(max_length=2)] = Field(default_factory=list)
    """Two signs, or none: where a text begins with the first, it is one piece up to the second, known or not, such as
    >>fra<<."""
    hidden: list[str] = Field(default_factory=list)
    """Pieces that are no text: left out when a target is read."""


class ForeignTokenizer:
    """Text to ids and back, as the program that the model comes from does it."""

    def __init__(
        self,
        settings: ForeignSettings,
        vocabularies: Mapping[Side, Sequence[str]],
        models: Mapping[Side, bytes],
        opened: Mapping[bytes, Segmenter] | None = None,
    ) -> None:
        """`opened`: models that need not be opened again."""
        self.settings = settings
        self._vocabularies = {side: list(vocabularies[side]) for side in SIDES}
        self._models = dict(models)
        cutters = dict(opened or {})
        cutters |= {
            model: CUTTERS[settings.cut](model) for model in {*models.values()} - cutters.keys()
        }  # a joint one once
        self._cutters = {side: cutters[models[side]] for side in SIDES}
        numbers = [_numbers(self._vocabularies["source"])]
        numbers.append(numbers[0] if settings.joint else _numbers(self._vocabularies["target"]))
        self._numbers = dict(zip(SIDES, numbers, strict=True))
        for side in SIDES:
            if settings.unknown not in self._numbers[side]:
                raise DataError(f"the {side} vocabulary has no {settings.unknown!r}, which stands for all others.")
        for code in (settings.source_language, settings.target_language):
            if code is not None and code not in settings.languages:
                raise DataError(f"the language {code!r} is not one of those that it has pieces for.")
        longest_first = sorted(settings.tags, key=len, reverse=True)
        self._tags = re.compile(f"({'|'.join(map(re.escape, longest_first))})") if longest_first else None
        hidden = {*settings.hidden, *settings.languages.values(), *settings.before_target, *settings.after_target}
        self._hidden = {
            side: {i for i, piece in enumerate(self._vocabularies[side]) if piece in hidden or piece == _nameless(i)}
            for side in SIDES
        }

    @classmethod
    def joint(cls, settings: ForeignSettings, vocabulary: Sequence[str], model: bytes) -> "ForeignTokenizer":
        """One whose sides are alike."""
        return cls(settings, dict.fromkeys(SIDES, vocabulary), dict.fromkeys(SIDES, model))

    def __reduce__(self) -> tuple[object, ...]:  # worker processes get one by what it is made of
        return type(self), (self.settings, self._vocabularies, self._models)

    def vocab_size(self, side: Side) -> int:
        return len(self._vocabularies[side])

    @property
    def marks(self) -> Cut:
        """Whose marks its pieces bear: of a pipeline, SentencePiece's or those of bytes."""
        cutter = self._cutters["target"]
        if isinstance(cutter, Pipeline):
            return "byte-level" if cutter.bytes_as_letters else "sentencepiece"
        return self.settings.cut

    def encode(self, text: str, side: Side) -> list[int]:
        """The ids of a text, and of what stands around it."""
        check_text(text)
        numbers = self._numbers[side]
        unknown = numbers[self.settings.unknown]
        before, after = self._around(side)
        return [numbers.get(piece, unknown) for piece in (*before, *self._cut(text, side), *after)]

    def decode(self, ids: Iterable[int], side: Side = "target") -> str:
        """The text of ids; what is not text is passed over."""
        pieces = [self._vocabularies[side][i] for i in ids if i not in self._hidden[side]]
        return self._cutters[side].join(pieces)

    def pieces(self, ids: Iterable[int], side: Side) -> list[str]:
        """Each token as one would show it."""
        return [self._vocabularies[side][i] for i in ids]

    def ids_of(self, pieces: Sequence[str], side: Side = "target") -> tuple[int, ...]:
        """The ids of tokens as `pieces` shows them; a word may be given without its ▁."""
        return ids_among(self._numbers[side], pieces, "▁Ġ")

    def between(self, source: str | None, target: str | None) -> "ForeignTokenizer":
        """The same for these languages; None leaves one as it is."""
        known = self.settings.languages
        for code in (source, target):
            if code is not None and code not in known:
                some = ", ".join(list(known)[:8]) + (", ..." if len(known) > 8 else "")
                way_out = f"it knows {some}" if known else "it was made for one pair of languages"
                raise InputError(f"This model knows no language {code!r}: {way_out}.")
        own = self.settings
        said = TARGET in (*own.before_source, *own.after_source, *own.before_target)
        if not said and target not in (None, own.target_language):
            only = own.target_language or "one language"
            raise InputError(
                f"This model translates into {only} only, not into {target!r}: the token that it starts from says so."
            )
        chosen = {"source_language": source, "target_language": target}
        settings = self.settings.model_copy(update={name: code for name, code in chosen.items() if code is not None})
        models = {self._models[side]: self._cutters[side] for side in SIDES}
        return ForeignTokenizer(settings, self._vocabularies, self._models, models)

    def write(self, directory: Path) -> None:
        """The files of this tokenizer into a directory under construction."""
        directory.mkdir(exist_ok=True)
        for name, content in self.files().items():
            (directory / name).write_bytes(content)

    @classmethod
    def read(cls, directory: Path) -> "ForeignTokenizer":
        """A tokenizer from the files that `write` made."""
        settings = ForeignSettings.read(directory / SETTINGS)
        try:
            names = {side: _name(settings, side) for side in SIDES}
            vocabularies = {name: _vocabulary((directory / f"{name}.json").read_bytes()) for name in names.values()}
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
        """What it is made of, by file name."""
        vocabularies = {
            f"{_name(self.settings, side)}.json": json.dumps(self._vocabularies[side], ensure_ascii=False).encode()
            for side in SIDES
        }
        models = {f"{side}.model": self._models[side] for side in SIDES}
        return {SETTINGS: self.settings.as_json().encode(), **vocabularies, **models}

    def _cut(self, text: str, side: Side) -> list[str]:
        opening = _opening(text, self.settings.opening)
        pieces = [opening] if opening else []
        text = text[len(opening) :]
        if self._tags is None:
            return pieces + self._cutters[side].cut(text)
        for part in self._tags.split(text):
            if part in self.settings.tags:
                pieces.append(part)
            elif part:
                pieces += self._cutters[side].cut(part)
        return pieces

    def _around(self, side: Side) -> tuple[list[str], list[str]]:
        settings = self.settings
        both = (
            (settings.before_source, settings.after_source)
            if side == "source"
            else (settings.before_target, settings.after_target)
        )
        return self._named(both[0]), self._named(both[1])

    def _named(self, pieces: Sequence[str]) -> list[str]:
        settings = self.settings
        chosen = {SOURCE: settings.source_language, TARGET: settings.target_language}
        found = []
        for piece in pieces:
            code = chosen.get(piece)
            if piece in chosen and code is None:
                raise InputError(
                    f"This model translates between {len(settings.languages)} languages: name two of them with "
                    f"--source-language and --target-language (such as {next(iter(settings.languages), 'none')})."
                )
            found.append(piece if code is None else settings.languages[code])
        return found


class IdsOnly:
    """Stands where a model came without a tokenizer: whoever asks for text is told so."""

    def _refuse(self) -> NoReturn:
        raise InputError(
            "This model came without a tokenizer: it takes ids, not text, as model(source_ids, target_ids)."
        )

    def encode(self, text: str, side: Side) -> list[int]:
        self._refuse()

    def decode(self, ids: Iterable[int], side: Side = "target") -> str:
        self._refuse()

    def pieces(self, ids: Iterable[int], side: Side) -> list[str]:
        self._refuse()

    def ids_of(self, pieces: Sequence[str], side: Side = "target") -> tuple[int, ...]:
        self._refuse()


AnyTokenizer = Tokenizer | ForeignTokenizer


def read_tokenizer(directory: Path) -> AnyTokenizer:
    """The tokenizer of a directory, of whichever kind."""
    try:
        kind = json.loads((directory / SETTINGS).read_bytes()).get("kind")
    except (OSError, ValueError, AttributeError, RecursionError):
        kind = None  # reading it will say what is wrong
    return ForeignTokenizer.read(directory) if kind == "foreign" else Tokenizer.read(directory)


def by_number(numbers: Mapping[str, int], size: int) -> list[str]:
    """A vocabulary of this size as a list, from the number of each piece; numbers that nobody has get a name."""
    pieces = [_nameless(number) for number in range(size)]
    for piece, number in numbers.items():
        if not 0 <= number < size:
            raise DataError(f"{piece!r} has the number {number}, outside of the model's {size} tokens.")
        pieces[number] = piece
    return pieces


def _nameless(number: int) -> str:
    return f"<no. {number}>"


def _opening(text: str, signs: Sequence[str]) -> str:
    """What a text begins with, from one sign to the other; nothing, if it does not."""
    first, last = signs if len(signs) == 2 else ("", "")
    end = text.find(last) if first and text.startswith(first) else -1
    return text[: end + len(last)] if end >= 0 else ""


def _name(settings: ForeignSettings, side: Side) -> str:
    return "joint" if settings.joint else side


def _numbers(vocabulary: Sequence[str]) -> dict[str, int]:
    try:
        "".join(vocabulary).encode()
    except UnicodeEncodeError:
        raise DataError("the vocabulary has half of a surrogate pair, which is no character.") from None
    numbers: dict[str, int] = {}
    for number, piece in enumerate(vocabulary):
        numbers.setdefault(piece, number)  # of two that look alike, the first
    return numbers


def _vocabulary(content: bytes) -> list[str]:
    try:
        pieces, end = listed(content, start_of(content), MOST_PIECES)
        check_end(content, end)
    except TableError as error:
        raise DataError(f"the vocabulary is not a list of pieces: {error}.") from None
    return pieces
