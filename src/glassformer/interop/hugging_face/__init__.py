"""Import and export of Hugging Face model directories, without the package `transformers`."""

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
