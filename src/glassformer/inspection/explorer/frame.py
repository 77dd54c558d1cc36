"""The explorer in a frame: what a notebook shows without a widget, and what a report has inside."""

from dataclasses import dataclass
from html import escape

from glassformer.inspection.explorer.standalone_page import LARGEST, page_of, refuse_large
from glassformer.inspection.explorer.trace_packing import packed
from glassformer.inspection.tracing.trace import Detail, Trace

HEIGHT = 760
"""Pixels, until the page within knows better."""


@dataclass(frozen=True)
class Frame:
    """An HTML element with the whole explorer in it; needs no kernel and no network."""

    title: str
    html: str

    @classmethod
    def of(
        cls,
        trace: Trace,
        detail: Detail = "full",
        *,
        name: str = "",
        weights: bool | None = None,
        largest: int | None = LARGEST,
    ) -> "Frame":
        """With what is asked for, as `Trace.to_html` has it."""
        page = page_of(trace, packed(trace, detail, name=name, weights=weights), name)
        refuse_large(len(page), largest)
        title = f"glassformer explorer: {trace.text}"
        return cls(
            title,
            f'<iframe title="{escape(title)}" srcdoc="{escape(page)}" loading="lazy" '
            f'style="width: 100%; height: {HEIGHT}px; border: 1px solid #8888; border-radius: 8px"></iframe>',
        )

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"<{self.title}>"
