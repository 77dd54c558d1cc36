"""The cross-attention heads that word alignment is taken from, and their file in the model directory.

Which heads align, and at which time step, differs between models: it is measured (`inspection.alignment`). The default
is the mean over the heads of the layer below the last, of the simple rules the one that agrees best with people
(arXiv:1909.02074).
"""

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from glassformer.atomic_directory import add_file, read_file
from glassformer.decoding.hypothesis import Head
from glassformer.errors import DirectoryError, InputError, SettingsError
from glassformer.model import ModelConfig
from glassformer.settings import Settings

FILE = "alignment.json"
WARN_ABOVE = 0.6
"""Default spread above which a link is uncertain, for models without a measurement."""


class AlignmentHead(Settings):
    """One cross-attention head of a decoder layer, at one of two time steps of each target token."""

    layer: Annotated[int, Field(ge=0)]
    head: Annotated[int, Field(ge=0)]
    target_token: Literal["output", "input"]
    """The decoding step: the one that outputs the target token, or the next, which reads it (arXiv:2004.14837)."""

    def __str__(self) -> str:
        return f"layer {self.layer}, head {self.head}, target token as {self.target_token}"


class AlignmentHeads(Settings):
    """The heads used for word alignment, and how they were selected: the contents of alignment.json."""

    heads: Annotated[list[AlignmentHead], Field(min_length=1)]
    """The heads; their attention weights are averaged."""
    warn_above: Annotated[float, Field(ge=0, le=1)] = WARN_ABOVE
    """The spread (normalised entropy, 0 to 1) above which a link is uncertain."""
    measured_by: Literal["gold", "learned", "nothing"] = "nothing"
    """Links used to select the heads: gold (drawn by people), learned (IBM model 1), or nothing (default heads)."""
    pairs: int = 0
    """Number of sentence pairs that the heads were measured on."""
    aer: float | None = None
    """The alignment error rate on these sentence pairs."""

    @property
    def indices(self) -> tuple[Head, ...]:
        """The heads as layer and head."""
        return tuple((head.layer, head.head) for head in self.heads)


def default_alignment_heads(config: ModelConfig) -> AlignmentHeads:
    """Default heads for word alignment: all of the layer below the last, at the step that writes each token."""
    layer = max(0, config.decoder_layers - 2)
    heads = [AlignmentHead(layer=layer, head=head, target_token="output") for head in range(config.n_heads)]
    return AlignmentHeads(heads=heads)


def read_alignment_heads(directory: Path | None, config: ModelConfig) -> AlignmentHeads:
    """Read the alignment heads selected for the model in a directory; the default heads without a selection."""
    content = None if directory is None else read_file(directory, FILE)
    if directory is None or content is None:
        return default_alignment_heads(config)
    try:
        table = json.loads(content)
        return checked(AlignmentHeads(**table | {"heads": [AlignmentHead(**head) for head in table["heads"]]}), config)
    except (TypeError, KeyError):
        reason = "expected a JSON object with a list of `heads`."
    except (ValueError, RecursionError, SettingsError, InputError) as error:
        reason = str(error)
    raise DirectoryError(
        f"{directory / FILE} is not a valid selection of heads for this model: {reason.removesuffix('.')}. "
        "`glassformer align --choose` selects heads again."
    )


def write_alignment_heads(choice: AlignmentHeads, directory: Path) -> None:
    """Write a selection of alignment heads into a model directory, replacing the one before."""
    add_file(directory, FILE, choice.as_json().encode())


def checked(choice: AlignmentHeads, config: ModelConfig) -> AlignmentHeads:
    """Check that the model has the selected heads; returns the selection."""
    for selected in choice.heads:
        if selected.layer >= config.decoder_layers or selected.head >= config.n_heads:
            raise InputError(
                f"The model has no head {selected.head} in decoder layer {selected.layer}: it has "
                f"{config.decoder_layers} decoder layers with {config.n_heads} heads each, counted from 0."
            )
    return choice
