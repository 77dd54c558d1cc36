"""`load`: a translator from a model directory, a run, a built-in name, or a model of another program."""

import os
from pathlib import Path

from glassformer.data import IdsOnly
from glassformer.decoding import SearchSettings
from glassformer.engine import EngineOptions, open_engine
from glassformer.model_location import is_glassformer_model
from glassformer.translator import MAX_SOURCE_TOKENS, Translator


def load(
    path: str | os.PathLike[str],
    *,
    search: SearchSettings | None = None,
    engine: EngineOptions | None = None,
    max_tokens: int = MAX_SOURCE_TOKENS,
    source_language: str | None = None,
    target_language: str | None = None,
    allow_pickle: bool = False,
) -> Translator:
    """Load a model directory, a run, a built-in model, or a model of another program as a translator.

    Models of Hugging Face, Marian, fairseq and bentrevett's tutorial are recognised by their files. Without a tokenizer
    only the translator's `model` can be used, which takes ids; translating text is an error. Files of torch.save are
    opened only with `allow_pickle`; no code in them is run.
    """
    from glassformer.interop.format_detection import open_foreign  # imports many modules, so only when needed
    from glassformer.interop.hugging_face import is_hugging_face

    if is_glassformer_model(path) and not is_hugging_face(Path(path)):
        return Translator.load(
            path,
            search=search,
            engine=engine,
            max_tokens=max_tokens,
            source_language=source_language,
            target_language=target_language,
        )
    imported = open_foreign(
        Path(path), allow_pickle=allow_pickle, source_language=source_language, target_language=target_language
    )
    return Translator(
        imported.model,
        imported.tokenizer or IdsOnly(),
        search,
        engine=open_engine([imported.model], engine or EngineOptions()),
        max_tokens=max_tokens,
    )
