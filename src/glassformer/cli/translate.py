"""`glassformer translate`: translation of text, line by line."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.common import search_options as shared
from glassformer.cli.common.line_io import WholeLineWriter, one_line, run_until_signal
from glassformer.cli.common.progress_counter import ProgressCounter
from glassformer.cli.common.text_inputs import TextInput, text_inputs
from glassformer.errors import DataError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from glassformer.data.word_spans import WordPair
    from glassformer.decoding import SearchSettings
    from glassformer.decoding.alignment_choice import AlignmentHeads
    from glassformer.decoding.attention_links import Link
    from glassformer.translation import Constraints, Translation, TranslationCandidate
    from glassformer.translator import Translator

_sampling_option, _constraint_option = shared.panel("Sampling"), shared.panel("Constraints")
LINES_PER_GROUP = 1024  # translated together: enough to sort them by length, few enough to wait for


def translate(
    model: shared.Model,
    text: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|TEXT|-",
            help="Files with one text per line (.gz too), or texts in quotes; without any, or with -, stdin.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE|DIR", help="Write to this file; for several files, into this directory."),
    ] = None,
    beam: shared.BeamSize = 4,
    n_best: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="Number of translations per line, best first.")
    ] = 1,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print one JSON object per line, with tokens, log-probabilities, alternatives and word alignment.",
        ),
    ] = False,
    length_penalty: shared.LengthPenalty = 1.0,
    min_length_ratio: Annotated[
        float | None, typer.Option(min=0, metavar="RATIO", help="Minimum target tokens per source token.")
    ] = None,
    max_length_ratio: Annotated[
        float | None, typer.Option(min=0, metavar="RATIO", help="Maximum target tokens per source token.")
    ] = None,
    no_repeat: Annotated[
        int | None, _constraint_option(min=0, metavar="N", help="Never repeat a sequence of N tokens; 0 allows it.")
    ] = None,
    diversity: Annotated[
        float | None,
        typer.Option(min=0, metavar="PENALTY", help="Make the translations of --n-best differ early; try 0.5."),
    ] = None,
    sample: Annotated[bool, _sampling_option("--sample", help="Sample translations instead of beam search.")] = False,
    temperature: Annotated[
        float | None,
        _sampling_option(
            metavar="NUMBER", help="Divide the logits by this: below 1 favours likely tokens, above 1 evens them out."
        ),
    ] = None,
    top_k: Annotated[
        int | None, _sampling_option(min=0, metavar="K", help="Sample from the K most likely tokens; 0 for all.")
    ] = None,
    top_p: Annotated[
        float | None,
        _sampling_option(
            metavar="P", help="Sample from the most likely tokens whose probabilities add up to P (nucleus)."
        ),
    ] = None,
    epsilon: Annotated[
        float | None, _sampling_option(metavar="P", help="Sample only tokens with probability P or more.")
    ] = None,
    seed: Annotated[
        int | None, _sampling_option(metavar="N", help="Random seed; the same seed gives the same translations.")
    ] = None,
    mbr: Annotated[
        int | None,
        _sampling_option(
            min=2,
            max=1000,
            metavar="N",
            help="Minimum Bayes risk: sample N translations, print the one most similar to all (chrF).",
        ),
    ] = None,
    prefix: Annotated[str, _constraint_option(metavar="TEXT", help="Every translation begins with this text.")] = "",
    phrase: Annotated[
        list[str] | None,
        _constraint_option(metavar="TEXT", help="Every translation contains this text; may be repeated."),
    ] = None,
    glossary: Annotated[
        Path | None,
        _constraint_option(
            metavar="FILE", help="Lines of `term<TAB>translation`: where the term occurs, so does its translation."
        ),
    ] = None,
    suppress: Annotated[
        list[str] | None, _constraint_option(metavar="TOKEN", help="Token that is never generated; may be repeated.")
    ] = None,
    ensemble_with: shared.EnsembleWith = None,
    source_language: shared.SourceLanguage = None,
    target_language: shared.TargetLanguage = None,
    split_at: shared.SplitAt = 512,
    engine: shared.EngineName = "fast",
    device: shared.DeviceOption = "cpu",
    precision: shared.PrecisionName = "float32",
    workers: shared.Workers = None,
    batch_size: shared.BatchSize = None,
    batch_tokens: shared.BatchTokens = None,
    exact: shared.Exact = False,
    shortlist: shared.UseShortlist = None,
) -> None:
    """Translate text: one line out per line in, in order.

    With --n-best N, N lines per line; with --json, always one.
    """
    inputs = text_inputs(text or [], out)
    terms = _glossary(glossary)
    if mbr is not None:
        sample, epsilon = True, 0.02 if epsilon is None else epsilon  # the best truncation for MBR (arXiv:2305.09860)

    from glassformer import load
    from glassformer.translation import Constraints

    search_options: dict[str, Any] = {
        "min_length_ratio": min_length_ratio,
        "max_length_ratio": max_length_ratio,
        "no_repeat": no_repeat,
        "diversity": diversity,
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "epsilon": epsilon,
        "seed": seed,
    }
    search = _search_settings(beam, max(mbr or 1, n_best), length_penalty, sample, search_options)
    options = shared.engine_from(engine, precision, workers, batch_size, batch_tokens, exact, shortlist, device)
    with ProgressCounter("Reading the model,"):
        translator = load(
            model,
            *(ensemble_with or []),
            search=search,
            engine=options,
            max_tokens=split_at,
            source_language=source_language,
            target_language=target_language,
        )
    shared.report_device(device, translator)
    if suppress:
        suppressed = search.model_copy(update={"suppress": translator.tokenizer.ids_of(suppress)})
        translator = translator.replace(search=suppressed)
    constraints = Constraints(prefix, tuple(phrase or ()))
    run = _Run(translator, _OutputLines(translator, as_json, n_best), constraints, terms, mbr is not None)
    run_until_signal(lambda writer: run.translate(inputs, writer))


@dataclass
class _Run:
    """The translation of all inputs, with what holds for each line."""

    translator: "Translator"
    to_lines: "_OutputLines"
    constraints: "Constraints"
    terms: dict[str, str]
    mbr: bool

    def translate(self, inputs: list[TextInput], writer: WholeLineWriter) -> None:
        totals = [each.total for each in inputs]
        total = None if None in totals else sum(filter(None, totals))
        is_typed = any(each.is_typed for each in inputs)
        with ProgressCounter("Translated", inputs[0].out is None, total, is_shown=not is_typed) as counter:
            for each in inputs:
                with writer.to_file(each.out):
                    lines = self._lines(each, writer, counter)
                if warning := each.warning():
                    counter.say(warning)
                if each.out is not None:
                    counter.say(f"{each.out} has the translations of {lines:,} {'line' if lines == 1 else 'lines'}.")

    def _lines(self, texts: TextInput, writer: WholeLineWriter, counter: ProgressCounter) -> int:
        """Translate and write the lines of one input; returns their number."""
        done = 0
        for group in texts.groups(LINES_PER_GROUP):
            translations = self.translator.translations(
                group, self.constraints, glossary=self.terms, mbr=self.mbr, choice=self.to_lines.alignment_heads
            )
            writer.write(self.to_lines(translations))
            for number, translation in enumerate(translations, start=done + 1):
                if translation.parts > 1:
                    counter.say(f"{texts.line(number)} was too long and was translated in {translation.parts} parts.")
            counter.add(len(group))
            done += len(group)
        return done


def _search_settings(
    beam: int, n_best: int, length_penalty: float, sample: bool, options: dict[str, Any]
) -> "SearchSettings":
    """The settings of beam search or sampling from the command line; options of the other kind are an error."""
    from glassformer.decoding import Beam, Sample

    kind = Sample if sample else Beam
    given = {name: value for name, value in options.items() if value is not None}
    if unused := [name for name in given if name not in kind.model_fields]:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in unused)
        raise SettingsError(
            f"{flags} has no effect with --sample: leave out one or the other."
            if sample
            else f"{flags} has no effect without --sample: add --sample, or leave out {flags}."
        )
    given |= {"n_best": n_best, "length_penalty": length_penalty}
    return Sample(**given) if sample else Beam(size=beam, **given)


class _OutputLines:
    """Writes translations as output lines: text or JSON."""

    def __init__(self, translator: "Translator", as_json: bool, n_best: int) -> None:
        self.translator, self.as_json, self.n_best = translator, as_json, n_best
        self.alignment_heads: AlignmentHeads | None = None
        if as_json:
            from glassformer.decoding.alignment_choice import read_alignment_heads
            from glassformer.engine import describe_engine

            self.engine = asdict(describe_engine(translator.engine))
            self.alignment_heads = read_alignment_heads(translator.directory, translator.config)

    def __call__(self, translations: "list[Translation]") -> list[str]:
        if self.alignment_heads is not None:
            tables = map(self._table, translations, self._alignments(translations, self.alignment_heads))
            return [json.dumps(table, ensure_ascii=False) for table in tables]
        return [text for translation in translations for text in self._texts(translation)]

    def _texts(self, translation: "Translation") -> list[str]:
        texts = [candidate.text for candidate in translation.candidates[: self.n_best]]
        return texts + [""] * (self.n_best - len(texts))

    def _table(self, translation: "Translation", alignment: dict[str, Any]) -> dict[str, Any]:
        table: dict[str, Any] = {"source": translation.source, "translation": one_line(translation.text)}
        if translation.candidates:
            best, *others = translation.candidates[: self.n_best]
            table |= candidate_json(best)
            table["alternatives"] = [{"translation": one_line(other.text)} | candidate_json(other) for other in others]
            table |= alignment | {"engine": self.engine}
        return table | {"parts": translation.parts}

    def _alignments(self, translations: "list[Translation]", choice: "AlignmentHeads") -> list[dict[str, Any]]:
        """Word alignments of the texts translated in one piece; null for the others."""
        alignments = self.translator.word_alignments(translations, choice)
        return [{"alignment": None} if alignment is None else alignment_json(*alignment) for alignment in alignments]


def candidate_json(candidate: "TranslationCandidate") -> dict[str, Any]:
    """Score, tokens and log-probabilities of a translation, for JSON."""
    return {
        "score": round(candidate.score, 6),
        "tokens": candidate.tokens,
        "log_probabilities": [round(log_p, 6) for log_p in candidate.log_probabilities],
    }


def alignment_json(pair: "WordPair", links: "Sequence[Link]") -> dict[str, Any]:
    """Words and word links of a sentence pair, for JSON."""
    source, target = pair.texts
    alignment = [
        {"source": link.source, "target": link.target, "weight": round(link.weight, 4)}
        | ({"uncertain": True} if link.uncertain else {})
        for link in links
    ]
    return {"source_words": source, "target_words": target, "alignment": alignment}


def _glossary(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    from glassformer.data.corpus import read_lines

    terms = {}
    for number, line in enumerate(read_lines(path), start=1):
        term, tab, translation = line.partition("\t")
        if not (tab and term.strip() and translation.strip()) or "\t" in translation:
            raise DataError(f"{path}, line {number} should be `term<TAB>translation`; it is {line!r}.")
        terms[term.strip()] = translation.strip()
    return terms
