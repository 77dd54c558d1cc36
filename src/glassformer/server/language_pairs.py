"""Which languages a model is asked for, by their codes, and a tokenizer for each pair."""

import threading
from collections import OrderedDict
from dataclasses import dataclass

from glassformer.data import AnyTokenizer, ForeignTokenizer, IdsOnly
from glassformer.server.http_errors import HTTPError

AUTO = "auto"


@dataclass(frozen=True)
class LanguagePair:
    """Source and target language; None leaves what the model is set to."""

    source: str | None
    target: str | None


class LanguagePairs:
    """What `/languages` lists, and what source and target may be."""

    def __init__(self, tokenizer: AnyTokenizer | IdsOnly, named: tuple[str, str] | None, most_kept: int) -> None:
        self._tokenizer = tokenizer
        self.known = list(tokenizer.settings.languages) if isinstance(tokenizer, ForeignTokenizer) else []
        """Codes that the model itself knows."""
        self.named = named
        """The codes of a model of one pair, as its user says."""
        self._kept: OrderedDict[LanguagePair, AnyTokenizer] = OrderedDict()
        self._most_kept = most_kept
        self._lock = threading.Lock()

    def tokenizer(self, source: str | None, target: str | None) -> AnyTokenizer | IdsOnly:
        """For these languages. A model of one pair takes any codes, unless it was said which they are."""
        source, target = (None if code in (None, "", AUTO) else code for code in (source, target))
        if not self.known:
            self._check(source, target)
            return self._tokenizer
        if source is None and target is None:
            return self._tokenizer
        assert isinstance(self._tokenizer, ForeignTokenizer)
        with self._lock:  # making one takes time, and two at once would take it twice
            pair = LanguagePair(source, target)
            if pair not in self._kept:
                self._kept[pair] = self._tokenizer.between(source, target)
            self._kept.move_to_end(pair)
            while len(self._kept) > self._most_kept:
                self._kept.popitem(last=False)
            return self._kept[pair]

    def _check(self, source: str | None, target: str | None) -> None:
        for code, named in zip((source, target), self.named or (source, target), strict=True):
            if code is not None and code != named:
                raise HTTPError(
                    400, f"{code} is not supported: this model translates from {' to '.join(self.named or ())}."
                )

    def listed(self) -> list[dict[str, object]]:
        """As LibreTranslate lists them: each with those that it can be translated into."""
        if self.known:
            return [
                {"code": code, "name": code, "targets": [other for other in self.known if other != code]}
                for code in self.known
            ]
        source, target = self.named or ("source", "target")
        return [
            {"code": source, "name": source, "targets": [target]},
            {"code": target, "name": target, "targets": []},
        ]

    def detected(self) -> dict[str, object] | None:
        """The source's language, where there is one; nothing is detected, so nothing is sure."""
        if self.known:
            return None
        return {"language": (self.named or ("source", "target"))[0], "confidence": 0.0}
