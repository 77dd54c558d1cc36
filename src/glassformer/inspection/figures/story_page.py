"""Story page: all figures of a trace on one HTML page, each with an explanation.

The page is self-contained: no scripts, no external resources; figures are inline SVG.
"""

import os
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from glassformer.atomic_directory import replace_file
from glassformer.errors import InputError
from glassformer.figure_catalogue import VIEWS, options_for_view
from glassformer.inspection.figures.figure import Figure, figure
from glassformer.inspection.tracing.trace import Trace

CROSS_ATTENTION_QKV = (
    "Each row of the target is multiplied by W_Q, which gives a query. The rows of the encoder's output are multiplied "
    "by W_K and W_V of this decoder layer, which gives the keys that queries are compared with and the values that are "
    "passed on."
)
"""Explanation of the view `qkv` for a cross-attention."""
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
    """Story page: all figures of a trace with explanations, as HTML."""

    html: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to an .html file, atomically."""
        if Path(path).suffix.lower() not in (".html", ".htm"):
            raise InputError(f"A story cannot be saved as {os.fspath(path)!r}: use a name that ends in .html.")
        replace_file(Path(path), self.html.encode())


def story(trace: Trace, *, name: str = "", dark: bool = False, **options: Any) -> Story:
    """Draw every figure that the trace has the tensors for, on one page; options `at`, `head`, `token`.

    `name`: the model's name.
    """
    style: dict[str, Any] = {"dark": dark, "caption": False}
    options = {option: value for option, value in options.items() if value is not None}
    drawn = {"attention": figure(trace, "attention", **{"head": 0, **options}, **style)}
    left_out = []  # wrong options have raised above, so what fails below are tensors that the trace does not have
    for view, about in VIEWS.items():
        try:
            drawn[view] = drawn.get(view) or figure(trace, view, **options_for_view(view, options), **style)
        except InputError as error:
            left_out.append(f"{about.heading}: {error}")
    crosses = str(options.get("at")).endswith("cross_attention")
    chapters = [_chapter(i, drawn[view], crosses) for i, view in enumerate(filter(drawn.get, VIEWS), start=1)]
    summary = f"{len(chapters)} figures of one translation{f' by {name}' if name else ''}, with the model's own numbers"
    page = _PAGE.format(
        **(_DARK if dark else _LIGHT),
        version=escape(trace.about.version),
        title=escape(f"{trace.text} · {name or 'glassformer'}"),
        source=escape(trace.text),
        target=escape(trace.translation),
        about=escape(f"{summary}. Drawn by glassformer {trace.about.version}."),
        chapters="\n".join(chapters),
        left_out="".join(f'<p class="soft">Not drawn: {escape(reason)}</p>' for reason in left_out),
    )
    return Story(page)


def _chapter(number: int, drawn: Figure, crosses: bool) -> str:
    about = VIEWS[drawn.view]
    text = CROSS_ATTENTION_QKV if crosses and drawn.view == "qkv" else about.text
    return (
        f'<section aria-labelledby="{drawn.view}"><h2 id="{drawn.view}">{number}. {_typeset(about.heading)}</h2>'
        f"<p>{_typeset(text)}</p>"
        f'<figure tabindex="0">{drawn.svg}<figcaption>{_typeset(drawn.description)}</figcaption></figure></section>'
    )


def _typeset(text: str) -> str:
    """Text as escaped HTML, with W_Q as W and a subscript Q."""
    return re.sub(r"\b([Wb])_([QKVO])\b", r"\1<sub>\2</sub>", escape(text))
