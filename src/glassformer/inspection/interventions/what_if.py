"""Effects of interventions: changed translations and probabilities, and a ranking of heads by ablation."""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glassformer.engine.torch_step_model import score
from glassformer.errors import InputError
from glassformer.inspection.interventions.changes import Change, HeadMeans, RemoveHead, apply, attentions
from glassformer.inspection.interventions.weight_sharing_copy import weight_sharing_copy
from glassformer.inspection.tracing.trace import Trace, request_of
from glassformer.inspection.tracing.trace_builder import IDS_AS_TEXT, TokenNames, means_for, trace
from glassformer.model import Transformer


@dataclass(frozen=True)
class WhatIf:
    """Two traces of one sentence, without and with changes, and their differences."""

    before: Trace
    after: Trace
    """Trace with the changes applied: of the changed model's translation, or of the target that was given."""
    original_log_probabilities: list[float]
    """The changed model's log-probability of each token of the original translation."""

    @property
    def differences(self) -> list[float]:
        """Change in log-probability of each token of the original translation, in nats."""
        pairs = zip(self.before.log_probabilities, self.original_log_probabilities, strict=True)
        return [after - before for before, after in pairs]

    @property
    def changed_words(self) -> list[tuple[str, str]]:
        """Words of the translation that changed, as (old, new) pairs from left to right; either may be empty."""
        old, new = self.before.translation.split(), self.after.translation.split()
        blocks = difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes()
        return [(" ".join(old[a:b]), " ".join(new[c:d])) for kind, a, b, c, d in blocks if kind != "equal"]


def what_if(model: Transformer, before: Trace, changes: Sequence[Change], names: TokenNames = IDS_AS_TEXT) -> WhatIf:
    """Trace a sentence again with these changes, in addition to those of its trace, and compare."""
    about = before.about
    if len(about.target.ids) != before.steps:
        raise InputError(
            f"This trace has only {before.steps} of {len(about.target.ids)} steps; a what-if needs all of them. Trace "
            "the sentence without a limit on its steps."
        )
    all_changes = [*about.changes, *changes]

    def traced(target: list[int] | None) -> Trace:
        return trace(model, request_of(about), target, search=about.search, names=names, changes=all_changes)

    after = traced(about.target.ids if about.target_given else None)
    same = after.about.target.ids == about.target.ids
    return WhatIf(before, after, (after if same else traced(about.target.ids)).log_probabilities)


@dataclass(frozen=True)
class HeadLoss:
    """Importance of a head, measured by removing it."""

    at: str
    head: int
    loss: float
    """Log-probability lost per target token without the head, in nats; negative if the model improves."""


def rank_heads(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    progress: Callable[[int, int], None] = lambda done, total: None,
    changes: Sequence[Change] = (),
    means: HeadMeans | None = None,
) -> list[HeadLoss]:
    """All heads, ranked by the loss from removing each on these pairs, largest first.

    `progress` is called with the number of heads done and their total. `changes` (and the head `means` they need) are
    applied throughout.
    """

    def log_probability(*removed: Change) -> float:
        """The mean per target token."""
        ablated = weight_sharing_copy(model)
        apply(ablated, [*changes, *removed], means or {})
        scored = score(ablated, sources, targets)
        return sum(pair.log_probability for pair in scored) / sum(len(pair.tokens) for pair in scored)

    heads = [(at, head) for at in attentions(model) for head in range(model.config.n_heads)]
    baseline = log_probability()
    losses = []
    for number, (at, head) in enumerate(heads, start=1):
        losses.append(HeadLoss(at, head, baseline - log_probability(RemoveHead(at=at, head=head))))
        progress(number, len(heads))
    return sorted(losses, key=lambda ranked: -ranked.loss)


def rank_heads_of(
    model: Transformer, before: Trace, progress: Callable[[int, int], None] = lambda done, total: None
) -> list[HeadLoss]:
    """All heads, ranked as by `rank_heads` on one traced translation, with the changes of its trace applied."""
    about = before.about
    means = means_for(about.changes, model, [request_of(about)], about.search)
    return rank_heads(model, [about.source.ids], [about.target.ids], progress, about.changes, means)
