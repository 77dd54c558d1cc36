"""Inspection of a model: recorded activations, traces of translations, interventions, alignment, pronouns, figures."""

from glassformer.inspection.inspector import Inspector, inspect
from glassformer.inspection.interventions.changes import (
    AverageHead,
    ForcePrefix,
    RemoveEdge,
    RemoveHead,
    ReplaceMatrices,
    ReplaceToken,
    SkipFeedForward,
    UniformAttention,
)
from glassformer.inspection.interventions.what_if import HeadLoss, WhatIf
from glassformer.inspection.tracing.record import Recording, record
from glassformer.inspection.tracing.trace import Trace

__all__ = [
    "AverageHead",
    "ForcePrefix",
    "HeadLoss",
    "Inspector",
    "Recording",
    "RemoveEdge",
    "RemoveHead",
    "ReplaceMatrices",
    "ReplaceToken",
    "SkipFeedForward",
    "Trace",
    "UniformAttention",
    "WhatIf",
    "inspect",
    "record",
]
