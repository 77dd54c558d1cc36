"""Translator: text in, text out, with a model, its tokenizer and a search. Independent of where the model came from."""

import copy
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from glassformer.atomic_directory import building, read_file
from glassformer.data import AnyTokenizer, IdsOnly, ImportedTokenizer
from glassformer.data.given_texts import listed_pairs, listed_texts
from glassformer.data.sentence_splitting import split
from glassformer.data.word_spans import WordPair, word_pair
from glassformer.decoding import Attention, Beam, Head, Hypothesis, Request, SearchSettings
from glassformer.decoding.alignment_choice import FILE as ALIGNMENT_FILE
from glassformer.decoding.alignment_choice import AlignmentHeads, checked
from glassformer.decoding.attention_links import Link, word_links
from glassformer.decoding.hypothesis import penalised
from glassformer.decoding.mbr import mbr_index
from glassformer.decoding.search_choice import SearchOptions, changed_search
from glassformer.engine import Engine, EngineOptions, describe_engine, open_engine
from glassformer.engine.shortlist_file import FILE as SHORTLIST_FILE
from glassformer.errors import GlassformerError, InputError
from glassformer.model import HasWeights, ModelWeights
from glassformer.model.directory import write_model
from glassformer.translation import (
    NO_CONSTRAINTS,
    Constraints,
    ManyConstraints,
    TranslateOptions,
    Translation,
    TranslationCandidate,
)

if TYPE_CHECKING:
    from glassformer.model import Transformer

MAX_SOURCE_TOKENS = 512
"""Default maximum length of a source in tokens: a longer source is split into parts."""
MEASURED_FILES = (ALIGNMENT_FILE, SHORTLIST_FILE)
"""Files of a model directory that were measured on its model."""


class Translator(HasWeights):
    """Translates and scores text with a loaded model. To look inside the model: `glassformer.inspect(translator)`.

    >>> translator = gf.load("street")
    >>> translator("The animal didn't cross the street because it was too tired.")
    'Das Tier überquerte die Straße nicht, weil es zu müde war.'

    It can be pickled, for worker processes: a translator from `load` is sent as the path of its model and its options,
    and opens the model again there, once per process.
    """

    def __init__(
        self,
        model: "Transformer | ModelWeights",
        tokenizer: AnyTokenizer | IdsOnly,
        search: SearchSettings | None = None,
        *,
        engine: Engine | None = None,
        max_tokens: int = MAX_SOURCE_TOKENS,
    ) -> None:
        if not isinstance(model, ModelWeights):
            model.eval()
        self.weights = ModelWeights.of(model)
        self.tokenizer = tokenizer
        self.search: SearchSettings = search or Beam()
        self.engine: Engine = engine or open_engine([self.weights], EngineOptions(engine="plain"))
        self.name = "in memory"
        """What it was loaded from; the names of an ensemble's models are joined."""
        self.n_models = 1
        """Number of models in the ensemble."""
        self.uses_shortlist = False
        """Whether translations are restricted to a vocabulary shortlist; scores of given translations never are."""
        self.directory: Path | None = None
        """The model directory that it was loaded from, if any."""
        self.max_tokens = min(max_tokens, self.engine.max_tokens or max_tokens)
        self.reopen: Callable[[], Translator] | None = None
        """Opens the same model with the same options in any process; None for objects in memory. It can be pickled."""
        self.changes: Sequence[object] = ()
        """Changes of the model's computation, which no file holds."""
        self._has_own_engine, self._has_own_tokenizer = engine is not None, False  # others than `reopen` opens

    def __repr__(self) -> str:
        about = describe_engine(self.engine)
        settings = getattr(self.tokenizer, "settings", None)
        codes = [getattr(settings, f"{side}_language", None) for side in ("source", "target")]
        languages = [" to ".join(code or "any language" for code in codes)] if any(codes) else []
        return f"<Translator {', '.join([self.name, *languages, f'engine {about.engine}', about.precision])}>"

    @cached_property
    def target_start(self) -> tuple[int, ...]:
        """The ids that every target begins with: the language token, for some models."""
        return tuple(self.tokenizer.encode("", "target")[:-1])

    @property
    def text_tokenizer(self) -> AnyTokenizer:
        """The tokenizer; an error if the model takes token ids only."""
        if isinstance(self.tokenizer, IdsOnly):
            raise InputError("The model has no tokenizer: it takes token ids, not text.")
        return self.tokenizer

    def replace(
        self,
        *,
        search: SearchSettings | None = None,
        tokenizer: AnyTokenizer | IdsOnly | None = None,
        engine: Engine | None = None,
    ) -> "Translator":
        """A translator with another search, tokenizer (of other languages) or engine, which shares the model."""
        other = copy.copy(self)
        vars(other).pop("target_start", None)  # computed with this one's tokenizer
        other.search = self.search if search is None else search
        if tokenizer is not None:
            other.tokenizer, other._has_own_tokenizer = tokenizer, True
        if engine is not None:
            other.engine, other.reopen, other._has_own_engine = engine, None, True
        return other

    def with_search(self, search: SearchSettings | None = None, **options: Unpack[SearchOptions]) -> "Translator":
        """A translator with another search, or with some options of its search changed, which shares the model.

        >>> gf.load("street").with_search(beam=8, length_penalty=0.6).search.length_penalty
        0.6
        """
        return self.replace(search=changed_search(search or self.search, options))

    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, constraints: ManyConstraints = None, **options: Unpack[TranslateOptions]
    ) -> str: ...
    @overload
    def translate(
        self, texts: Iterable[str], constraints: ManyConstraints = None, **options: Unpack[TranslateOptions]
    ) -> list[str]: ...
    def translate(
        self, texts: str | Iterable[str], constraints: ManyConstraints = None, **options: Unpack[TranslateOptions]
    ) -> str | list[str]:
        """Translate one text, or several in order; a blank text stays blank, without running the model.

        Several are a list, a generator, a column of a table, ... The options are those of `translations`.

        >>> translator = gf.load("street")
        >>> translator.translate("The animal didn't cross the street because it was too tired.", beam=8)
        'Das Tier überquerte die Straße nicht, weil es zu müde war.'
        >>> translator.translate(["The animal didn't cross the street because it was too wide.", ""], no_repeat=3)
        ['Das Tier überquerte die Straße nicht, weil sie zu breit war.', '']
        """
        translations = self.translations(texts, constraints, **options)
        return translations.text if isinstance(translations, Translation) else [one.text for one in translations]

    __call__ = translate

    @overload
    async def translate_async(  # type: ignore[overload-overlap]
        self, texts: str, constraints: ManyConstraints = None, **options: Unpack[TranslateOptions]
    ) -> str: ...
    @overload
    async def translate_async(
        self, texts: Iterable[str], constraints: ManyConstraints = None, **options: Unpack[TranslateOptions]
    ) -> list[str]: ...
    async def translate_async(
        self, texts: str | Iterable[str], constraints: ManyConstraints = None, **options: Unpack[TranslateOptions]
    ) -> str | list[str]:
        """`translate` for asynchronous programs: in a thread, while the event loop runs on.

        >>> import asyncio
        >>> text = "The animal didn't cross the street because it was too tired."
        >>> asyncio.run(gf.load("street").translate_async(text))
        'Das Tier überquerte die Straße nicht, weil es zu müde war.'
        """
        import asyncio  # imported here: it takes longer than most of this package

        return await asyncio.to_thread(lambda: self.translate(texts, constraints, **options))

    @overload
    def translations(  # type: ignore[overload-overlap]
        self, texts: str, constraints: ManyConstraints = None, **options: Unpack[TranslateOptions]
    ) -> Translation: ...
    @overload
    def translations(
        self, texts: Iterable[str], constraints: ManyConstraints = None, **options: Unpack[TranslateOptions]
    ) -> list[Translation]: ...
    def translations(
        self, texts: str | Iterable[str], constraints: ManyConstraints = None, **options: Unpack[TranslateOptions]
    ) -> Translation | list[Translation]:
        """Translate one text or several to at most `n_best` candidates each, with tokens and probabilities.

        >>> text = "The animal didn't cross the street because it was too tired."
        >>> translation = gf.load("street").translations(text, n_best=3)
        >>> translation.text
        'Das Tier überquerte die Straße nicht, weil es zu müde war.'
        >>> [best, *others] = translation.candidates
        >>> all(best.score >= other.score for other in others)
        True

        A text that is too long is split at sentence ends. `constraints`: for all texts, or one per text. `options`:
        those of `TranslateOptions`, for this call.
        """
        listed, search = listed_texts(texts), options.pop("search", None) or self.search
        arguments = options.pop("glossary", None), options.pop("mbr", False), options.pop("choice", None)
        changed = changed_search(search, options, ("constraints", *TranslateOptions.__annotations__))
        translator = self if changed is self.search else self.replace(search=changed)
        translations = translator._translations(listed, constraints, *arguments)
        return translations[0] if isinstance(texts, str) else translations

    def _translations(
        self,
        texts: list[str],
        constraints: ManyConstraints,
        glossary: Mapping[str, str] | None,
        mbr: bool,
        choice: AlignmentHeads | None,
    ) -> list[Translation]:
        parts_of_texts = [self.parts(text) for text in texts]
        if isinstance(constraints, Constraints):
            constraints = [constraints] * len(texts)
        each = constraints or [NO_CONSTRAINTS] * len(texts)
        if len(each) != len(texts):
            raise InputError(
                f"There are {len(each)} constraints for {len(texts)} texts: give one for all, or one each."
            )
        requests = [
            self.request(
                *(part, ids, constraint if number == 0 else NO_CONSTRAINTS, glossary),
                heads=choice.indices if choice and len(parts) == 1 else (),
            )
            for parts, constraint in zip(parts_of_texts, each, strict=True)
            for number, (part, ids) in enumerate(parts)
        ]
        results = iter(self.engine.search(requests, self.search))
        return [
            Translation(
                text,
                self._candidates([next(results) for _ in parts], mbr),
                len(parts),
                parts[0][1] if len(parts) == 1 else None,
            )
            for text, parts in zip(texts, parts_of_texts, strict=True)
        ]

    @overload
    def score(self, sources: str, targets: str) -> TranslationCandidate: ...  # type: ignore[overload-overlap]
    @overload
    def score(self, sources: Iterable[str], targets: Iterable[str]) -> list[TranslationCandidate]: ...
    def score(
        self, sources: str | Iterable[str], targets: str | Iterable[str]
    ) -> TranslationCandidate | list[TranslationCandidate]:
        """Score a given translation, or several: their probabilities, computed as for the model's own.

        >>> translator = gf.load("street")
        >>> text = "The animal didn't cross the street because it was too tired."
        >>> right = translator.score(text, "Das Tier überquerte die Straße nicht, weil es zu müde war.")
        >>> wrong = translator.score(text, "Das Tier überquerte die Straße nicht, weil sie zu müde war.")
        >>> right.score > wrong.score
        True
        """
        if self.n_models > 1:
            raise InputError("An ensemble cannot score translations: score with each model separately.")
        if isinstance(sources, str) != isinstance(targets, str):
            raise InputError("score takes one source and one target, or a list of each; one is a text, the other not.")
        listed, encode = listed_pairs(sources, targets), self.tokenizer.encode
        scored = self.engine.score(
            [encode(text, "source") for text in listed[0]],
            [encode(text, "target") for text in listed[1]],
            self.search.length_penalty,
        )
        candidates = [self._candidate([hypothesis]) for hypothesis in scored]
        return candidates[0] if isinstance(sources, str) else candidates

    def save(self, path: str | os.PathLike[str], *, eight_bits: bool = False) -> None:
        """Write the model, its tokenizer and what was measured on it as a new model directory, which `load` opens.

        >>> gf.load("street").save("copy-of-street")
        >>> gf.load("copy-of-street")("The animal didn't cross the street because it was too tired.")
        'Das Tier überquerte die Straße nicht, weil es zu müde war.'

        `eight_bits`: matrices take a quarter of the space, rounded to 256 levels per row.
        """
        self.refuse_what_no_file_holds("saved")
        measured = {} if self.directory is None else {name: read_file(self.directory, name) for name in MEASURED_FILES}
        with building(Path(path)) as directory:
            write_model(self.weights, directory, eight_bits=eight_bits)
            if not isinstance(self.tokenizer, IdsOnly):
                self.tokenizer.write(directory / "tokenizer")
            for name, content in measured.items():
                if content is not None:
                    (directory / name).write_bytes(content)

    def __copy__(self) -> "Translator":
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> "Translator":
        make, arguments = self.__reduce__()
        if self.reopen is not None:  # not the one that is kept for unpickling: a deep copy shares nothing
            return self.reopen().replace(search=self.search, tokenizer=arguments[-1])
        return make(*copy.deepcopy(arguments, memo))

    def __reduce__(self) -> tuple[Callable[..., "Translator"], tuple[Any, ...]]:
        if self.changes:
            self.refuse_what_no_file_holds("pickled or deep-copied")
        if self.reopen is not None:
            return _reopened, (self.reopen, self.search, self.tokenizer if self._has_own_tokenizer else None)
        if self._has_own_engine:
            raise InputError(
                "This translator cannot be pickled or deep-copied, because its engine was made in memory: save the "
                "model with `save`, and open it with `load`, which takes the engine's options."
            )
        return _from_memory, (self.weights, self.tokenizer, self.search, self.max_tokens)

    def refuse_what_no_file_holds(self, what: str) -> None:
        """Raise an error if the files of one model cannot hold what this translates with."""
        if self.n_models > 1:
            raise InputError(f"An ensemble cannot be {what} as one model: take each of its models by itself.")
        if self.changes:
            raise InputError(
                f"This translator cannot be {what}, because its model has changes that no file holds "
                f"({', '.join(type(change).__name__ for change in self.changes)}): use the unchanged one, and make the "
                "changes again with `inspect(translator).changed_translator(...)`."
            )

    def word_alignments(
        self, translations: Sequence[Translation], choice: AlignmentHeads
    ) -> list[tuple[WordPair, list[Link]] | None]:
        """Words and links of the best candidates; None for a text that was blank or split.

        From the attention that the search recorded for these heads; without it, the engine reads the translation again.
        """
        pairs = [None if one.id_pair is None else word_pair(self.tokenizer, *one.id_pair) for one in translations]
        recorded = [one.candidates[0].attention if one.candidates else None for one in translations]
        known = [(pair, weights) for pair, weights in zip(pairs, recorded, strict=True) if pair is not None]
        aligned = iter(self._links([pair for pair, _ in known], [weights for _, weights in known], choice))
        return [None if pair is None else (pair, next(aligned)) for pair in pairs]

    def align(
        self, pairs: Sequence[WordPair], choice: AlignmentHeads, at_least: float = 0.0, both_ways: bool = False
    ) -> list[list[Link]]:
        """Link the words of sentence pairs: each target word to the source word with the largest attention weight.

        `at_least` drops links with a smaller weight; `both_ways` keeps only links that are the largest for both words.
        """
        return self._links(pairs, [None] * len(pairs), choice, at_least, both_ways)

    def _links(
        self,
        pairs: Sequence[WordPair],
        attention: Sequence[Attention | None],
        choice: AlignmentHeads,
        at_least: float = 0.0,
        both_ways: bool = False,
    ) -> list[list[Link]]:
        """The links of sentence pairs; the attention of those where it is None is computed."""
        checked(choice, self.config)
        missing = [i for i, pair in enumerate(pairs) if attention[i] is None and pair.source and pair.target]
        ids = ([pairs[i].source_ids for i in missing], [pairs[i].target_ids for i in missing])
        known = {i: weights for i, weights in enumerate(attention) if weights is not None}
        known |= zip(missing, self.engine.attention(*ids, choice.indices), strict=True)
        links: list[list[Link]] = [[] for _ in pairs]
        for i, weights in known.items():
            links[i] = word_links(weights, pairs[i].source, pairs[i].target, choice, at_least, both_ways)
        return links

    def parts(self, text: str) -> list[tuple[str, list[int]]]:
        """Split a text into parts within the length limit, each with its ids; empty for a blank text."""
        if not text.strip():
            return []
        ids = self.tokenizer.encode(text, "source")
        if len(ids) <= self.max_tokens:  # the usual case: encoded only once
            return [(text, ids)]
        parts = split(text, lambda part: len(self.tokenizer.encode(part, "source")), self.max_tokens)
        return [(part, self.tokenizer.encode(part, "source")) for part in parts]

    def request(
        self,
        text: str,
        ids: list[int],
        constraints: Constraints = NO_CONSTRAINTS,
        glossary: Mapping[str, str] | None = None,
        heads: tuple[Head, ...] = (),
    ) -> Request:
        """What the search is asked for: the ids of a text, and the constraints on its translation as ids."""
        terms = [translation for term, translation in (glossary or {}).items() if mentions(text, term)]
        return Request(
            ids,
            prefix=(*self.target_start, *self.inner_target_ids(constraints.prefix)),
            phrases=tuple(self.inner_target_ids(phrase) for phrase in (*constraints.phrases, *terms)),
            heads=heads,
        )

    def inner_target_ids(self, text: str) -> tuple[int, ...]:
        """The ids of a text as part of a target, without the special tokens at the ends of every target."""
        return tuple(self.tokenizer.encode(text, "target")[len(self.target_start) : -1]) if text else ()

    def _candidates(self, parts: Sequence[list[Hypothesis]], mbr: bool) -> list[TranslationCandidate]:
        """Make candidates with distinct texts from the hypotheses of a text's parts.

        The best hypotheses of all parts are joined, then the second best, and so on.
        """
        candidates = [self._candidate(hypotheses) for hypotheses in zip(*parts, strict=False)]
        if mbr and candidates:
            from glassformer.evaluation import sentence_chrf

            chosen = candidates[mbr_index([candidate.text for candidate in candidates], sentence_chrf)]
            candidates = [chosen, *candidates]
        return list({candidate.text: candidate for candidate in reversed(candidates)}.values())[::-1]

    def _candidate(self, parts: Sequence[Hypothesis]) -> TranslationCandidate:
        tokens = [token for hypothesis in parts for token in hypothesis.tokens]
        log_ps = [log_p for hypothesis in parts for log_p in hypothesis.log_probabilities]
        return TranslationCandidate(
            text=" ".join(self.tokenizer.decode(hypothesis.tokens) for hypothesis in parts),
            ids=tokens,
            tokens=self.tokenizer.pieces(tokens, "target"),
            log_probabilities=log_ps,
            score=penalised(sum(log_ps), len(log_ps), self.search.length_penalty),
            attention=parts[0].attention if len(parts) == 1 else None,
        )


def _reopened(reopen: Callable[[], Translator], search: SearchSettings, tokenizer: AnyTokenizer | None) -> Translator:
    """A translator that was sent to this process."""
    return _opened(reopen).replace(search=search, tokenizer=tokenizer)


@lru_cache(maxsize=1)
def _opened(reopen: Callable[[], Translator]) -> Translator:
    """The last model opened for a pickled translator: a pool sends the same one with every task."""
    try:
        return reopen()
    except GlassformerError as error:
        raise type(error)(
            f"A translator is sent as the path of its model, which cannot be opened here: {error}"
        ) from None


def _from_memory(
    weights: ModelWeights, tokenizer: AnyTokenizer | IdsOnly, search: SearchSettings, max_tokens: int
) -> Translator:
    return Translator(weights, tokenizer, search, max_tokens=max_tokens)


def in_languages(tokenizer: AnyTokenizer, source: str | None, target: str | None) -> AnyTokenizer:
    """A tokenizer set to these languages; None leaves a language unchanged."""
    if source is None and target is None:
        return tokenizer
    if not isinstance(tokenizer, ImportedTokenizer):
        raise InputError(
            f"This model does not support the language {source or target!r}: it was trained for one language pair. "
            "Leave out the language options."
        )
    return tokenizer.with_languages(source, target)


def mentions(text: str, term: str) -> bool:
    """Whether a term occurs in a text as whole words."""
    return re.search(rf"(?<!\w){re.escape(term)}(?!\w)", text) is not None
