"""The explorer outside its server: a page that carries its trace, alone or in a frame."""

from glassformer.inspection.explorer.frame import Frame
from glassformer.inspection.explorer.standalone_page import LARGEST, page_of, script, write_page
from glassformer.inspection.explorer.trace_packing import DETAILS, Packed, packed

__all__ = ["DETAILS", "LARGEST", "Frame", "Packed", "packed", "page_of", "script", "write_page"]
