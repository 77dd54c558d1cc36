"""Search over token ids: from sources and a step model to targets. No text in this package."""

from glassformer.decoding.beam import Beam
from glassformer.decoding.continuous_batching import BatchLimits, SearchBackend, batches_by_cost, search
from glassformer.decoding.hypothesis import Hypothesis
from glassformer.decoding.rules import Request
from glassformer.decoding.sampling import Sample
from glassformer.decoding.scoring import score
from glassformer.decoding.search_settings import SearchSettings
from glassformer.decoding.step_model import Ensemble, PlainStepModel, StepModel, StepSession
from glassformer.decoding.stepwise_search import BatchSearch, SearchResult, SearchTask

__all__ = [
    "BatchLimits",
    "BatchSearch",
    "Beam",
    "Ensemble",
    "Hypothesis",
    "PlainStepModel",
    "Request",
    "Sample",
    "SearchBackend",
    "SearchResult",
    "SearchSettings",
    "SearchTask",
    "StepModel",
    "StepSession",
    "batches_by_cost",
    "score",
    "search",
]
