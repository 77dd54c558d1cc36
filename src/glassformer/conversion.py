"""Conversion between programs: `convert` makes another program's model ours, `export` ours another program's."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from glassformer.atomic_directory import building, refuse_existing
from glassformer.data import IdsOnly
from glassformer.data.corpus import corpus, read_lines
from glassformer.engine import EngineOptions, open_engine
from glassformer.engine.shortlist_file import FILE as SHORTLIST_FILE
from glassformer.engine.shortlist_file import shortlist_bytes
from glassformer.errors import InputError, SettingsError
from glassformer.extras import require
from glassformer.interop.export_formats import QUANTIZATIONS, ExportFormat
from glassformer.loading import OpenedModel, Where, open_model
from glassformer.model import HasWeights, ModelWeights
from glassformer.model.directory import write_model
from glassformer.translator import Translator

if TYPE_CHECKING:
    from glassformer.data import AnyTokenizer
    from glassformer.decoding import Shortlist
    from glassformer.interop.ctranslate2_export import ExportVocabulary
    from glassformer.interop.imported_model import ImportedModel
    from glassformer.model import Transformer
    from glassformer.verification.parity import ParityResult

UNVERIFIED = "not verified, because the package transformers is not installed."


@dataclass(frozen=True)
class ConvertedModel(HasWeights):
    """Another program's model that was converted to a Glassformer model directory."""

    directory: Path
    family: str
    """The format that it was read from, such as "Hugging Face Marian"."""
    weights: ModelWeights = field(repr=False)
    notes: list[str]
    """Notes about the import, one sentence each."""
    has_tokenizer: bool
    shortlist: "Shortlist | None" = field(repr=False)
    """Its vocabulary shortlist, if it has one that was taken over."""


def convert(
    source: Where,
    out: str | os.PathLike[str],
    *,
    allow_pickle: bool = False,
    source_language: str | None = None,
    target_language: str | None = None,
    heads: int | None = None,
    shortlist: bool = True,
    sample: str | os.PathLike[str] | None = None,
    sample_reference: str | os.PathLike[str] | None = None,
) -> ConvertedModel:
    """Convert another program's model to a Glassformer model directory; the format is detected from the files.

    >>> converted = gf.convert("opus-mt-en-de", "my-model")
    >>> converted.family
    'Hugging Face Marian'
    >>> translator = gf.load(converted.directory)

    `heads`: number of attention heads, for files of pytorch-seq2seq, which do not record it. `shortlist`: whether the
    model's vocabulary shortlist is taken over; `sample`: a file of source sentences on which it is measured, and
    `sample_reference` their translations. Files of torch.save are opened only with `allow_pickle`; no code is run.
    """
    from glassformer.interop.format_detection import open_imported  # imports much, so only when needed
    from glassformer.interop.model_card import card

    if sample_reference is not None and sample is None:
        raise SettingsError("--sample-reference has no effect without --sample: add --sample.")
    source, target = Path(source), Path(out)
    refuse_existing(target)
    imported = open_imported(
        source, allow_pickle=allow_pickle, source_language=source_language, target_language=target_language, heads=heads
    )
    tokenizer = imported.tokenizer
    taken = _shortlist(imported, sample, sample_reference) if shortlist else None
    use = "ids" if tokenizer is None else "glassformer"
    facts = {"note": " ".join(imported.notes)} if imported.notes else {}
    with building(target) as unfinished:
        write_model(imported.weights, unfinished)
        if tokenizer is not None:
            tokenizer.write(unfinished / "tokenizer")
        if taken is not None:
            (unfinished / SHORTLIST_FILE).write_bytes(shortlist_bytes(taken))
        readme = card(imported.weights, "A converted model", f"{imported.family}, `{source.name}`", use, facts)
        (unfinished / "README.md").write_text(readme, encoding="utf-8")
    return ConvertedModel(target, imported.family, imported.weights, imported.notes, tokenizer is not None, taken)


def _shortlist(
    imported: "ImportedModel", sample: str | os.PathLike[str] | None, reference: str | os.PathLike[str] | None
) -> "Shortlist | None":
    """The model's shortlist, measured if there is a sample; None if it has none."""
    if imported.read_shortlist is None:
        if sample is not None:
            raise SettingsError("--sample has no effect: this model has no shortlist to measure. Leave it out.")
        return None
    shortlist = imported.read_shortlist()
    if sample is None or imported.tokenizer is None:
        return shortlist
    require("sacrebleu")
    from glassformer.shortlist_making import measure_shortlist

    if reference is None:
        sources, references = [line for line in read_lines(Path(sample)) if line.strip()], None
    else:
        data = corpus(Path(sample), Path(reference))
        data.check()
        pairs = [pair for pair in data if pair.has_text]
        sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    engine = open_engine([imported.weights], EngineOptions())
    translator = Translator(imported.weights, imported.tokenizer, engine=engine)
    return replace(shortlist, measurement=measure_shortlist(translator, shortlist, sources, references))


@dataclass(frozen=True)
class ExportedModel:
    """A model that was exported to another program."""

    directory: Path
    label: str
    """The format that was written, such as "CTranslate2, int8"."""
    verification: str
    """How far the other program translates the same, as a sentence."""


def export(
    model: Translator | Where,
    out: str | os.PathLike[str],
    to: ExportFormat,
    *,
    quantization: str | None = None,
    text: str | os.PathLike[str] | None = None,
    count: int = 50,
) -> ExportedModel:
    """Export a model to another program, and verify that it translates the same there.

    >>> exported = gf.export("street", "for-others", to="onnx", count=2)
    >>> exported.verification.startswith("2 of 2 sentences")
    True

    `to`: "huggingface", "ctranslate2" or "onnx". Both programs translate up to `count` lines of the file `text`, or
    built-in sentences. If a single token differs in float32, nothing is written; with another `quantization`, which
    only ctranslate2 has, the differences are told.
    """
    from glassformer.interop.model_card import card
    from glassformer.verification.sample_sentences import sentences

    if to not in get_args(ExportFormat):
        raise InputError(f"There is no export to {to!r}; choose one of {', '.join(get_args(ExportFormat))}.")
    if quantization is not None and to != "ctranslate2":
        raise InputError(f"--quantization has no effect with --to {to}: it is for --to ctranslate2 only.")
    if quantization is not None and quantization not in QUANTIZATIONS:
        raise InputError(f"Unknown --quantization {quantization!r}; choose one of {', '.join(QUANTIZATIONS)}.")
    target = Path(out)
    refuse_existing(target)
    opened = _one_model(model) if isinstance(model, Translator) else open_model(model)
    sources = sentences(opened.config, opened.tokenizer, None if text is None else Path(text), count)
    transformer, tokenizer = opened.model, opened.tokenizer
    with building(target, checksummed=False) as unfinished:
        label, outputs = _write(transformer, tokenizer, unfinished, to, quantization, sources)
        verdict = _verdict(outputs, quantization, tokenizer) if outputs else UNVERIFIED
        facts = {"format": label, "verification": verdict}
        readme = card(transformer, f"A model for {to}", f"glassformer, `{opened.name}`", to, facts)
        (unfinished / "README.md").write_text(readme, encoding="utf-8")
    return ExportedModel(target, label, verdict)


def _one_model(translator: Translator) -> OpenedModel:
    """The model of a translator, to be exported."""
    translator.refuse_what_no_file_holds("exported")
    tokenizer = None if isinstance(translator.tokenizer, IdsOnly) else translator.tokenizer
    return OpenedModel(translator.name, translator.weights, tokenizer, translator.directory)


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

    if to == "onnx":
        from glassformer.interop.onnx_export import write_onnx

        write_onnx(model, directory)
        return "ONNX", (parity.by_glassformer(model, sources), parity.by_onnxruntime(directory, sources))
    if to == "ctranslate2":
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
