"""What a sentence's target may go on with: its length, its forced beginning, what must and what may not occur in it.

Pure functions of the tokens so far. Knows no model and no neighbours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from glassformer.decoding.search_settings import SearchSettings
from glassformer.errors import InputError


@dataclass(frozen=True)
class Request:
    """One sentence to be translated, and what is asked of its translation."""

    source: Sequence[int]
    """Its ids, with the end of sentence."""
    prefix: tuple[int, ...] = ()
    """How the target must begin."""
    phrases: tuple[tuple[int, ...], ...] = ()
    """What must occur in the target, each in one piece, in any order."""


@dataclass(frozen=True, slots=True)
class AllowedTokens:
    """What may come next."""

    only: tuple[int, ...] = ()
    """If any: nothing but these."""
    never: tuple[int, ...] = ()
    """Not these."""
    also: tuple[int, ...] = ()
    """Look at these too, even where they are not among the likeliest, or suppressed."""


ANYTHING = AllowedTokens()


@dataclass(frozen=True)
class Rules:
    """The rules of one sentence. What is forced comes before what is forbidden."""

    eos: int
    min_length: int
    """Tokens before the end may come."""
    limit: int
    """Tokens at most, the end included."""
    prefix: tuple[int, ...] = ()
    phrases: tuple[tuple[int, ...], ...] = ()
    no_repeat: int = 0
    """No run of so many tokens occurs twice; 0 allows all."""

    @property
    def reads_tokens(self) -> bool:
        """Whether more than the length of a target counts."""
        return bool(self.phrases or self.no_repeat)

    def progress(self, tokens: Sequence[int]) -> int:
        """How many tokens of the phrases stand in these, a phrase that has begun included."""
        missing = Missing.of(self.phrases, tokens)
        return sum(map(len, self.phrases)) - missing.total + missing.begun

    def choice(self, length: int, tokens: Sequence[int] = ()) -> AllowedTokens:
        """What may follow so many tokens, and these; they may be left out unless the rules `reads_tokens`."""
        if length < len(self.prefix):
            return AllowedTokens(only=(self.prefix[length],))
        room = self.limit - length
        missing = Missing.of(self.phrases, tokens)
        # A free step may leave a phrase that had begun, and then all of it is to come again, and the end.
        if room - 2 < missing.total:
            return AllowedTokens(only=missing.next or (self.eos,))
        never: tuple[int, ...] = repeating(tokens, self.no_repeat) if self.no_repeat else ()
        never = tuple(token for token in never if token != self.eos and token not in missing.next)
        if length < self.min_length or missing.total:
            never = (*never, self.eos)
        return AllowedTokens(never=never, also=missing.next) if never or missing.next else ANYTHING


@dataclass(frozen=True, slots=True)
class Missing:
    """What of the phrases is still to come."""

    total: int
    """Tokens of all phrases that do not stand in the target yet."""
    begun: int
    """How many of them the target ends with: the beginning of one."""
    next: tuple[int, ...]
    """Any of these begins a phrase or goes on with it."""

    @classmethod
    def of(cls, phrases: Sequence[tuple[int, ...]], tokens: Sequence[int]) -> "Missing":
        """After these tokens. A phrase that has begun is gone on with; if none has, any may begin."""
        absent = [phrase for phrase in phrases if not occurs(phrase, tokens)]
        if not absent:
            return NOTHING_MISSING
        begun, phrase = max(((overlap(tokens, phrase), phrase) for phrase in absent), key=itemgetter(0))
        nexts = (phrase[begun],) if begun else tuple(dict.fromkeys(phrase[0] for phrase in absent))
        return cls(sum(map(len, absent)), begun, nexts)


NOTHING_MISSING = Missing(0, 0, ())


def rules_for(request: Request, eos: int, settings: SearchSettings, most: int | None) -> Rules:
    """A sentence's own rules: lengths follow its source and never its neighbours. `most`: what the model can write."""
    phrases = tuple(dict.fromkeys(map(tuple, request.phrases)))
    for what in (request.prefix, *phrases):
        if eos in what:
            raise InputError("The end of sentence cannot stand in a forced beginning or a phrase.")
    if not all(phrases):
        raise InputError("A phrase that must occur cannot be empty.")
    forced = len(request.prefix) + sum(map(len, phrases))
    length = len(request.source)
    limit = int(settings.max_length_ratio * length) + settings.max_length_extra + forced
    if most is not None and limit > most:
        if forced + 1 > most:
            raise InputError(f"{forced} forced tokens do not fit into the {most} that this model can write.")
        limit = most
    min_length = min(int(settings.min_length_ratio * length), limit - 1)
    return Rules(eos, min_length, limit, tuple(request.prefix), phrases, settings.no_repeat)


def occurs(phrase: Sequence[int], tokens: Sequence[int]) -> bool:
    """Whether the phrase stands in the tokens, in one piece."""
    size, phrase = len(phrase), list(phrase)
    return any(list(tokens[i : i + size]) == phrase for i in range(len(tokens) - size + 1))


def overlap(tokens: Sequence[int], phrase: Sequence[int]) -> int:
    """How many of the phrase's first tokens the tokens end with; never the whole phrase."""
    for size in range(min(len(tokens), len(phrase) - 1), 0, -1):
        if list(tokens[-size:]) == list(phrase[:size]):
            return size
    return 0


def repeating(tokens: Sequence[int], size: int) -> tuple[int, ...]:
    """The tokens that would write a run of `size` tokens a second time."""
    if len(tokens) < size:
        return ()
    last = list(tokens[len(tokens) - size + 1 :])
    followers = (tokens[i + size - 1] for i in range(len(tokens) - size + 1) if list(tokens[i : i + size - 1]) == last)
    return tuple(dict.fromkeys(followers))
