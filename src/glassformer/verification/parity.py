"""Parity with other programs: the targets of one model by our search and by the program it was exported to."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import torch

from glassformer.decoding import Beam, Request, search
from glassformer.decoding.rules import rules_for
from glassformer.decoding.step_model import padded
from glassformer.engine import EngineOptions, open_search_backend
from glassformer.engine.onnx_model import OnnxModel
from glassformer.interop.ctranslate2_export import ExportVocabulary, open_ctranslate2
from glassformer.model import ModelConfig, Transformer
from glassformer.model.position_kinds import position_kind

Ids = list[int]


@dataclass(frozen=True)
class ParityResult:
    """How many sentences and tokens two programs agree on, for the same sources."""

    sentences: int
    same: int
    """Number of sentences in which every token is the same."""
    tokens: int
    same_tokens: int
    """Number of our tokens before the first difference of each sentence."""

    @property
    def complete(self) -> bool:
        return self.same == self.sentences


def compare_targets(ours: Sequence[Ids], theirs: Sequence[Ids]) -> ParityResult:
    """Compare two programs' targets token by token."""
    same = sum(our == their for our, their in zip(ours, theirs, strict=True))
    tokens = sum(_common_prefix(our, their) for our, their in zip(ours, theirs, strict=True))
    return ParityResult(len(ours), same, sum(map(len, ours)), tokens)


def by_glassformer(model: Transformer, sources: Sequence[Ids]) -> list[Ids]:
    """Translate by our greedy search in float32."""
    backend = open_search_backend([model], EngineOptions())
    results = backend.search([Request(source) for source in sources], Beam.greedy())
    return [n_best[0].tokens for n_best in results]


def by_onnxruntime(directory: Path, sources: Sequence[Ids]) -> list[Ids]:
    """Translate by our greedy search, with the model run by onnxruntime."""
    results = search(OnnxModel(directory), [Request(source) for source in sources], Beam.greedy())
    return [n_best[0].tokens for n_best in results]


def by_ctranslate2(
    directory: Path,
    config: ModelConfig,
    vocabulary: ExportVocabulary,
    sources: Sequence[Ids],
    compute_type: str = "default",
) -> list[Ids]:
    """Translate by CTranslate2's own greedy search."""
    translator = open_ctranslate2(directory, compute_type=compute_type, intra_threads=1)
    ids = {word: number for number, word in enumerate(vocabulary.target)}
    targets = []
    for source, limit in zip(sources, _limits(sources, config), strict=True):
        [result] = translator.translate_batch(
            [[vocabulary.source[token] for token in source]],
            beam_size=1,
            max_input_length=0,
            max_decoding_length=limit - 1,
            suppress_sequences=[[vocabulary.target[config.pad_id]]],
        )
        targets.append([*(ids[word] for word in result.hypotheses[0]), config.eos_id])
    return targets


@torch.inference_mode()
def by_transformers(directory: Path, config: ModelConfig, sources: Sequence[Ids]) -> list[Ids]:
    """Translate by Hugging Face's `generate`, without access to the hub."""
    transformers = import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory, local_files_only=True).eval()
    targets: list[Ids] = []
    for source, limit in zip(sources, _limits(sources, config), strict=True):
        generated = model.generate(
            input_ids=torch.from_numpy(padded([source], config.pad_id)),
            num_beams=1,
            do_sample=False,
            max_length=None,
            max_new_tokens=limit - 1,
            use_cache=not position_kind(config).biases,  # their T5 cache has one layer per encoder layer
        )[0, 1:].tolist()
        end = generated.index(config.eos_id) if config.eos_id in generated else len(generated)
        targets.append([*generated[:end], config.eos_id])
    return targets


def _limits(sources: Sequence[Ids], config: ModelConfig) -> list[int]:
    return [rules_for(Request(source), config.eos_id, Beam.greedy(), config.max_tokens).limit for source in sources]


def _common_prefix(ours: Ids, theirs: Ids) -> int:
    """Number of tokens before the first difference between two targets."""
    pairs = zip(ours, theirs, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(ours), len(theirs)))
