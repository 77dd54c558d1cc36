"""The explorer in a notebook: a widget that asks its kernel, or a page that needs none.

The widget needs the extra `notebook`; without it there is still the page. `Translator.explore` and `Trace.explore` come
here through the package's front door.
"""

from glassformer.notebook.explore_cell import explore

__all__ = ["explore"]
