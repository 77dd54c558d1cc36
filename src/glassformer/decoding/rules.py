"""Constraints on one sentence's target: length, forced prefix, phrases that must occur, n-grams that must not repeat.

Pure functions of the tokens so far; independent of the model and of other sentences.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from glassformer.decoding.hypothesis import Head
from glassformer.decoding.search_settings import MAX_TARGET_TOKENS, SearchSettings
from glassformer.errors import InputError


@dataclass(frozen=True)
class Request:
    """A source sentence to be translated, with the constraints on its translation."""

    source: Sequence[int]
    """Token ids of the source, with the end of sentence."""
    prefix: tuple[int, ...] = ()
    """Tokens that the target must begin with."""
    phrases: tuple[tuple[int, ...], ...] = ()
    """Phrases that must occur in the target, each contiguous, in any order."""
    heads: tuple[Head, ...] = ()
    """Cross-attention heads whose weights the search records, if it can."""


@dataclass(frozen=True, slots=True)
class AllowedTokens:
    """Which tokens the rules allow next in a target."""

    only: tuple[int, ...] = ()
    """If not empty, the only allowed tokens."""
    never: tuple[int, ...] = ()
    """Forbidden tokens."""
    also: tuple[int, ...] = ()
    """Tokens to consider in any case, even if suppressed or not among the most likely."""


ANY_TOKEN = AllowedTokens()


@dataclass(frozen=True)
class Rules:
    """The constraints on one sentence's target. Forced tokens override forbidden ones."""

    eos: int
    min_length: int
    """Minimum number of tokens before the end of sentence."""
    limit: int
    """Maximum number of tokens, including the end of sentence."""
    prefix: tuple[int, ...] = ()
    phrases: tuple[tuple[int, ...], ...] = ()
    no_repeat: int = 0
    """No n-gram of this size may occur twice; 0 for no such constraint."""

    @property
    def reads_tokens(self) -> bool:
        """Whether the rules depend on the tokens of the target and not only on its length."""
        return bool(self.phrases or self.no_repeat)

    def progress(self, tokens: Sequence[int]) -> int:
        """How many tokens of the phrases are in `tokens`, including a phrase begun at the end."""
        missing = MissingPhrases.of(self.phrases, tokens)
        return sum(map(len, self.phrases)) - missing.total + missing.begun

    def allowed_tokens(self, length: int, tokens: Sequence[int] = ()) -> AllowedTokens:
        """The tokens allowed after a target of this length; `tokens` are needed only if `reads_tokens`."""
        if length < len(self.prefix):
            return AllowedTokens(only=(self.prefix[length],))
        remaining = self.limit - length
        missing = MissingPhrases.of(self.phrases, tokens)
        # A free step may break off a phrase that has begun; then all of it must still fit, and the end of sentence.
        if remaining - 2 < missing.total:
            return AllowedTokens(only=missing.next or (self.eos,))
        never: tuple[int, ...] = repeating(tokens, self.no_repeat) if self.no_repeat else ()
        never = tuple(token for token in never if token != self.eos and token not in missing.next)
        if length < self.min_length or missing.total:
            never = (*never, self.eos)
        return AllowedTokens(never=never, also=missing.next) if never or missing.next else ANY_TOKEN


@dataclass(frozen=True, slots=True)
class MissingPhrases:
    """The required phrases that are not yet in the target."""

    total: int
    """Number of tokens of all missing phrases."""
    begun: int
    """How many first tokens of a missing phrase the target ends with."""
    next: tuple[int, ...]
    """Tokens that begin or continue a missing phrase."""

    @classmethod
    def of(cls, phrases: Sequence[tuple[int, ...]], tokens: Sequence[int]) -> "MissingPhrases":
        """The phrases missing after these tokens. A phrase that has begun is continued; otherwise any may begin."""
        absent = [phrase for phrase in phrases if not occurs(phrase, tokens)]
        if not absent:
            return NO_MISSING_PHRASES
        begun, phrase = max(((overlap(tokens, phrase), phrase) for phrase in absent), key=itemgetter(0))
        next_tokens = (phrase[begun],) if begun else tuple(dict.fromkeys(phrase[0] for phrase in absent))
        return cls(sum(map(len, absent)), begun, next_tokens)


NO_MISSING_PHRASES = MissingPhrases(0, 0, ())


def rules_for(request: Request, eos: int, settings: SearchSettings, most: int | None) -> Rules:
    """The rules of a request. Lengths depend on its source only. `most`: tokens that the model has positions for."""
    phrases = tuple(dict.fromkeys(map(tuple, request.phrases)))
    for forced_tokens in (request.prefix, *phrases):
        if eos in forced_tokens:
            raise InputError("A forced prefix or phrase cannot contain the end-of-sentence token.")
    if not all(phrases):
        raise InputError("A forced phrase cannot be empty: give at least one word.")
    forced = len(request.prefix) + sum(map(len, phrases))
    length = len(request.source)
    limit = int(settings.max_length_ratio * length) + settings.max_length_extra + forced
    if most is not None and limit > most:
        if forced + 1 > most:
            raise InputError(
                f"{forced} forced tokens and the end-of-sentence token do not fit into the {most} positions of this "
                "model: use a shorter prefix or fewer phrases."
            )
        limit = most
    if limit > MAX_TARGET_TOKENS:
        raise InputError(
            f"The maximum length of this target would be {limit:,} tokens, for a source of {length:,} tokens; at most "
            f"{MAX_TARGET_TOKENS:,} are supported: use a smaller max_length_ratio or a shorter source."
        )
    min_length = min(int(settings.min_length_ratio * length), limit - 1)
    return Rules(eos, min_length, limit, tuple(request.prefix), phrases, settings.no_repeat)


def occurs(phrase: Sequence[int], tokens: Sequence[int]) -> bool:
    """Whether `tokens` contains the phrase contiguously."""
    size, phrase = len(phrase), list(phrase)
    return any(list(tokens[i : i + size]) == phrase for i in range(len(tokens) - size + 1))


def overlap(tokens: Sequence[int], phrase: Sequence[int]) -> int:
    """How many of the phrase's first tokens `tokens` ends with; less than the whole phrase."""
    for size in range(min(len(tokens), len(phrase) - 1), 0, -1):
        if list(tokens[-size:]) == list(phrase[:size]):
            return size
    return 0


def repeating(tokens: Sequence[int], size: int) -> tuple[int, ...]:
    """The next tokens that would repeat an n-gram of this size."""
    if len(tokens) < size:
        return ()
    last = list(tokens[len(tokens) - size + 1 :])
    followers = (tokens[i + size - 1] for i in range(len(tokens) - size + 1) if list(tokens[i : i + size - 1]) == last)
    return tuple(dict.fromkeys(followers))
