"""Inspection of a model: recorded activations, traces of translations, interventions, alignment, pronouns, figures.

Public names are imported at first use: what needs no torch, such as gold links, is had without it.
"""

from typing import TYPE_CHECKING

from glassformer.lazy_names import lazy_names

if TYPE_CHECKING:
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

_MODULES = {
    "AverageHead": "interventions.changes",
    "ForcePrefix": "interventions.changes",
    "HeadLoss": "interventions.what_if",
    "Inspector": "inspector",
    "Recording": "tracing.record",
    "RemoveEdge": "interventions.changes",
    "RemoveHead": "interventions.changes",
    "ReplaceMatrices": "interventions.changes",
    "ReplaceToken": "interventions.changes",
    "SkipFeedForward": "interventions.changes",
    "Trace": "tracing.trace",
    "UniformAttention": "interventions.changes",
    "WhatIf": "interventions.what_if",
    "inspect": "inspector",
    "record": "tracing.record",
}

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

__getattr__ = lazy_names(__name__, _MODULES)
