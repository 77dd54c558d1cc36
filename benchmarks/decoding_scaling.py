"""How time and memory of decoding scale: with target length, with the limit of positions, with the length of a stream.

1. Time per sentence for targets of 512 and 256 tokens: keys and values are cached, so twice the tokens should take
   about twice the time.
2. Peak memory of a process that translates many sentences, for different limits of positions in the KV cache.
3. Peak memory of `glassformer translate` on 100,000 and 1,000,000 lines: it must not grow with the number of lines.

    python benchmarks/decoding_scaling.py             everything (about ten minutes on two cores)
    python benchmarks/decoding_scaling.py --lines 10000 100000
"""

import argparse
import ctypes
import itertools
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from glassformer import ModelConfig, Transformer
from glassformer.builtin import street
from glassformer.decoding import BatchLimits, Beam, Request, search
from glassformer.engine import EngineOptions, open_step_model
from glassformer.hardware import peak_memory
from timing import interleaved, machine_description

SHAPES: dict[str, dict[str, Any]] = {
    "base": {},
    "tiny": {"d_model": 128, "n_heads": 4, "d_ff": 256, "encoder_layers": 4, "decoder_layers": 4},
}


def endless(shape: str) -> Transformer:
    """A random model that never generates the end of sentence by itself."""
    torch.manual_seed(0)
    model = Transformer(ModelConfig(vocab_size=8000, output_bias=True, **SHAPES[shape])).eval()
    with torch.no_grad():
        model.output_projection.bias[2] = -30
    return model


def lengths(rounds: int) -> None:
    print("\nSeconds per sentence for targets of 256 and of 512 tokens, and their ratio")
    for shape, beam, batch in itertools.product(SHAPES, (1, 4), (1, 4)):
        step_model = open_step_model(endless(shape), EngineOptions())
        requests = [Request([*range(10, 40), 2])] * 8
        runs = {
            str(extra): partial(
                search,
                step_model,
                requests,
                Beam(size=beam, max_length_ratio=0, max_length_extra=extra, length_penalty=0.0),
                BatchLimits(sentences=batch, workers=2),
            )
            for extra in (256, 512)
        }
        best = interleaved(runs, rounds)
        short, long = best["256"] / 8, best["512"] / 8
        print(
            f"{shape:5} beam {beam}, batch size {batch}: {short:.3f} s, {long:.3f} s: {long / short:.2f}x", flush=True
        )


def _measure_memory(positions: int, results: Any) -> None:
    torch.set_num_threads(1)
    model = endless("base")
    step_model = open_step_model(model, EngineOptions())
    search(step_model, [Request([5, 2])], Beam(max_length_ratio=0, max_length_extra=5))
    ctypes.CDLL(None).malloc_trim(0)  # memory freed after packing the weights would hide the first 250 MB
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = peak_memory()
    requests = [Request([*range(10, 40), 2])] * 200
    search(
        step_model,
        requests,
        Beam(size=4, max_length_ratio=0, max_length_extra=40, length_penalty=0.0),
        BatchLimits(positions),
    )
    config = model.config
    allowed = positions * config.decoder_layers * 2 * config.d_model * 4
    results.put((before, peak_memory(), allowed))


def budgets() -> None:
    print(
        "\nMemory under a limit of positions: base, 200 sentences of 31 source and 40 target tokens, beam 4, one worker"
    )
    context = multiprocessing.get_context("spawn")
    for positions in (1_000, 4_000, 16_000):
        results = context.Queue()
        process = context.Process(target=_measure_memory, args=(positions, results))
        process.start()
        before, after, allowed = results.get()
        process.join()
        print(
            f"{positions:6,} positions: the KV cache may take {allowed / 2**20:,.0f} MB; "
            f"the process grew by {(after - before) / 2**20:,.0f} MB",
            flush=True,
        )


def _lines(count: int) -> Iterator[bytes]:
    """Sentences of street, repeated, each with a number so that all lines differ."""
    sentences = [pair.source for pair in street.sentences("test", 5000)]
    for number, sentence in enumerate(itertools.islice(itertools.cycle(sentences), count)):
        yield f"{sentence} {number}\n".encode()


def stream(counts: list[int]) -> None:
    print("\nLines through `glassformer translate street --beam 1 --precision int8`: peak memory, lines per second")
    command = [str(Path(sys.executable).with_name("glassformer")), "translate", "street", "-"]
    for count in counts:
        start = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--beam", "1", "--precision", "int8"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin
        assert process.stdout
        feeder = multiprocessing.get_context("fork").Process(target=_feed, args=(process.stdin, count))
        feeder.start()
        process.stdin.close()
        peak = written = 0
        for written, _ in enumerate(process.stdout, start=1):
            if written % 10_000 == 0 or written == count:
                status = Path(f"/proc/{process.pid}/status").read_text().split()
                peak = max(peak, int(status[status.index("VmHWM:") + 1]))
        process.wait()
        feeder.join()
        seconds = time.perf_counter() - start
        print(f"{count:9,} in, {written:9,} out: {peak / 1024:,.0f} MB, {count / seconds:,.0f} lines/s", flush=True)


def _feed(stream: Any, count: int) -> None:
    for line in _lines(count):
        stream.write(line)
    stream.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="Rounds of the first part; the best counts.")
    parser.add_argument(
        "--lines",
        type=int,
        nargs="*",
        default=[100_000, 1_000_000],
        metavar="N",
        help="Lines to translate in the third part.",
    )
    options = parser.parse_args()
    print(machine_description())
    lengths(options.rounds)
    budgets()
    stream(options.lines)


if __name__ == "__main__":
    main()
