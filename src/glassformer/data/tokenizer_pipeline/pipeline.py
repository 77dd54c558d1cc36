"""All parts together: text to pieces and back."""

import reprlib
from collections.abc import Sequence
from functools import reduce
from typing import Any

from glassformer.data.tokenizer_pipeline.added_tokens import AddedTokenFinder, added_tokens
from glassformer.data.tokenizer_pipeline.bpe import BPE, Merges
from glassformer.data.tokenizer_pipeline.component import Component, none_of
from glassformer.data.tokenizer_pipeline.decoders import UNKNOWN, is_byte_level, joiners
from glassformer.data.tokenizer_pipeline.normalizers import Strip, normal_form
from glassformer.data.tokenizer_pipeline.pre_tokenizers import splitters, words_of
from glassformer.data.tokenizer_pipeline.tokenizer_json_file import TokenizerFile, taken_apart
from glassformer.data.tokenizer_pipeline.unigram import Unigram
from glassformer.errors import DataError


class Pipeline:
    """As the file of `tokenizers` describes it; what it does not know, it refuses by name."""

    def __init__(self, content: bytes) -> None:
        self._set_up(taken_apart(content))

    @classmethod
    def of(cls, file: TokenizerFile) -> "Pipeline":
        """From a file that has been read."""
        found = cls.__new__(cls)
        found._set_up(file)
        return found

    def _set_up(self, file: TokenizerFile) -> None:
        self.file = file
        self.added = added_tokens(file.rest.get("added_tokens"))
        self.unknown = unknown_of(file)
        self._steps = normal_form(file.rest.get("normalizer"))
        self._splitters = splitters(file.rest.get("pre_tokenizer"))
        self._joiners = joiners(file.rest.get("decoder"))
        self._no_joiner = file.rest.get("decoder") is None
        self.bytes_as_letters = is_byte_level(file.rest.get("decoder"))
        written = [token for token in self.added if token.in_texts]
        self._raw = AddedTokenFinder([token for token in written if not token.normalized])
        self._normal = AddedTokenFinder([token for token in written if token.normalized], self._form)
        self._shown = {token.content: self._form(token.content) for token in self.added if token.normalized}
        self._shown |= {self.unknown: UNKNOWN} if self.unknown is not None else {}
        self._model = self._made(Component("model", _typed(file)))

    def cut(self, text: str) -> list[str]:
        found: list[str] = []
        first = True
        for part, token in self._raw.split(text):
            if token is not None:
                found.append(token)
            else:
                first = first and not self._loses_its_beginning(part)
                found += self._pieces(self._form(part), first)
            first = False
        return found

    def join(self, pieces: Sequence[str]) -> str:
        found = [self._shown.get(piece, piece) for piece in pieces]
        if self._no_joiner:
            return " ".join(found)
        for step in self._joiners:
            found = step(found)
        return "".join(found)

    def _pieces(self, text: str, first: bool) -> list[str]:
        found: list[str] = []
        for part, token in self._normal.split(text):
            if token is not None:
                found.append(token)
            else:
                for word in words_of(part, first, self._splitters):
                    found += self._model.cut(word)
            first = False
        return found

    def _form(self, text: str) -> str:
        return reduce(lambda so_far, step: step(so_far), self._steps, text)

    def _loses_its_beginning(self, text: str) -> bool:
        """Whether spaces are taken from its front: a word behind them does not begin the text, to theirs."""
        for step in self._steps:
            if isinstance(step, Strip) and step.takes_from_front(text):
                return True
            text = step(text)
        return False

    def _made(self, part: Component) -> Unigram | BPE:
        by_bytes = part.flag("byte_fallback", False)
        if part.kind == "Unigram" and self.file.scores is not None:
            never = {token.content for token in self.added if not token.in_texts}
            return Unigram(self.file.scores, self.unknown, by_bytes, never)
        if part.kind == "BPE" and self.file.scores is None:
            none_of(
                part, {"dropout": (None, 0), "continuing_subword_prefix": (None, ""), "end_of_word_suffix": (None, "")}
            )
            merges = Merges(self.file.pairs)
            fused, whole = part.flag("fuse_unk", False), part.flag("ignore_merges", False)
            return BPE(self.file.numbers, merges, self.unknown, fused, by_bytes, whole)
        raise part.strange()


def _typed(file: TokenizerFile) -> Any:
    """The model's entry; older files do not say what it is, but it can be seen."""
    if not isinstance(file.model, dict) or "type" in file.model:
        return file.model
    kind = "Unigram" if file.scores is not None else "BPE" if "merges" in file.model else "WordPiece"
    return {"type": kind, **file.model}


def unknown_of(file: TokenizerFile) -> str | None:
    """The piece that stands for all others; None if the model has none."""
    model = file.model if isinstance(file.model, dict) else {}
    if file.scores is None:
        unknown = model.get("unk_token")
        if unknown is not None and not isinstance(unknown, str):
            raise DataError(f"its model has unk_token = {reprlib.repr(unknown)}, which is no text.")
        return unknown
    number = model.get("unk_id")
    if number is None:
        return None
    if type(number) is not int or not 0 <= number < len(file.scores):
        raise DataError(f"its model has unk_id = {reprlib.repr(number)}, which no piece has.")
    return list(file.scores)[number]
