"""Marian's own files, and those of Firefox's translations, which are Marian's."""

from glassformer.interop.marian.marian_model import open_marian

__all__ = ["open_marian"]
