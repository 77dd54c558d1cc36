"""What-if requests: replaced words are converted to token changes, limits are checked, and the effect is returned."""

from collections.abc import Callable

from glassformer.evaluation import sentence_chrf
from glassformer.inspection import Inspector, inspect
from glassformer.inspection.interventions.changes import Change, ForcePrefix, ReplaceToken
from glassformer.inspection.interventions.what_if import rank_heads_of
from glassformer.inspection.tracing.trace_manifest import finite
from glassformer.server.http_errors import HTTPError
from glassformer.server.schemas import (
    BeginWith,
    HeadImportance,
    HeadRanking,
    Replacement,
)
from glassformer.server.state import ServerState
from glassformer.server.trace_limits import check_ids, check_length
from glassformer.server.trace_store import StoredTrace
from glassformer.server.what_if_schemas import WhatIfRequest, WhatIfResponse


class CancellationToken:
    """Token that lets work of many parts be cancelled between two of them."""

    def __init__(self) -> None:
        self._why: BaseException | None = None

    def cancel(self, why: BaseException) -> None:
        self._why = why

    def check(self, done: int, of: int) -> None:
        if self._why is not None:
            raise self._why


def run_what_if(state: ServerState, stored: StoredTrace, body: WhatIfRequest) -> WhatIfResponse:
    """Translate the traced text again under changes, store the new trace, and compare."""
    inspector = _inspector(state, stored)
    result = inspector.what_if(stored.trace, *_changes(state, stored, body, inspector))
    after = state.store.add(result.after, stored.tokenizer)
    texts, reference = (result.before.translation, result.after.translation), body.reference
    return WhatIfResponse(
        id=after.identity,
        manifest=state.manifest_of(after),
        changed_words=result.changed_words,
        original_log_probabilities=[finite(log_p) for log_p in result.original_log_probabilities],
        differences=[finite(difference) for difference in result.differences],
        chrf=None if reference is None else (sentence_chrf(texts[0], reference), sentence_chrf(texts[1], reference)),
    )


def rank_heads(state: ServerState, stored: StoredTrace, on_progress: Callable[[int, int], None]) -> HeadRanking:
    """Rank all heads by how much their removal costs the traced translation."""
    heads = rank_heads_of(state.service.served.translator.model, stored.trace, on_progress)
    return HeadRanking(heads=[HeadImportance(at=head.at, head=head.head, loss=finite(head.loss)) for head in heads])


def texts_of(body: WhatIfRequest) -> list[str]:
    """All texts in a what-if request, for the size limits."""
    texts = [] if body.reference is None else [body.reference]
    for change in (*body.changes, *body.replace):
        if isinstance(change, Replacement):
            texts += [change.old, change.new]
        elif isinstance(change, BeginWith):
            texts.append(change.text)
    return texts


def _inspector(state: ServerState, stored: StoredTrace) -> Inspector:
    return inspect(state.service.served.translator.replace(tokenizer=stored.tokenizer))


def _changes(state: ServerState, stored: StoredTrace, body: WhatIfRequest, inspector: Inspector) -> list[Change]:
    """Convert the requested changes to tokens; words are searched for in the source as earlier changes left it."""
    requested = (*body.changes, *body.replace)
    count = len(stored.trace.about.changes) + len(requested)
    if count > state.limits.changes:
        raise HTTPError(
            413, f"There are {count} changes, including those of the trace; at most {state.limits.changes} are allowed."
        )
    changes: list[Change] = []
    for change in requested:
        if isinstance(change, Replacement):
            changes.append(inspector.word_replacement(stored.trace, change.old, change.new, change.which, changes))
        elif isinstance(change, BeginWith):
            changes.append(inspector.forced_prefix(change.text))
        else:
            changes.append(change)
        _check_tokens(state, stored, changes, inspector)  # before the next change reads the tokens of this one
    return changes


def _check_tokens(state: ServerState, stored: StoredTrace, changes: list[Change], inspector: Inspector) -> None:
    config, tokens = inspector.model.config, len(stored.trace.about.asked.ids)
    for change in (*stored.trace.about.changes, *changes):
        if isinstance(change, (ReplaceToken, ForcePrefix)):
            size = config.source_vocab_size if isinstance(change, ReplaceToken) else config.vocab_size
            tokens += len(change.ids)
            check_ids(change.ids, config, size)
    check_length(state.limits, tokens)
