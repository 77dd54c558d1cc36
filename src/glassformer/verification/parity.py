"""Do they say the same? One model's targets by our search, and by the program that it was written for."""

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

Ids = list[int]


@dataclass(frozen=True)
class ParityResult:
    """How far two programs say the same of the same sources."""

    sentences: int
    same: int
    """Sentences of which every token is the same."""
    tokens: int
    same_tokens: int
    """Tokens of ours before the first that differs."""

    @property
    def complete(self) -> bool:
        return self.same == self.sentences


def agreement(ours: Sequence[Ids], theirs: Sequence[Ids]) -> ParityResult:
    """Targets held against each other, token by token."""
    same = sum(own == other for own, other in zip(ours, theirs, strict=True))
    tokens = sum(_common(own, other) for own, other in zip(ours, theirs, strict=True))
    return ParityResult(len(ours), same, sum(map(len, ours)), tokens)


def by_us(model: Transformer, sources: Sequence[Ids]) -> list[Ids]:
    """What greedy search finds here, in float32."""
    opened = open_search_backend([model], EngineOptions())
    found = opened.search([Request(source) for source in sources], Beam.greedy())
    return [own[0].tokens for own in found]


def by_onnxruntime(directory: Path, sources: Sequence[Ids]) -> list[Ids]:
    """What greedy search finds when it asks onnxruntime."""
    found = search(OnnxModel(directory), [Request(source) for source in sources], Beam.greedy())
    return [own[0].tokens for own in found]


def by_ctranslate2(
    directory: Path, config: ModelConfig, words: ExportVocabulary, sources: Sequence[Ids], kind: str = "default"
) -> list[Ids]:
    """What CTranslate2 finds itself; `kind` of numbers it computes with."""
    opened = open_ctranslate2(directory, compute_type=kind, intra_threads=1)
    numbers = {word: number for number, word in enumerate(words.target)}
    found = []
    for source, limit in zip(sources, _limits(sources, config), strict=True):
        [answer] = opened.translate_batch(
            [[words.source[token] for token in source]],
            beam_size=1,
            max_input_length=0,
            max_decoding_length=limit - 1,
            suppress_sequences=[[words.target[config.pad_id]]],
        )
        found.append([*(numbers[word] for word in answer.hypotheses[0]), config.eos_id])
    return found


@torch.inference_mode()
def by_transformers(directory: Path, config: ModelConfig, sources: Sequence[Ids]) -> list[Ids]:
    """What Hugging Face's `generate` finds; nothing of the hub is asked."""
    transformers = import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(directory, local_files_only=True).eval()
    found: list[Ids] = []
    for source, limit in zip(sources, _limits(sources, config), strict=True):
        said = theirs.generate(
            input_ids=padded([source], config.pad_id),
            num_beams=1,
            do_sample=False,
            max_length=None,
            max_new_tokens=limit - 1,
            use_cache=config.positions != "relative",  # their cache of T5 has one layer for each of the encoder's
        )[0, 1:].tolist()
        end = said.index(config.eos_id) if config.eos_id in said else len(said)
        found.append([*said[:end], config.eos_id])
    return found


def _limits(sources: Sequence[Ids], config: ModelConfig) -> list[int]:
    return [rules_for(Request(source), config.eos_id, Beam.greedy(), config.max_tokens).limit for source in sources]


def _common(one: Ids, other: Ids) -> int:
    """Tokens before the first that differs."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
