"""Vocabulary shortlists made from a model's own word alignment, and what a shortlist costs on a sample of sentences."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from glassformer import evaluation
from glassformer.data import AnyTokenizer
from glassformer.data.word_spans import WordPair, word_pair
from glassformer.decoding import Request, Shortlist
from glassformer.decoding.alignment_choice import AlignmentHeads
from glassformer.decoding.attention_links import Link
from glassformer.decoding.vocabulary_shortlist import MAX_BLEU_COST, ShortlistMeasurement
from glassformer.engine import EngineOptions, open_engine
from glassformer.errors import InputError
from glassformer.translator import Translator

PAIRS_PER_GROUP = 256  # aligned together
TURNS = 4
"""Number of parts of a sample, in which the measurements with and without the shortlist take turns."""

Pairs = Sequence[tuple[Sequence[int], Sequence[int]]]
"""Sentence pairs as source and target ids, each with the end of sentence."""


class AlignedTokens:
    """Counts of the target tokens of a corpus, alone and aligned with each source token."""

    def __init__(self, translator: Translator, heads: AlignmentHeads) -> None:
        self.translator, self.heads = translator, heads
        self._targets: Counter[int] = Counter()
        self._aligned: dict[int, Counter[int]] = {}

    def add(self, ids: Pairs) -> None:
        """Align some sentence pairs: every token of a word with every token of the word that it is linked to."""
        pairs = [word_pair(self.translator.tokenizer, source, target) for source, target in ids]
        for pair, links in zip(pairs, self.translator.align(pairs, self.heads), strict=True):
            self._targets.update(pair.target_ids)
            for link in links:
                self._add_link(pair, link)

    def _add_link(self, pair: WordPair, link: Link) -> None:
        source, target = pair.source[link.source], pair.target[link.target]
        for token in pair.source_ids[source.first : source.end]:
            self._aligned.setdefault(token, Counter()).update(pair.target_ids[target.first : target.end])

    def shortlist(self, frequent: int, best: int) -> Shortlist:
        """The `frequent` most frequent target tokens, and for each source token the `best` most often aligned ones."""
        config = self.translator.config
        lists = [_most_common(self._aligned.get(token), best) for token in range(config.source_vocab_size)]
        if not any(lists):
            raise InputError("No words of these pairs could be aligned: give more pairs.")
        return Shortlist(
            always=np.array(sorted(_most_common(self._targets, frequent)), dtype=np.int32),
            offsets=np.concatenate(([0], np.cumsum([len(tokens) for tokens in lists]))).astype(np.int32),
            targets=np.array([token for tokens in lists for token in tokens], dtype=np.int32),
            vocab_size=config.vocab_size,
            copies_source=config.share_embeddings,
        ).checked(config.source_vocab_size)


def measure_shortlist(
    translator: Translator, shortlist: Shortlist, sources: Sequence[str], references: Sequence[str] | None
) -> ShortlistMeasurement:
    """Translate a sample with a shortlist, and with the translator, which has none, in turns; compare.

    Without references the unrestricted translations take their place: every change counts as a loss.
    """
    if not any(text.strip() for text in sources):
        raise InputError("The sample has no text: give some sentences, one per line.")
    engine = open_engine([translator.weights], EngineOptions(shortlist=True), shortlist=shortlist)
    translators = {False: translator, True: translator.replace(engine=engine)}
    texts: dict[bool, list[str]] = {True: [], False: []}
    seconds = {True: 0.0, False: 0.0}
    for part in np.array_split(np.arange(len(sources)), min(TURNS, len(sources))):
        for used, each in translators.items():
            started = time.perf_counter()
            texts[used] += each.translate(sources[i] for i in part)
            seconds[used] += time.perf_counter() - started
    goal = texts[False] if references is None else references
    requests = [Request(translator.tokenizer.encode(text, "source")) for text in sources]
    lists = [shortlist.tokens(request, translator.config.eos_id) for request in requests]
    return ShortlistMeasurement(
        sentences=len(sources),
        bleu=evaluation.score(texts[True], goal).bleu,
        unrestricted_bleu=100.0 if references is None else evaluation.score(texts[False], goal).bleu,
        has_references=references is not None,
        identical=sum(one == other for one, other in zip(texts[True], texts[False], strict=True)),
        speedup=seconds[False] / seconds[True],
        tokens=sum(map(len, lists)) / len(lists),
    )


def measurement_text(shortlist: Shortlist) -> str:
    """What a shortlist costs and gains, and whether it is used by default, in words."""
    measured = shortlist.measurement
    if measured is None:
        return "The shortlist was not measured, so it is used only with --shortlist."
    goal = "" if measured.has_references else ", with the unrestricted translations as references"
    use = "It is used by default" if measured.is_cheap else "It is used only with --shortlist"
    return (
        f"Shortlist: {measured.tokens:,.0f} of {shortlist.vocab_size:,} tokens per sentence, {measured.speedup:.2f} "
        f"times as fast. BLEU {measured.bleu:.2f} with it, {measured.unrestricted_bleu:.2f} without, on "
        f"{measured.sentences:,} sentences{goal}; {measured.identical:,} translations are the same. {use}: the "
        f"limit is a loss of {MAX_BLEU_COST} BLEU."
    )


def _most_common(counts: Counter[int] | None, most: int) -> list[int]:
    """The most frequent tokens; of equals, those with the lower ids."""
    return [token for token, _ in sorted((counts or {}).items(), key=lambda item: (-item[1], item[0]))[:most]]


def sample_numbers(count: int, most: int) -> set[int]:
    """Indices of at most `most` of `count` items, evenly distributed."""
    return {i * count // most for i in range(most)} if count > most else set(range(count))


def encoded(tokenizer: AnyTokenizer, pairs: Iterable[tuple[str, str]], max_tokens: int) -> Pairs:
    """Sentence pairs as ids, without those that are longer than `max_tokens` on a side."""
    ids = ((tokenizer.encode(source, "source"), tokenizer.encode(target, "target")) for source, target in pairs)
    return [pair for pair in ids if max(map(len, pair)) <= max_tokens]
