"""`glassformer translate`: text in, text out, line by line."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.align import aligned
from glassformer.cli.line_io import Input, WholeLines, as_they_come, one_line, open_input, until_stopped
from glassformer.cli.progress_counter import Counter
from glassformer.cli.search_options import (
    BatchSize,
    BatchTokens,
    BeamSize,
    EngineName,
    Exact,
    LengthPenalty,
    Model,
    Others,
    PrecisionName,
    SourceLanguage,
    SplitAt,
    TargetLanguage,
    Workers,
    engine_from,
    search_from,
)
from glassformer.errors import DataError

if TYPE_CHECKING:
    from glassformer.translator import Translation, TranslationCandidate, Translator

DRAW, WISH = "Drawing by chance", "What must or may not come"  # panels of the help
GROUP = 1024  # lines translated together: enough to sort them by length, few enough to wait for


def translate(
    model: Model,
    text: Annotated[
        str, typer.Argument(metavar="[FILE|TEXT|-]", help="A file, a text of several words, or stdin.")
    ] = "-",
    beam: BeamSize = 4,
    n_best: Annotated[int, typer.Option(min=1, max=1000, help="Translations of each line, best first.")] = 1,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="A JSON object a line: tokens, probabilities, alternatives, alignment."),
    ] = False,
    length_penalty: LengthPenalty = 1.0,
    min_length_ratio: Annotated[
        float | None, typer.Option(min=0, metavar="RATIO", help="Minimum target tokens per source token.")
    ] = None,
    max_length_ratio: Annotated[
        float | None, typer.Option(min=0, metavar="RATIO", help="Maximum target tokens per source token.")
    ] = None,
    no_repeat: Annotated[
        int | None, typer.Option(min=0, rich_help_panel=WISH, help="No run of so many tokens comes twice.")
    ] = None,
    diversity: Annotated[float | None, typer.Option(min=0, help="Make n-best lists differ early; try 0.5.")] = None,
    sample: Annotated[
        bool, typer.Option("--sample", rich_help_panel=DRAW, help="Draw translations by their probability.")
    ] = False,
    temperature: Annotated[
        float | None, typer.Option(rich_help_panel=DRAW, help="Below 1 safer, above 1 wilder.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(min=0, rich_help_panel=DRAW, help="Among the likeliest so many.")] = None,
    top_p: Annotated[
        float | None, typer.Option(rich_help_panel=DRAW, help="Among the likeliest that together are so probable.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(rich_help_panel=DRAW, help="Among tokens that are at least so probable.")
    ] = None,
    seed: Annotated[int | None, typer.Option(rich_help_panel=DRAW, help="The same seed draws the same.")] = None,
    mbr: Annotated[
        int | None,
        typer.Option(
            min=2, max=1000, metavar="N", rich_help_panel=DRAW, help="Draw N, take what agrees most with all (chrF)."
        ),
    ] = None,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", rich_help_panel=WISH, help="How every translation must begin.")
    ] = "",
    phrase: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", rich_help_panel=WISH, help="What must occur in each; may be repeated."),
    ] = None,
    glossary: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", rich_help_panel=WISH, help="`term<TAB>translation` a line: where one is, so is the other."
        ),
    ] = None,
    suppress: Annotated[
        list[str] | None,
        typer.Option(metavar="TOKEN", rich_help_panel=WISH, help="What is never written; may be repeated."),
    ] = None,
    others: Others = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    split_at: SplitAt = 512,
    engine: EngineName = "fast",
    precision: PrecisionName = "float32",
    workers: Workers = None,
    batch_size: BatchSize = None,
    batch_tokens: BatchTokens = None,
    exact: Exact = False,
) -> None:
    """Translate text: one line in, one line out, in order.

    With --n-best N there are N lines for each, unless --json.
    """
    is_text = _is_text(text)
    terms = _glossary(glossary)
    if mbr is not None:
        sample, epsilon = True, 0.02 if epsilon is None else epsilon  # the least harmful tail (arXiv:2305.09860)

    from glassformer.translator import Constraints, Translator

    rules: dict[str, Any] = {
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
    search = search_from(beam, max(mbr or 1, n_best), length_penalty, sample, rules)
    options = engine_from(engine, precision, workers, batch_size, batch_tokens, exact)
    translator = Translator.load(
        model,
        *(others or []),
        search=search,
        engine=options,
        max_tokens=split_at,
        source_language=source_language,
        target_language=target_language,
    )
    if suppress:
        translator.search = search.model_copy(update={"suppress": translator.tokenizer.ids_of(suppress)})
    wish = Constraints(prefix, tuple(phrase or ()))
    incoming = Input(open_input(text), "stdin" if text == "-" else text) if not is_text else [_argument(text)]
    shown = _Shown(translator, model, as_json, n_best)

    def work(out: WholeLines) -> None:
        with Counter("Translated", beside_output=True) as counter:
            for group in as_they_come(incoming, GROUP):
                done = translator.answer(group, [wish] * len(group), terms, agree=mbr is not None)
                out.write(shown(done))
                for number, translation in enumerate(done, start=counter.done + 1):
                    if translation.parts > 1:
                        counter.say(f"line {number:,} was too long: it was translated in {translation.parts} parts.")
                counter.add(len(group))

    until_stopped(work)
    if isinstance(incoming, Input) and (complaint := incoming.complaint()):
        typer.echo(complaint, err=True)


class _Shown:
    """Translations as lines."""

    def __init__(self, translator: "Translator", model: str, as_json: bool, n_best: int) -> None:
        self.translator, self.as_json, self.n_best = translator, as_json, n_best
        if as_json:
            from glassformer.inspection.alignment.word_alignment import read_alignment_heads
            from glassformer.model_location import find_model

            self.choice = read_alignment_heads(find_model(model), translator.model.config)

    def __call__(self, translations: "list[Translation]") -> list[str]:
        if self.as_json:
            tables = map(self._table, translations, self._alignments(translations))
            return [json.dumps(table, ensure_ascii=False) for table in tables]
        return [text for translation in translations for text in self._texts(translation)]

    def _texts(self, translation: "Translation") -> list[str]:
        texts = [answer.text for answer in translation.answers[: self.n_best]]
        return texts + [""] * (self.n_best - len(texts))

    def _table(self, translation: "Translation", alignment: dict[str, Any]) -> dict[str, Any]:
        table: dict[str, Any] = {"source": translation.source, "translation": one_line(translation.text)}
        if translation.answers:
            best, *others = translation.answers[: self.n_best]
            table |= numbers(best)
            table["alternatives"] = [{"translation": one_line(other.text)} | numbers(other) for other in others]
            table |= alignment
        return table | {"parts": translation.parts}

    def _alignments(self, translations: "list[Translation]") -> list[dict[str, Any]]:
        """Of every text that was translated in one piece, all together: one pass through the model."""
        from glassformer.inspection.alignment.word_alignment import align, word_pair

        tokenizer = self.translator.tokenizer
        whole = [number for number, one in enumerate(translations) if one.answers and one.parts == 1]
        pairs = [
            word_pair(tokenizer, tokenizer.encode(one.source, "source"), one.answers[0].ids)
            for one in (translations[number] for number in whole)
        ]
        found: list[dict[str, Any]] = [{"alignment": None} for _ in translations]
        for number, pair, links in zip(whole, pairs, align(self.translator.model, pairs, self.choice), strict=True):
            found[number] = aligned(pair, links)
        return found


def numbers(answer: "TranslationCandidate") -> dict[str, Any]:
    """What is known of an answer, for JSON."""
    return {
        "score": round(answer.score, 6),
        "tokens": answer.tokens,
        "log_probabilities": [round(log_p, 6) for log_p in answer.log_probabilities],
    }


def _is_text(text: str) -> bool:
    """A file is a file; several words are a text; one word that is no file is more likely a slip than a text."""
    if text == "-" or Path(text).exists():
        return False
    if len(text.split()) > 1:
        return True
    raise DataError(f"There is no file {text!r}; a text of one word comes through a pipe: echo {text!r} | ...")


def _argument(text: str) -> str:
    return one_line(text.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="replace"))


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
