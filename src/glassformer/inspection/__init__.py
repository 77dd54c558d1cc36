"""Inspection of a model: recorded activations, traces of translations, interventions, alignment, figures."""

from glassformer.inspection.interventions.what_if import HeadLoss, WhatIf, rank_heads, what_if
from glassformer.inspection.tracing.record import Recording, record
from glassformer.inspection.tracing.trace import Trace
from glassformer.inspection.tracing.trace_builder import TokenNames, trace

__all__ = ["HeadLoss", "Recording", "TokenNames", "Trace", "WhatIf", "rank_heads", "record", "trace", "what_if"]
