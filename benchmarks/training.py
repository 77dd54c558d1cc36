"""Training throughput compared with Hugging Face's MarianMTModel and torch.nn.Transformer: identical batches and sizes.

Each system does whole updates: forward, label-smoothed loss, backward, clipping, AdamW. The peers use all cores as
threads, which is how they are usually run; ours runs both as one process with all threads and, its default, as one
process per core with its share of the sentences. Where the processor multiplies in bfloat16, that is measured too, for
Marian with torch's autocast. The systems take turns, and the best round of each counts. Prints target tokens per
second. With --text SOURCE TARGET the batches are made of these files, otherwise of the built-in corpus.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from forward_backward import TorchTransformer
from glassformer import ModelConfig, Transformer, preset
from glassformer.builtin import street
from glassformer.data import TokenizerSettings, corpus, epoch_batches, open_store, scan, train_tokenizer
from glassformer.data.padded_batch import Batch, make_batch
from glassformer.interop.hugging_face import in_transformers
from glassformer.training.loss import TrainingLoss, summed_loss
from glassformer.training.mixed_precision import chosen_dtype
from glassformer.training.optimiser import make_optimiser
from glassformer.training.run_resources import keep_memory
from glassformer.training.run_settings import TrainingSettings
from timing import machine_description

UPDATES = 6
SMOOTHING = 0.1
RANKS, BFLOAT16 = "ours, one process per core", ", bfloat16"


def batches(directory: Path, text: list[str] | None, budget: int) -> tuple[list[Batch], int]:
    """The batches, the same for all systems, and the vocabulary size."""
    if text is None:
        pairs = list(street.sentences("train", 20_000))
        text = [str(directory / "source"), str(directory / "target")]
        Path(text[0]).write_text("".join(f"{pair.source}\n" for pair in pairs))
        Path(text[1]).write_text("".join(f"{pair.target}\n" for pair in pairs))
    data = scan(corpus(*text))
    tokenizer = train_tokenizer(TokenizerSettings(vocab_size=8000, kind="bpe"), data)
    store = open_store(data, tokenizer, directory / "store")
    lengths = torch.stack([torch.tensor(store.lengths(side)) for side in ("source", "target")], 1).numpy()
    indices = epoch_batches(lengths, budget, seed=1, epoch=0)[:UPDATES]
    return [make_batch(store[int(i)] for i in batch) for batch in indices], tokenizer.vocab_size("target")


def rows(batch: Batch, rank: int, ranks: int) -> Batch:
    """A rank's share of a batch: every `ranks`-th sentence."""
    return Batch(*(getattr(batch, name)[rank::ranks] for name in ("source", "target_in", "target_out")))


def trainer(model: nn.Module, loss: Callable[[Batch], Tensor]) -> Callable[[Batch], None]:
    """One update of a plain training loop."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)

    def update(batch: Batch) -> None:
        optimiser.zero_grad()
        loss(batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return update


def torch_update(config: ModelConfig) -> Callable[[Batch], None]:
    model = TorchTransformer(config).train()

    def loss(batch: Batch) -> Tensor:
        logits = model(batch.source, batch.target_in).flatten(0, 1)
        return F.cross_entropy(logits, batch.target_out.flatten(), ignore_index=0, label_smoothing=SMOOTHING)

    return trainer(model, loss)


def marian_update(config: ModelConfig, dtype: torch.dtype | None = None) -> Callable[[Batch], None]:
    model = in_transformers(config, max_tokens=512).train()

    def loss(batch: Batch) -> Tensor:
        with torch.autocast("cpu", dtype, enabled=dtype is not None):
            logits = model(
                input_ids=batch.source,
                attention_mask=batch.source != 0,
                decoder_input_ids=batch.target_in,
                use_cache=False,
            ).logits.flatten(0, 1)
        return F.cross_entropy(logits, batch.target_out.flatten(), ignore_index=0, label_smoothing=SMOOTHING)

    return trainer(model, loss)


def our_update(config: ModelConfig) -> Callable[[Batch], None]:
    model = Transformer(config).train()
    optimiser = make_optimiser(model, TrainingSettings())

    def update(batch: Batch) -> None:
        (summed_loss(model, batch, SMOOTHING) / batch.tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()

    return update


class System:
    """A system in its own processes, so that none inherits another's threads or memory; runs a round on request."""

    def __init__(self, name: str, size: str, text: list[str] | None, budget: int, ranks: int) -> None:
        self.rendezvous = tempfile.TemporaryDirectory()
        command = [sys.executable, __file__, "--system", name, "--size", size, "--budget", str(budget)]
        command += ["--rendezvous", self.rendezvous.name, "--ranks", str(ranks)] + (["--text", *text] if text else [])
        self.processes = [
            subprocess.Popen([*command, "--rank", str(rank)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for rank in range(ranks)
        ]
        self.tokens = min(int(self._line(process)) for process in self.processes)

    def round(self) -> float:
        """Run all updates once; returns target tokens per second."""
        start = time.perf_counter()
        for process in self.processes:
            print("go", file=process.stdin, flush=True)
        for process in self.processes:
            self._line(process)
        return self.tokens / (time.perf_counter() - start)

    def close(self) -> None:
        for process in self.processes:
            process.communicate()

    @staticmethod
    def _line(process: "subprocess.Popen[str]") -> str:
        assert process.stdout is not None
        return process.stdout.readline()


def run_system(options: argparse.Namespace) -> None:
    """The process of a `System`: runs the updates for every line of standard input."""
    warnings.filterwarnings("ignore")
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as directory:
        updates, vocabulary = batches(Path(directory), options.text, options.budget)
        shape: dict[str, Any] = {"vocab_size": vocabulary, "source_vocab_size": vocabulary}
        config = preset(options.size, **shape)
        if options.system.startswith(RANKS):
            dtype = torch.bfloat16 if options.system.endswith(BFLOAT16) else None
            run = _ranks(config, updates, options, dtype)
        else:
            torch.set_num_threads(torch.get_num_threads())
            makers: dict[str, Callable[[ModelConfig], Callable[[Batch], None]]] = {
                "Marian": marian_update,
                "Marian" + BFLOAT16: partial(marian_update, dtype=torch.bfloat16),
                "torch.nn": torch_update,
                "ours, threads": our_update,
            }
            if options.system.startswith("ours"):
                keep_memory()
            update = makers[options.system](config)

            def run() -> None:
                for batch in updates:
                    update(batch)

        run()  # warm-up
        print(sum(batch.tokens for batch in updates), flush=True)
        for _ in sys.stdin:
            run()
            print("done", flush=True)


def _ranks(
    config: ModelConfig, updates: list[Batch], options: argparse.Namespace, dtype: torch.dtype | None
) -> Callable[[], None]:
    from torch.nn.parallel import DistributedDataParallel

    from glassformer.training.distributed import join_local_group

    keep_memory()
    world = join_local_group(options.rendezvous, options.rank, options.ranks)
    model = Transformer(config).train()
    optimiser = make_optimiser(model, TrainingSettings())
    loss = DistributedDataParallel(TrainingLoss(model, SMOOTHING, dtype), gradient_as_bucket_view=True)

    def run() -> None:
        for batch in updates:
            (loss(rows(batch, world.rank, world.size)) * (world.size / batch.tokens)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad()

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--text", nargs=2, metavar=("SOURCE", "TARGET"), help="Text files instead of the built-in corpus."
    )
    parser.add_argument("--budget", type=int, default=4096, metavar="N", help="Positions per batch, at most.")
    parser.add_argument("--rounds", type=int, default=6, metavar="N", help="Rounds; the best counts.")
    for name in ("--system", "--size", "--rendezvous"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    for name in ("--rank", "--ranks"):
        parser.add_argument(name, type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.system:
        run_system(options)
        return
    print(machine_description())
    print(
        f"{UPDATES} updates of {options.budget} positions, best of {options.rounds} rounds; target tokens per second\n"
    )
    names = {"Marian": 1, "torch.nn": 1, "ours, threads": 1, RANKS: 2}
    if chosen_dtype("auto", torch.device("cpu")) is not None:
        names |= {"Marian" + BFLOAT16: 1, RANKS + BFLOAT16: 2}
    for size in ("tiny", "tutorial"):
        systems = {name: System(name, size, options.text, options.budget, n) for name, n in names.items()}
        best = dict.fromkeys(names, 0.0)
        for _ in range(options.rounds):
            for name, system in systems.items():
                best[name] = max(best[name], system.round())
        for system in systems.values():
            system.close()
        peer = max(rate for name, rate in best.items() if not name.startswith("ours"))
        for name, rate in best.items():
            print(f"{size:<9} {name:<38} {rate:>8,.0f}   {rate / peer:.2f} x the fastest peer")


if __name__ == "__main__":
    main()
