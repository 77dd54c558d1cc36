"""Step model on a model's two ONNX files, run by onnxruntime on the CPU (the extra `onnx`)."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.decoding.next_tokens import NextTokens, summarise_logits
from glassformer.decoding.step_model import padded
from glassformer.errors import DirectoryError, InputError
from glassformer.interop.onnx_export import DECODER, ENCODER
from glassformer.interop.onnx_export.onnx_graph import library
from glassformer.model import ModelConfig

Arrays = dict[str, Any]
"""NumPy arrays by their tensor names in the ONNX files."""
DTYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64}


class OnnxModel:
    """A step model computed by onnxruntime."""

    refills = False
    extra_positions = 0

    def __init__(self, directory: str | os.PathLike[str], threads: int = 0) -> None:
        """Open a directory's two ONNX files. `threads`: per operator; 0 for one per core."""
        self.encoder, self.decoder = (_session(Path(directory) / name, threads) for name in (ENCODER, DECODER))
        metadata = self.decoder.get_modelmeta().custom_metadata_map
        self.config = ModelConfig(**json.loads(metadata["config"]))
        self.bos, self.eos, self.pad = self.config.bos_id, self.config.eos_id, self.config.pad_id
        self.vocab_size = self.config.vocab_size
        self.max_tokens = int(metadata["max_tokens"]) if metadata["max_tokens"] else None

    def open(self, width: int) -> "OnnxStepSession":
        return OnnxStepSession(self)

    def logits(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """Next-token logits (B T V) for target ids (B T); same arguments and result as `Transformer.forward`."""
        source = self.read(source_ids)
        return self.step(target_ids, source, self.empty_cache(len(source_ids)))[0]

    def read(self, source_ids: Tensor) -> Arrays:
        """Encode the sources (B S, padded on the right); returns the decoder's inputs."""
        self._check(source_ids, self.config.source_vocab_size)
        visible = (source_ids != self.pad).numpy()
        names = [output.name for output in self.encoder.get_outputs()]
        outputs = self.encoder.run(names, {"source_ids": source_ids.long().numpy(), "source_visible": visible})
        return {"source_visible": visible, **dict(zip(names, outputs, strict=True))}

    def empty_cache(self, rows: int) -> Arrays:
        """Empty KV cache for this many targets."""
        sizes = {"B": rows, "P": 0}
        return {
            argument.name: np.zeros([sizes.get(axis, axis) for axis in argument.shape], dtype=DTYPES[argument.type])
            for argument in self.decoder.get_inputs()
            if argument.name.startswith("past.")
        }

    def step(self, target_ids: Tensor, source: Arrays, past: Arrays) -> tuple[Tensor, Arrays]:
        """The logits (B T V) after the newest tokens (B T), and the KV cache for the next step."""
        self._check(target_ids, self.vocab_size, _length(past))
        if len(target_ids) != len(source["source_visible"]):
            raise InputError(
                f"There are {len(target_ids)} target rows for {len(source['source_visible'])} source rows. "
                "Expected one target row per source row."
            )
        names = ["logits", *(name.replace("past", "present") for name in past)]
        logits, *present = self.decoder.run(names, {"target_ids": target_ids.long().numpy(), **source, **past})
        return torch.from_numpy(logits), dict(zip(past, present, strict=True))

    def _check(self, ids: Tensor, size: int, before: int = 0) -> None:
        lowest, highest = ids.min(), ids.max()
        if lowest < 0 or highest >= size:
            raise InputError(
                f"Token ids must be from 0 to {size - 1}; these go from {lowest} to {highest}. "
                "Encode the text with this model's tokenizer."
            )
        length = before + ids.shape[1]
        if self.max_tokens is not None and length > self.max_tokens:
            raise InputError(
                f"The sentence has {length} tokens, but the exported model has only {self.max_tokens} positions: split "
                "it into shorter parts."
            )


class OnnxStepSession:
    source: Arrays
    past: Arrays

    def __init__(self, model: OnnxModel) -> None:
        self.model = model

    def join(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        self.source = self.model.read(torch.from_numpy(padded(sources, self.model.pad)))
        self.past = self.model.empty_cache(len(sources))

    def step(self, tokens: Sequence[int], count: int, never: Sequence[int]) -> NextTokens:
        logits, self.past = self.model.step(torch.tensor(tokens)[:, None], self.source, self.past)
        return summarise_logits(logits[:, -1], count, never)

    def keep(self, rows: Sequence[int]) -> None:
        if list(rows) != list(range(len(self.source["source_visible"]))):
            self.source, self.past = _reordered(self.source, rows), _reordered(self.past, rows)


def _length(past: Arrays) -> int:
    """Number of positions in a KV cache; recurrent cells do not show it, so it is stored beside them."""
    return int(past["past.length"]) if "past.length" in past else past["past.0.k"].shape[2]


def _reordered(arrays: Arrays, rows: Sequence[int]) -> Arrays:
    return {name: array[list(rows)] if array.ndim else array for name, array in arrays.items()}


def _session(path: Path, threads: int) -> Any:
    runtime = library("onnxruntime")
    if not path.is_file():
        raise DirectoryError(
            f"{path} does not exist: `glassformer export --to onnx` writes {ENCODER} and {DECODER} together."
        )
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    try:
        session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's errors have no common base class
        raise DirectoryError(f"onnxruntime cannot open {path}: {error}") from None
    if "glassformer" not in session.get_modelmeta().custom_metadata_map:
        raise DirectoryError(f"{path} was not exported by Glassformer: write it with `glassformer export --to onnx`.")
    return session
