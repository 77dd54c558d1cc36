"""Peak memory for loading valid weights, in file sizes: the weights in float32, and the mapped file."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from glassformer.interop.format_detection import open_imported
from glassformer.interop.hugging_face import write_hugging_face
from glassformer.model import ModelConfig
from tests.interop import marian_writer
from tests.interop.memory import measured
from tests.interop.test_untrusted_models import FAMILIES, write
from tests.models import build
from tests.processes import run_fresh

SIZES = {"vocab_size": 40_000, "d_model": 128, "n_heads": 2, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1}
FORMS = {"float32": 1, "float16": 3, "bfloat16": 3, "npz": 2, "intgemm8": 9}
"""float32 is mapped; 16 bits are widened to 32, beside the mapped file; Marian's weights are copied to our layout, and
8 bits are widened to 32 before that."""
CHILD = """
import sys
from tests.interop.test_weights_in_memory import open_and_measure
open_and_measure(*sys.argv[1:])
"""


def written(here: Path, form: str) -> Path:
    """Write a model with weights in this format; returns the path to open."""
    if form in ("intgemm8", "npz"):
        options = marian_writer.options(dim_emb=128, dim_vocabs=[40_000, 40_000])
        make = marian_writer.write_npz if form == "npz" else marian_writer.write_bin
        path = here / ("model.npz" if form == "npz" else "model.bin")
        make(path, marian_writer.tensors(options), options, "float32" if form == "npz" else form)
        return path
    config = ModelConfig(**SIZES, **FAMILIES["marian"] | {"pad_id": 0, "bos_id": 0})
    write_hugging_face(build(config, dtype=torch.float32), None, here)
    weights = here / "model.safetensors"
    tensors = {name: tensor.to(getattr(torch, form)) for name, tensor in load_file(weights).items()}
    save_file(tensors, here / "new")
    (here / "new").rename(weights)
    return here


def open_and_measure(here: str, answer: str) -> None:
    options, small, measurements = marian_writer.options(), Path(here) / "small.bin", {}
    marian_writer.write_bin(small, marian_writer.tensors(options), options, "intgemm8")
    open_imported(small)  # one-time costs of a first call
    for form in FORMS:
        (Path(here) / form).mkdir()
        path = written(Path(here) / form, form)
        weights = path if path.is_file() else path / "model.safetensors"
        _, took = measured(open_imported, path)
        measurements[form] = [took, weights.stat().st_size]
    write(Path(answer), measurements)


def test_weights_take_what_float32_takes_and_their_file(tmp_path: Path) -> None:
    run_fresh(CHILD, str(tmp_path), str(tmp_path / "answer"))
    for form, (took, size) in json.loads((tmp_path / "answer").read_bytes()).items():
        assert took < FORMS[form] * size * 1.1 + 2**22, (form, took / size)
