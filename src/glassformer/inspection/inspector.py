"""Inspector: what happens inside a translator's model. Texts and words in; traces, comparisons and rankings out."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from os import PathLike

from glassformer.data.given_texts import listed_pairs, listed_texts
from glassformer.data.tokenizer import Side
from glassformer.data.word_spans import WordPair, word_pair
from glassformer.decoding import Beam, Request
from glassformer.decoding.alignment_choice import AlignmentHeads, read_alignment_heads
from glassformer.decoding.attention_links import Link
from glassformer.errors import InputError
from glassformer.inspection.alignment.alignment_error_rate import Links
from glassformer.inspection.alignment.head_selection import HeadSelection, choose_heads
from glassformer.inspection.coreference.resolve_pronoun import DEFAULT_TRIES, PronounQuestion
from glassformer.inspection.coreference.verdict import PronounVerdict
from glassformer.inspection.interventions.changes import Change, ForcePrefix, ReplaceToken, apply, changed_request
from glassformer.inspection.interventions.weight_sharing_copy import weight_sharing_copy
from glassformer.inspection.interventions.what_if import HeadLoss, WhatIf, rank_heads, what_if
from glassformer.inspection.tracing.trace import Trace
from glassformer.inspection.tracing.trace_builder import TokenNames, means_for, trace
from glassformer.translator import Translator


def inspect(translator: Translator) -> "Inspector":
    """Look inside a translator: traces, what-ifs, head importance, word alignment, pronouns.

    >>> inspector = gf.inspect(gf.load("street"))
    >>> trace = inspector.trace("The animal didn't cross the street because it was too tired.")
    >>> trace.translation
    'Das Tier überquerte die Straße nicht, weil es zu müde war.'
    """
    if isinstance(translator, str | PathLike):
        raise InputError(f"inspect takes a translator, not its name: inspect(load({str(translator)!r})).")
    return Inspector(translator)


class Inspector:
    """Traces, modifies and measures a translator's model; the translator itself is never modified."""

    def __init__(self, translator: Translator) -> None:
        self.translator = translator
        self.model = translator.model
        self.tokenizer = translator.tokenizer

    def trace(
        self,
        text: str,
        target: str | None = None,
        *,
        beam: int | None = None,
        hypothesis: int = 0,
        node: int | None = None,
        steps: int | None = None,
        changes: Sequence[Change] = (),
    ) -> Trace:
        """Trace the translation of a text: all values of the forward pass by tap name, and the search tree.

        `target`: trace this translation instead of the model's own. `hypothesis`: which finished hypothesis of the
        search to trace, the best being 0; `node`: any node of the search tree. `steps`: number of target positions.
        """
        search = self.translator.search.as_beam() or Beam()
        return trace(
            self.model,
            self.translator.request(text, self._encode_unsplit(text, "source")),
            None if target is None else self._encode_unsplit(target, "target"),
            search=search if beam is None else search.model_copy(update={"size": beam}),
            names=self._names,
            changes=changes,
            hypothesis=hypothesis,
            node=node,
            steps=steps,
        )

    def what_if(self, before: Trace, *changes: Change) -> WhatIf:
        """Run a traced text again with interventions, on top of those of its trace, and compare."""
        return what_if(self.model, before, changes, self._names)

    def word_replacement(
        self, before: Trace, old: str, new: str, which: int = 0, after: Sequence[Change] = ()
    ) -> ReplaceToken:
        """The intervention that replaces a word of a traced source by another.

        `which`: index among several occurrences, from 0. `after`: changes that are applied first and may have changed
        the source tokens.
        """
        ids = changed_request(Request(before.about.source.ids), after).source
        spans = self._word_spans(ids, old)
        if which < len(spans):
            first, last = spans[which]
            return ReplaceToken(position=first, count=last - first, ids=self._inner_source_ids(new))
        text, pieces = self.tokenizer.decode(ids, "source"), " ".join(self.tokenizer.pieces(ids, "source"))
        if spans:
            raise InputError(f"Occurrence {which} of {old!r} in {text!r} is out of range (0 to {len(spans) - 1}).")
        raise InputError(f"{old!r} does not occur in {text!r}; its tokens are: {pieces}.")

    def forced_prefix(self, text: str) -> ForcePrefix:
        """The intervention that forces a translation to begin with a text."""
        return ForcePrefix(ids=list(self.translator.inner_target_ids(text)))

    def changed_translator(self, *changes: Change, average_over: Sequence[str] = ()) -> Translator:
        """A translator whose model has these changes in every translation.

        `average_over`: the texts over which `AverageHead` takes its means.
        """
        for change in changes:
            if change.POSITIONAL:
                raise InputError(f"{change!r} refers to positions of one sentence: use `what_if` with its trace.")
        translator, model = self.translator, weight_sharing_copy(self.model)
        texts = listed_texts(average_over, "average_over")
        requests = [translator.request(text, ids) for text in texts for _, ids in translator.parts(text)]
        apply(model, changes, means_for(changes, self.model, requests, translator.search))
        changed = Translator(model, self.tokenizer, translator.search, max_tokens=translator.max_tokens)
        changed.changes = (*translator.changes, *changes)
        return changed

    def rank_heads(
        self,
        sources: Sequence[str],
        targets: Sequence[str] | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> list[HeadLoss]:
        """Rank all heads by the loss of removing them on these pairs (or the model's own translations), largest first.

        `progress` is called with the number of heads done and their total number.
        """
        sources = listed_texts(sources, "sources")
        ids = self._id_pairs(sources, self.translator.translate(sources) if targets is None else targets)
        return rank_heads(self.model, [source for source, _ in ids], [target for _, target in ids], progress)

    @cached_property
    def alignment_heads(self) -> AlignmentHeads:
        """The cross-attention heads that align words: those chosen for this model, or the default ones."""
        return read_alignment_heads(self.translator.directory, self.model.config)

    def align(self, sources: Sequence[str], targets: Sequence[str]) -> list[tuple[WordPair, list[Link]]]:
        """Align the words of sentence pairs by cross-attention: the words of each pair, and its links."""
        pairs = [word_pair(self.tokenizer, *ids) for ids in self._id_pairs(sources, targets)]
        return list(zip(pairs, self.translator.align(pairs, self.alignment_heads), strict=True))

    def choose_alignment_heads(
        self, sources: Sequence[str], targets: Sequence[str], gold: Sequence[Links] | None = None
    ) -> HeadSelection:
        """Choose the heads that align words best on these pairs, measured against gold links or learned ones."""
        pairs = [word_pair(self.tokenizer, *ids) for ids in self._id_pairs(sources, targets)]
        return choose_heads(self.model, pairs, gold)

    def resolve_pronoun(
        self,
        text: str,
        word: str = "it",
        candidates: Sequence[str] | None = None,
        swap: tuple[str, str] | None = None,
        *,
        pronouns: Sequence[str] = (),
        own_pronouns: Mapping[str, str] | None = None,
        nouns: Sequence[str] | None = None,
        tries: int = DEFAULT_TRIES,
    ) -> PronounVerdict:
        """Determine which candidate antecedent the model resolves a pronoun to, with all evidence.

        `candidates`: nouns of the sentence; by default, those after an English determiner.
        `swap`: a word, and its replacement in a second sentence; by default, one is searched for that changes the
        pronoun. `pronouns`: possible translations of the word; by default, found by noun substitution.
        `own_pronouns`: candidate -> its pronoun; by default, the pronoun in the sentence that resolves to the
        candidate. `nouns`: substitutes for the candidates; by default, `tries` words of the model's vocabulary.
        """
        candidates = None if candidates is None else listed_texts(candidates, "candidates")
        nouns = None if nouns is None else listed_texts(nouns, "nouns")
        listed = listed_texts(pronouns, "pronouns")
        question = PronounQuestion(self.translator, listed, own_pronouns or {}, nouns, tries)
        return question.resolve(text, word, candidates, swap)

    @cached_property
    def _names(self) -> TokenNames:
        return TokenNames(self.tokenizer.pieces, self.tokenizer.decode)

    def _id_pairs(self, sources: Sequence[str], targets: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        encode = self.tokenizer.encode
        pairs = zip(*listed_pairs(sources, targets), strict=True)
        return [(encode(source, "source"), encode(target, "target")) for source, target in pairs]

    def _encode_unsplit(self, text: str, side: Side) -> list[int]:
        """The ids of a text that cannot be split into parts."""
        ids, limit = self.tokenizer.encode(text, side), self.translator.max_tokens
        if len(ids) > limit:
            raise InputError(f"The text has {len(ids)} tokens; the limit is {limit}. Trace a part of it.")
        return ids

    def _word_spans(self, ids: Sequence[int], word: str) -> list[tuple[int, int]]:
        """The token spans (first, end) of a word among a source's ids."""
        spans: list[tuple[int, int]] = []
        for first in range(len(ids)):
            if spans and first < spans[-1][1]:
                continue  # inside the span just found: the same word, without the mark before it
            for last in range(first + 1, len(ids)):
                if self.tokenizer.decode(ids[first:last], "source").strip() == word:
                    spans.append((first, last))
                    break
        return spans

    def _inner_source_ids(self, text: str) -> list[int]:
        """The ids of a text as part of a source, without the special tokens at the ends of every source."""
        empty, ids = self.tokenizer.encode("", "source"), self.tokenizer.encode(text, "source")
        before = next((i for i, (one, other) in enumerate(zip(empty, ids, strict=False)) if one != other), None)
        if before is None:
            raise InputError(f"{text!r} contains no word: give the word that replaces the other.")
        return ids[before : len(ids) - (len(empty) - before)]
