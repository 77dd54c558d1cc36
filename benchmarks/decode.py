"""Decoding speed compared with CTranslate2 and Hugging Face: identical random Marian-shaped weights and sources.

Every source has 14 tokens and every target 20: the end of sentence is made so unlikely that no system stops earlier.
Each system has its own process and its best setting: glassformer and CTranslate2 one single-threaded worker per core,
Hugging Face all cores as threads. They take turns, and the best round of each counts. Beside float32
stands the share of a large matrix product's speed at which it computes, which is the limit in large batches.

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
from glassformer.benchmark.throughput import compare_throughput, machine_description, product_gflops
from glassformer.decoding import Beam
from glassformer.engine import fast_precisions

SOURCE_TOKENS, TARGET_TOKENS = 14, 20
MARIAN: dict[str, Any] = {"positions": "sinusoidal-halves", "output_bias": True, "pad_id": 0, "bos_id": 0, "eos_id": 2}
TINY: dict[str, Any] = {"d_model": 128, "n_heads": 4, "d_ff": 256, "encoder_layers": 4, "decoder_layers": 4}
MODELS = {
    "base-8k": (ModelConfig(vocab_size=8000, **MARIAN), (1, 32, 128)),
    "base-32k": (ModelConfig(vocab_size=32000, **MARIAN), (1, 32, 128)),
    "tiny": (ModelConfig(vocab_size=8000, **MARIAN, **TINY), (1, 64)),
}
PEERS = {  # what each precision is compared with; CTranslate2 has no float16 and no bfloat16 on CPUs
    "glassformer float32": ("ctranslate2 float32", "hugging face"),
    "glassformer float16": ("ctranslate2 float32", "hugging face"),
    "glassformer bfloat16": ("glassformer float32", "ctranslate2 float32", "hugging face"),
    "glassformer int8": ("ctranslate2 int8", "hugging face"),
}
OURS = tuple(name for name in PEERS if name.split()[1] in fast_precisions())
SYSTEMS = (*OURS, "ctranslate2 float32", "ctranslate2 int8", "hugging face")


def task(config: ModelConfig, beam: int, batch: int, batches_per_worker: int) -> BenchmarkTask:
    """Enough sentences to keep two workers busy, and for a round to take measurable time."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(3, config.vocab_size, (batches_per_worker * 2 * batch, SOURCE_TOKENS - 1), generator=generator)
    settings = Beam(
        size=beam, max_length_ratio=0, max_length_extra=TARGET_TOKENS, length_penalty=1.0 if beam > 1 else 0.0
    )
    return BenchmarkTask([[*row, config.eos_id] for row in ids.tolist()], settings, batch)


def gflop_per_token(config: ModelConfig, beam: int) -> float:
    """Matrix products per target token, with its share of the source's; without attention itself, which is little."""
    inner, feed_forward = config.n_heads * config.d_head, 2 * config.d_model * config.d_ff
    source = config.encoder_layers * (4 * config.d_model * inner + feed_forward)
    source += config.decoder_layers * 2 * config.d_model * inner  # keys and values of cross-attention
    target = config.decoder_layers * (6 * config.d_model * inner + feed_forward) + config.d_model * config.vocab_size
    return 2 * (source * SOURCE_TOKENS / TARGET_TOKENS + beam * target) / 1e9


def compare(name: str, config: ModelConfig, directory: Path, options: argparse.Namespace) -> None:
    """All systems on every task of one model."""
    systems = [System(system, directory) for system in SYSTEMS]
    for beam in options.beams:
        for batch in options.batches or MODELS[name][1]:
            work = task(config, beam, batch, batches_per_worker=max(1, (4 if name != "tiny" else 64) // batch))
            results = compare_throughput(systems, work, options.rounds)
            speed = {result.name: result.tokens_per_second for result in results}
            print(f"\n{name}, beam {beam}, batch size {batch} (tokens/s)", flush=True)
            for ours in OURS:
                ratios = ", ".join(
                    f"{peer} {speed[peer]:,.0f} ({speed[ours] / speed[peer]:.2f}x)" for peer in PEERS[ours]
                )
                print(f"  {ours:20} {speed[ours]:9,.0f}   against {ratios}", flush=True)
            gflops, limit = speed["glassformer float32"] * gflop_per_token(config, beam), product_gflops()
            print(f"  glassformer float32: {gflops:.0f} GFLOP/s, {gflops / limit:.0%} of a large product's {limit:.0f}")
    for system in systems:
        system.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=MODELS, default=list(MODELS), help="Models to run.")
    parser.add_argument("--beams", nargs="*", type=int, default=[1, 4], metavar="N", help="Beam sizes.")
    parser.add_argument(
        "--batches", nargs="*", type=int, metavar="N", help="Batch sizes; by default those of each model."
    )
    parser.add_argument("--rounds", type=int, default=4, metavar="N", help="Rounds; the best counts.")
    options = parser.parse_args()
    print(machine_description(), flush=True)
    for name in options.only:
        config = MODELS[name][0]
        torch.manual_seed(0)
        model = Transformer(config)
        with torch.no_grad():
            model.output_projection.bias[config.eos_id] = -30
        with tempfile.TemporaryDirectory() as folder:
            save_model(model, Path(folder) / "model")
            compare(name, config, Path(folder) / "model", options)
    print("\n" + machine_description())


if __name__ == "__main__":
    main()
