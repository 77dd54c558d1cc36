"""Scoring given pairs in C compared with PyTorch, and the cost of word alignment while translating.

1. Log-probabilities of given targets: the C engine and the PyTorch model, on the same cores, interleaved.
2. Beam search in C without and with recorded cross-attention weights, and their links to words; beside it, the second
   pass through the model that alignment would need otherwise, in C and in PyTorch.

    python benchmarks/scoring_and_alignment.py                       random models of two sizes, and `street`
    python benchmarks/scoring_and_alignment.py --only street tiny
"""

import argparse
import random
from typing import Any

import torch

from glassformer import ModelConfig, Transformer, load
from glassformer.builtin import street
from glassformer.decoding import BatchLimits, Beam, Request, SearchBackend
from glassformer.decoding.alignment_choice import default_alignment_heads, read_alignment_heads
from glassformer.engine import EngineOptions, open_engine
from glassformer.engine.torch_step_model import PlainStepModel
from glassformer.hardware import cores
from timing import interleaved, machine_description

SHAPES: dict[str, dict[str, Any]] = {
    "base": {},
    "tiny": {"d_model": 128, "n_heads": 4, "d_ff": 256, "encoder_layers": 4, "decoder_layers": 4},
}
PAIRS = {"base": 32, "tiny": 512}
LENGTHS = (5, 45)
TARGET_TOKENS = 25


def endless(shape: str) -> Transformer:
    """A random model that never generates the end of sentence by itself."""
    torch.manual_seed(0)
    model = Transformer(ModelConfig(vocab_size=8000, output_bias=True, **SHAPES[shape])).eval()
    with torch.no_grad():
        model.output_projection.bias[2] = -30
    return model


def random_shape(name: str, rounds: int) -> None:
    model, chance = endless(name), random.Random(0)
    sources, targets = (
        [[*(chance.randrange(5, 8000) for _ in range(chance.randint(*LENGTHS))), 2] for _ in range(PAIRS[name])]
        for _ in range(2)
    )
    compare(name, model, sources, targets, Beam(max_length_ratio=0, max_length_extra=TARGET_TOKENS), rounds)


def built_in(rounds: int) -> None:
    translator = load("street")
    pairs = list(street.sentences("test", 1000))
    encode = translator.tokenizer.encode
    sources, targets = [encode(p.source, "source") for p in pairs], [encode(p.target, "target") for p in pairs]
    compare("street", translator.model, sources, targets, Beam(), rounds)
    heads = read_alignment_heads(translator.directory, translator.model.config)
    texts = [pair.source for pair in pairs]
    seconds = interleaved(
        {
            "translate": lambda: translator.translations(texts),
            "translate and align": lambda: translator.word_alignments(
                translator.translations(texts, choice=heads), heads
            ),
        },
        rounds,
    )
    report("street, 1,000 texts, words and links included", seconds, "translate")


def compare(
    name: str, model: Transformer, sources: list[list[int]], targets: list[list[int]], beam: Beam, rounds: int
) -> None:
    engine = open_engine([model], EngineOptions())
    plain = SearchBackend(PlainStepModel(model), BatchLimits())
    seconds = interleaved(
        {"C": lambda: engine.score(sources, targets), "PyTorch": lambda: plain.score(sources, targets)}, rounds
    )
    report(f"{name}: scoring {len(sources):,} pairs", seconds, "PyTorch")
    ours, theirs = engine.score(sources, targets), plain.score(sources, targets)
    difference = max(
        abs(a - b)
        for one, other in zip(ours, theirs, strict=True)
        for a, b in zip(one.log_probabilities, other.log_probabilities, strict=True)
    )
    print(f"  largest difference of a log-probability: {difference:.1e}")
    heads = default_alignment_heads(model.config).indices
    without, recording = ([Request(source, heads=each) for source in sources] for each in ((), heads))
    best = [n_best[0].tokens for n_best in engine.search(without, beam)]
    seconds = interleaved(
        {
            "search": lambda: engine.search(without, beam),
            "search that records attention": lambda: engine.search(recording, beam),
            "attention in a second pass, C": lambda: engine.attention(sources, best, heads),
            "attention in a second pass, PyTorch": lambda: plain.attention(sources, best, heads),
        },
        rounds,
    )
    report(f"{name}: attention of {len(heads)} heads, beam {beam.size}", seconds, "search")


def report(title: str, seconds: dict[str, float], reference: str) -> None:
    print(f"\n{title}")
    for name, value in seconds.items():
        print(f"  {name:38} {value:8.3f} s   {value / seconds[reference]:.3f} of {reference}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="+", choices=[*SHAPES, "street"], default=[*SHAPES, "street"])
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(cores())
    print(machine_description())
    for name in options.only:
        built_in(options.rounds) if name == "street" else random_shape(name, options.rounds)


if __name__ == "__main__":
    main()
