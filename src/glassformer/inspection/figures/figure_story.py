"""A sentence's whole way through a model as one page to read from top to bottom: every figure, with what it shows.

It has no script and loads nothing; its text is text, and its pictures are vectors.
"""

import os
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from glassformer.atomic_directory import replace_file
from glassformer.errors import InputError
from glassformer.inspection.figures.attention_views import NEEDS
from glassformer.inspection.figures.figure import Figure, figure
from glassformer.inspection.tracing.trace import Trace

CHAPTERS = {
    "qkv": (
        "Every token asks, offers and carries",
        "Each token's row of X is multiplied by three matrices of this head: by W_Q it becomes a query, what the token "
        "looks for; by W_K a key, what it can be found by; by W_V a value, what it gives to whoever finds it.",
    ),
    "self-attention": (
        "One head: compare, share out, add up",
        "Each query is multiplied with every key. The scores, divided by √K, go through a softmax and become weights "
        "that add up to 1; the values, each times its weight, are added up. That is Z.",
    ),
    "attention": ("Who looks at whom", "The same weights, for this head alone."),
    "heads": (
        "Many heads",
        "All heads do this at once, each with matrices of its own, so that each may look for something else.",
    ),
    "heads-out": ("What each head finds", "Each head has a Z; some bring more to the output than others."),
    "concat": (
        "Put together again",
        "All Z stand side by side, and W_O mixes them into one row a token: what attention gives to the next step.",
    ),
    "multi-head": ("All of it at once", "From the tokens to the output of one attention, in one picture."),
    "bridge": (
        "Across the bridge: whose W_K and W_V?",
        "The encoder's output goes to every layer of the decoder, and each makes keys and values of it with its own "
        "W_K and W_V: not the encoder's, and not another layer's.",
    ),
    "film": (
        "Word by word",
        "The decoder reads what it wrote last and writes the next. Keys and values of earlier words are remembered, "
        "and those of the source are made once.",
    ),
    "beam": ("The search", "Several translations grow side by side; the best ones go on, and the others are dropped."),
    "softmax": (
        "The next word",
        "The last row of the decoder becomes a number for every token, and a softmax makes them probabilities.",
    ),
}
ACROSS = (
    "A row of the target is multiplied by W_Q and becomes a query, what the next word looks for. The rows of the "
    "encoder's output are multiplied by W_K and W_V of this decoder layer: keys, what a source token can be found by, "
    "and values, what it gives."
)
"""What `qkv` shows of an attention from the target to the source."""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="{scheme}">
<meta name="generator" content="glassformer {version}">
<title>{title}</title>
<style>
:root {{ color-scheme: {scheme}; --ink: {ink}; --soft: {soft}; --line: {line}; --paper: {paper}; }}
body {{ font: 17px/1.6 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 50rem;
  margin: 0 auto; padding: 2rem 1rem 4rem; }}
h1 {{ font-size: 1.6rem; line-height: 1.3; margin: 0; }}
h2 {{ font-size: 1.2rem; margin: 3rem 0 .3rem; padding-top: 1rem; border-top: 1px solid var(--line); }}
p {{ margin: .4rem 0 1rem; }}
figure {{ margin: 0; overflow-x: auto; }}
figure svg {{ display: block; width: 100%; min-width: 32rem; height: auto; }}
sub {{ font-size: .7em; line-height: 0; }}
figcaption, .soft {{ color: var(--soft); font-size: .9rem; }}
@media print {{ body {{ max-width: none; padding: 0; }} section {{ break-inside: avoid; }} }}
</style>
</head>
<body>
<main>
<h1 dir="auto">{source}</h1>
<p dir="auto">{target}</p>
<p class="soft">{about}</p>
{chapters}
{left_out}
</main>
</body>
</html>
"""
_LIGHT = {"scheme": "light", "ink": "#1b1f24", "soft": "#59636e", "line": "#d9dee3", "paper": "#fff"}
_DARK = {"scheme": "dark", "ink": "#e6e9ec", "soft": "#9aa4ae", "line": "#353c44", "paper": "#14161a"}


@dataclass(frozen=True)
class Story:
    """The page, to be saved or sent."""

    html: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """As .html; whole or not at all."""
        if Path(path).suffix.lower() not in (".html", ".htm"):
            raise InputError(f"A story is saved as .html, and {os.fspath(path)!r} is not.")
        replace_file(Path(path), self.html.encode())


def story(trace: Trace, *, name: str = "", dark: bool = False, **options: Any) -> Story:
    """Every figure that the trace has the numbers for, told `at`, `head` and `token`. `name`: the model's."""
    look = {"dark": dark, "caption": False}
    options = {option: value for option, value in options.items() if value is not None}
    drawn = {"attention": figure(trace, "attention", **{"head": 0, **options}, **look)}
    left_out = []  # what was asked is right, or it would have been said now: these the trace has no numbers for
    for view in CHAPTERS:
        try:
            drawn[view] = drawn.get(view) or figure(trace, view, **told(view, options), **look)
        except InputError as error:
            left_out.append(f"{CHAPTERS[view][0]}: {error}")
    across = str(options.get("at")).endswith("cross_attention")
    chapters = [_chapter(i, drawn[view], across) for i, view in enumerate(filter(drawn.get, CHAPTERS), start=1)]
    told_of = f"{len(chapters)} figures with the numbers of one model{f', {name}' if name else ''}"
    page = _PAGE.format(
        **(_DARK if dark else _LIGHT),
        version=escape(trace.about.version),
        title=escape(f"{trace.text} · {name or 'glassformer'}"),
        source=escape(trace.text),
        target=escape(trace.translation),
        about=escape(f"{told_of}. Drawn by glassformer {trace.about.version}."),
        chapters="\n".join(chapters),
        left_out="".join(f'<p class="soft">Not drawn: {escape(one)}</p>' for one in left_out),
    )
    return Story(page)


def told(view: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options that are meant for this view: `at` and `token` speak of an attention, and not of anything else."""
    return options if view in NEEDS else {name: options[name] for name in options if name not in ("at", "token")}


def _chapter(number: int, drawn: Figure, across: bool) -> str:
    heading, sentence = CHAPTERS[drawn.view]
    if across and drawn.view == "qkv":
        sentence = ACROSS
    return (
        f'<section aria-labelledby="{drawn.view}"><h2 id="{drawn.view}">{number}. {_set(heading)}</h2>'
        f"<p>{_set(sentence)}</p>"
        f'<figure tabindex="0">{drawn.svg}<figcaption>{_set(drawn.description)}</figcaption></figure></section>'
    )


def _set(text: str) -> str:
    """With W_Q as it is printed."""
    return re.sub(r"\b([Wb])_([QKVO])\b", r"\1<sub>\2</sub>", escape(text))
