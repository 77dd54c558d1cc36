"""Cold start: wall time and peak memory of a fresh process that translates one sentence, in turns, best of the rounds.

python benchmarks/cold_start.py [--rounds 15]

`glassformer translate street TEXT` beside the shortest script that does the same with CTranslate2, given token ids, and
beside `import torch` alone.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from glassformer.benchmark.cold_start import REPORT_MEMORY, cold_start_command, measure_cold_starts
from glassformer.loading import open_model
from timing import machine_description

TEXT = "The animal didn't cross the street because it was too wide."


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    opened = open_model("street")
    source = opened.text_tokenizer.encode(TEXT, "source")
    with tempfile.TemporaryDirectory() as files:
        commands = {"import torch": [sys.executable, "-c", REPORT_MEMORY + "import torch"]}
        for name in ("glassformer float32", "ctranslate2 float32"):
            command = cold_start_command(name, "street", TEXT, source, opened.weights, Path(files))
            assert command is not None
            commands[name] = command
        starts, failures = measure_cold_starts(commands, rounds)
    print(machine_description())
    ours = starts["glassformer float32"].seconds
    for name, start in starts.items():
        print(
            f"{name:20} {start.seconds:6.3f} s  {start.memory / 2**20:5.0f} MB  ours / this: {ours / start.seconds:.2f}"
        )
    print("\n".join(failures))


if __name__ == "__main__":
    main()
