"""A `tokenizer.json`, taken apart: its tables are read entry by entry, the small rest as JSON."""

import json
from array import array
from dataclasses import dataclass, field
from typing import Any

from glassformer.data.json_tables import (
    TableError,
    check_end,
    members,
    numbered,
    paired,
    passed_over,
    scored,
    start_of,
)
from glassformer.errors import DataError
from glassformer.settings import no_constant, once_each

LARGEST_FILE, LARGEST_REST = 2**26, 2**20
"""Bytes: NLLB's has 32 million, as `transformers` 5 writes it; without pieces and merges none has half a million."""
MOST_PIECES = 2**20
MERGES_PER_PIECE = 4
"""NLLB's, the largest that is known, has 256,000 pieces and two merges for each."""


@dataclass
class TokenizerFile:
    """What a file says."""

    rest: dict[str, Any] = field(default_factory=dict)
    """All but the tables."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Of each piece of the model."""
    scores: dict[str, float] | None = None
    """Of each piece, if it has one: a Unigram model's."""
    pairs: "array[int]" = field(default_factory=lambda: array("Q"))
    """The merges of a BPE model, the first learned first."""

    @property
    def model(self) -> Any:
        return self.rest.get("model")


def taken_apart(content: bytes, most: int = MOST_PIECES) -> TokenizerFile:
    """A file that may have so many pieces, and a few merges for each."""
    if len(content) > LARGEST_FILE:
        raise DataError(f"it has {len(content):,} bytes; such a file may have {LARGEST_FILE:,}.")
    found = TokenizerFile()
    cut_out: list[tuple[int, int]] = []

    def of_model(name: str, at: int) -> int:
        if name == "vocab" and content[at : at + 1] == b"{":
            found.numbers, end = numbered(content, at, most)
        elif name == "vocab":
            found.scores, end = scored(content, at, most)
            found.numbers = {piece: number for number, piece in enumerate(found.scores)}
        elif name == "merges":
            found.pairs, end = paired(content, at, MERGES_PER_PIECE * len(found.numbers), found.numbers)
        else:
            return passed_over(content, at, LARGEST_REST)
        cut_out.append((at, end))
        return end

    def of_file(name: str, at: int) -> int:
        is_model = name == "model" and content[at : at + 1] == b"{"
        return members(content, at, of_model) if is_model else passed_over(content, at, LARGEST_REST)

    try:
        found.rest = _rest(content, members(content, start_of(content), of_file), cut_out)
    except RecursionError:
        raise DataError("it is not readable JSON: it is nested too deeply.") from None
    except ValueError as error:  # of tables, and of json
        raise DataError(f"it is not readable as a tokenizer: {error}.") from None
    return found


def _rest(content: bytes, end: int, cut_out: list[tuple[int, int]]) -> dict[str, Any]:
    check_end(content, end)
    kept, last = [], 0
    for start, stop in cut_out:
        kept += [content[last:start], b"null"]
        last = stop
    rest = b"".join([*kept, content[last:end]])
    if len(rest) > LARGEST_REST:
        raise TableError(f"without its tables it has {len(rest):,} bytes; it may have {LARGEST_REST:,}")
    found = json.loads(rest, object_pairs_hook=once_each, parse_constant=no_constant)
    json.dumps(found, ensure_ascii=False).encode()  # half of a surrogate pair is no character
    assert isinstance(found, dict)  # `members` has seen its brackets
    return found
