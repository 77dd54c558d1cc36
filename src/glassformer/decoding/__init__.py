"""Search: from sources and a model to targets. Knows ids, never text."""

from glassformer.decoding.continuous_batching import BatchLimits, alike, as_they_end, search
from glassformer.decoding.hypothesis import Hypothesis
from glassformer.decoding.rules import Request
from glassformer.decoding.scoring import score
from glassformer.decoding.search_settings import Beam, Sample, SearchSettings
from glassformer.decoding.step_model import Ensemble, PlainStepModel, StepModel, StepSession
from glassformer.decoding.stepwise_search import BatchSearch, Found, SearchTask

__all__ = [
    "BatchLimits",
    "BatchSearch",
    "Beam",
    "Ensemble",
    "Found",
    "Hypothesis",
    "PlainStepModel",
    "Request",
    "Sample",
    "SearchSettings",
    "SearchTask",
    "StepModel",
    "StepSession",
    "alike",
    "as_they_end",
    "score",
    "search",
]
