"""Text to token ids and back, for both sides of a corpus: SentencePiece, trained on the corpus itself.

No text is lost: characters outside the vocabulary become their bytes, so decode(encode(x)) = normalise(x) for any x;
only kind "word" knows unknown words. Knows nothing of models.
"""

import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import sentencepiece
from pydantic import Field

from glassformer.data.corpus import Pair
from glassformer.errors import DataError, DirectoryError, InputError
from glassformer.settings import Settings

PAD, BOS, EOS, UNKNOWN = range(4)
SETTINGS = "tokenizer.json"
Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")


class TokenizerSettings(Settings):
    """How text is cut into tokens."""

    kind: Literal["unigram", "bpe", "char", "word"] = "unigram"
    """Pieces of words by likelihood or by merging, single characters, or whatever stands between spaces."""
    vocab_size: Annotated[int, Field(ge=8)] = 8000
    """Tokens to tell apart, at most; kind "char" takes as many as there are characters."""
    joint: bool = True
    """Whether source and target share one vocabulary."""
    tags: list[str] = Field(default_factory=list)
    """Words of the text that are always one token, such as "<2de>" at the start of a source that wants German."""
    character_coverage: Annotated[float, Field(gt=0.9, le=1)] = 0.9999
    """Share of all characters that get tokens of their own; the rarest are spelled in bytes."""


class Tokenizer:
    """Text to ids and back. Ids of a sentence end with the end of sentence, and carry no start."""

    def __init__(self, settings: TokenizerSettings, models: dict[Side, bytes]) -> None:
        self.settings = settings
        self._models = models
        opened = {model: _opened(model) for model in set(models.values())}  # a joint one once
        self._sides = {side: opened[model] for side, model in models.items()}

    def __reduce__(self) -> tuple[object, ...]:  # worker processes get one by its bytes
        return type(self), (self.settings, self._models)

    def vocab_size(self, side: Side) -> int:
        return self._sides[side].vocab_size()

    def encode(self, text: str, side: Side) -> list[int]:
        """The ids of a text, and the end of sentence."""
        check_text(text)
        return [*self._sides[side].encode(normalise(text, self.settings.kind)), EOS]

    def decode(self, ids: Iterable[int], side: Side = "target") -> str:
        """The text of ids; what is not text (padding, start, end) is passed over."""
        return self._sides[side].decode([i for i in ids if i not in (PAD, BOS, EOS)])

    def pieces(self, ids: Iterable[int], side: Side) -> list[str]:
        """Each token as one would show it; ▁ stands for a space."""
        return [self._sides[side].id_to_piece(i) for i in ids]

    def ids_of(self, pieces: Sequence[str], side: Side = "target") -> tuple[int, ...]:
        """The ids of tokens as `pieces` shows them; a word may be given without its ▁."""
        known = {self._sides[side].id_to_piece(i): i for i in range(self.vocab_size(side))}
        return ids_among(known, pieces, "▁")

    def write(self, directory: Path) -> None:
        """The files of this tokenizer into a directory under construction."""
        directory.mkdir(exist_ok=True)
        (directory / SETTINGS).write_text(self.settings.as_json(), encoding="utf-8")
        for name, model in self.files().items():
            (directory / name).write_bytes(model)

    @classmethod
    def read(cls, directory: Path) -> "Tokenizer":
        """A tokenizer from the files that `write` made."""
        settings = TokenizerSettings.read(directory / SETTINGS)
        try:
            return cls(settings, {side: (directory / _file_name(settings, side)).read_bytes() for side in SIDES})
        except OSError as error:
            raise DirectoryError(f"{error.filename} cannot be read: {error.strerror}.") from None
        except DataError as error:
            raise DirectoryError(f"{directory}: {error}") from None

    def files(self) -> dict[str, bytes]:
        """What it is made of, by file name."""
        return {_file_name(self.settings, side): model for side, model in self._models.items()}


def check_text(text: str) -> None:
    """Python's text may hold what no file can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{text!r} has half of a surrogate pair, which is no character.") from None


def ids_among(known: Mapping[str, int], pieces: Sequence[str], marks: str) -> tuple[int, ...]:
    """The numbers of pieces, also where each is known with a mark of a word's beginning before it."""
    found: set[int] = set()
    for piece in pieces:
        ids = {known[form] for form in (piece, *(f"{mark}{piece}" for mark in marks)) if form in known}
        if not ids:
            raise InputError(f"{piece!r} is no token of this model: `--json` shows how it cuts text into tokens.")
        found |= ids
    return tuple(sorted(found))


def _file_name(settings: TokenizerSettings, side: Side) -> str:
    return "joint.model" if settings.joint else f"{side}.model"


def train_tokenizer(settings: TokenizerSettings, pairs: Callable[[], Iterable[Pair]]) -> Tokenizer:
    """Learn a vocabulary from pairs, asked for once for each vocabulary; the same pairs give the same bytes.

    All of them are held in memory while it learns: of a large corpus, hand over a sample.
    """
    if settings.joint:
        model = _train(settings, (text for pair in pairs() for text in pair[1:]))
        return Tokenizer(settings, {"source": model, "target": model})
    return Tokenizer(
        settings,
        {
            "source": _train(settings, (pair.source for pair in pairs())),
            "target": _train(settings, (pair.target for pair in pairs())),
        },
    )


def normalise(text: str, kind: str = "unigram") -> str:
    """One way of writing each character (NFC), and SentencePiece's ▁ as the space it stands for.

    For kind "word", any spaces between words are one.
    """
    text = unicodedata.normalize("NFC", text).replace("▁", " ")
    return " ".join(text.split()) if kind == "word" else text


def _train(settings: TokenizerSettings, texts: Iterator[str]) -> bytes:
    lines = [line for text in texts if (line := normalise(text, settings.kind).strip())]
    if not lines:
        raise DataError("There is no text to learn a vocabulary from: every line is empty.")
    try:
        return _run_trainer(settings, lines, settings.vocab_size)
    except RuntimeError as error:
        # A small corpus has fewer pieces than were asked for; then it gets as many as there are.
        if possible := re.search(r"value <= (\d+)", str(error)):
            return _run_trainer(settings, lines, int(possible[1]))
        needed = re.search(r"(\d+) vs (\d+)", str(error))
        raise DataError(
            f"A vocabulary of {settings.vocab_size} tokens is too small for this text: its characters, 256 bytes and "
            f"the tags already need {needed[2] if needed else 'more'}. Raise vocab_size, or lower character_coverage."
        ) from None


def _run_trainer(settings: TokenizerSettings, lines: list[str], vocab_size: int) -> bytes:
    whole_words = settings.kind == "word"
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type=settings.kind,
        vocab_size=vocab_size,
        hard_vocab_limit=False,
        use_all_vocab=settings.kind == "char",
        byte_fallback=not whole_words,
        normalization_rule_name="identity",  # `normalise` has done it, and nothing else may
        remove_extra_whitespaces=whole_words,
        character_coverage=1.0 if settings.kind in ("char", "word") else settings.character_coverage,
        user_defined_symbols=settings.tags,
        pad_id=PAD,
        bos_id=BOS,
        eos_id=EOS,
        unk_id=UNKNOWN,
        num_threads=1,  # sums in one order: the same text gives the same bytes
        max_sentence_length=2**20,
        minloglevel=2,
    )
    return model.getvalue()


def _opened(model: bytes) -> sentencepiece.SentencePieceProcessor:
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    except (RuntimeError, ValueError) as error:
        raise DataError(f"the SentencePiece model cannot be opened ({str(error).splitlines()[0]}).") from None
    if [processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id()] != [PAD, BOS, EOS, UNKNOWN]:
        raise DataError("the SentencePiece model numbers its special tokens in another way than ours.")
    return processor
