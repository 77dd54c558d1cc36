"""Time and file size of a trace: a sentence of 30 tokens through paper-base.

    python benchmarks/tracing.py [PRESET] [TOKENS]

Weights are random, so the target length is fixed by the search settings: as long as the source.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from glassformer.decoding import Beam, Request
from glassformer.decoding.search_tree import search_tree
from glassformer.engine.torch_step_model import PlainStepModel
from glassformer.inspection.tracing.trace_builder import trace
from glassformer.inspection.tracing.trace_file import DETAILS
from glassformer.model import Transformer, preset
from timing import interleaved


def main(name: str = "paper-base", length: str = "30") -> None:
    tokens = int(length)
    torch.manual_seed(1)
    model = Transformer(preset(name)).eval()
    source, target = (torch.randint(4, 1000, (tokens,)).tolist() for _ in range(2))
    request = Request(source)
    print(f"{name}, {model.n_parameters:,} parameters, {tokens} tokens, {torch.get_num_threads()} threads")
    greedy, wide = (
        Beam(size=size, max_length_ratio=0.0, max_length_extra=tokens, min_length_ratio=(tokens - 1) / tokens)
        for size in (1, 4)
    )
    functions: dict[str, Callable[[], object]] = {
        "trace of a given target": lambda: trace(model, request, target),
        "beam 1: search": lambda: search_tree(PlainStepModel(model), request, greedy),
        "beam 1: search and trace": lambda: trace(model, request, search=greedy),
        "beam 4: search": lambda: search_tree(PlainStepModel(model), request, wide),
        "beam 4: search and trace": lambda: trace(model, request, search=wide),
    }
    for task, seconds in interleaved(functions, 3).items():
        print(f"{task:32} {seconds:6.2f} s")
    traced = trace(model, request, search=wide)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.safetensors"
        for detail in DETAILS:
            for half in (False, True):
                began = time.perf_counter()
                traced.save(path, detail, half)
                seconds = time.perf_counter() - began
                dtype = "float16" if half else "float32"
                print(f"saved, {detail:10} {dtype}  {path.stat().st_size:12,} bytes in {seconds:.2f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
