"""Generates names.md: every parameter and every tap of the preset `tiny`, from the model itself. `make names` runs it.

A test compares the file with the output of this script, so no name changes unnoticed.
"""

import re
from fnmatch import fnmatchcase
from pathlib import Path

import torch

from glassformer.inspection.explanation.parameter_parts import part_of
from glassformer.model import Transformer, preset, taps
from glassformer.model.dims import DIMENSIONS

PAGE = Path(__file__).with_name("names.md")

# Name pattern of each parameter, its axes, and its name in the paper and the Illustrated Transformer.
PARAMETERS = (
    ("*.embedding.weight", "V D", "token embeddings; in this preset also the decoder's, and the output projection"),
    ("*.[qkv]_proj.weight", "HK D", "{part}, head h in rows hK to (h+1)K"),
    ("*.[qkv]_proj.bias", "HK", "bias of {part}"),
    ("*.out_proj.weight", "D HK", "W_O, head h in columns hK to (h+1)K"),
    ("*.out_proj.bias", "D", "bias of W_O"),
    ("*.up_proj.weight", "F D", "W₁"),
    ("*.up_proj.bias", "F", "b₁"),
    ("*.down_proj.weight", "D F", "W₂"),
    ("*.down_proj.bias", "D", "b₂"),
    ("*norm.weight", "D", "scale of the norm"),
    ("*norm.bias", "D", "shift of the norm"),
)
TAPS = (
    ("memory", "the encoder's output, from which each decoder layer computes its own K and V"),
    ("logits", "scores of the next token, before the softmax over the vocabulary"),
    ("*.embedding.output", "token embeddings, × √D if the model scales them"),
    ("*.position.output", "position vectors, added to the embeddings"),
    ("*coder.input", "sum of embeddings and position vectors: the input of the first layer"),
    ("*_attention.input", "input from which the queries are computed"),
    ("*_attention.q", "queries (after rotation, if positions are rotary)"),
    ("*.cross_attention.k", "keys of the source: memory × this layer's W_K, computed once per sentence"),
    ("*.cross_attention.v", "values of the source: memory × this layer's W_V, computed once per sentence"),
    ("*_attention.k", "keys (after rotation, if positions are rotary)"),
    ("*_attention.v", "values"),
    ("*_attention.scores", "q kᵀ / √K, plus the relative bias if there is one; -inf where masked"),
    ("*_attention.weights", "softmax of the scores; each row sums to 1"),
    ("*_attention.context", "weights × values: Z, per head"),
    ("*_attention.heads_out", "contribution of each head to the output: its Z × its part of W_O"),
    ("*_attention.output", "concatenated heads × W_O + bias; equals the sum of the contributions + bias"),
    ("*.feed_forward.input", "input of the feed-forward network"),
    ("*.feed_forward.hidden", "act(x W₁ + b₁)"),
    ("*.feed_forward.output", "hidden × W₂ + b₂"),
    ("*_norm.residual", "x + the sub-layer's output"),
    ("*_norm.output", "output of the norm"),
    ("*.hidden", "output of the layer"),
)


def page() -> str:
    with torch.device("meta"):
        model = Transformer(preset("tiny"))
    parameters = [f"| `{name}` | {axes} | {meaning} |" for name, axes, meaning in _folded(_parameter_rows(model))]
    tap_rows = [f"| `{name}` | {axes} | {meaning} |" for name, axes, meaning in _folded(_tap_rows(model))]
    letters = [f"| {letter} | {d.meaning} | {f'`{d.field}`' if d.field else ''} |" for letter, d in DIMENSIONS.items()]
    return "\n".join([*_INTRODUCTION, *letters, *_PARAMETERS, *parameters, *_TAPS, *tap_rows, ""])


def _parameter_rows(model: Transformer) -> list[tuple[str, str, str]]:
    rows = []
    sizes = {letter: getattr(model.config, d.field) for letter, d in DIMENSIONS.items() if d.field}
    sizes["HK"] = sizes["H"] * sizes["K"]
    for name, weight in model.named_parameters():
        axes, meaning = next((a, m) for pattern, a, m in PARAMETERS if fnmatchcase(name, pattern))
        assert tuple(weight.shape) == tuple(sizes[letter] for letter in axes.split()), name
        rows.append((name, axes.replace("HK", "H·K"), meaning.format(part=part_of(name))))
    return rows


def _tap_rows(model: Transformer) -> list[tuple[str, str, str]]:
    return [
        (name, " ".join(tap.axes), next(m for pattern, m in TAPS if fnmatchcase(name, pattern)))
        for name, tap in taps(model).items()
    ]


def _folded(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """One row for the same name in all layers: `encoder.layers.{0-3}.hidden`."""
    numbers: dict[tuple[str, str, str], list[int]] = {}
    for name, axes, meaning in rows:
        number = re.search(r"\.(\d+)\.", name)
        template = re.sub(r"\.\d+\.", ".{}.", name)
        numbers.setdefault((template, axes, meaning), []).append(int(number[1]) if number else -1)
    folded = []
    for (template, axes, meaning), layers in numbers.items():
        assert layers in ([-1], list(range(len(layers)))), template
        folded.append((template.replace("{}", f"{{0-{len(layers) - 1}}}"), axes, meaning))
    return folded


_INTRODUCTION = """# Names

All parameter and tap names of the preset `tiny`. Other configs have the same names, plus those of their options
(`gate_proj`, `embedding_norm`, `relative_bias`, `position.weight`, `output_projection`, a separate
`decoder.embedding`); a recurrent decoder has `recurrence` instead of `self_attention`. `glassformer describe MODEL
--names` lists the names of any model directory or preset. This page is generated from the model by `make names`, and a
test compares the two.

Parameter names are a file format: they are the tensor names in `model.safetensors`. A shared weight is stored once,
under its first name.

Terms: *source*, *target*, *memory* (the encoder's output); *query, key, value*; *scores* (before the softmax),
*weights* (after it), *context* (weights × values, the Z of the Illustrated Transformer), *output projection* (its W_O).
Masks are boolean and called `visible`: True means that a position may be attended to.

A *view* is a kind of figure, by its name in `glassformer.figure_catalogue` (`qkv`, `beam`); a *figure* is the picture
of one trace in one view. The explorer consists of *screens*; that of attention has *tabs*. In a search tree, a
hypothesis is *finished* when it has its last token.

## Dimensions

| letter | meaning | option |
|---|---|---|""".splitlines()

_PARAMETERS = """
## Parameters

Matrices are stored as in torch, one row per output: `q = x @ q_proj.weight.T + q_proj.bias`, so the paper's W_Q is the
transpose of `q_proj.weight`.

| name | axes | meaning |
|---|---|---|""".splitlines()

_TAPS = """
## Taps

Named points of the forward pass that `record(model, "pattern")` records, in the order of the module tree.

| name | axes | tensor |
|---|---|---|""".splitlines()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"Wrote {PAGE}.")
