"""Figures drawn from a trace: `figure(trace, "attention", head=2).save("it.svg")`. Needs no model.

Layout and drawing are in TypeScript (`frontend/src/figures`), shared with the explorer; this package selects the data.
"""

from glassformer.inspection.figures.figure import Figure, figure
from glassformer.inspection.figures.figure_options import FigureOptions
from glassformer.inspection.figures.story_page import Story, story

__all__ = ["Figure", "FigureOptions", "Story", "figure", "story"]
