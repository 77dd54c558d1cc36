"""`glassformer what-if`: interventions on a model or its input, and their effect on translations."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.common import search_options as shared
from glassformer.cli.common.progress_counter import ProgressCounter
from glassformer.errors import SettingsError
from glassformer.text_layout import columns

if TYPE_CHECKING:
    from glassformer.inspection import HeadLoss, Inspector, Trace, WhatIf
    from glassformer.inspection.interventions.changes import Change

_change_option = shared.panel("Changes (each may be repeated)")
_test_set_option = shared.panel("Test set, instead of a sentence")
DEFAULT_COUNT = 200


def what_if(
    model: shared.Model,
    sentence: Annotated[
        str | None, typer.Argument(metavar="SENTENCE", help="Sentence to translate, in quotes.")
    ] = None,
    replace: Annotated[
        list[str] | None, _change_option(metavar="OLD=NEW", help="Replace a source word: tired=wide.")
    ] = None,
    prefix: Annotated[
        list[str] | None, _change_option(metavar="TEXT", help="Force the translation to begin with this text.")
    ] = None,
    remove_head: Annotated[
        list[str] | None,
        _change_option(metavar="AT:HEAD", help="Set a head's output to zero: decoder.layers.1.cross_attention:2."),
    ] = None,
    average_head: Annotated[
        list[str] | None,
        _change_option(metavar="AT:HEAD", help="Replace a head's output by its mean, the same everywhere."),
    ] = None,
    uniform_attention: Annotated[
        list[str] | None,
        _change_option(
            metavar="AT[:HEAD]", help="Give all visible positions the same attention weight, in one head or in all."
        ),
    ] = None,
    remove_edge: Annotated[
        list[str] | None,
        _change_option(
            metavar="AT:QUERY:KEY",
            help="Stop one token from attending to another, by token or position: "
            "encoder.layers.1.self_attention:it:animal.",
        ),
    ] = None,
    skip_feed_forward: Annotated[
        list[str] | None, _change_option(metavar="LAYER", help="Skip a layer's feed-forward network: encoder.layers.0.")
    ] = None,
    replace_matrices: Annotated[
        list[str] | None, _change_option(metavar="AT=BY", help="Compute keys and values with the W_K and W_V of BY.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Score this translation instead of the model's own.")
    ] = None,
    beam: shared.OptionalBeamSize = None,
    source: Annotated[Path | None, _test_set_option(metavar="FILE", help="Source sentences, one per line.")] = None,
    reference: Annotated[
        Path | None,
        _test_set_option(metavar="FILE", help="Reference translations; by default those of the unchanged model."),
    ] = None,
    rank_heads: Annotated[
        bool, _test_set_option("--rank-heads", help="Remove each head in turn, and rank the heads by the loss.")
    ] = False,
    count: Annotated[int, _test_set_option(min=1, metavar="N", help="Maximum number of sentences.")] = DEFAULT_COUNT,
    source_language: shared.SourceLanguage = None,
    target_language: shared.TargetLanguage = None,
    as_json: shared.AllNumbersAsJSON = False,
) -> None:
    """Change a model or its input, and compare the translations before and after.

    AT and BY are attentions, such as encoder.layers.0.self_attention; `glassformer describe MODEL --names` lists them.
    Layers, heads and positions are numbered from 0.
    """
    if (sentence is None) == (source is None):
        raise SettingsError("Give either a sentence in quotes, or --source with a file of sentences.")
    if rank_heads and source is None:
        raise SettingsError("--rank-heads needs a test set: give one with --source FILE.")
    with ProgressCounter("Reading the model,"):
        from glassformer.inspection import inspect
        from glassformer.loading import load

        translator = load(model, source_language=source_language, target_language=target_language)
    changes = _ChangeOptions(
        replace=replace,
        prefix=prefix,
        remove_head=remove_head,
        average_head=average_head,
        uniform_attention=uniform_attention,
        remove_edge=remove_edge,
        skip_feed_forward=skip_feed_forward,
        replace_matrices=replace_matrices,
    )
    if beam is not None:
        translator = translator.replace(search=translator.search.model_copy(update={"size": beam}))
    inspector = inspect(translator)
    if sentence is not None:
        with ProgressCounter("Tracing,"):
            result = changes.on_sentence(inspector, inspector.trace(sentence, target))
        typer.echo(json.dumps(_result_json(result), ensure_ascii=False) if as_json else _result_text(result))
        return
    assert source is not None
    sources, references = _read_test_set(source, reference, count)
    if rank_heads:
        with ProgressCounter("Removed head", total=_head_count(inspector)) as counter:
            ranked = inspector.rank_heads(sources, references, progress=lambda done, total: counter.add(1))
        typer.echo(json.dumps([vars(head) for head in ranked]) if as_json else _ranking_text(ranked))
        return
    with ProgressCounter("Translating with and without the changes,"):
        outcome = _test_set_result(inspector, changes.on_test_set(), sources, references, as_json)
    typer.echo(outcome)


class _ChangeOptions:
    """The interventions given on the command line."""

    def __init__(self, **options: list[str] | None) -> None:
        self.texts: dict[str, list[str]] = {name.replace("_", "-"): texts or [] for name, texts in options.items()}

    def on_sentence(self, inspector: "Inspector", before: "Trace") -> "WhatIf":
        """Apply the changes to a sentence, those of the input first: `--remove-edge` refers to the changed input."""
        input_changes: list[Change] = []
        changed_trace = before
        for text in self.texts["replace"]:
            input_changes.append(inspector.word_replacement(changed_trace, *_two_parts(text, "=", "--replace OLD=NEW")))
            changed_trace = inspector.what_if(before, *input_changes).after
        input_changes += [inspector.forced_prefix(text) for text in self.texts["prefix"]]
        changed_trace = inspector.what_if(before, *input_changes).after if input_changes else before
        return inspector.what_if(before, *input_changes, *self._model_changes(), *self._removed_edges(changed_trace))

    def on_test_set(self) -> "list[Change]":
        for name in ("replace", "prefix", "remove-edge"):
            if self.texts[name]:
                raise SettingsError(f"--{name} changes one sentence: leave it out with --source.")
        return self._model_changes()

    def _model_changes(self) -> "list[Change]":
        from glassformer.inspection.interventions import changes as kinds

        changes: list[Change] = []
        for kind, option in ((kinds.RemoveHead, "remove-head"), (kinds.AverageHead, "average-head")):
            for text in self.texts[option]:
                at, head = _two_parts(text, ":", f"--{option} AT:HEAD")
                changes.append(kind(at=at, head=_head_number(head, option)))
        for text in self.texts["uniform-attention"]:
            at, _, head = text.partition(":")
            number = _head_number(head, "uniform-attention") if head else None
            changes.append(kinds.UniformAttention(at=at, head=number))
        changes += [kinds.SkipFeedForward(at=layer) for layer in self.texts["skip-feed-forward"]]
        for text in self.texts["replace-matrices"]:
            at, by = _two_parts(text, "=", "--replace-matrices AT=BY")
            changes.append(kinds.ReplaceMatrices(at=at, by=by))
        return changes

    def _removed_edges(self, trace: "Trace") -> "list[Change]":
        from glassformer.inspection.explanation.token_lookup import position_of
        from glassformer.inspection.interventions.changes import RemoveEdge

        changes: list[Change] = []
        for text in self.texts["remove-edge"]:
            parts = text.split(":")
            if len(parts) != 3:
                raise SettingsError(
                    f"--remove-edge {text!r} should be AT:QUERY:KEY, as in encoder.layers.1.self_attention:it:animal."
                )
            at, query, key = parts
            queries = trace.source if at.startswith("encoder") else trace.target
            keys = trace.reads if at.startswith("decoder") and at.endswith("self_attention") else trace.source
            changes.append(RemoveEdge(at=at, query=position_of(query, queries), key=position_of(key, keys)))
        return changes


def _two_parts(text: str, sign: str, usage: str) -> tuple[str, str]:
    first, separator, second = text.partition(sign)
    if not (first and separator and second):
        raise SettingsError(f"Expected {usage}, not {text!r}.")
    return first, second


def _head_number(text: str, option: str) -> int:
    if not text.isdecimal():
        raise SettingsError(f"--{option} needs the number of a head, from 0; {text!r} is not a number.")
    return int(text)


def _result_text(result: "WhatIf") -> str:
    before, after = result.before, result.after
    changed = "; ".join(f"{old or '(nothing)'} → {new or '(nothing)'}" for old, new in result.changed_words)
    rows = [("token before", "log p before", "after", "change")]
    for token, old, new in zip(before.target, before.log_probabilities, result.original_log_probabilities, strict=True):
        rows.append((token, f"{old:.3f}", f"{new:.3f}", f"{new - old:+.3f}"))
    old, new = sum(before.log_probabilities), sum(result.original_log_probabilities)
    rows.append(("sum", f"{old:.3f}", f"{new:.3f}", f"{new - old:+.3f}"))
    texts = [before.text, before.translation, ""]
    texts += [after.text] if after.text != before.text else []
    return "\n".join([*texts, after.translation, f"changed: {changed or 'nothing'}", "", columns(rows, "lrrr")])


def _result_json(result: "WhatIf") -> dict[str, Any]:
    return {
        "source": result.before.text,
        "before": result.before.translation,
        "changed_source": result.after.text,
        "after": result.after.translation,
        "changed_words": result.changed_words,
        "tokens": result.before.target,
        "log_probabilities": result.before.log_probabilities,
        "log_probabilities_after": result.original_log_probabilities,
    }


def _test_set_result(
    inspector: "Inspector", changes: "Sequence[Change]", sources: list[str], references: list[str] | None, as_json: bool
) -> str:
    from glassformer.evaluation import score

    unchanged = inspector.translator.translate(sources)
    changed = inspector.changed_translator(*changes, average_over=sources).translate(sources)
    references = unchanged if references is None else references
    same = sum(old == new for old, new in zip(unchanged, changed, strict=True))
    before, after = score(unchanged, references), score(changed, references)
    if as_json:
        return json.dumps({"before": before.as_dict(), "after": after.as_dict(), "same": same, "of": len(sources)})
    rows = [
        ("", "before", "after", "signature"),
        ("BLEU", f"{before.bleu:.2f}", f"{after.bleu:.2f}", before.signature),
        ("chrF", f"{before.chrf:.2f}", f"{after.chrf:.2f}", before.chrf_signature),
    ]
    return f"{same} of {len(sources)} translations are the same.\n\n" + columns(rows, "lrrl")


def _ranking_text(ranked: "list[HeadLoss]") -> str:
    rows = [(head.at, str(head.head), f"{head.loss:.4f}") for head in ranked]
    return columns([("attention", "head", "log p lost without it (nats per token)"), *rows], "lrr")


def _head_count(inspector: "Inspector") -> int:
    from glassformer.inspection.interventions.changes import attentions

    return len(attentions(inspector.model)) * inspector.model.config.n_heads


def _read_test_set(source: Path, reference: Path | None, count: int) -> tuple[list[str], list[str] | None]:
    from itertools import islice

    from glassformer.data.corpus import corpus, read_lines

    if reference is None:
        return [line for line in islice(read_lines(source), count) if line.strip()], None
    pairs = [pair for pair in islice(corpus(source, reference), count) if pair.source.strip()]
    return [pair.source for pair in pairs], [pair.target for pair in pairs]
