"""Search over token ids: from sources and a step model to targets. No text in this package."""

from glassformer.decoding.batch_limits import BatchLimits, batches_by_cost
from glassformer.decoding.beam import Beam
from glassformer.decoding.continuous_batching import SearchBackend, search
from glassformer.decoding.hypothesis import Attention, Head, Hypothesis
from glassformer.decoding.rules import Request
from glassformer.decoding.sampling import Sample
from glassformer.decoding.search_settings import SearchSettings
from glassformer.decoding.step_model import Ensemble, StepModel, StepSession
from glassformer.decoding.stepwise_search import BatchSearch, SearchResult, SearchTask
from glassformer.decoding.vocabulary_shortlist import Shortlist

__all__ = [
    "Attention",
    "BatchLimits",
    "BatchSearch",
    "Beam",
    "Ensemble",
    "Head",
    "Hypothesis",
    "Request",
    "Sample",
    "SearchBackend",
    "SearchResult",
    "SearchSettings",
    "SearchTask",
    "Shortlist",
    "StepModel",
    "StepSession",
    "batches_by_cost",
    "search",
]
