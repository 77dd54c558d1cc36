"""Any model, from wherever it comes: ours as it is, another program's through the door."""

import os
from pathlib import Path

from glassformer.data import IdsOnly
from glassformer.decoding import SearchSettings
from glassformer.engine import EngineOptions, open_engine
from glassformer.model_location import is_ours
from glassformer.translator import LONGEST, Translator


def load(
    path: str | os.PathLike[str],
    *,
    search: SearchSettings | None = None,
    engine: EngineOptions | None = None,
    max_tokens: int = LONGEST,
    source_language: str | None = None,
    target_language: str | None = None,
    allow_pickle: bool = False,
) -> Translator:
    """A translator of a model directory, a run, a built-in model, or a model of another program.

    Hugging Face's, Marian's, fairseq's and the tutorial's are recognised by their files. One that came without a
    tokenizer has its `model`, which takes ids, and says so when it is asked for text. Files of torch.save are opened
    only if you allow it; nothing in them is run.
    """
    from glassformer.interop.detect import open_foreign  # many files, for those who need them
    from glassformer.interop.hugging_face import is_hugging_face

    if is_ours(path) and not is_hugging_face(Path(path)):
        return Translator.load(
            path,
            search=search,
            engine=engine,
            max_tokens=max_tokens,
            source_language=source_language,
            target_language=target_language,
        )
    opened = open_foreign(
        Path(path), allow_pickle=allow_pickle, source_language=source_language, target_language=target_language
    )
    return Translator(
        opened.model,
        opened.tokenizer or IdsOnly(),
        search,
        engine=open_engine([opened.model], engine or EngineOptions()),
        max_tokens=max_tokens,
    )
