"""Language codes of requests, and one tokenizer per language pair."""

import threading
from collections import OrderedDict
from dataclasses import dataclass

from glassformer.data import AnyTokenizer, IdsOnly, ImportedTokenizer
from glassformer.model_location import BUILT_IN_LANGUAGES
from glassformer.server.http_errors import HTTPError
from glassformer.server.language_names import language_names, pair_of_name

AUTO = "auto"
UNKNOWN_PAIR = ("source", "target")
"""The codes of a model of one pair whose languages nobody named."""


@dataclass(frozen=True)
class LanguagePair:
    """Source and target language of a request; None keeps the model's default."""

    source: str | None
    target: str | None


class LanguagePairs:
    """The language codes that requests may name and `/languages` lists, and a tokenizer per pair."""

    def __init__(
        self, tokenizer: AnyTokenizer | IdsOnly, named: tuple[str, str] | None, max_cached: int, model: str = ""
    ) -> None:
        """`model`: the model's name, which may tell the languages of a pair."""
        self._tokenizer = tokenizer
        self.known = list(tokenizer.settings.languages) if isinstance(tokenizer, ImportedTokenizer) else []
        """Language codes of a multilingual model; empty for a model of one pair."""
        self.named = named
        """Source and target language code of a model of one pair, if given by the user; others are refused."""
        self.pair = named or BUILT_IN_LANGUAGES.get(model) or pair_of_name(model) or UNKNOWN_PAIR
        """The codes that clients are told."""
        self._cache: OrderedDict[LanguagePair, AnyTokenizer] = OrderedDict()
        self._max_cached = max_cached
        self._lock = threading.Lock()

    def tokenizer(self, source: str | None, target: str | None) -> AnyTokenizer | IdsOnly:
        """The tokenizer for these languages. A model of one pair accepts any codes, unless the user gave its codes."""
        source, target = (None if code in (None, "", AUTO) else code for code in (source, target))
        if not self.known:
            self._check(source, target)
            return self._tokenizer
        if source is None and target is None:
            return self._tokenizer
        assert isinstance(self._tokenizer, ImportedTokenizer)
        with self._lock:  # making a tokenizer takes time; two threads should not make the same one
            pair = LanguagePair(source, target)
            if pair not in self._cache:
                self._cache[pair] = self._tokenizer.with_languages(source, target)
            self._cache.move_to_end(pair)
            while len(self._cache) > self._max_cached:
                self._cache.popitem(last=False)
            return self._cache[pair]

    def _check(self, source: str | None, target: str | None) -> None:
        for code, named in zip((source, target), self.named or (source, target), strict=True):
            if code is not None and code != named:
                raise HTTPError(
                    400, f"{code} is not supported. This model translates from {' to '.join(self.named or ())}."
                )

    def listed(self) -> list[dict[str, object]]:
        """All languages in LibreTranslate's format, each with its possible targets."""
        names = language_names(self.known or self.pair)
        if self.known:
            return [
                {"code": code, "name": name, "targets": [other for other in self.known if other != code]}
                for code, name in names.items()
            ]
        source, target = self.pair
        return [
            {"code": source, "name": names[source], "targets": [target]},
            {"code": target, "name": names[target], "targets": []},
        ]

    def detected(self) -> dict[str, object] | None:
        """The source language of a model of one pair, with confidence 0: nothing is really detected."""
        if self.known:
            return None
        return {"language": self.pair[0], "confidence": 0.0}
