"""What-ifs by HTTP: words made into changes, everything bounded, and what came of it."""

from collections.abc import Callable

from glassformer.evaluation import sentence_chrf
from glassformer.inspection.interventions.changes import Change, ForcePrefix, ReplaceToken
from glassformer.inspection.interventions.what_if import rank_heads_of
from glassformer.server.http_errors import HTTPError
from glassformer.server.schemas import AskWhatIf, BeginWith, Difference, HeadWorth, Ranked, Replacement
from glassformer.server.state import ServerState
from glassformer.server.trace_limits import check_ids, check_length, manifest_of
from glassformer.server.trace_store import StoredTrace
from glassformer.server.translation_service import finite
from glassformer.translator import Translator


class RequestCancelled:
    """Whether nobody waits any more: work that has many parts asks after each."""

    def __init__(self) -> None:
        self._why: BaseException | None = None

    def hear(self, why: BaseException) -> None:
        self._why = why

    def check(self, done: int, of: int) -> None:
        if self._why is not None:
            raise self._why


def changed(house: ServerState, kept: StoredTrace, wanted: AskWhatIf) -> Difference:
    """A traced text again under changes; the new trace is kept."""
    translator = _translator(house, kept)
    found = translator.what_if(kept.trace, *_changes(house, kept, wanted, translator))
    after = house.store.add(found.after, kept.tokenizer)
    both = (found.before.translation, found.after.translation)
    return Difference(
        id=after.identity,
        manifest=manifest_of(house, after),
        changed_words=found.changed_words,
        kept=[finite(log_p) for log_p in found.kept],
        differences=[finite(difference) for difference in found.differences],
        chrf=None
        if wanted.reference is None
        else (sentence_chrf(both[0], wanted.reference), sentence_chrf(both[1], wanted.reference)),
    )


def ranked(house: ServerState, kept: StoredTrace, tell: Callable[[int, int], None]) -> Ranked:
    """Every head by what its removal costs a traced translation."""
    heads = rank_heads_of(_translator(house, kept).model, kept.trace, tell)
    return Ranked(heads=[HeadWorth(at=one.at, head=one.head, loss=finite(one.loss)) for one in heads])


def texts_of(wanted: AskWhatIf) -> list[str]:
    """Everything in it that is text."""
    found = [] if wanted.reference is None else [wanted.reference]
    for change in (*wanted.changes, *wanted.replace):
        if isinstance(change, Replacement):
            found += [change.old, change.new]
        elif isinstance(change, BeginWith):
            found.append(change.text)
    return found


def _translator(house: ServerState, kept: StoredTrace) -> Translator:
    translator = house.service.translator(None, None)
    translator.tokenizer = kept.tokenizer
    return translator


def _changes(house: ServerState, kept: StoredTrace, wanted: AskWhatIf, translator: Translator) -> list[Change]:
    """What is asked, in tokens: words are looked for in the source as the changes before them have left it."""
    asked = (*wanted.changes, *wanted.replace)
    count = len(kept.trace.about.changes) + len(asked)
    if count > house.limits.changes:
        raise HTTPError(413, f"These are {count} changes, and {house.limits.changes} may stand together.")
    changes: list[Change] = []
    for one in asked:
        if isinstance(one, Replacement):
            changes.append(translator.replacing(kept.trace, one.old, one.new, one.which, changes))
        elif isinstance(one, BeginWith):
            changes.append(translator.beginning(one.text))
        else:
            changes.append(one)
        _check_tokens(house, kept, changes, translator)  # each before the next looks at what it put there
    return changes


def _check_tokens(house: ServerState, kept: StoredTrace, changes: list[Change], translator: Translator) -> None:
    config, tokens = translator.model.config, len(kept.trace.about.asked.ids)
    for change in (*kept.trace.about.changes, *changes):
        if isinstance(change, (ReplaceToken, ForcePrefix)):
            size = config.source_vocab_size if isinstance(change, ReplaceToken) else config.vocab_size
            tokens += len(change.ids)
            check_ids(change.ids, config, size)
    check_length(house.limits, tokens)
