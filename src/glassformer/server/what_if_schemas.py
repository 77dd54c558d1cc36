"""Schemas of what-if requests and responses, which hold the inspection's own types and so import PyTorch."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from glassformer.inspection.interventions.changes import AnyChange
from glassformer.inspection.tracing.trace_manifest import Manifest
from glassformer.server.schemas import BeginWith, Replacement, ReplaceWord, RequestBody, Text


class WhatIfRequest(RequestBody):
    """Request body of `POST /api/explore/{id}/what-if`."""

    changes: list[Annotated[AnyChange | ReplaceWord | BeginWith, Field(discriminator="kind")]] = Field(
        default_factory=list
    )
    """Interventions in order, such as removed heads and attention edges; see `inspection.interventions.changes`."""
    replace: list[Replacement] = Field(default_factory=list)
    """Source words to replace, after all `changes`."""
    reference: Text | None = None
    """Reference translation. If given, chrF before and after the changes is returned."""


class WhatIfResponse(BaseModel):
    """Response of a what-if: the effect of the changes on the translation."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    """Id of the new trace, made with the changes applied."""
    manifest: Manifest
    changed_words: list[tuple[str, str]]
    """Words of the translation before the changes, and those in their place after."""
    original_log_probabilities: list[float | None]
    """Log-probabilities that the changed model gives to the tokens of the original translation."""
    differences: list[float | None]
    """By how much the log-probability of each token of the original translation rose, in nats."""
    chrf: tuple[float, float] | None = None
    """chrF against the reference before and after the changes, from 0 to 100."""
