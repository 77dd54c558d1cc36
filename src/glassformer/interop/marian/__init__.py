"""Import of Marian's native files, which Firefox Translations uses as well."""

from glassformer.interop.marian.marian_model import open_marian

__all__ = ["open_marian"]
