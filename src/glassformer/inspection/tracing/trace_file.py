"""A trace as one safetensors file: what it keeps, and reading a stranger's with care."""

import json
from collections.abc import Sequence
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
LARGEST_HEADER = 2**24
"""Bytes of the list that a file begins with; that of a long sentence and a wide beam has a few hundred thousand."""
LARGEST_HALF = 65504.0
WEIGHT = "parameters."
"""What the names of weights begin with in a file, so that they are not taken for taps."""
DETAILS: dict[Detail, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "attention": (("*_attention.weights", "output.log_probability", "output.entropy"), ()),
    # heads_out and logits are H and V times as large as the rest, and can be made again from it.
    "full": (("*",), ("*.heads_out", "logits")),
    "everything": (("*",), ()),
}
"""What a file keeps, and what of that it leaves out."""


def write_trace(trace: Trace, path: Path, detail: Detail, half: bool, parameters: Sequence[str]) -> None:
    """`Trace.save`."""
    replace_file(path, serialised(part_of(trace, detail, half, parameters)))


def part_of(trace: Trace, detail: Detail, half: bool = False, parameters: Sequence[str] = ()) -> Trace:
    """What a file keeps of a trace."""
    if detail not in DETAILS:
        raise InputError(f"detail is one of {', '.join(DETAILS)}, and not {detail!r}.")
    wanted, but_not = DETAILS[detail]
    names = [name for name in trace.kept if _matches(name, wanted) and not _matches(name, but_not)]
    tensors = {name: trace[name] for name in names}
    weights = {name: get() for name, get in trace.parameters.items() if _matches(name, parameters)}
    if half:
        tensors = {name: _halved(name, tensor) for name, tensor in tensors.items()}
        weights = {name: _halved(name, tensor) for name, tensor in weights.items()}
    return in_memory(_about_these(trace, tensors), tensors, trace.tree, weights)


def serialised(trace: Trace) -> bytes:
    """A safetensors file of all that a trace has."""
    header = {HEADER: json.dumps(trace.about.model_dump(mode="json"), ensure_ascii=False)}
    tensors = {name: get() for name, get in trace.kept.items()}
    tensors |= {f"{WEIGHT}{name}": get() for name, get in trace.parameters.items()}
    contents = {  # copies, because some are parts of one table
        name: tensor.clone(memory_format=torch.contiguous_format)
        for name, tensor in (tensors | _tree_tensors(trace.tree)).items()
    }
    return save(contents, header)


def _about_these(trace: Trace, tensors: dict[str, Tensor]) -> TraceInfo:
    """What is said of a trace that keeps these tensors only."""
    about = trace.about
    same = {name: kept for name, kept in about.same.items() if kept in tensors}
    axes = {name: letters for name, letters in about.axes.items() if same.get(name, name) in tensors}
    pieces = about.pieces
    if "output.likeliest" not in tensors:
        pieces = {str(token): pieces[str(token)] for token in trace.tree.token} if trace.tree else {}
    return about.model_copy(update={"same": same, "axes": axes, "pieces": pieces})


def read_trace(path: Path) -> Trace:
    """`Trace.load`."""
    try:
        return _opened(path)
    except (SafetensorError, OSError) as error:
        why = str(error).splitlines()[0].removesuffix(".")
        raise DirectoryError(f"{path} is not a readable trace: {why}.") from None
    except GlassformerError as error:
        raise DirectoryError(f"{path} is not a readable trace: {error}") from None


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _halved(name: str, tensor: Tensor) -> Tensor:
    """In float16, unless it is a small one that is computed with, or holds numbers that float16 does not."""
    if not tensor.is_floating_point() or name.startswith("output."):
        return tensor
    finite = tensor.nan_to_num(0, 0, 0)
    return tensor if finite.numel() and finite.abs().max() > LARGEST_HALF else tensor.half()


def _tree_tensors(tree: SearchTree | None) -> dict[str, Tensor]:
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
        whole = len(parent) == len(token) == len(log_probability) == len(score) == len(fates)
        # A parent stands before its children: so every way back ends at the start.
        rooted = parent[:1] == [-1] and all(0 <= own < number for number, own in enumerate(parent[1:], start=1))
    except (KeyError, IndexError, TypeError):
        whole = rooted = False
    if not (whole and rooted):
        raise DirectoryError("its tree of hypotheses is none.")
    return SearchTree(parent, token, log_probability, score, fates, about.search.length_penalty, about.limit)


def _opened(path: Path) -> Trace:
    with path.open("rb") as raw:
        header = int.from_bytes(raw.read(8), "little")
    if header > LARGEST_HEADER:
        raise DirectoryError(f"its list has {header:,} bytes, and may have {LARGEST_HEADER:,}.")
    file = safe_open(path, framework="pt")
    about = _about((file.metadata() or {}).get(HEADER))
    names = set(file.keys())
    searched = {name.removeprefix("search."): file.get_tensor(name) for name in names if name.startswith("search.")}
    kept = {name: partial(file.get_tensor, name) for name in about.axes if name in names}
    weights = {name.removeprefix(WEIGHT): partial(file.get_tensor, name) for name in names if name.startswith(WEIGHT)}
    return Trace(about, kept, _tree(searched, about), weights)


def _about(text: str | None) -> TraceInfo:
    if text is None:
        raise DirectoryError("it is a safetensors file, but not one of a trace.")
    try:
        table: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise DirectoryError("what it says of itself is not JSON.") from None
    if not isinstance(table, dict):
        raise DirectoryError("what it says of itself is no table.")
    if table.get("format") != FORMAT:
        raise DirectoryError(f"it is of format {table.get('format')!r}, and this version reads {FORMAT}.")
    return TraceInfo(**table)
