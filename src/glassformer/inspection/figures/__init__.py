"""Figures drawn from a trace: `figure(trace, "attention", head=2).save("it.svg")`. Needs no model.

What is drawn is decided in TypeScript (`frontend/src/figures`), which a page shares; here its data is picked.
"""

from glassformer.inspection.figures.figure import Figure, figure
from glassformer.inspection.figures.figure_options import FigureOptions
from glassformer.inspection.figures.figure_story import Story, story, told
from glassformer.inspection.figures.views import VIEWS

__all__ = ["VIEWS", "Figure", "FigureOptions", "Story", "figure", "story", "told"]
