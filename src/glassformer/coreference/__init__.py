"""Who is "it"? What a translation model takes a word to refer to: by what it does, and by what one sees inside."""

from glassformer.coreference.pronoun_evidence import Evidence
from glassformer.coreference.resolve_pronoun import who_is
from glassformer.coreference.verdict import Reading, Who

__all__ = ["Evidence", "Reading", "Who", "who_is"]
