"""Time and memory to load a model of 50 million parameters, compared with `transformers`, in turn.

Each load runs in its own process. Memory is the growth of the process while it loads the model and runs one sentence
(so that every weight is touched), relative to the size of the weights. Limits: 1.5 times that size, and no more time
than `transformers` takes.

    python benchmarks/loading.py
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
ROUNDS = 5
SENTENCE = [5, 6, 7, 8, 2]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        size = _write(Path(folder))
        results: dict[str, list[tuple[float, float]]] = {}
        for _ in range(ROUNDS):
            for loader in ("transformers", "glassformer, their format", "glassformer, own format"):
                done = subprocess.run(
                    [sys.executable, __file__, loader, folder], check=True, capture_output=True, text=True
                )
                results.setdefault(loader, []).append(tuple(json.loads(done.stdout.splitlines()[-1])))
    print(f"A model of {size / 1e6:.0f} MB, loaded {ROUNDS} times by each in turn; the best of each:")
    fastest = min(seconds for seconds, _ in results["transformers"])
    for loader, runs in results.items():
        seconds, memory = min(run[0] for run in runs), min(run[1] for run in runs)
        print(
            f"  {loader:26s} {seconds:5.2f} s ({seconds / fastest:4.2f} x transformers)   "
            f"{memory / size:4.2f} x model size"
        )


def _write(folder: Path) -> int:
    from glassformer.interop.hugging_face import write_hugging_face
    from glassformer.model import Transformer, preset, save_model

    config = preset("paper-base", vocab_size=16000, positions="sinusoidal-halves", activation="silu")
    model = Transformer(config)
    (folder / "theirs").mkdir()
    write_hugging_face(model, None, folder / "theirs")
    save_model(model, folder / "ours")
    return model.n_parameters * 4


def _open(loader: str, folder: Path) -> tuple[float, float]:
    import gc
    import time

    import torch

    if loader == "transformers":
        from transformers import MarianMTModel as Theirs
    else:
        from glassformer.interop.format_detection import open_imported
        from glassformer.model import load_model
    source = torch.tensor([SENTENCE])
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak, which includes the imports
    before = _memory("VmRSS")
    start = time.perf_counter()
    if loader == "transformers":
        theirs = Theirs.from_pretrained(folder / "theirs").eval()
    else:
        ours = load_model(folder / "ours") if loader.endswith("own format") else open_imported(folder / "theirs").model
    seconds = time.perf_counter() - start
    with torch.no_grad():
        theirs(input_ids=source, decoder_input_ids=source) if loader == "transformers" else ours(source, source)
    return seconds, _memory("VmHWM") - before


def _memory(kind: str) -> float:
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{kind}:")]
    return float(line.split()[1]) * 1024


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(_open(sys.argv[1], Path(sys.argv[2]))))
    else:
        main()
