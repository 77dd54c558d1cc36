"""`glassformer explain`: one attention head step by step, pronoun resolution, or the matrices of cross-attention."""

import itertools
import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.common import search_options as shared
from glassformer.cli.common.progress_counter import ProgressCounter
from glassformer.errors import SettingsError

if TYPE_CHECKING:
    from glassformer.inspection import Trace
    from glassformer.inspection.explanation.attention_steps import AttentionWalk
    from glassformer.translator import Translator

_walk_option, _pronoun_option, _cross_option = map(
    shared.panel, ("One attention head (the default)", "Pronoun resolution", "Cross-attention matrices")
)
DEFAULT_COUNT = 40
MAX_COMMAND_WIDTH = 80
OPTIONS_OF = {
    "walk": {"token", "at", "head", "target"},
    "pronoun": {"candidates", "swap", "target-pronouns", "nouns"},
    "cross-attention": {"source", "target"},
}
"""The options that each kind of explanation has."""


def explain(
    model: shared.Model,
    sentence: Annotated[
        list[str] | None,
        typer.Argument(metavar="SENTENCE", help="Sentence to translate, in quotes; several with --cross-attention."),
    ] = None,
    token: Annotated[
        str | None, _walk_option(metavar="TOKEN", help="The token that attends, without ▁; it#2 is the second it.")
    ] = None,
    at: Annotated[
        str | None, _walk_option(metavar="NAME", help="Attention, such as encoder.layers.1.self_attention.")
    ] = None,
    head: Annotated[int | None, _walk_option(metavar="N", help="Attention head, numbered from 0.")] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Explain this translation instead of the model's own; with --source, a file of them."
        ),
    ] = None,
    pronoun: Annotated[
        str | None,
        _pronoun_option(metavar="WORD", help="Word to resolve, such as it: which noun does the model take it for?"),
    ] = None,
    candidates: Annotated[
        str | None,
        _pronoun_option(
            metavar="WORDS",
            help="Nouns of the sentence: animal,street. By default those after a determiner (the, a, ...).",
        ),
    ] = None,
    swap: Annotated[
        str | None,
        _pronoun_option(
            metavar="OLD=NEW",
            help="Replace a word for comparison: tired=wide. By default one that changes the pronoun is searched for.",
        ),
    ] = None,
    target_pronouns: Annotated[
        str | None,
        _pronoun_option(
            metavar="WORDS",
            help="Possible translations of the pronoun: es,sie,er; or by candidate: animal=es,street=sie.",
        ),
    ] = None,
    nouns: Annotated[
        str | None,
        _pronoun_option(
            metavar="WORDS", help="Words to substitute for the candidates. By default words of the model's vocabulary."
        ),
    ] = None,
    tries: Annotated[int, _pronoun_option(min=8, metavar="N", help="Substitutes tried per candidate.")] = 84,
    cross_attention: Annotated[
        bool,
        _cross_option(
            "--cross-attention", help="Replace the decoder's W_K and W_V by other layers', and measure the effect."
        ),
    ] = False,
    source: Annotated[
        Path | None, _cross_option(metavar="FILE", help="Sentences, one per line. The model street has built-in ones.")
    ] = None,
    count: Annotated[int, _cross_option(min=1, metavar="N", help="Maximum number of sentences.")] = DEFAULT_COUNT,
    source_language: shared.SourceLanguage = None,
    target_language: shared.TargetLanguage = None,
    device: shared.DeviceOption = "cpu",
    allow_pickle: shared.AllowPickle = False,
    as_json: shared.AllNumbersAsJSON = False,
) -> None:
    """Explain a translation with the model's own numbers: attention, pronouns, cross-attention.

    By default, every step of one attention head for one token, each recomputed from the numbers shown. Without --token,
    --at and --head, it opens where the translation looks back at a word translated before, as a pronoun does.
    """
    if pronoun is not None and cross_attention:
        raise SettingsError("--pronoun and --cross-attention cannot be combined: choose one of them.")
    kind = "cross-attention" if cross_attention else "pronoun" if pronoun is not None else "walk"
    given = {"token": token, "at": at, "head": head, "target": target, "source": source}
    given |= {"candidates": candidates, "swap": swap, "target-pronouns": target_pronouns, "nouns": nouns}
    refuse_unused_options(kind, [name for name, value in given.items() if value is not None])
    sentences = sentence or []
    if kind != "cross-attention" and len(sentences) != 1:
        raise SettingsError(f"Expected one sentence to explain, in quotes; there are {len(sentences)}.")
    if any(not text.strip() for text in sentences):
        raise SettingsError("The sentence is empty: there is nothing to explain.")
    with ProgressCounter("Reading the model,"):  # with PyTorch, which takes a second or two
        from glassformer.inspection import inspect
        from glassformer.inspection.explanation.attention_report import walk_json, walk_text
        from glassformer.loading import load

        translator = load(
            model,
            device=device,
            source_language=source_language,
            target_language=target_language,
            allow_pickle=allow_pickle,
        )
    shared.report_device(device, translator)
    if cross_attention:
        sources, targets = read_sentences(model, sentences, source, target, count)
        explanation = _cross_attention(translator, sources, targets, as_json)
    elif pronoun is not None:
        from glassformer.inspection.coreference.pronoun_report import pronoun_json, pronoun_text

        entries = split_at_commas(target_pronouns) or []
        with ProgressCounter(f"Translating the sentence with other words, to resolve {pronoun!r},"):
            verdict = inspect(translator).resolve_pronoun(
                sentences[0],
                pronoun,
                candidates=split_at_commas(candidates),
                swap=None if swap is None else split_at_equals(swap, "--swap"),
                pronouns=[entry for entry in entries if "=" not in entry],
                own_pronouns=dict(split_at_equals(entry, "--target-pronouns") for entry in entries if "=" in entry),
                nouns=split_at_commas(nouns),
                tries=tries,
            )
        explanation = _json(pronoun_json(verdict)) if as_json else pronoun_text(verdict)
        if not as_json:
            swapped = (
                {} if verdict.swap is None else {"the other sentence": f"what-if --replace {'='.join(verdict.swap)}"}
            )
            explanation += "\n\n" + next_text(model, swapped | {"one attention head, step by step": "explain"})
    else:
        with ProgressCounter("Tracing,"):
            trace = inspect(translator).trace(sentences[0], target)
            steps = _steps(trace, token, at, head)
        explanation = _json(walk_json(trace, steps)) if as_json else walk_text(trace, steps)
        if not as_json:
            explanation += "\n\n" + _next(model, trace, steps)
    typer.echo(explanation)


def refuse_unused_options(kind: str, given: list[str]) -> None:
    """Raise an error for options that belong to another kind of explanation."""
    if unused := [f"--{name}" for name in given if name not in OPTIONS_OF[kind]]:
        names = ", ".join(unused)
        if kind == "walk":
            raise SettingsError(f"{names} has no effect here: leave it out, or add --pronoun or --cross-attention.")
        raise SettingsError(f"{names} has no effect with --{kind}: leave one of them out.")


def _json(table: dict[str, Any]) -> str:
    return json.dumps(table, indent=2, ensure_ascii=False)


def _steps(trace: "Trace", token: str | None, at: str | None, head: int | None) -> "AttentionWalk":
    from glassformer.inspection.explanation.attention_steps import walk
    from glassformer.inspection.explanation.query_position import choose, telling

    is_open = token is None and at is None and head is None
    return walk(trace, telling(trace) if is_open else choose(trace, token, at, head))


def _next(model: str, trace: "Trace", walk: "AttentionWalk") -> str:
    """Commands that lead on from an attention head, with what each shows."""
    from glassformer.inspection.explanation.token_lookup import is_word, plain

    place = walk.place
    here = f"--at {place.at} --head {place.head}"
    best = max(walk.keys, key=lambda key: key.weight).piece
    others = trace.target if place.stack == "encoder" else [best, *trace.source]
    token = next((plain(piece) for piece in others if is_word(piece)), None)
    commands = {
        "another token": None if token is None else f"explain --token {shlex.quote(token)}",
        "what the pronoun refers to": "explain --pronoun it" if re.search(r"\bit\b", trace.text) else None,
        "the translation without this head": f"what-if --remove-head {place.at}:{place.head}",
        "this head as a picture": f"figure attention head.svg {here}",
        "all of it, in the browser": "explore",
    }
    return next_text(model, {meaning: command for meaning, command in commands.items() if command is not None})


def next_text(model: str, commands: dict[str, str]) -> str:
    """What to try next: each command below its meaning, with "..." for the sentence."""
    lines = ['Try next ("..." is the sentence):']
    for meaning, command in commands.items():
        name, _, options = command.partition(" ")
        begin = f'    glassformer {name} {shlex.quote(model)} "..."'
        line = f"{begin} {options}".rstrip()
        lines += [f"  {meaning}", *([line] if len(line) <= MAX_COMMAND_WIDTH else [f"{begin} \\", f"      {options}"])]
    return "\n".join(lines)


def split_at_commas(text: str | None) -> list[str] | None:
    """The non-empty parts between commas."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def split_at_equals(text: str, option: str) -> tuple[str, str]:
    """The two sides of an equals sign."""
    old, sign, new = (part.strip() for part in text.partition("="))
    if not (sign and old and new):
        raise SettingsError(f"{option} {text} should be OLD=NEW, as in {option} tired=wide.")
    return old, new


def _cross_attention(translator: "Translator", sources: list[str], targets: list[str] | None, as_json: bool) -> str:
    from glassformer.inspection.interventions.cross_attention_matrices import exchange_matrices
    from glassformer.inspection.interventions.cross_attention_report import answer_json, answer_text

    encode = translator.tokenizer.encode
    with ProgressCounter("Table rows measured:") as counter:
        result = exchange_matrices(
            translator.model,
            [encode(text, "source") for text in sources],
            None if targets is None else [encode(text, "target") for text in targets],
            prefix=tuple(encode("", "target")[:-1]),
            progress=lambda: counter.add(1),
        )
    return _json(answer_json(result)) if as_json else answer_text(result)


def read_sentences(
    model: str, sentences: list[str], source: Path | None, target: str | None, count: int
) -> tuple[list[str], list[str] | None]:
    """Read source sentences, and targets if given: from files, the command line, or the built-in corpus."""
    if source is not None and sentences:
        raise SettingsError("Give the sentences on the command line or in --source, not in both.")
    if source is not None:
        from glassformer.data import corpus
        from glassformer.data.corpus import read_lines

        if target is None:
            lines = (line for line in read_lines(source) if line.strip())
            return list(itertools.islice(lines, count)), None
        data = corpus(source, Path(target))
        data.check()
        pairs = list(itertools.islice(data, count))
        return [pair.source for pair in pairs], [pair.target for pair in pairs]
    if sentences:
        if target is not None and len(sentences) > 1:
            raise SettingsError(
                "--target is the translation of one sentence; for several, give --source and --target files."
            )
        return sentences[:count], None if target is None else [target]
    if model != "street":
        raise SettingsError("No sentences were given: put them after the model, or use --source FILE.")
    from glassformer.builtin.street import sentences as street_sentences

    return [pair.source for pair in street_sentences("test", count)], None
