"""What a change does: another translation, other probabilities, and which heads a model can do without."""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glassformer.decoding import score
from glassformer.errors import InputError
from glassformer.inspection.interventions.changes import Change, RemoveHead, apply, attentions
from glassformer.inspection.interventions.weight_sharing_copy import weight_sharing_copy
from glassformer.inspection.tracing.trace import Trace, request_of
from glassformer.inspection.tracing.trace_builder import NUMBERS, TokenNames, means_for, trace
from glassformer.model import Transformer


@dataclass(frozen=True)
class WhatIf:
    """Two traces of one sentence, and what is different."""

    before: Trace
    after: Trace
    """Under the changes: of the translation that the changed model gives, or of the target that was given."""
    kept: list[float]
    """The log-probabilities that the changed model gives to each token of the translation before."""

    @property
    def differences(self) -> list[float]:
        """By how much each token of the translation before became likelier (or, below 0, less likely), in nats."""
        return [after - before for before, after in zip(self.before.log_probabilities, self.kept, strict=True)]

    @property
    def changed_words(self) -> list[tuple[str, str]]:
        """What stood there before and what stands there now, from left to right; either may be empty."""
        old, new = self.before.translation.split(), self.after.translation.split()
        blocks = difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes()
        return [(" ".join(old[a:b]), " ".join(new[c:d])) for kind, a, b, c, d in blocks if kind != "equal"]


def what_if(model: Transformer, before: Trace, changes: Sequence[Change], names: TokenNames = NUMBERS) -> WhatIf:
    """The same sentence under these changes, on top of those that the trace was made under."""
    about = before.about
    if len(about.target.ids) != before.steps:
        raise InputError(
            f"This trace has {before.steps} of {len(about.target.ids)} steps: a what-if needs all of them."
        )
    every = [*about.changes, *changes]

    def traced(target: list[int] | None) -> Trace:
        return trace(model, request_of(about), target, search=about.search, names=names, changes=every)

    after = traced(about.target.ids if about.given else None)
    same = after.about.target.ids == about.target.ids
    return WhatIf(before, after, (after if same else traced(about.target.ids)).log_probabilities)


@dataclass(frozen=True)
class HeadLoss:
    """What a head is worth."""

    at: str
    head: int
    loss: float
    """Nats a target token that are lost without it; below 0, the model is better off."""


def rank_heads(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    tell: Callable[[int, int], None] = lambda done, all_: None,
) -> list[HeadLoss]:
    """Every head by what its removal costs on these pairs, the dearest first. `tell` hears how far it is."""

    def log_probability(removed: Sequence[Change]) -> float:
        mine = weight_sharing_copy(model)
        apply(mine, removed, {})
        scored = score(mine, sources, targets)
        return sum(one.log_probability for one in scored) / sum(len(one.tokens) for one in scored)

    return _ranked(model, log_probability, tell)


def rank_heads_of(
    model: Transformer, before: Trace, tell: Callable[[int, int], None] = lambda done, all_: None
) -> list[HeadLoss]:
    """The same for one traced translation, under the changes that its trace was made under."""
    about = before.about
    means = means_for(about.changes, model, [request_of(about)], about.search)

    def log_probability(removed: Sequence[Change]) -> float:
        mine = weight_sharing_copy(model)
        apply(mine, [*about.changes, *removed], means)
        [scored] = score(mine, [about.source.ids], [about.target.ids])
        return scored.log_probability / len(scored.tokens)

    return _ranked(model, log_probability, tell)


def _ranked(
    model: Transformer, log_probability: Callable[[Sequence[Change]], float], tell: Callable[[int, int], None]
) -> list[HeadLoss]:
    """`log_probability`: of a target token, on average, under a change."""
    heads = [(at, head) for at in attentions(model) for head in range(model.config.n_heads)]
    whole = log_probability([])
    losses = []
    for number, (at, head) in enumerate(heads, start=1):
        losses.append(HeadLoss(at, head, whole - log_probability([RemoveHead(at=at, head=head)])))
        tell(number, len(heads))
    return sorted(losses, key=lambda one: -one.loss)
