"""Pronoun resolution by a translation model: evidence from its translations and from its internal activations."""

from glassformer.inspection.coreference.pronoun_evidence import PronounEvidence
from glassformer.inspection.coreference.verdict import PronounReading, PronounVerdict

__all__ = ["PronounEvidence", "PronounReading", "PronounVerdict"]
