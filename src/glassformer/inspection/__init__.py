"""Looking inside a model that runs: listening, traces, what-ifs."""

from glassformer.inspection.record import Recording, record
from glassformer.inspection.trace import Trace
from glassformer.inspection.tracing import Names, trace
from glassformer.inspection.what_if import HeadLoss, WhatIf, rank_heads, what_if

__all__ = ["HeadLoss", "Names", "Recording", "Trace", "WhatIf", "rank_heads", "record", "trace", "what_if"]
