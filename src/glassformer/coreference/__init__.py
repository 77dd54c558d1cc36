"""Pronoun resolution by a translation model: evidence from its translations and from its internal activations."""

from glassformer.coreference.pronoun_evidence import PronounEvidence
from glassformer.coreference.resolve_pronoun import resolve_pronoun
from glassformer.coreference.verdict import PronounReading, PronounVerdict

__all__ = ["PronounEvidence", "PronounReading", "PronounVerdict", "resolve_pronoun"]
