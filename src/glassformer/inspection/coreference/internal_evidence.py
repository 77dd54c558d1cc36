"""Internal evidence for coreference: attention, value-weighted attention, rollout and edge removal per candidate."""

import operator
from collections.abc import Sequence

from glassformer.data import AnyTokenizer
from glassformer.data.word_spans import marks_of, words
from glassformer.decoding import Request
from glassformer.inspection.coreference.pronoun_evidence import PronounEvidence
from glassformer.inspection.coreference.source_words import WordSpan, tokens_of
from glassformer.inspection.explanation.attribution import (
    attention_weights,
    edges,
    log_probabilities,
    rollout,
    weighted_values,
)
from glassformer.inspection.tracing.trace import Trace
from glassformer.inspection.tracing.trace_builder import TokenNames, trace
from glassformer.translation import TranslationCandidate
from glassformer.translator import Translator

MIN_LOSS_LEAD_NATS = 0.01
"""Minimum difference between the losses of two candidates for the larger one to count."""


def internal_evidence(
    translator: Translator,
    tokenizer: AnyTokenizer,
    text: str,
    answer: TranslationCandidate,
    word: WordSpan,
    candidates: Sequence[WordSpan],
    pronoun_index: int | None,
) -> list[PronounEvidence]:
    """Measure the internal evidence for each candidate of a pronoun, in one sentence and its translation.

    `pronoun_index`: which word of the translation is the pronoun, if known.
    """
    ids = tokenizer.encode(text, "source")
    traced = trace(translator.model, Request(ids), answer.ids, names=TokenNames(tokenizer.pieces, tokenizer.decode))
    word_tokens = tokens_of(word, text, traced.source, tokenizer)
    candidate_tokens = [tokens_of(candidate, text, traced.source, tokenizer) for candidate in candidates]
    encoder = [at for at in traced.attentions if at.startswith("encoder.")]
    cross = [at for at in traced.attentions if at.endswith("cross_attention")]
    quoted = f'"{word.text.lower()}"'
    rows = _attention_rows(traced, encoder, quoted, word_tokens, candidate_tokens)
    shares = rollout(traced)[word_tokens].mean(0)
    by_rollout = [float(shares[keys].sum()) for keys in candidate_tokens]
    rows.append(PronounEvidence("rollout", f"rollout from {quoted}", by_rollout))
    pronoun = [] if pronoun_index is None else _word_tokens(tokenizer, answer, pronoun_index)
    if pronoun:
        rows += _attention_rows(traced, cross, "its pronoun", pronoun, candidate_tokens)
        before = sum(traced.log_probabilities[i] for i in pronoun)
        from_word = [edges(encoder, word_tokens, keys) for keys in candidate_tokens]
        from_pronoun = [edges(cross, pronoun, keys) for keys in candidate_tokens]
        from_both = list(map(operator.add, from_word, from_pronoun))
        for kind, name, cuts in (
            ("word", quoted, from_word),
            ("pronoun", "its pronoun", from_pronoun),
            ("both", "both", from_both),
        ):
            after = [log_probabilities(translator.model, ids, answer.ids, cut) for cut in cuts]
            lost = [before - sum(log_ps[i] for i in pronoun) for log_ps in after]
            label, votes = f"edges from {name} cut, nats lost", kind != "both"
            rows.append(PronounEvidence(f"cut {kind}", label, lost, votes, min_lead=MIN_LOSS_LEAD_NATS))
    return rows


def _attention_rows(
    traced: Trace, attentions: list[str], name: str, queries: list[int], candidate_tokens: list[list[int]]
) -> list[PronounEvidence]:
    """Evidence from attention: weights of the best head and the mean per layer; value-weighted attention per layer."""
    by_layer = [[attention_weights(traced, at, queries, keys) for keys in candidate_tokens] for at in attentions]
    best = [max(float(layer[i].max()) for layer in by_layer) for i in range(len(candidate_tokens))]
    means = [[float(weights.mean()) for weights in layer] for layer in by_layer]
    value_weighted = [[weighted_values(traced, at, queries, keys) for keys in candidate_tokens] for at in attentions]
    side = "pronoun" if attentions[0].endswith("cross_attention") else "word"
    last = len(attentions) - 1  # the layer nearest to the output: its rows vote
    rows = [PronounEvidence(f"{side}: best head", f"attention of {name}: best head", best)]
    for measure, label, layers in (("mean", "mean of layer", means), ("values", "‖α v W_O‖ of layer", value_weighted)):
        rows += [
            PronounEvidence(f"{side}: {measure} {n}", f"  {label} {n}", layer, votes=n == last)
            for n, layer in enumerate(layers)
        ]
    return rows


def _word_tokens(tokenizer: AnyTokenizer, answer: TranslationCandidate, index: int) -> list[int]:
    """Token positions of the word at an index of the translation (split at spaces), without punctuation around it."""
    marks = marks_of(tokenizer)
    spans = words(answer.tokens, marks, apart=False)
    if index >= len(spans):
        return []
    span = spans[index]
    parts = [word for word in words(answer.tokens, marks) if span.first <= word.first < span.end]
    alphanumeric = [word for word in parts if any(letter.isalnum() for letter in word.text)]
    return [i for word in alphanumeric for i in range(word.first, word.end)]
