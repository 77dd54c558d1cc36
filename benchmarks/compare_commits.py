"""Speed of this checkout compared with an earlier commit, and of that commit with itself, interleaved.

The second comparison shows the noise of the machine: a difference that is no larger says nothing. Each system has its
own processes; all take turns, and the best round of each counts. Ratios of seconds are relative to the earlier commit.

    python benchmarks/compare_commits.py COMMIT
    python benchmarks/compare_commits.py COMMIT --only decode:base:1:32 start --rounds 10
    python benchmarks/compare_commits.py --native        the engine compiled for this processor, instead of a commit
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MARIAN: dict[str, Any] = {"positions": "sinusoidal-halves", "output_bias": True, "pad_id": 0, "bos_id": 0, "eos_id": 2}
SHAPES: dict[str, dict[str, Any]] = {
    "base": {"vocab_size": 8000},
    "tiny": {"vocab_size": 8000, **dict.fromkeys(("encoder_layers", "decoder_layers", "n_heads"), 4)},
}
SHAPES["tiny"] |= {"d_model": 128, "d_ff": 256}
DECODING = [f"decode:{model}:{beam}:{batch}" for model in SHAPES for beam in (1, 4) for batch in (1, 32)]
TASKS = [*DECODING, "decode-int8:base:1:32", "load", "train", "start"]
"""decode:model:beam:batch size; loading a model of the paper's base size; training; `translate` as a command."""


class Checkout:
    """One version of the code, with a process that runs tasks on request."""

    def __init__(self, name: str, source: Path, folder: Path, instruction_set: str | None = None) -> None:
        self.name = name
        environment = {**os.environ, "PYTHONPATH": str(source)}
        if instruction_set:
            environment["GLASSFORMER_ISA"] = instruction_set
        command = [sys.executable, __file__, "--worker", str(folder)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def seconds(self, task: str) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(task, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} failed in {task}; its error is above.")
        return float(json.loads(line))

    def close(self) -> None:
        self._process.communicate()


def work(folder: Path) -> None:
    """Worker process: reads tasks from standard input and prints the seconds each took."""
    functions: dict[str, Callable[[], object]] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in functions:
            functions[name] = prepare(name, folder)
        start = time.perf_counter()
        functions[name]()
        print(json.dumps(time.perf_counter() - start), flush=True)


def prepare(name: str, folder: Path) -> Callable[[], object]:
    kind, *options = name.split(":")
    if kind.startswith("decode"):
        precision = kind.partition("-")[2] or "float32"
        return decoding(options[0], int(options[1]), int(options[2]), precision)
    if kind == "start":
        command = [sys.executable, "-m", "glassformer", "translate", "street", "The animal was too tired."]
        return lambda: subprocess.run(command, check=True, capture_output=True)
    return loading(folder) if kind == "load" else training()


def decoding(shape: str, beam: int, batch: int, precision: str) -> Callable[[], object]:
    """Sources of 14 tokens and targets of 20, as in decode.py."""
    import torch

    from glassformer import ModelConfig, Transformer
    from glassformer.benchmark.systems import BenchmarkTask, _glassformer
    from glassformer.decoding import Beam

    torch.manual_seed(0)
    model = Transformer(ModelConfig(**MARIAN, **SHAPES[shape])).eval()
    with torch.no_grad():
        model.output_projection.bias[2] = -30
    sentences = max(batch, 4 if shape == "base" else 64) * 2
    ids = torch.randint(3, 8000, (sentences, 13), generator=torch.Generator().manual_seed(0))
    settings = Beam(size=beam, max_length_ratio=0, max_length_extra=20, length_penalty=1.0 if beam > 1 else 0.0)
    task = BenchmarkTask([[*row, 2] for row in ids.tolist()], settings, batch)
    translate = _glassformer(model, precision)
    return lambda: translate(task)


def loading(folder: Path) -> Callable[[], object]:
    """From the files to the first two tokens: also packing the weights for the C engine."""
    from glassformer.benchmark.systems import BenchmarkTask, _glassformer
    from glassformer.decoding import Beam
    from glassformer.model import Transformer, load_model, preset, save_model

    directory = folder / f"model-{os.getpid()}"
    save_model(Transformer(preset("paper-base", vocab_size=16000)), directory)
    task = BenchmarkTask([[5, 2]], Beam(size=1, max_length_ratio=0, max_length_extra=2, length_penalty=0.0), 1)
    return lambda: [_glassformer(load_model(directory), "float32")(task) for _ in range(3)]


def training() -> Callable[[], object]:
    """Five updates of the small preset on random sentences of 20 tokens."""
    import torch
    from torch import nn

    from glassformer.data.padded_batch import Batch
    from glassformer.model import Transformer, preset
    from glassformer.training.loss import summed_loss
    from glassformer.training.optimiser import make_optimiser
    from glassformer.training.run_settings import TrainingSettings

    torch.manual_seed(0)
    model = Transformer(preset("small", vocab_size=8000)).train()
    optimiser = make_optimiser(model, TrainingSettings())
    batch = Batch(*(torch.randint(3, 8000, (64, 20)) for _ in range(3)))

    def updates() -> None:
        for _ in range(5):
            (summed_loss(model, batch, 0.1) / batch.tokens).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad()

    return updates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", default="HEAD~1", help="The earlier commit.")
    parser.add_argument("--only", nargs="*", metavar="TASK", default=TASKS, help=f"Tasks: {', '.join(TASKS)}.")
    parser.add_argument("--native", action="store_true", help="Compare with the engine compiled for this processor.")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="Rounds; the best counts.")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return work(options.worker)
    root = Path(__file__).resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        if options.native:
            return compare(root, root, Path(folder), options)
        earlier = Path(folder) / "earlier"
        git = ["git", "-C", str(root), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(earlier), options.commit], check=True)
        try:
            compare(root, earlier, Path(folder), options)
        finally:
            subprocess.run([*git, "remove", "--force", str(earlier)], check=True)


def compare(root: Path, earlier: Path, folder: Path, options: argparse.Namespace) -> None:
    from timing import machine_description

    print(machine_description(), flush=True)
    sources = {"earlier": earlier / "src", "this": root / "src", "earlier again": earlier / "src"}
    isa = {name: "native" for name in sources if options.native and name != "this"}
    systems = [Checkout(name, source, folder, isa.get(name)) for name, source in sources.items()]
    for task in options.only:
        best = {system.name: float("inf") for system in systems}
        for number in range(options.rounds + 1):
            for system in systems[number % 3 :] + systems[: number % 3]:
                seconds = system.seconds(task)
                if number:  # the first is a warm-up
                    best[system.name] = min(best[system.name], seconds)
        this, again = best["this"] / best["earlier"], best["earlier again"] / best["earlier"]
        reference = "native library" if options.native else "earlier commit"
        print(f"{task:24} {best['this']:8.4f} s   {this:.3f} times the {reference} (itself: {again:.3f})", flush=True)
    for system in systems:
        system.close()


if __name__ == "__main__":
    main()
