"""The pipeline of a `tokenizer.json`, assembled from its components: text to pieces and back."""

import reprlib
from collections.abc import Sequence
from functools import reduce
from typing import Any

from glassformer.data.tokenizer_pipeline.added_tokens import AddedTokenFinder, added_tokens
from glassformer.data.tokenizer_pipeline.bpe import BPE, Merges
from glassformer.data.tokenizer_pipeline.charsmap import CharsMap
from glassformer.data.tokenizer_pipeline.component import Component
from glassformer.data.tokenizer_pipeline.decoders import UNKNOWN_TEXT, decoder_steps, is_byte_level
from glassformer.data.tokenizer_pipeline.normalizers import normalizer_steps
from glassformer.data.tokenizer_pipeline.pre_tokenizers import pre_tokenize, pre_tokenizer_steps
from glassformer.data.tokenizer_pipeline.tokenizer_json_file import MAX_PIECES, TokenizerFile, parse_tokenizer_json
from glassformer.data.tokenizer_pipeline.unigram import Unigram
from glassformer.errors import DataError

BPE_OPTIONS = {
    "dropout": (None, 0),
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "byte_fallback": (None, False),
    "ignore_merges": (None, False),
}
"""The supported values of options that no BPE tokenizer of a supported family sets."""


class Pipeline:
    """Segmenter that runs the pipeline of a `tokenizer.json`; unsupported components are refused by name."""

    def __init__(self, content: bytes, max_pieces: int = MAX_PIECES) -> None:
        self.file = file = parse_tokenizer_json(content, max_pieces)
        self.added = added_tokens(file.rest.get("added_tokens"))
        self.unknown = unknown_token(file)
        self._normalizers = normalizer_steps(file.rest.get("normalizer"))
        self._pre_tokenizers = pre_tokenizer_steps(file.rest.get("pre_tokenizer"))
        self._decoders = decoder_steps(file.rest.get("decoder"))
        self._has_no_decoder = file.rest.get("decoder") is None
        self.byte_level = is_byte_level(file.rest.get("decoder"))
        matched = [token for token in self.added if token.matches_in_texts]
        self._raw_finder = AddedTokenFinder([token for token in matched if not token.normalized])
        self._normalized_finder = AddedTokenFinder([token for token in matched if token.normalized], self._normalize)
        self._texts = {token.content: self._normalize(token.content) for token in self.added if token.normalized}
        self._texts |= {self.unknown: UNKNOWN_TEXT} if self.unknown is not None else {}
        self._model = self._build_model(Component("model", _with_type(file)))

    def segment(self, text: str) -> list[str]:
        pieces: list[str] = []
        for i, (raw, raw_token) in enumerate(self._raw_finder.split(text)):
            if raw_token is not None:
                pieces.append(raw_token)
                continue
            for j, (part, token) in enumerate(self._normalized_finder.split(self._normalize(raw))):
                if token is not None:
                    pieces.append(token)
                    continue
                leading = self._leading_characters(raw) if i == j == 0 else 0
                for word in pre_tokenize(part, leading, self._pre_tokenizers):
                    pieces += self._model.tokenize(word)
        return pieces

    def join(self, pieces: Sequence[str]) -> str:
        texts = [self._texts.get(piece, piece) for piece in pieces]
        if self._has_no_decoder:
            return " ".join(texts)
        for step in self._decoders:
            texts = step(texts)
        return "".join(texts)

    def _normalize(self, text: str) -> str:
        return reduce(lambda so_far, step: step(so_far), self._normalizers, text)

    def _leading_characters(self, text: str) -> int:
        """How many characters at the start of the normalised text stand for the text's first: at least one."""
        first = self._normalizers[0] if self._normalizers else None
        if not isinstance(first, CharsMap):
            return 1
        leading = first(text)[: first.leading_characters(text)]
        return max(1, len(reduce(lambda so_far, step: step(so_far), self._normalizers[1:], leading)))

    def _build_model(self, component: Component) -> Unigram | BPE:
        if component.kind == "Unigram" and self.file.scores is not None:
            excluded = {token.content for token in self.added if not token.matches_in_texts}
            return Unigram(self.file.scores, self.unknown, component.flag("byte_fallback", False), excluded)
        if component.kind == "BPE" and self.file.scores is None:
            component.require(BPE_OPTIONS)
            return BPE(self.file.ids, Merges(self.file.merges), self.unknown, component.flag("fuse_unk", False))
        raise component.unsupported()


def _with_type(file: TokenizerFile) -> Any:
    """The `model` entry of a `tokenizer.json`, with its type inferred in older files, which do not state it."""
    if not isinstance(file.model, dict) or "type" in file.model:
        return file.model
    kind = "Unigram" if file.scores is not None else "BPE" if "merges" in file.model else "WordPiece"
    return {"type": kind, **file.model}


def unknown_token(file: TokenizerFile) -> str | None:
    """The unknown token of a `tokenizer.json`'s model; None if the model has no unknown token."""
    model = file.model if isinstance(file.model, dict) else {}
    if file.scores is None:
        unknown = model.get("unk_token")
        if unknown is not None and not isinstance(unknown, str):
            raise DataError(f"the model has unk_token = {reprlib.repr(unknown)}, which is not a string.")
        return unknown
    index = model.get("unk_id")
    if index is None:
        return None
    if type(index) is not int or not 0 <= index < len(file.scores):
        raise DataError(f"the model has unk_id = {reprlib.repr(index)}, which is out of range.")
    return list(file.scores)[index]
