"""Draws docs/figures: every view of the sentence that everybody uses, by the built-in model. `make figures` runs it.

A test draws them again and compares bytes. Floats differ in their last bits between processors, and a colour lies now
and then just between two steps; so the model runs in float64, of which four digits are drawn.
"""

from html import escape
from pathlib import Path
from typing import Any

from glassformer import Translator, load
from glassformer.inspection import Trace
from glassformer.inspection.figures import VIEWS, Figure, figure

DIRECTORY = Path(__file__).with_name("figures")
SENTENCE = "The animal didn't cross the street because it was too tired."
CROSS = "decoder.layers.1.cross_attention"

# File -> view and options. Beside every view as it comes: the same attention in the decoder, one head, one word, dark.
FIGURES: dict[str, tuple[str, dict[str, Any]]] = {
    **{view: (view, {}) for view in VIEWS},
    "attention-cross": ("attention", {"at": CROSS, "head": 1, "token": "es"}),
    "attention-decoder": ("attention", {"at": "decoder.layers.1.self_attention"}),
    "attention-it": ("attention", {"at": "encoder.layers.0.self_attention", "token": "it"}),
    "multi-head-cross": ("multi-head", {"at": CROSS}),
    "qkv-cross": ("qkv", {"at": CROSS, "head": 1}),
    "self-attention-decoder": ("self-attention", {"at": "decoder.layers.1.self_attention", "head": 2}),
    "softmax-es": ("softmax", {"token": "es", "width": "86mm"}),
    "bridge-dark": ("bridge", {"dark": True}),
}


def translator() -> Translator:
    """The built-in model in float64, on its own: searches of others stay as they are."""
    found = load("street")
    return Translator(found.model.double(), found.tokenizer)


def figures(trace: Trace) -> dict[str, Figure]:
    return {name: figure(trace, view, **options) for name, (view, options) in FIGURES.items()}


def gallery(drawn: dict[str, Figure]) -> str:
    """The page that shows them all."""
    shown = (f"\n## {one.title}\n\n![{escape(one.description)}]({name}.svg)\n" for name, one in drawn.items())
    return _INTRODUCTION + "".join(shown)


_INTRODUCTION = f"""# Figures

Every view that `glassformer figure` draws, of one sentence in the built-in model `street`:

> {SENTENCE}

This page is written by `make figures`; a test draws all of it again and compares the bytes.

```sh
glassformer figure street "{SENTENCE}" attention es.svg \\
  --at {CROSS} --head 1 --token es
glassformer figure street "{SENTENCE}" --all pictures
```
"""


if __name__ == "__main__":
    DIRECTORY.mkdir(exist_ok=True)
    street = translator()
    drawn = figures(street.trace(SENTENCE))
    for name, one in drawn.items():
        one.save(DIRECTORY / f"{name}.svg")
    (DIRECTORY / "README.md").write_text(gallery(drawn), encoding="utf-8")
    print(f"wrote {len(drawn)} figures and README.md in {DIRECTORY}")
