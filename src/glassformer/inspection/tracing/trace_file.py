"""Trace files (safetensors): levels of detail, writing, and validated reading of untrusted files."""

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from glassformer.atomic_directory import replace_file
from glassformer.decoding.search_tree import FATES, Fate, SearchTree
from glassformer.errors import DirectoryError, GlassformerError, InputError
from glassformer.inspection.tracing.trace import FORMAT, Detail, Trace, TraceInfo, in_memory
from glassformer.model.dims import Tensor

HEADER = "glassformer.trace"
PAGE = "page"
"""Part of the metadata that only the explorer reads: the manifest, the model."""
MAX_HEADER_BYTES = 2**24
"""Maximum size of the safetensors header; a long sentence with a wide beam needs a few hundred thousand bytes."""
MAX_FLOAT16 = 65504.0
PARAMETER_PREFIX = "parameters."
"""Prefix of parameter names in a file, which keeps them apart from taps."""
DETAILS: dict[Detail, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "attention": (("*_attention.weights", "output.log_probability", "output.entropy"), ()),
    # heads_out and logits are H and V times as large as the rest, and can be recomputed from it.
    "full": (("*",), ("*.heads_out", "logits")),
    "everything": (("*",), ()),
}
"""Level of detail -> name patterns of the tensors to store, and patterns of exceptions."""


def write_trace(trace: Trace, path: Path, detail: Detail, half: bool, parameters: Sequence[str]) -> None:
    """Write a trace to a safetensors file: the implementation of `Trace.save`."""
    replace_file(path, serialised(reduce_trace(trace, detail, half, parameters)))


def reduce_trace(trace: Trace, detail: Detail, half: bool = False, parameters: Sequence[str] = ()) -> Trace:
    """The trace with the tensors of a level of detail, optionally in float16, and with the matching parameters."""
    if detail not in DETAILS:
        raise InputError(f"Unknown detail {detail!r}; choose one of {', '.join(DETAILS)}.")
    included, excluded = DETAILS[detail]
    names = [name for name in trace.loaders if _matches(name, included) and not _matches(name, excluded)]
    tensors = {name: trace[name] for name in names}
    weights = {name: load() for name, load in trace.parameters.items() if _matches(name, parameters)}
    if half:  # except `output.*`, which is small and used in computations
        tensors = {name: x if name.startswith("output.") else as_float16(x) for name, x in tensors.items()}
        weights = {name: as_float16(weight) for name, weight in weights.items()}
    return in_memory(_info_for(trace, tensors), tensors, trace.tree, weights)


def serialised(trace: Trace, page: dict[str, Any] | None = None) -> bytes:
    """The whole trace as the bytes of a safetensors file. `page`: further metadata for the explorer."""
    about = trace.about.model_dump(mode="json") | ({} if page is None else {PAGE: page})
    header = json.dumps(about, ensure_ascii=False)  # one entry: safetensors writes several in random order
    tensors = {name: load() for name, load in trace.loaders.items()}
    tensors |= {f"{PARAMETER_PREFIX}{name}": load() for name, load in trace.parameters.items()}
    return safetensors_bytes(tensors | tree_tensors(trace.tree), {HEADER: header})


def safetensors_bytes(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """A safetensors file of these tensors, under the names that they have in a trace file."""
    # Copies, because some are views of one tensor.
    copies = {name: x.detach().clone(memory_format=torch.contiguous_format) for name, x in tensors.items()}
    return save(copies, metadata)


def _info_for(trace: Trace, tensors: dict[str, Tensor]) -> TraceInfo:
    """The metadata of a trace reduced to these tensors."""
    about = trace.about
    same = {name: stored for name, stored in about.same.items() if stored in tensors}
    axes = {name: letters for name, letters in about.axes.items() if same.get(name, name) in tensors}
    pieces = about.pieces
    if "output.likeliest" not in tensors:
        pieces = {str(token): pieces[str(token)] for token in trace.tree.token} if trace.tree else {}
    return about.model_copy(update={"same": same, "axes": axes, "pieces": pieces})


def read_trace(path: Path) -> Trace:
    """Open and validate a trace file: the implementation of `Trace.load`."""
    try:
        return _open(path)
    except (SafetensorError, OSError) as error:
        reason = str(error).splitlines()[0].removesuffix(".")
        raise DirectoryError(f"{path} is not a readable trace: {reason}.") from None
    except GlassformerError as error:
        raise DirectoryError(f"{path} is not a readable trace: {error}") from None


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def as_float16(tensor: Tensor) -> Tensor:
    """The tensor in float16, except integers and values beyond float16's range."""
    if not tensor.is_floating_point():
        return tensor
    finite = tensor.nan_to_num(0, 0, 0)
    return tensor if finite.numel() and finite.abs().max() > MAX_FLOAT16 else tensor.half()


def tree_tensors(tree: SearchTree | None) -> dict[str, Tensor]:
    """The search tree as tensors of a trace file; none where the target was given."""
    if tree is None:
        return {}
    return {
        "search.parent": torch.tensor(tree.parent, dtype=torch.int32),
        "search.token": torch.tensor(tree.token, dtype=torch.int32),
        "search.log_probability": torch.tensor(tree.log_probability, dtype=torch.float64),
        "search.score": torch.tensor(tree.score, dtype=torch.float64),
        "search.fate": torch.tensor([FATES.index(fate) for fate in tree.fate], dtype=torch.uint8),
    }


def _tree(tensors: dict[str, Tensor], about: TraceInfo) -> SearchTree | None:
    if not tensors:
        return None
    try:
        parent, token, log_probability, score, fate = (
            tensors[name].tolist() for name in ("parent", "token", "log_probability", "score", "fate")
        )
        fates: list[Fate] = [FATES[code] for code in fate]
        complete = len(parent) == len(token) == len(log_probability) == len(score) == len(fates)
        # A parent precedes its children, so every path to the root ends.
        rooted = parent[:1] == [-1] and all(0 <= before < node for node, before in enumerate(parent[1:], start=1))
    except (KeyError, IndexError, TypeError):
        complete = rooted = False
    if not (complete and rooted):
        raise DirectoryError("the search tree is invalid.")
    return SearchTree(parent, token, log_probability, score, fates, about.search.length_penalty, about.limit)


def _open(path: Path) -> Trace:
    with path.open("rb") as raw:
        header_bytes = int.from_bytes(raw.read(8), "little")
    if header_bytes > MAX_HEADER_BYTES:
        raise DirectoryError(f"the header has {header_bytes:,} bytes; the maximum is {MAX_HEADER_BYTES:,}.")
    file = safe_open(path, framework="pt")
    about = _info((file.metadata() or {}).get(HEADER))
    names = set(file.keys())
    tree = {name.removeprefix("search."): file.get_tensor(name) for name in names if name.startswith("search.")}
    loaders = {name: partial(file.get_tensor, name) for name in about.axes if name in names}
    weights = [name for name in names if name.startswith(PARAMETER_PREFIX)]
    parameters = {name.removeprefix(PARAMETER_PREFIX): partial(file.get_tensor, name) for name in weights}
    return Trace(about, loaders, _tree(tree, about), parameters)


def _info(text: str | None) -> TraceInfo:
    if text is None:
        raise DirectoryError("it is a safetensors file without the metadata of a trace.")
    try:
        table: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise DirectoryError("its metadata is not JSON.") from None
    if not isinstance(table, dict):
        raise DirectoryError("its metadata is not a JSON object.")
    if table.get("format") != FORMAT:
        raise DirectoryError(f"it has format {table.get('format')!r}; this version reads format {FORMAT}.")
    table.pop(PAGE, None)
    return TraceInfo(**table)
