"""Choice of a search by options: `beam=5`, `sample=True`, `n_best=3`, as a caller of Python gives them."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from glassformer.decoding.beam import Beam
from glassformer.decoding.sampling import Sample
from glassformer.decoding.search_settings import SearchSettings
from glassformer.errors import SettingsError
from glassformer.settings import no_such_option


class SearchOptions(TypedDict, total=False):
    """Options of a search: those of `Beam` and `Sample`, with `beam` for the size, and `sample`."""

    beam: int
    sample: bool
    max_length_ratio: float
    max_length_extra: int
    min_length_ratio: float
    no_repeat: int
    suppress: tuple[int, ...]
    length_penalty: float
    n_best: int
    diversity: float
    keep_greedy: bool
    temperature: float
    top_k: int
    top_p: float
    epsilon: float
    seed: int


ELSEWHERE = {
    "beam_size": "beam",
    "num_beams": "beam",
    "size": "beam",
    "do_sample": "sample",
    "sampling": "sample",
    "num_return_sequences": "n_best",
    "num_hypotheses": "n_best",
    "nbest": "n_best",
    "no_repeat_ngram_size": "no_repeat",
    "max_length": "max_length_ratio",
    "max_new_tokens": "max_length_ratio",
    "min_length": "min_length_ratio",
}
"""Names that other programs have for these options."""


def changed_search(settings: SearchSettings, changes: Mapping[str, Any], others: Iterable[str] = ()) -> SearchSettings:
    """The settings with some options changed; what both kinds of search have stays when the kind changes.

    `others`: names of the caller's further arguments, which a mistyped name may mean, too.
    """
    if not hasattr(settings, "begin"):
        raise SettingsError(f"search = {settings!r} should be Beam(...) or Sample(...); or give options, as in beam=5.")
    if not changes:
        return settings
    options, kind = dict(changes), _kind(settings, changes)
    options.pop("sample", None)
    if "beam" in options:
        options["size"] = options.pop("beam")
    elif "size" in options:
        raise SettingsError(no_such_option("size", "beam", ["beam"]))
    for name in options:
        if name not in kind.model_fields:
            raise SettingsError(_refusal(name, kind, others))
    kept = {name: value for name, value in settings if name in kind.model_fields}
    try:
        return kind(**kept | options)
    except SettingsError as error:
        raise SettingsError(re.sub(r"\bsize = ", "beam = ", str(error))) from None


def _kind(settings: SearchSettings, changes: Mapping[str, Any]) -> type[SearchSettings]:
    """The kind of search that `beam` and `sample` choose; without them, the kind that it is."""
    sample = changes.get("sample")
    if sample not in (None, True, False):
        raise SettingsError(f"sample = {sample!r} should be True or False; n_best=N takes N samples.")
    if sample and "beam" in changes:
        raise SettingsError("beam and sample=True are two kinds of search: leave out one of them.")
    wanted = Sample if sample else Beam if sample is False or "beam" in changes else type(settings)
    return type(settings) if wanted.model_fields.keys() <= type(settings).model_fields.keys() else wanted


def _refusal(name: str, kind: type[SearchSettings], others: Iterable[str]) -> str:
    """Why a kind of search has no such option, and what to do."""
    if name in Sample.model_fields:
        return f"{name} has no effect without sampling: add sample=True, or leave out {name}."
    if name in Beam.model_fields:
        return f"{name} has no effect without beam search: add beam=4 in place of sampling, or leave out {name}."
    known = {*SearchOptions.__annotations__, *kind.model_fields, *others} - {"size"}
    return no_such_option(name, ELSEWHERE.get(name, name), sorted(known))
