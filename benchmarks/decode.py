"""Decoding beside CTranslate2 and Hugging Face: identical random Marian-shaped weights, sources and lengths.

Every source has 14 tokens, every target 20: the end of sentence is made so unlikely that nobody stops before. Each
contestant has its own process and its best setting: ours and CTranslate2 a single-threaded worker for each core,
Hugging Face all cores as threads. They take turns, and each one's best round counts.

    python benchmarks/decode.py                 the whole table (about 20 minutes on two cores)
    python benchmarks/decode.py --only tiny     one of the models: base-8k, base-32k, tiny
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch

from glassformer import ModelConfig, Transformer, save_model
from glassformer.benchmark.systems import BenchmarkTask, System
from glassformer.benchmark.throughput import compare_throughput, machine
from glassformer.decoding import Beam

SOURCE, TARGET = 14, 20
MARIAN: dict[str, Any] = {"positions": "sinusoidal-halves", "output_bias": True, "pad_id": 0, "bos_id": 0, "eos_id": 2}
TINY: dict[str, Any] = {"d_model": 128, "n_heads": 4, "d_ff": 256, "encoder_layers": 4, "decoder_layers": 4}
MODELS = {
    "base-8k": (ModelConfig(vocab_size=8000, **MARIAN), (1, 32, 128)),
    "base-32k": (ModelConfig(vocab_size=32000, **MARIAN), (1, 32, 128)),
    "tiny": (ModelConfig(vocab_size=8000, **MARIAN, **TINY), (1, 64)),
}
OURS = ("glassformer float32", "glassformer float16", "glassformer int8")
PEERS = {  # whom each of ours is compared with; CTranslate2 has no float16 on processors
    "glassformer float32": ("ctranslate2 float32", "hugging face"),
    "glassformer float16": ("ctranslate2 float32", "hugging face"),
    "glassformer int8": ("ctranslate2 int8", "hugging face"),
}
EVERYBODY = (*OURS, "ctranslate2 float32", "ctranslate2 int8", "hugging face")


def task(config: ModelConfig, beam: int, batch: int, rounds_of: int) -> BenchmarkTask:
    """Enough sentences for every worker to be busy, and for a round to last."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(3, config.vocab_size, (rounds_of * 2 * batch, SOURCE - 1), generator=generator)
    how = Beam(size=beam, max_length_ratio=0, max_length_extra=TARGET, length_penalty=1.0 if beam > 1 else 0.0)
    return BenchmarkTask([[*row, config.eos_id] for row in ids.tolist()], how, batch)


def compare(name: str, config: ModelConfig, directory: Path, asked: argparse.Namespace) -> None:
    """Everybody on every task of one model."""
    contestants = [System(one, directory) for one in EVERYBODY]
    for beam in asked.beams:
        for batch in asked.batches or MODELS[name][1]:
            work = task(config, beam, batch, rounds_of=max(1, (4 if name != "tiny" else 64) // batch))
            speed = {one.name: one.tokens_per_second for one in compare_throughput(contestants, work, asked.rounds)}
            print(f"\n{name}, beam {beam}, {batch} at a time (tokens/s)", flush=True)
            for one, peers in PEERS.items():
                ratios = ", ".join(f"{peer} {speed[peer]:,.0f} ({speed[one] / speed[peer]:.2f}x)" for peer in peers)
                print(f"  {one:20} {speed[one]:9,.0f}   against {ratios}", flush=True)
    for contestant in contestants:
        contestant.close()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", nargs="*", choices=MODELS, default=list(MODELS))
    options.add_argument("--beams", nargs="*", type=int, default=[1, 4])
    options.add_argument("--batches", nargs="*", type=int, help="instead of each model's own")
    options.add_argument("--rounds", type=int, default=4)
    asked = options.parse_args()
    print(machine(), flush=True)
    for name in asked.only:
        config = MODELS[name][0]
        torch.manual_seed(0)
        model = Transformer(config)
        with torch.no_grad():
            model.output_projection.bias[config.eos_id] = -30
        with tempfile.TemporaryDirectory() as folder:
            save_model(model, Path(folder) / "model")
            compare(name, config, Path(folder) / "model", asked)
    print("\n" + machine())


if __name__ == "__main__":
    main()
