"""`glassformer export`: a model in another program's format, checked to give the same translations there."""

from collections.abc import Sequence
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.common.benchmark_sentences import sentences
from glassformer.cli.common.progress_counter import ProgressCounter
from glassformer.cli.common.search_options import Model
from glassformer.errors import InputError

if TYPE_CHECKING:
    from glassformer.data import AnyTokenizer
    from glassformer.interop.ctranslate2_export import ExportVocabulary
    from glassformer.model import Transformer
    from glassformer.verification.parity import ParityResult


class ExportFormat(StrEnum):
    """Export format: the program that the exported files are for."""

    HUGGING_FACE = "huggingface"
    CTRANSLATE2 = "ctranslate2"
    ONNX = "onnx"


QUANTIZATIONS = ("int8", "int8_float32", "int16", "float16", "bfloat16", "float32")
UNVERIFIED = "not verified, because the package transformers is not installed."


def export(
    model: Model,
    target: Annotated[Path, typer.Argument(metavar="TO", help="Directory to create.")],
    to: Annotated[ExportFormat, typer.Option("--to", metavar="|".join(ExportFormat), help="The program to export to.")],
    quantization: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"For ctranslate2: {', '.join(QUANTIZATIONS)} (the default).")
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Sentences to verify with, one per line; by default built-in ones."),
    ] = None,
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of sentences to verify with.")] = 50,
) -> None:
    """Export a model to another program, and verify that it translates the same there.

    Both programs translate some sentences. If a single token differs in float32, nothing is written; with other
    quantizations the differences are reported.
    """
    from glassformer.atomic_directory import building, refuse_existing
    from glassformer.interop.model_card import card
    from glassformer.loading import open_model

    if quantization is not None and to is not ExportFormat.CTRANSLATE2:
        raise InputError(f"--quantization has no effect with --to {to.value}: it is for --to ctranslate2 only.")
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise InputError(f"Unknown --quantization {quantization!r}; choose one of {', '.join(QUANTIZATIONS)}.")
    refuse_existing(target)
    with ProgressCounter("Reading the model,"):
        opened = open_model(model)
        transformer, tokenizer = opened.model, opened.tokenizer
    sources = sentences(opened, text, count)
    with ProgressCounter("Writing and verifying,"), building(target, checksummed=False) as unfinished:
        label, outputs = _write(transformer, tokenizer, unfinished, to, quantization, sources)
        verdict = _verdict(outputs, quantization, tokenizer) if outputs else UNVERIFIED
        facts = {"format": label, "verification": verdict}
        readme = card(transformer, f"A model for {to.value}", f"glassformer, `{opened.name}`", to.value, facts)
        (unfinished / "README.md").write_text(readme, encoding="utf-8")
    typer.echo(f"{label}: {verdict}")
    typer.echo(f"Written to {target}.")


Outputs = tuple[list[list[int]], list[list[int]]]
"""Target ids of every source by our search, and by the other program's."""


def _write(
    model: "Transformer",
    tokenizer: "AnyTokenizer | None",
    directory: Path,
    to: ExportFormat,
    quantization: str | None,
    sources: Sequence[list[int]],
) -> tuple[str, Outputs | None]:
    """Write the files; returns the format's name and both programs' outputs (None if the other is not installed)."""
    from glassformer.verification import parity

    if to is ExportFormat.ONNX:
        from glassformer.interop.onnx_export import write_onnx

        write_onnx(model, directory)
        return "ONNX", (parity.by_glassformer(model, sources), parity.by_onnxruntime(directory, sources))
    if to is ExportFormat.CTRANSLATE2:
        from glassformer.interop.ctranslate2_export import write_ctranslate2

        vocabulary = _vocabulary(model, tokenizer)
        write_ctranslate2(model, directory, vocabulary, quantization)
        theirs = parity.by_ctranslate2(directory, model.config, vocabulary, sources)
        return f"CTranslate2, {quantization or 'float32'}", (parity.by_glassformer(model, sources), theirs)
    from glassformer.interop.hugging_face import write_hugging_face

    label = write_hugging_face(model, tokenizer, directory)
    if not find_spec("transformers"):
        return label, None
    return label, (parity.by_glassformer(model, sources), parity.by_transformers(directory, model.config, sources))


def _vocabulary(model: "Transformer", tokenizer: "AnyTokenizer | None") -> "ExportVocabulary":
    """The vocabulary to export: tokens as the tokenizer shows them; without a tokenizer, their ids."""
    from glassformer.interop.ctranslate2_export import ExportVocabulary

    config = model.config
    if tokenizer is None:
        return ExportVocabulary.numbers(config)
    source = tokenizer.pieces(range(min(config.source_vocab_size, tokenizer.vocab_size("source"))), "source")
    target = tokenizer.pieces(range(min(config.vocab_size, tokenizer.vocab_size("target"))), "target")
    return ExportVocabulary(_distinct(source, config.source_vocab_size), _distinct(target, config.vocab_size), "<unk>")


def _distinct(pieces: list[str], size: int) -> list[str]:
    """The pieces made unique: empty and repeated ones get their id appended."""
    names: dict[str, None] = {}
    for number, piece in enumerate([*pieces, *[""] * (size - len(pieces))]):
        names[piece if piece and piece not in names else f"{piece}<no. {number}>"] = None
    return list(names)


def _verdict(outputs: Outputs, quantization: str | None, tokenizer: "AnyTokenizer | None") -> str:
    from glassformer.verification.parity import compare_targets

    ours, theirs = outputs
    result = compare_targets(ours, theirs)
    must_be_equal = quantization in (None, "float32")
    if must_be_equal and not result.complete:
        first = next(i for i, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other)
        raise InputError(
            f"The exported model translates differently: {result.sentences - result.same} of {result.sentences} "
            f"sentences differ; the first is sentence {first + 1}. Nothing was written."
        )
    return f"{_counts(result)}{_bleu_distance(ours, theirs, tokenizer)}"


def _counts(result: "ParityResult") -> str:
    return (
        f"{result.same} of {result.sentences} sentences and {result.same_tokens:,} of {result.tokens:,} tokens are "
        "the same"
    )


def _bleu_distance(ours: list[list[int]], theirs: list[list[int]], tokenizer: "AnyTokenizer | None") -> str:
    """100 minus the BLEU of the other program's translations, with ours as the reference."""
    if tokenizer is None:
        return "."
    from glassformer.evaluation import score

    their_texts, our_texts = ([tokenizer.decode(ids) for ids in targets] for targets in (theirs, ours))
    bleu = score(their_texts, our_texts).bleu if any(our_texts) else 100.0
    return f", {max(0.0, 100 - bleu):.2f} BLEU apart."
