"""SentencePiece tokenizer, trained on a corpus: text to token ids and back, for source and target.

Lossless: byte fallback covers characters outside the vocabulary, so decode(encode(x)) = normalise(x) for any x; only
kind "word" has out-of-vocabulary words.
"""

import io
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import sentencepiece
from pydantic import Field

from glassformer.data.corpus import Pair
from glassformer.data.given_texts import check_text
from glassformer.errors import DataError, DirectoryError, InputError
from glassformer.settings import Settings

PAD, BOS, EOS, UNKNOWN = range(4)
SETTINGS = "tokenizer.json"
Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")


class TokenizerSettings(Settings):
    """Settings of a SentencePiece tokenizer: how text is segmented into tokens."""

    kind: Literal["unigram", "bpe", "char", "word"] = "unigram"
    """SentencePiece's model type: unigram or BPE subwords, single characters, or words separated by whitespace."""
    vocab_size: Annotated[int, Field(ge=8)] = 8000
    """Maximum number of tokens in the vocabulary; kind "char" takes all characters that occur."""
    joint: bool = True
    """Whether source and target share one vocabulary."""
    tags: list[str] = Field(default_factory=list)
    """User-defined symbols, always one token each, such as "<2de>" in front of a source to translate into German."""
    character_coverage: Annotated[float, Field(gt=0.9, le=1)] = 0.9999
    """Share of character occurrences covered by tokens of their own; the rarest characters are encoded as bytes."""


class Tokenizer:
    """SentencePiece tokenizer: text to ids and back. The ids of a sentence end with EOS and have no BOS."""

    def __init__(self, settings: TokenizerSettings, models: dict[Side, bytes]) -> None:
        self.settings = settings
        self._models = models
        processors = {model: _load_processor(model) for model in set(models.values())}  # a joint model only once
        self._processors = {side: processors[model] for side, model in models.items()}

    def __reduce__(self) -> tuple[object, ...]:  # pickled for worker processes as settings and model bytes
        return type(self), (self.settings, self._models)

    def vocab_size(self, side: Side) -> int:
        return self._processors[side].vocab_size()

    def encode(self, text: str, side: Side) -> list[int]:
        """The ids of a text, with EOS."""
        check_text(text)
        return [*self._processors[side].encode(normalise(text, self.settings.kind)), EOS]

    def decode(self, ids: Iterable[int], side: Side = "target") -> str:
        """The text of ids; PAD, BOS and EOS are skipped."""
        return self._processors[side].decode([i for i in ids if i not in (PAD, BOS, EOS)])

    def pieces(self, ids: Iterable[int], side: Side) -> list[str]:
        """The piece of each id, for display; ▁ stands for a space."""
        return [self._processors[side].id_to_piece(i) for i in ids]

    def is_text(self, token: int, side: Side) -> bool:
        """Whether a token is a piece of text: not a special token, a byte or a tag."""
        processor = self._processors[side]
        special = processor.is_control(token) or processor.is_unknown(token) or processor.is_byte(token)
        return not special and processor.id_to_piece(token) not in self.settings.tags

    def ids_of(self, pieces: Sequence[str], side: Side = "target") -> tuple[int, ...]:
        """The ids of tokens given as `pieces` returns them; the ▁ at the start of a word is optional."""
        vocabulary = {self._processors[side].id_to_piece(i): i for i in range(self.vocab_size(side))}
        return lookup_pieces(vocabulary, pieces, "▁")

    def write(self, directory: Path) -> None:
        """Write the tokenizer's files into a directory under construction."""
        directory.mkdir(exist_ok=True)
        (directory / SETTINGS).write_text(self.settings.as_json(), encoding="utf-8")
        for name, model in self.files().items():
            (directory / name).write_bytes(model)

    @classmethod
    def read(cls, directory: Path) -> "Tokenizer":
        """Read a tokenizer from the files written by `write`."""
        settings = TokenizerSettings.read(directory / SETTINGS)
        try:
            return cls(settings, {side: (directory / _file_name(settings, side)).read_bytes() for side in SIDES})
        except OSError as error:
            raise DirectoryError(f"{error.filename} cannot be read: {error.strerror}.") from None
        except DataError as error:
            raise DirectoryError(f"{directory}: {error}") from None

    def files(self) -> dict[str, bytes]:
        """The contents of the SentencePiece model files, by file name."""
        return {_file_name(self.settings, side): model for side, model in self._models.items()}


def lookup_pieces(vocabulary: Mapping[str, int], pieces: Sequence[str], markers: str) -> tuple[int, ...]:
    """The ids of pieces, each looked up as given and with each of the word-start markers in front."""
    ids: set[int] = set()
    for piece in pieces:
        matches = {vocabulary[form] for form in (piece, *(f"{mark}{piece}" for mark in markers)) if form in vocabulary}
        if not matches:
            raise InputError(
                f"{piece!r} is not a token of this model. In the output of `glassformer translate MODEL --json`, "
                "`tokens` shows how texts are split."
            )
        ids |= matches
    return tuple(sorted(ids))


def _file_name(settings: TokenizerSettings, side: Side) -> str:
    return "joint.model" if settings.joint else f"{side}.model"


def train_tokenizer(settings: TokenizerSettings, pairs: Iterable[Pair]) -> Tokenizer:
    """Train a tokenizer on sentence pairs; the same pairs give the same bytes.

    All sentences are held in memory: for a large corpus, pass a sample.
    """
    if settings.joint:
        model = _train(settings, (text for pair in pairs for text in pair[1:]))
        return Tokenizer(settings, {"source": model, "target": model})
    pairs = list(pairs)
    return Tokenizer(settings, {side: _train(settings, (getattr(pair, side) for pair in pairs)) for side in SIDES})


def normalise(text: str, kind: str = "unigram") -> str:
    """Unicode NFC, with SentencePiece's ▁ replaced by the space it stands for.

    For kind "word", whitespace between words is collapsed to one space.
    """
    text = unicodedata.normalize("NFC", text).replace("▁", " ")
    return " ".join(text.split()) if kind == "word" else text


def _train(settings: TokenizerSettings, texts: Iterable[str]) -> bytes:
    lines = [line for text in texts if (line := normalise(text, settings.kind).strip())]
    if not lines:
        raise DataError("There is no text to train a vocabulary on: every line is empty.")
    try:
        return _run_trainer(settings, lines, settings.vocab_size)
    except RuntimeError as error:
        # A small corpus has fewer pieces than vocab_size: retry with the maximum that SentencePiece reports.
        if maximum := re.search(r"value <= (\d+)", str(error)):
            return _run_trainer(settings, lines, int(maximum[1]))
        required = re.search(r"(\d+) vs (\d+)", str(error))
        raise DataError(
            f"A vocabulary of {settings.vocab_size} tokens is too small for this text: its characters, 256 byte "
            f"tokens and the special tokens need {required[2] if required else 'more'}. Raise tokenizer.vocab_size; "
            "8000 is usual."
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
        normalization_rule_name="identity",  # `normalise` has already been applied
        remove_extra_whitespaces=whole_words,
        character_coverage=1.0 if settings.kind in ("char", "word") else settings.character_coverage,
        user_defined_symbols=settings.tags,
        pad_id=PAD,
        bos_id=BOS,
        eos_id=EOS,
        unk_id=UNKNOWN,
        num_threads=1,  # a fixed summation order: the same text gives the same bytes
        max_sentence_length=2**20,
        minloglevel=2,
    )
    return model.getvalue()


def _load_processor(model: bytes) -> sentencepiece.SentencePieceProcessor:
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    except (RuntimeError, ValueError) as error:
        raise DataError(f"the SentencePiece model cannot be loaded ({str(error).splitlines()[0]}).") from None
    if [processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id()] != [PAD, BOS, EOS, UNKNOWN]:
        raise DataError(
            f"the SentencePiece model must have the special token ids {PAD} (pad), {BOS} (bos), {EOS} (eos) and "
            f"{UNKNOWN} (unk)."
        )
    return processor
