"""The explorer outside its server: a page that carries its trace, alone or in a frame."""

from glassformer.inspection.explorer.frame import Frame
from glassformer.inspection.explorer.packing import Packed, packed
from glassformer.inspection.explorer.page import LARGEST, page_of, script, write_page

__all__ = ["LARGEST", "Frame", "Packed", "packed", "page_of", "script", "write_page"]
