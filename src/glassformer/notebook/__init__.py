"""The explorer in a notebook cell: a widget answered by the kernel, or a static page that needs no kernel.

The widget needs the extra `notebook`; without it, the page is shown.
"""

from glassformer.notebook.explore_cell import explore

__all__ = ["explore"]
