"""Figures drawn from a trace: `figure(trace, "attention", head=2).save("it.svg")`. Needs no model.

Layout and drawing are in TypeScript (`frontend/src/figures`), shared with the explorer; this package selects the data.
"""

from glassformer.inspection.figures.figure import Figure, figure
from glassformer.inspection.figures.figure_options import FigureOptions
from glassformer.inspection.figures.story_page import Story, options_for_view, story
from glassformer.inspection.figures.views import VIEWS

__all__ = ["VIEWS", "Figure", "FigureOptions", "Story", "figure", "options_for_view", "story"]
