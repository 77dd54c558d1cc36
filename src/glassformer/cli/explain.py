"""`glassformer explain`: a token's walk through one attention, who "it" is, whose W_K and W_V the decoder uses."""

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.search_options import AnyModel, SourceLanguage, TargetLanguage
from glassformer.errors import SettingsError

if TYPE_CHECKING:
    from glassformer.translator import Translator

WALK, WHO, CROSS = "A walk through one attention (the default)", 'Who is "it"?', "Whose W_K and W_V?"
COUNT = 40
BELONGS = {
    "walk": {"token", "at", "head", "target"},
    "who": {"candidates", "swap", "pronouns", "nouns"},
    "cross-attention": {"source", "target"},
}
"""Which options each question has."""


def explain(
    model: AnyModel,
    sentence: Annotated[list[str] | None, typer.Argument(metavar="SENTENCE", help="What to translate.")] = None,
    token: Annotated[
        str | None,
        typer.Option(rich_help_panel=WALK, help="Who looks: a token, without ▁; it#2 is the second."),
    ] = None,
    at: Annotated[
        str | None, typer.Option(rich_help_panel=WALK, help="The attention: encoder.layers.1.self_attention, say.")
    ] = None,
    head: Annotated[int | None, typer.Option(rich_help_panel=WALK, help="The head, counted from 0.")] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Look at this translation, not the model's own; with --source, a file."),
    ] = None,
    who: Annotated[
        str | None, typer.Option(metavar="WORD", rich_help_panel=WHO, help="What is this word taken for? it, say.")
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option(rich_help_panel=WHO, help="Nouns of the sentence: animal,street. Else those behind the, a, ..."),
    ] = None,
    swap: Annotated[
        str | None,
        typer.Option(rich_help_panel=WHO, help="A second sentence beside it: tired=wide. Else one is looked for."),
    ] = None,
    pronouns: Annotated[
        str | None,
        typer.Option(rich_help_panel=WHO, help="What it may become: es,sie,er; or whose it is: animal=es,street=sie."),
    ] = None,
    nouns: Annotated[
        str | None,
        typer.Option(rich_help_panel=WHO, help="Words to try in the candidates' places. Else some of the vocabulary."),
    ] = None,
    tries: Annotated[int, typer.Option(min=8, rich_help_panel=WHO, help="Words tried in each candidate's place.")] = 84,
    cross_attention: Annotated[
        bool, typer.Option("--cross-attention", rich_help_panel=CROSS, help="Exchange the matrices, and see.")
    ] = False,
    source: Annotated[
        Path | None,
        typer.Option(rich_help_panel=CROSS, help="Sentences, a line each. Without any, built-in ones for street."),
    ] = None,
    count: Annotated[int, typer.Option(min=1, rich_help_panel=CROSS, help="Sentences to ask about, at most.")] = COUNT,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    allow_pickle: Annotated[bool, typer.Option("--allow-pickle", help="Open files of torch.save; nothing is run.")] = (
        False
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Every number, for programs.")] = False,
) -> None:
    """Show with the model's own numbers what happens inside: each step redone from the numbers shown.

    Without more, the walk of one token through one attention: "it" if the sentence has it, else the sharpest look.
    """
    if who is not None and cross_attention:
        raise SettingsError("--who asks about a word and --cross-attention about the matrices: take one of them.")
    chosen = "cross-attention" if cross_attention else "who" if who is not None else "walk"
    given = {"token": token, "at": at, "head": head, "target": target, "source": source}
    given |= {"candidates": candidates, "swap": swap, "pronouns": pronouns, "nouns": nouns}
    refuse_strangers(chosen, [name for name, value in given.items() if value is not None])
    sentences = sentence or []
    if chosen != "cross-attention" and len(sentences) != 1:
        raise SettingsError(f"One sentence is explained at a time, in quotes; there are {len(sentences)}.")
    if any(not text.strip() for text in sentences):
        raise SettingsError("The sentence is empty: there is nothing to explain.")
    translator = _open(model, source_language, target_language, allow_pickle)
    if cross_attention:
        said = _cross_attention(translator, model, sentences, source, target, count, as_json)
    elif who is not None:
        said = _who(translator, sentences[0], who, candidates, swap, pronouns, nouns, tries, as_json)
    else:
        said = _walk(translator, sentences[0], target, token, at, head, as_json)
    typer.echo(said)


def refuse_strangers(chosen: str, given: list[str]) -> None:
    """An option that belongs to another question is refused rather than ignored."""
    if strangers := [f"--{name}" for name in given if name not in BELONGS[chosen]]:
        asked_for = "without --who and --cross-attention" if chosen == "walk" else f"with --{chosen}"
        raise SettingsError(f"{', '.join(strangers)} has no effect {asked_for}: leave one of them out.")


def _open(model: str, source_language: str | None, target_language: str | None, allow_pickle: bool) -> "Translator":
    from glassformer.loading import load

    return load(model, source_language=source_language, target_language=target_language, allow_pickle=allow_pickle)


def _json(found: dict[str, Any]) -> str:
    return json.dumps(found, indent=2, ensure_ascii=False)


def _walk(
    translator: "Translator",
    text: str,
    target: str | None,
    token: str | None,
    at: str | None,
    head: int | None,
    as_json: bool,
) -> str:
    from glassformer.cli.explained.walk import walk_json, walk_text
    from glassformer.inspection.explanation.attention_steps import walk
    from glassformer.inspection.explanation.query_position import choose

    trace = translator.trace(text, target)
    found = walk(trace, choose(trace, token, at, head))
    return _json(walk_json(trace, found)) if as_json else walk_text(trace, found)


def _who(
    translator: "Translator",
    text: str,
    word: str,
    candidates: str | None,
    swap: str | None,
    pronouns: str | None,
    nouns: str | None,
    tries: int,
    as_json: bool,
) -> str:
    from glassformer.cli.explained.who import who_json, who_text
    from glassformer.coreference import resolve_pronoun

    said = listed(pronouns) or []
    own = dict(pair(one, "--pronouns") for one in said if "=" in one)
    found = resolve_pronoun(
        translator,
        text,
        word,
        candidates=listed(candidates),
        swap=None if swap is None else pair(swap, "--swap"),
        pronouns=[one for one in said if "=" not in one],
        own_pronouns=own,
        nouns=listed(nouns),
        tries=tries,
    )
    return _json(who_json(found)) if as_json else who_text(found)


def listed(text: str | None) -> list[str] | None:
    """What stands between commas."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def pair(text: str, option: str) -> tuple[str, str]:
    """The two sides of an equals sign."""
    old, sign, new = (part.strip() for part in text.partition("="))
    if not (sign and old and new):
        raise SettingsError(f"{option} {text} should be two words with = between them: tired=wide.")
    return old, new


def _cross_attention(
    translator: "Translator",
    model: str,
    sentences: list[str],
    source: Path | None,
    target: str | None,
    count: int,
    as_json: bool,
) -> str:
    from glassformer.cli.keys_values import answer_json, answer_text
    from glassformer.cli.progress_counter import Counter
    from glassformer.inspection.interventions.cross_attention_matrices import keys_values

    sources, targets = asked(model, sentences, source, target, count)
    encode = translator.tokenizer.encode
    with Counter("Rows done:") as counter:
        found = keys_values(
            translator.model,
            [encode(text, "source") for text in sources],
            None if targets is None else [encode(text, "target") for text in targets],
            prefix=tuple(encode("", "target")[:-1]),
            tell=lambda: counter.add(1),
        )
    return _json(answer_json(found)) if as_json else answer_text(found)


def asked(
    model: str, sentences: list[str], source: Path | None, target: str | None, count: int
) -> tuple[list[str], list[str] | None]:
    """The sources, and the targets where they are given: of files, of the command line, or built-in ones."""
    if source is not None and sentences:
        raise SettingsError("The sentences stand on the command line or in --source, not in both.")
    if source is not None:
        from glassformer.data import corpus
        from glassformer.data.corpus import read_lines

        if target is None:
            lines = (line for line in read_lines(source) if line.strip())
            return list(itertools.islice(lines, count)), None
        data = corpus(source, Path(target))
        data.check()
        pairs = list(itertools.islice(data, count))
        return [one.source for one in pairs], [one.target for one in pairs]
    if sentences:
        if target is not None and len(sentences) > 1:
            raise SettingsError("--target belongs to one sentence here; for several, give --source and --target files.")
        return sentences[:count], None if target is None else [target]
    if model != "street":
        raise SettingsError("Which sentences? Write them behind the model, or give a file: --source FILE.")
    from glassformer.builtin.street import sentences as street

    return [one.source for one in street("test", count)], None
