"""Search: from sources and a model to targets. Knows ids, never text."""

from glassformer.decoding.continuous_batching import Load, alike, as_they_end, search
from glassformer.decoding.hypothesis import Hypothesis
from glassformer.decoding.rules import Request
from glassformer.decoding.scoring import score
from glassformer.decoding.search_settings import Beam, Sample, Search
from glassformer.decoding.step_model import Ensemble, Plain, Prediction, Predictor
from glassformer.decoding.stepwise_search import Finder, Found, Task

__all__ = [
    "Beam",
    "Ensemble",
    "Finder",
    "Found",
    "Hypothesis",
    "Load",
    "Plain",
    "Prediction",
    "Predictor",
    "Request",
    "Sample",
    "Search",
    "Task",
    "alike",
    "as_they_end",
    "score",
    "search",
]
