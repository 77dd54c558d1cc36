"""The explorer in an iframe, for notebooks without a widget and for reports."""

from dataclasses import dataclass
from html import escape

from glassformer.inspection.explorer.standalone_page import MAX_PAGE_BYTES, page_of, refuse_large
from glassformer.inspection.explorer.trace_packing import packed
from glassformer.inspection.tracing.trace import Detail, Trace

HEIGHT_PIXELS = 760
"""Initial height of the iframe; the page inside may adjust it."""


@dataclass(frozen=True)
class Frame:
    """The whole explorer of a trace in an iframe element; needs no kernel and no network."""

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
        largest: int | None = MAX_PAGE_BYTES,
    ) -> "Frame":
        """The explorer of a trace in an iframe; the options are those of `Trace.to_html`."""
        page = page_of(trace, packed(trace, detail, name=name, weights=weights), name)
        refuse_large(len(page), largest)
        title = f"glassformer explorer: {trace.text}"
        return cls(
            title,
            f'<iframe title="{escape(title)}" srcdoc="{escape(page)}" loading="lazy" '
            f'style="width: 100%; height: {HEIGHT_PIXELS}px; border: 1px solid #8888; border-radius: 8px"></iframe>',
        )

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"<{self.title}>"
