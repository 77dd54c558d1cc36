"""What one sees inside: looks, weighted values, rollout, cut edges, from a word and its pronoun to each candidate."""

from collections.abc import Sequence

from glassformer.coreference.pronoun_evidence import PronounEvidence
from glassformer.coreference.source_words import WordSpan, tokens_of
from glassformer.data import AnyTokenizer
from glassformer.decoding import Request
from glassformer.inspection import Trace, trace
from glassformer.inspection.alignment.word_spans import marks_of, words
from glassformer.inspection.explanation.attribution import (
    attention_weights,
    edges,
    log_probabilities,
    rollout,
    weighted_values,
)
from glassformer.inspection.tracing.trace_builder import TokenNames
from glassformer.translator import TranslationCandidate, Translator

LEAST_LOSS = 0.01
"""Nats; what is lost beyond that by one cut more than by another says something."""


def inside(
    translator: Translator,
    tokenizer: AnyTokenizer,
    text: str,
    answer: TranslationCandidate,
    word: WordSpan,
    candidates: Sequence[WordSpan],
    place: int | None,
) -> list[PronounEvidence]:
    """The rows of evidence of one sentence and its translation; `place`: the pronoun's, where it is known."""
    ids = tokenizer.encode(text, "source")
    heard = trace(translator.model, Request(ids), answer.ids, names=TokenNames(tokenizer.pieces, tokenizer.decode))
    own = tokens_of(word, text, heard.source, tokenizer)
    theirs = [tokens_of(spot, text, heard.source, tokenizer) for spot in candidates]
    encoder = [at for at in heard.attentions if at.startswith("encoder.")]
    cross = [at for at in heard.attentions if at.endswith("cross_attention")]
    quoted = f'"{word.text.lower()}"'
    rows = [*_looking(heard, encoder, quoted, own, theirs), _rolled(heard, quoted, own, theirs)]
    pronoun = [] if place is None else _tokens(tokenizer, answer, place)
    if pronoun:
        rows += _looking(heard, cross, "its pronoun", pronoun, theirs)
        before = sum(heard.log_probabilities[i] for i in pronoun)
        for kind, label, cuts in (
            ("cut word", f"cut from {quoted}, nats lost", lambda keys: edges(encoder, own, keys)),
            ("cut pronoun", "cut from its pronoun, nats lost", lambda keys: edges(cross, pronoun, keys)),
            (
                "cut both",
                "cut from both, nats lost",
                lambda keys: edges(encoder, own, keys) + edges(cross, pronoun, keys),
            ),
        ):
            after = [log_probabilities(translator.model, ids, answer.ids, cuts(keys)) for keys in theirs]
            lost = [before - sum(one[i] for i in pronoun) for one in after]
            rows.append(PronounEvidence(kind, label, lost, votes=kind != "cut both", least=LEAST_LOSS))
    return rows


def _looking(
    heard: Trace, attentions: Sequence[str], name: str, queries: Sequence[int], theirs: Sequence[Sequence[int]]
) -> list[PronounEvidence]:
    """Attention: the best head, and each layer's mean; weighted values: each layer's, and all layers'."""
    by_layer = [[attention_weights(heard, at, queries, keys) for keys in theirs] for at in attentions]
    best = [max(float(layer[i].max()) for layer in by_layer) for i in range(len(theirs))]
    means = [[float(look.mean()) for look in layer] for layer in by_layer]
    brought = [[weighted_values(heard, at, queries, keys) for keys in theirs] for at in attentions]
    side = "pronoun" if attentions[0].endswith("cross_attention") else "word"
    last = len(attentions) - 1  # nearest to what is written: its rows are counted
    rows = [PronounEvidence(f"{side}: best head", f"look of {name}: best head", best)]
    for what, label, layers in (("mean", "mean of layer", means), ("values", "‖α v W_O‖ of layer", brought)):
        rows += [
            PronounEvidence(f"{side}: {what} {n}", f"  {label} {n}", layer, votes=n == last)
            for n, layer in enumerate(layers)
        ]
    return rows


def _rolled(heard: Trace, name: str, own: Sequence[int], theirs: Sequence[Sequence[int]]) -> PronounEvidence:
    total = rollout(heard)[list(own)].mean(0)
    return PronounEvidence("rollout", f"rollout from {name}", [float(total[list(keys)].sum()) for keys in theirs])


def _tokens(tokenizer: AnyTokenizer, answer: TranslationCandidate, place: int) -> list[int]:
    """The places of the tokens of a word of the translation, without signs around it."""
    marks = marks_of(tokenizer)
    spans = words(answer.tokens, marks, apart=False)
    if place >= len(spans):
        return []
    span = spans[place]
    parts = [one for one in words(answer.tokens, marks) if span.first <= one.first < span.end]
    solid = [one for one in parts if any(letter.isalnum() for letter in one.text)]
    return [i for one in solid for i in range(one.first, one.end)]
