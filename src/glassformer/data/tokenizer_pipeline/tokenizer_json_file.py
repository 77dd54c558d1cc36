"""Parser for `tokenizer.json`: the large tables are read entry by entry, the small rest as JSON."""

import json
from array import array
from dataclasses import dataclass, field
from typing import Any

from glassformer.data.json_streaming import (
    TableError,
    check_end,
    read_id_table,
    read_members,
    read_merge_table,
    read_score_table,
    skip_value,
    value_start,
)
from glassformer.errors import DataError
from glassformer.settings import reject_constant, reject_duplicate_keys

MAX_FILE_BYTES, MAX_REST_BYTES = 2**26, 2**20
"""Maximum size of a `tokenizer.json`, whole and without its tables of pieces and merges.

NLLB's has 32 million bytes as written by `transformers` 5; without the tables, no known one has half a million."""
MAX_PIECES = 2**20
MAX_MERGES_PER_PIECE = 4
"""Maximum number of merges per piece. NLLB's, the largest known, has 256,000 pieces and two merges per piece."""


@dataclass
class TokenizerFile:
    """The contents of a `tokenizer.json`."""

    rest: dict[str, Any] = field(default_factory=dict)
    """The JSON object without its large tables (pieces, scores, merges)."""
    ids: dict[str, int] = field(default_factory=dict)
    """The id of each piece of the model."""
    scores: dict[str, float] | None = None
    """The score of each piece; unigram models only."""
    merges: "array[int]" = field(default_factory=lambda: array("Q"))
    """The merges of a BPE model in the order of learning, as packed ids (see `read_merge_table`)."""

    @property
    def model(self) -> Any:
        return self.rest.get("model")


def parse_tokenizer_json(content: bytes, max_pieces: int) -> TokenizerFile:
    """Parse a `tokenizer.json` of at most `max_pieces` pieces, with a few merges per piece."""
    if len(content) > MAX_FILE_BYTES:
        raise DataError(f"it has {len(content):,} bytes; the maximum is {MAX_FILE_BYTES:,}.")
    file = TokenizerFile()
    table_spans: list[tuple[int, int]] = []

    def read_model_member(name: str, at: int) -> int:
        if name == "vocab" and content[at : at + 1] == b"{":
            file.ids, end = read_id_table(content, at, max_pieces)
        elif name == "vocab":
            file.scores, end = read_score_table(content, at, max_pieces)
            file.ids = {piece: piece_id for piece_id, piece in enumerate(file.scores)}
        elif name == "merges":
            file.merges, end = read_merge_table(content, at, MAX_MERGES_PER_PIECE * len(file.ids), file.ids)
        else:
            return skip_value(content, at, MAX_REST_BYTES)
        table_spans.append((at, end))
        return end

    def read_file_member(name: str, at: int) -> int:
        is_model = name == "model" and content[at : at + 1] == b"{"
        return read_members(content, at, read_model_member) if is_model else skip_value(content, at, MAX_REST_BYTES)

    try:
        end = read_members(content, value_start(content), read_file_member)
        file.rest = _parse_rest(content, end, table_spans)
    except RecursionError:
        raise DataError("not a readable tokenizer file: it is nested too deeply.") from None
    except ValueError as error:  # a TableError, or from json.loads
        raise DataError(f"not a readable tokenizer file: {error}.") from None
    return file


def _parse_rest(content: bytes, end: int, table_spans: list[tuple[int, int]]) -> dict[str, Any]:
    """Parse everything but the tables at `table_spans`, which become null."""
    check_end(content, end)
    chunks, last = [], 0
    for start, stop in table_spans:
        chunks += [content[last:start], b"null"]
        last = stop
    rest = b"".join([*chunks, content[last:end]])
    if len(rest) > MAX_REST_BYTES:
        raise TableError(f"without its tables it has {len(rest):,} bytes; the maximum is {MAX_REST_BYTES:,}")
    table = json.loads(rest, object_pairs_hook=reject_duplicate_keys, parse_constant=reject_constant)
    json.dumps(table, ensure_ascii=False).encode()  # refuses lone surrogates
    assert isinstance(table, dict)  # `read_members` has checked its brackets
    return table
