"""The explorer without a server: a self-contained page of one trace, standalone or in an iframe."""

from glassformer.inspection.explorer.explorer_iframe import Frame
from glassformer.inspection.explorer.standalone_page import MAX_PAGE_BYTES, page_of, script, write_page
from glassformer.inspection.explorer.trace_packing import DETAILS, packed

__all__ = ["DETAILS", "MAX_PAGE_BYTES", "Frame", "packed", "page_of", "script", "write_page"]
