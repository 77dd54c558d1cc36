"""Writes tests/golden/VERSION.tar.xz: small files in every format of ours, and what they mean (expected.json).

Run it once per released version, `python -m tests.golden.write_golden`, and commit the archive. An archive is never
written again: `test_golden.py` opens every one of them, so that files written by an old version stay readable.
"""

import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import torch

import glassformer
from glassformer.atomic_directory import building
from glassformer.data import ImportedTokenizer, Pair, TokenizerSettings, train_tokenizer
from glassformer.data.imported_tokenizer import AnyTokenizer, ImportedTokenizerSettings
from glassformer.data.subword_segmentation import bytes_to_unicode
from glassformer.decoding import Shortlist
from glassformer.decoding.alignment_choice import default_alignment_heads, write_alignment_heads
from glassformer.decoding.vocabulary_shortlist import ShortlistMeasurement
from glassformer.engine.shortlist_file import add_shortlist
from glassformer.model import ModelConfig, Transformer, save_model
from glassformer.model.directory import write_model
from glassformer.training import train_run
from tests.models import KINDS_OF_POSITIONS, build, build_source_sensitive
from tests.training.runs import killed_at, write_corpus

HERE = Path(__file__).parent
SHAPE: dict[str, Any] = {"d_model": 4, "n_heads": 2, "d_ff": 5, "encoder_layers": 1, "decoder_layers": 1}
SOURCE_IDS, TARGET_IDS = [[3, 5, 4, 6, 2], [7, 3, 2, 0, 0]], [[1, 4, 6, 3], [1, 7, 5, 5]]
TEXTS = ["the cat saw the dog", "a dog saw", "the café"]
MODELS: dict[str, dict[str, Any]] = {positions: {"positions": positions} for positions in KINDS_OF_POSITIONS}
MODELS["learned"]["max_positions"] = 9
for name in ("relative", "relative-per-layer"):
    MODELS[name] |= {"relative_buckets": 4, "relative_max_distance": 7, "norm": "rms", "norm_first": True}
    MODELS[name] |= {"linear_bias": False, "scale_scores": False, "scale_embeddings": False, "gated": True}
MODELS["ssru"] = {"decoder_ssru": True, "activation": "gelu"}
MODELS["eight-bits"] = {}
MODELS["rest"] = {
    "share_embeddings": False, "tie_output": False, "source_vocab_size": 9, "d_head": 3, "embedding_norm": True,
    "output_bias": True, "scale_output": True, "activation": "silu", "position_offset": 2, "norm_eps": 1e-3,
}  # fmt: skip
"""Models by name, one per kind of positions and one with the remaining options; all have token ids only."""


def logits_of(model: Transformer) -> list[Any]:
    """The logits in float64 for the ids above; padding has no influence."""
    with torch.no_grad():
        return model.double()(torch.tensor(SOURCE_IDS), torch.tensor(TARGET_IDS)).tolist()


def imported_tokenizers() -> dict[str, ImportedTokenizer]:
    """One small tokenizer per kind of segmenter."""
    trained = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS * 3),
        model_writer=trained,
        vocab_size=30,
        hard_vocab_limit=False,
        normalization_rule_name="identity",
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=trained.getvalue())
    pieces = [processor.id_to_piece(number) for number in range(processor.vocab_size())]
    every_byte = [*bytes_to_unicode().values()]
    merges = "#version: 0.2\nt h\nth e\nĠ the\nd o\n"
    codes = "#version: 0.2\nt h\nth e</w>\nd o\n"
    words = ["the", "cat", "saw", "dog", "a"]
    pipeline = {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "post_processor": None,
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {
            "type": "Unigram",
            "unk_id": 0,
            "vocab": [["<unk>", 0.0], ["▁the", -1.0], ["▁", -3.0], *([letter, -4.0] for letter in "acdegohstwf")],
            "byte_fallback": False,
        },
    }
    tables: dict[Any, tuple[Sequence[str], bytes]] = {
        "sentencepiece": (pieces, trained.getvalue()),
        "byte-level": ([*every_byte, "th", "the", "Ġthe", "do"], merges.encode()),
        "bytes": (every_byte, b""),
        "subword-nmt": ([*"acegostw", *(f"{x}@@" for x in "acedgostw"), "the", "do@@"], codes.encode()),
        "words": (words, b""),
        "pipeline": ([piece for piece, _ in pipeline["model"]["vocab"]], json.dumps(pipeline).encode()),
    }
    tokenizers = {}
    for cut, (vocabulary, model) in tables.items():
        settings = ImportedTokenizerSettings(
            cut=cut, joint=True, after_source=["</s>"], after_target=["</s>"], hidden=["<pad>"]
        )
        special = ["<pad>", "<unk>", "</s>"]
        others = [piece for piece in dict.fromkeys(vocabulary) if piece not in (*special, "<s>")]
        tokenizers[cut] = ImportedTokenizer.joint(settings, [*special, *others], model)
    return tokenizers


def token_ids(tokenizer: AnyTokenizer) -> dict[str, Any]:
    """Ids of the texts on both sides, and the texts of the ids."""
    ids = {side: [tokenizer.encode(text, side) for text in TEXTS] for side in ("source", "target")}
    return ids | {"decoded": [tokenizer.decode(row) for row in ids["target"]]}


def write_translators() -> None:
    """Write two models with their tokenizers: one of ours with selected alignment heads, one that was imported."""
    pairs = [Pair(number, text, text.upper()) for number, text in enumerate(TEXTS * 3, start=1)]
    tokenizers = {
        "own": train_tokenizer(TokenizerSettings(vocab_size=320), pairs),
        "imported": imported_tokenizers()["words"],
    }
    for name, tokenizer in tokenizers.items():
        ids = {} if name == "own" else {"pad_id": 0, "bos_id": 0, "eos_id": 2}
        config = ModelConfig(vocab_size=tokenizer.vocab_size("source"), **SHAPE, **ids)
        directory = Path("translators") / name
        with building(directory) as unfinished:
            write_model(build_source_sensitive(config, 3), unfinished)
            tokenizer.write(unfinished / "tokenizer")
        if name == "own":
            write_alignment_heads(default_alignment_heads(config), directory)
            add_shortlist(directory, shortlist(config.vocab_size))


def shortlist(vocab_size: int) -> Shortlist:
    """A shortlist that is used by default: four targets per source token, and some in every list."""
    source = np.arange(vocab_size, dtype=np.int32)
    targets = np.stack([source, *((source * k + k) % vocab_size for k in (3, 5, 7))], axis=1)
    measurement = ShortlistMeasurement(
        sentences=9, bleu=30.0, unrestricted_bleu=30.1, has_references=True, identical=8, speedup=1.5, tokens=99.5
    )
    always, offsets = np.arange(10, dtype=np.int32), np.arange(vocab_size + 1, dtype=np.int32) * 4
    return Shortlist(always, offsets, np.sort(targets, axis=1).ravel(), vocab_size, True, measurement)


def run_options() -> dict[str, Any]:
    """Options of the training run, with paths relative to the archive."""
    return {
        "out": "run",
        "data": write_corpus(Path("text"), 24) | write_corpus(Path("text"), 4, "dev"),
        "tokenizer": {"vocab_size": 320},
        "model": {"preset": "tiny", **SHAPE, "dropout": 0.1},
        "training": {
            "updates": 6, "batch_tokens": 512, "micro_batches": 2, "ranks": 1, "log_every": 2, "warmup": 2, "keep": 1,
            "precision": "float32",
        },
        "validation": {"every": 3, "beam": 1, "final_beam": 1},
    }  # fmt: skip


def write_all() -> dict[str, Any]:
    """Write every file into the current directory; returns what they mean."""
    expected: dict[str, Any] = {"logits": {}, "tokens": {}}
    for number, (name, options) in enumerate(MODELS.items()):
        model = build(ModelConfig(vocab_size=8, **SHAPE | options), number, torch.float32)
        path = Path("models") / name
        save_model(model, path, eight_bits=name == "eight-bits")
        expected["logits"][name] = logits_of(glassformer.load_model(path))
    for name, tokenizer in imported_tokenizers().items():
        tokenizer.write(Path("tokenizers") / name)
        expected["tokens"][name] = token_ids(tokenizer)
    write_translators()
    expected["translations"] = {name: translations(name) for name in ("own", "imported")}
    expected["own tokens"] = token_ids(glassformer.load("translators/own").tokenizer)
    trace = glassformer.inspect(glassformer.load("translators/imported")).trace(TEXTS[0])
    trace.save("trace.safetensors", detail="everything", parameters=["encoder.*"])
    trace.save("small-trace.safetensors", detail="attention", half=True)
    options = run_options()
    killed_at(options, 4)
    (Path("run") / ".lock").unlink()
    train_run(options | {"out": "uninterrupted"})
    lines = (Path("uninterrupted") / "metrics.jsonl").read_text().splitlines()
    shutil.rmtree("uninterrupted")
    expected["run"] = {"options": options, "metrics": [json.loads(line) for line in lines]}
    return expected


def translations(name: str) -> list[dict[str, Any]]:
    """Ids and log-probabilities of the best translation of each text."""
    translator = glassformer.load(f"translators/{name}")
    best = [translation.candidates[0] for translation in translator.translations(TEXTS)]
    return [{"ids": one.ids, "text": one.text, "log_probabilities": one.log_probabilities} for one in best]


def main() -> None:
    """Write the archive of this version."""
    archive = HERE / f"{glassformer.__version__}.tar.xz"
    if archive.exists():
        sys.exit(f"{archive} exists: the files of a version are written once.")
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        Path("tokenizers").mkdir()
        Path("expected.json").write_text(json.dumps(write_all()), encoding="utf-8")
        with tarfile.open(archive, "w:xz", preset=9) as tar:
            for path in sorted(path for path in Path().rglob("*") if path.is_file()):
                tar.add(path, filter=_anonymous)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """The entry without owner and time, which differ between machines."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
