"""`glassformer what-if`: a model changed in a small way, and what becomes of its translations."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.progress_counter import Counter
from glassformer.cli.search_options import AnyModel, SourceLanguage, TargetLanguage
from glassformer.cli.text_layout import columns
from glassformer.errors import SettingsError

if TYPE_CHECKING:
    from glassformer.inspection import HeadLoss, Trace, WhatIf
    from glassformer.inspection.interventions.changes import Change
    from glassformer.translator import Translator

CHANGES, SET = "Changes, each may be repeated", "On a test set, instead of a sentence"
COUNT = 200


def what_if(
    model: AnyModel,
    sentence: Annotated[str | None, typer.Argument(metavar="SENTENCE", help="What to translate, in quotes.")] = None,
    replace: Annotated[
        list[str] | None, typer.Option(metavar="OLD=NEW", rich_help_panel=CHANGES, help="Another word: tired=wide.")
    ] = None,
    prefix: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", rich_help_panel=CHANGES, help="How the translation begins.")
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(
            metavar="AT:HEAD", rich_help_panel=CHANGES, help="A head says nothing: decoder.layers.1.cross_attention:2."
        ),
    ] = None,
    average: Annotated[
        list[str] | None,
        typer.Option(metavar="AT:HEAD", rich_help_panel=CHANGES, help="It says the same everywhere: its mean."),
    ] = None,
    uniform: Annotated[
        list[str] | None,
        typer.Option(metavar="AT[:HEAD]", rich_help_panel=CHANGES, help="It looks at all that it sees alike."),
    ] = None,
    cut: Annotated[
        list[str] | None,
        typer.Option(
            metavar="AT:QUERY:KEY",
            rich_help_panel=CHANGES,
            help="One token may not look at another: encoder.layers.1.self_attention:it:animal. Positions work too.",
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="LAYER", rich_help_panel=CHANGES, help="Without its feed-forward: encoder.layers.0."),
    ] = None,
    matrices: Annotated[
        list[str] | None,
        typer.Option(metavar="AT=BY", rich_help_panel=CHANGES, help="Keys and values by another's W_K and W_V."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Judge this translation, not the model's own.")
    ] = None,
    beam: Annotated[int | None, typer.Option(min=1, max=1000, help="Hypotheses kept; 1 is greedy search.")] = None,
    source: Annotated[Path | None, typer.Option(rich_help_panel=SET, help="Sentences, a line each.")] = None,
    reference: Annotated[
        Path | None, typer.Option(rich_help_panel=SET, help="Their translations; else the unchanged model's are taken.")
    ] = None,
    rank_heads: Annotated[
        bool, typer.Option("--rank-heads", rich_help_panel=SET, help="Remove each head in turn, and rank them.")
    ] = False,
    count: Annotated[int, typer.Option(min=1, rich_help_panel=SET, help="Lines of the set, at most.")] = COUNT,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    as_json: Annotated[bool, typer.Option("--json", help="Every number, for programs.")] = False,
) -> None:
    """Change a model in a small way, and see what becomes of its translations.

    AT is an attention, as in `glassformer describe MODEL --names`: encoder.layers.0.self_attention, say. All counts
    begin at 0.
    """
    if (sentence is None) == (source is None):
        raise SettingsError("Say what to translate: a sentence in quotes, or --source with a file of them.")
    if rank_heads and source is None:
        raise SettingsError("--rank-heads measures on a test set: name one with --source.")
    from glassformer.loading import load

    translator = load(model, source_language=source_language, target_language=target_language)
    asked = _Asked(replace, prefix, remove, average, uniform, cut, skip, matrices)
    if beam is not None:
        translator.search = translator.search.model_copy(update={"size": beam})
    if sentence is not None:
        before = translator.trace(sentence, target)
        found = asked.of_sentence(translator, before)
        typer.echo(json.dumps(_numbers(found), ensure_ascii=False) if as_json else _shown(found))
        return
    assert source is not None
    sources, references = _lines(source, reference, count)
    if rank_heads:
        with Counter("Removed head", total=_heads(translator)) as counter:
            ranked = translator.rank_heads(sources, references, tell=lambda done, all_: counter.add(1))
        typer.echo(json.dumps([vars(head) for head in ranked]) if as_json else _ranked(ranked))
        return
    typer.echo(_of_set(translator, asked.of_set(translator), sources, references, as_json))


class _Asked:
    """The changes as they were written."""

    def __init__(self, *options: list[str] | None) -> None:
        names = ("replace", "prefix", "remove", "average", "uniform", "cut", "skip", "matrices")
        self.written: dict[str, list[str]] = {name: given or [] for name, given in zip(names, options, strict=True)}

    def of_sentence(self, translator: "Translator", before: "Trace") -> "WhatIf":
        """What goes in is changed first; then tokens are found among those that really go in."""
        first: list[Change] = []
        inside = before
        for written in self.written["replace"]:
            first.append(translator.replacing(inside, *_two(written, "=", "--replace OLD=NEW")))
            inside = translator.what_if(before, *first).after
        first += [translator.beginning(text) for text in self.written["prefix"]]
        inside = translator.what_if(before, *first).after if first else before
        return translator.what_if(before, *first, *self._anywhere(), *self._cuts(inside))

    def of_set(self, translator: "Translator") -> "list[Change]":
        for name in ("replace", "prefix", "cut"):
            if self.written[name]:
                raise SettingsError(f"--{name} speaks of one sentence, and has no meaning for a test set.")
        return self._anywhere()

    def _anywhere(self) -> "list[Change]":
        from glassformer.inspection.interventions.changes import (
            AverageHead,
            RemoveHead,
            ReplaceMatrices,
            SkipFeedForward,
            UniformAttention,
        )

        made: list[Change] = []
        for kind, option in ((RemoveHead, "remove"), (AverageHead, "average")):
            for written in self.written[option]:
                at, head = _two(written, ":", f"--{option} AT:HEAD")
                made.append(kind(at=at, head=_number(head, option)))
        for written in self.written["uniform"]:
            at, _, head = written.partition(":")
            made.append(UniformAttention(at=at, head=_number(head, "uniform") if head else None))
        made += [SkipFeedForward(at=layer) for layer in self.written["skip"]]
        for written in self.written["matrices"]:
            at, by = _two(written, "=", "--matrices AT=BY")
            made.append(ReplaceMatrices(at=at, by=by))
        return made

    def _cuts(self, trace: "Trace") -> "list[Change]":
        from glassformer.inspection.explanation.token_names import position_of
        from glassformer.inspection.interventions.changes import CutEdge

        made: list[Change] = []
        for written in self.written["cut"]:
            parts = written.split(":")
            if len(parts) != 3:
                raise SettingsError(f"--cut is written AT:QUERY:KEY, and not {written!r}.")
            at, query, key = parts
            who = trace.source if at.startswith("encoder") else trace.target
            whom = trace.reads if at.startswith("decoder") and at.endswith("self_attention") else trace.source
            made.append(CutEdge(at=at, query=position_of(query, who), key=position_of(key, whom)))
        return made


def _two(written: str, sign: str, usage: str) -> tuple[str, str]:
    one, found, other = written.partition(sign)
    if not (one and found and other):
        raise SettingsError(f"It is written {usage}, and not {written!r}.")
    return one, other


def _number(text: str, option: str) -> int:
    if not text.isdecimal():
        raise SettingsError(f"--{option} names a head by its number, and {text!r} is none.")
    return int(text)


def _shown(found: "WhatIf") -> str:
    before, after = found.before, found.after
    changed = "; ".join(f"{old or '(nothing)'} → {new or '(nothing)'}" for old, new in found.changed_words)
    rows = [("token of the first", "log p before", "after", "change")]
    for token, old, new in zip(before.target, before.log_probabilities, found.kept, strict=True):
        rows.append((token, f"{old:.3f}", f"{new:.3f}", f"{new - old:+.3f}"))
    total = sum(found.kept) - sum(before.log_probabilities)
    rows.append(("all", f"{sum(before.log_probabilities):.3f}", f"{sum(found.kept):.3f}", f"{total:+.3f}"))
    texts = [before.text, before.translation, ""]
    texts += [after.text] if after.text != before.text else []
    return "\n".join([*texts, after.translation, f"changed: {changed or 'nothing'}", "", columns(rows, "lrrr")])


def _numbers(found: "WhatIf") -> dict[str, Any]:
    return {
        "source": found.before.text,
        "before": found.before.translation,
        "changed_source": found.after.text,
        "after": found.after.translation,
        "changed_words": found.changed_words,
        "tokens": found.before.target,
        "log_probabilities": found.before.log_probabilities,
        "log_probabilities_after": found.kept,
    }


def _of_set(
    translator: "Translator",
    changes: "Sequence[Change]",
    sources: list[str],
    references: list[str] | None,
    as_json: bool,
) -> str:
    from glassformer.evaluation import score

    unchanged = translator.translate(sources)
    now = translator.changed(*changes, average_over=sources).translate(sources)
    references = unchanged if references is None else references
    same = sum(one == other for one, other in zip(unchanged, now, strict=True))
    before, after = score(unchanged, references), score(now, references)
    if as_json:
        return json.dumps({"before": before.as_dict(), "after": after.as_dict(), "same": same, "of": len(sources)})
    rows = [
        ("", "before", "after", "signature"),
        ("BLEU", f"{before.bleu:.2f}", f"{after.bleu:.2f}", before.signature),
        ("chrF", f"{before.chrf:.2f}", f"{after.chrf:.2f}", before.chrf_signature),
    ]
    return f"{same} of {len(sources)} translations are the same.\n\n" + columns(rows, "lrrl")


def _ranked(ranked: "list[HeadLoss]") -> str:
    rows = [
        ("attention", "head", "nats a token lost without it"),
        *((h.at, str(h.head), f"{h.loss:.4f}") for h in ranked),
    ]
    return columns(rows, "lrr")


def _heads(translator: "Translator") -> int:
    from glassformer.inspection.interventions.changes import attentions

    return len(attentions(translator.model)) * translator.model.config.n_heads


def _lines(source: Path, reference: Path | None, count: int) -> tuple[list[str], list[str] | None]:
    from itertools import islice

    from glassformer.data.corpus import corpus, read_lines

    if reference is None:
        return [line for line in islice(read_lines(source), count) if line.strip()], None
    pairs = [pair for pair in islice(corpus(source, reference), count) if pair.source.strip()]
    return [pair.source for pair in pairs], [pair.target for pair in pairs]
