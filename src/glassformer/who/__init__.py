"""Who is "it"? What a translation model takes a word to refer to: by what it does, and by what one sees inside."""

from glassformer.who.asking import who_is
from glassformer.who.evidence import Evidence
from glassformer.who.reading import Reading, Who

__all__ = ["Evidence", "Reading", "Who", "who_is"]
