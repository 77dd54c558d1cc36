"""Who is "it"? What a translation model takes a word to refer to: by what it does, and by what one sees inside."""

from glassformer.coreference.pronoun_evidence import PronounEvidence
from glassformer.coreference.resolve_pronoun import resolve_pronoun
from glassformer.coreference.verdict import PronounReading, PronounVerdict

__all__ = ["PronounEvidence", "PronounReading", "PronounVerdict", "resolve_pronoun"]
