"""Writes names.md: every parameter and every tap of the tiny preset, from the model itself. `make names` runs it.

A test compares the file with what this prints, so a name cannot change without somebody seeing it.
"""

import re
from fnmatch import fnmatchcase
from pathlib import Path

import torch

from glassformer.inspection.explanation.parameter_parts import part_of
from glassformer.model import Transformer, preset, taps
from glassformer.model.dims import DIMENSIONS

PAGE = Path(__file__).with_name("names.md")

# What each parameter is: its axes, and the name that the paper and the Illustrated Transformer give it.
PARAMETERS = (
    ("*.embedding.weight", "V D", "token embeddings; here also the decoder's, and the output projection"),
    ("*.[qkv]_proj.weight", "HK D", "{part}, head h in rows hK to (h+1)K"),
    ("*.[qkv]_proj.bias", "HK", "the bias of {part}"),
    ("*.out_proj.weight", "D HK", "W_O, head h in columns hK to (h+1)K"),
    ("*.out_proj.bias", "D", "the bias of W_O"),
    ("*.up_proj.weight", "F D", "W₁"),
    ("*.up_proj.bias", "F", "b₁"),
    ("*.down_proj.weight", "D F", "W₂"),
    ("*.down_proj.bias", "D", "b₂"),
    ("*norm.weight", "D", "scale of the norm"),
    ("*norm.bias", "D", "shift of the norm"),
)
TAPS = (
    ("memory", "the encoder's output: what every decoder layer makes its own K and V from"),
    ("logits", "before the softmax over the vocabulary"),
    ("*.embedding.output", "token embeddings, × √D where the model scales them"),
    ("*.position.output", "what is added for the place"),
    ("*coder.input", "their sum: what the first layer gets"),
    ("*_attention.input", "what the queries are made of"),
    ("*_attention.q", "queries (after rotation, where positions are rotary)"),
    ("*.cross_attention.k", "keys of the source: memory × this layer's W_K, made once a sentence"),
    ("*.cross_attention.v", "values of the source: memory × this layer's W_V, made once a sentence"),
    ("*_attention.k", "keys (after rotation, where positions are rotary)"),
    ("*_attention.v", "values"),
    ("*_attention.scores", "q kᵀ / √K, plus the relative bias where there is one; -inf where nothing may be seen"),
    ("*_attention.weights", "softmax of the scores; each row sums to 1"),
    ("*_attention.context", "weights × values: Z, head by head"),
    ("*_attention.heads_out", "each head's share of the output: its Z × its part of W_O"),
    ("*_attention.output", "the heads side by side × W_O + bias; the sum of the shares + bias"),
    ("*.feed_forward.input", "what goes into the feed-forward"),
    ("*.feed_forward.hidden", "act(x W₁ + b₁)"),
    ("*.feed_forward.output", "hidden × W₂ + b₂"),
    ("*_norm.residual", "x + the sub-layer's output"),
    ("*_norm.output", "normalised"),
    ("*.hidden", "what the layer hands on"),
)


def page() -> str:
    with torch.device("meta"):
        model = Transformer(preset("tiny"))
    parameters = [f"| `{name}` | {axes} | {meaning} |" for name, axes, meaning in _folded(_parameter_rows(model))]
    listening = [f"| `{name}` | {axes} | {meaning} |" for name, axes, meaning in _folded(_tap_rows(model))]
    letters = [f"| {letter} | {d.meaning} | {f'`{d.field}`' if d.field else ''} |" for letter, d in DIMENSIONS.items()]
    return "\n".join([*_INTRODUCTION, *letters, *_PARAMETERS, *parameters, *_TAPS, *listening, ""])


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
    """One line for the same place in all layers: `encoder.layers.{0-3}.hidden`."""
    numbers: dict[tuple[str, str, str], list[int]] = {}
    for name, axes, meaning in rows:
        number = re.search(r"\.(\d+)\.", name)
        place = re.sub(r"\.\d+\.", ".{}.", name)
        numbers.setdefault((place, axes, meaning), []).append(int(number[1]) if number else -1)
    folded = []
    for (place, axes, meaning), found in numbers.items():
        assert found in ([-1], list(range(len(found)))), place
        folded.append((place.replace("{}", f"{{0-{len(found) - 1}}}"), axes, meaning))
    return folded


_INTRODUCTION = """# Names

This page is written by the model (`make names`) and held to it by a test. It lists the preset `tiny`; other configs
have the same names, and those of their options (`gate_proj`, `embedding_norm`, `relative_bias`, `output_projection`,
a `decoder.embedding` of its own). `glassformer describe MODEL --names` lists any model's.

Parameter names are a file format: they are what `model.safetensors` holds. A weight that is shared is stored once,
under its first name.

Words we keep to: *source*, *target*, *memory* (the encoder's output); *query, key, value*; *scores* (before the
softmax), *weights* (after it), *context* (weights × values, the Z of the Illustrated Transformer), *output projection*
(its W_O). Masks are boolean and called `visible`: True means that a position may be looked at.

## Dimensions

| letter | meaning | option |
|---|---|---|""".splitlines()

_PARAMETERS = """
## Parameters

Matrices are kept as torch keeps them, outputs by rows: `q = x @ q_proj.weight.T + q_proj.bias`, so the paper's W_Q is
the transpose of `q_proj.weight`.

| name | axes | what it is |
|---|---|---|""".splitlines()

_TAPS = """
## Taps

Places of the forward pass that `record(model, "pattern")` can listen to, in the order of the module tree.

| name | axes | what passes there |
|---|---|---|""".splitlines()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
