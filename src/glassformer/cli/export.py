"""`glassformer export`: a model of ours in another program's files, proved to say the same there."""

from collections.abc import Sequence
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.benchmark_sentences import sentences
from glassformer.cli.search_options import Model
from glassformer.errors import InputError

if TYPE_CHECKING:
    from glassformer.data import AnyTokenizer
    from glassformer.interop.ctranslate2_export import ExportVocabulary
    from glassformer.model import Transformer
    from glassformer.verification.parity import ParityResult


class Kind(StrEnum):
    """Whose files they become."""

    HUGGING_FACE = "huggingface"
    CTRANSLATE2 = "ctranslate2"
    ONNX = "onnx"


QUANTIZATIONS = ("int8", "int8_float32", "int16", "float16", "bfloat16", "float32")


def export(
    model: Model,
    target: Annotated[Path, typer.Argument(metavar="TO", help="The directory to make.")],
    to: Annotated[Kind, typer.Option("--to", help="Whose files they become.")],
    quantization: Annotated[
        str | None, typer.Option(help=f"For ctranslate2: {', '.join(QUANTIZATIONS)}; float32 unless given.")
    ] = None,
    text: Annotated[Path | None, typer.Option(help="Sentences to prove it on, a line each; else built-in.")] = None,
    count: Annotated[int, typer.Option(min=1, help="How many sentences to prove it on, at most.")] = 50,
) -> None:
    """Write a model for another program, and prove that it says the same there.

    Sentences are translated by both. Nothing is left behind if they differ by one token in float32; fewer bits are
    allowed to differ, and it is said how much.
    """
    from glassformer.atomic_directory import building, refuse_existing
    from glassformer.interop.model_card import card
    from glassformer.model import load_model
    from glassformer.model_location import find_model, tokenizer_of

    if quantization is not None and (to is not Kind.CTRANSLATE2 or quantization not in QUANTIZATIONS):
        raise InputError(f"--quantization is for --to ctranslate2, one of {', '.join(QUANTIZATIONS)}.")
    refuse_existing(target)
    directory = find_model(model)
    opened = load_model(directory)
    tokenizer = tokenizer_of(directory) if (directory / "tokenizer").is_dir() else None
    sources = sentences(directory, opened.config, text, count)
    with building(target, seal=False) as aside:
        said, found = _written(opened, tokenizer, aside, to, quantization, sources)
        verdict = _verdict(found, quantization, tokenizer) if found else _unproved(to)
        facts = {"as": said, "proof": verdict}
        readme = card(opened, f"A model for {to.value}", f"glassformer, `{directory.name}`", to.value, facts)
        (aside / "README.md").write_text(readme, encoding="utf-8")
    typer.echo(f"{said}: {verdict}")
    typer.echo(f"It is in {target}.")


Found = tuple[list[list[int]], list[list[int]]]


def _written(
    model: "Transformer",
    tokenizer: "AnyTokenizer | None",
    directory: Path,
    to: Kind,
    quantization: str | None,
    sources: Sequence[list[int]],
) -> tuple[str, Found | None]:
    """What it was written as; what we say, and what they say."""
    from glassformer.verification import parity as agreement

    if to is Kind.ONNX:
        from glassformer.interop.onnx_export import write_onnx

        write_onnx(model, directory)
        return "ONNX", (agreement.by_us(model, sources), agreement.by_onnxruntime(directory, sources))
    if to is Kind.CTRANSLATE2:
        from glassformer.interop.ctranslate2_export import write_ctranslate2

        words = _words(model, tokenizer)
        write_ctranslate2(model, directory, words, quantization)
        theirs = agreement.by_ctranslate2(directory, model.config, words, sources)
        return f"CTranslate2, {quantization or 'float32'}", (agreement.by_us(model, sources), theirs)
    from glassformer.interop.hugging_face import write_hugging_face

    said = write_hugging_face(model, tokenizer, directory)
    if not find_spec("transformers"):
        return said, None
    return said, (
        agreement.by_us(model, sources),
        agreement.by_transformers(directory, model.config, sources),
    )


def _words(model: "Transformer", tokenizer: "AnyTokenizer | None") -> "ExportVocabulary":
    """The tokens as a tokenizer shows them."""
    from glassformer.interop.ctranslate2_export import ExportVocabulary

    config = model.config
    if tokenizer is None:
        return ExportVocabulary.numbers(config)
    source = tokenizer.pieces(range(min(config.source_vocab_size, tokenizer.vocab_size("source"))), "source")
    target = tokenizer.pieces(range(min(config.vocab_size, tokenizer.vocab_size("target"))), "target")
    return ExportVocabulary(
        _told_apart(source, config.source_vocab_size), _told_apart(target, config.vocab_size), "<unk>"
    )


def _told_apart(pieces: list[str], size: int) -> list[str]:
    """Every token a name of its own: of two that look alike, the second gets its number."""
    found: dict[str, None] = {}
    for number, piece in enumerate([*pieces, *[""] * (size - len(pieces))]):
        found[piece if piece and piece not in found else f"{piece}<no. {number}>"] = None
    return list(found)


def _verdict(found: Found, quantization: str | None, tokenizer: "AnyTokenizer | None") -> str:
    from glassformer.verification.parity import agreement

    ours, theirs = found
    verdict = agreement(ours, theirs)
    exact = quantization in (None, "float32")
    if exact and not verdict.complete:
        worst = next(i for i, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other)
        raise InputError(
            f"It does not say the same there: {verdict.sentences - verdict.same} of {verdict.sentences} sentences "
            f"differ, sentence {worst + 1} first. Nothing was written."
        )
    return f"{_shown(verdict)}{_bleu(ours, theirs, tokenizer)}"


def _shown(verdict: "ParityResult") -> str:
    return (
        f"{verdict.same} of {verdict.sentences} sentences and {verdict.same_tokens:,} of {verdict.tokens:,} tokens are "
        "the same"
    )


def _bleu(ours: list[list[int]], theirs: list[list[int]], tokenizer: "AnyTokenizer | None") -> str:
    """How far apart they are as text."""
    if tokenizer is None:
        return "."
    from glassformer.evaluation import score

    said, wanted = ([tokenizer.decode(ids) for ids in targets] for targets in (theirs, ours))
    bleu = score(said, wanted).bleu if any(wanted) else 100.0
    return f", {max(0.0, 100 - bleu):.2f} BLEU apart."


def _unproved(to: Kind) -> str:
    return f"not proved: {to.value}'s own package is not installed here."
