"""Catalogue of the views: the kinds of figure that can be drawn from a trace, with their texts and options.

Imports no torch: the command line reads it for --help, the server for OpenAPI and for the explorer.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class View:
    """A kind of figure. How it is drawn is in `inspection.figures.views` and `frontend/src/figures/views`."""

    name: str
    summary: str
    """What it shows, in one line."""
    heading: str
    """Heading on the story page."""
    text: str
    """Explanation on the story page."""
    options: tuple[str, ...] = ()
    """Options of `FigureOptions` that choose what is shown; all views have those of style."""
    of_attention: bool = False
    """Whether it shows one attention: `at` is its name, and `token` one of its queries."""


VIEWS = {
    view.name: view
    for view in (
        View(
            "qkv",
            summary="X × W_Q = Q, X × W_K = K, X × W_V = V, for one head",
            options=("at", "head", "token"),
            of_attention=True,
            heading="Queries, keys and values",
            text=(
                "Each token's row of X is multiplied by three matrices of this head. W_Q gives its query, which is "
                "compared with the keys of other tokens; W_K gives its key, which queries are compared with; W_V "
                "gives its value, which is passed on to the tokens that attend to it."
            ),
        ),
        View(
            "self-attention",
            summary="softmax(Q Kᵀ / √K) V = Z, for one head",
            options=("at", "head", "token"),
            of_attention=True,
            heading="One head: scores, weights, weighted sum",
            text=(
                "Each query is multiplied with every key. The scores are divided by √K, and a softmax turns them into "
                "weights that add up to 1. Z is the sum of the values, each times its weight."
            ),
        ),
        View(
            "attention",
            summary="the attention weights of one head, or of all",
            options=("at", "head", "token"),
            of_attention=True,
            heading="Attention weights",
            text="The same weights, for this head alone.",
        ),
        View(
            "heads",
            summary="the Q, K and V of every head",
            options=("at", "token"),
            of_attention=True,
            heading="Several heads",
            text="All heads do this in parallel, each with its own matrices, so each can attend to something else.",
        ),
        View(
            "heads-out",
            summary="the Z of every head, and its contribution to the output",
            options=("at", "token"),
            of_attention=True,
            heading="The result of each head",
            text="Each head has its own Z; some contribute more to the output than others.",
        ),
        View(
            "concat",
            summary="all Z concatenated, times W_O",
            options=("at", "token"),
            of_attention=True,
            heading="Concatenation and W_O",
            text="All Z are concatenated, and W_O maps them to one row per token: the output of the attention.",
        ),
        View(
            "multi-head",
            summary="the whole attention, from input to output",
            options=("at", "token"),
            of_attention=True,
            heading="Multi-head attention as a whole",
            text="One attention in one figure, from its input to its output.",
        ),
        View(
            "cross-attention",
            summary="K and V of each decoder layer, from the encoder's output",
            heading="From encoder to decoder: which W_K and W_V?",
            text=(
                "The encoder's output goes to every decoder layer, and each layer computes keys and values from it "
                "with its own W_K and W_V: not with the encoder's, and not with another layer's."
            ),
        ),
        View(
            "decoding-steps",
            summary="decoding step by step, with both key/value caches",
            options=("at", "head"),
            heading="Decoding step by step",
            text=(
                "In each step the input is the token of the step before, and the decoder predicts the next one. The "
                "keys and values of earlier tokens come from a cache; those of the source are computed once."
            ),
        ),
        View(
            "beam",
            summary="the search tree",
            heading="Beam search",
            text=(
                "Several hypotheses are extended in parallel; after each step the best are kept and the others are "
                "dropped."
            ),
        ),
        View(
            "softmax",
            summary="the most likely tokens at one target position",
            options=("token", "likeliest"),
            heading="The next token",
            text=(
                "The decoder's output vector gives one logit per token of the vocabulary, and a softmax turns the "
                "logits into probabilities."
            ),
        ),
    )
}
"""All views by name, in the order of the story page."""
VIEWS_OF_SCREEN = {
    "sentence": ("multi-head",),
    "token": ("self-attention", "qkv", "attention"),
    "matrix": ("attention", "self-attention", "qkv"),
    "heads": ("heads-out", "heads", "concat", "multi-head", "attention"),
    "compare": ("attention",),
    "memory": ("cross-attention",),
    "decoding": ("decoding-steps",),
    "beam": ("beam",),
    "softmax": ("softmax",),
}
"""Screen of the explorer, or tab of its attention screen -> views that can be saved there, the most fitting first."""


def options_for_view(view: str, options: dict[str, Any]) -> dict[str, Any]:
    """Of options given for all views, those for this one: `at` and `token` are then only for views of an attention."""
    ignored = () if VIEWS[view].of_attention else ("at", "token")
    return {name: value for name, value in options.items() if name not in ignored}


def for_explorer() -> dict[str, Any]:
    """What the explorer's save dialog needs, as JSON: `FigureCatalogue` of frontend/src/page/data/manifest.ts."""
    views = {
        name: {"summary": view.summary, "options": view.options, "of_attention": view.of_attention}
        for name, view in VIEWS.items()
    }
    return {"views": views, "screens": VIEWS_OF_SCREEN}
