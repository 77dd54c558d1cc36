"""Hugging Face's directories, in and out. Nothing here needs the package `transformers`."""

from glassformer.interop.hugging_face.pretrained_directory import (
    as_transformers,
    family_of,
    in_transformers,
    is_hugging_face,
    open_hugging_face,
    write_hugging_face,
)

__all__ = [
    "as_transformers",
    "family_of",
    "in_transformers",
    "is_hugging_face",
    "open_hugging_face",
    "write_hugging_face",
]
