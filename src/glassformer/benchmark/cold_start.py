"""Cold start: the time and memory that a fresh process takes to translate one sentence.

Glassformer is measured as its command line, CTranslate2 as the shortest script that opens an exported model.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from glassformer.benchmark.systems import SHORTLIST
from glassformer.errors import InputError
from glassformer.model import ModelWeights

REPORT_MEMORY = """
import atexit, sys
def report():
    from glassformer.hardware import peak_memory
    print(peak_memory(), file=sys.stderr)
atexit.register(report)
"""
"""The last line on stderr is the peak memory of the process."""
GLASSFORMER = REPORT_MEMORY + "from glassformer.cli import main\nmain()"
CTRANSLATE2 = REPORT_MEMORY + (
    "import ctranslate2, sentencepiece\n"
    "translator = ctranslate2.Translator(sys.argv[1], compute_type=sys.argv[2])\n"
    "print(translator.translate_batch([sys.argv[3:]]))"
)


@dataclass(frozen=True)
class ColdStart:
    """Cold start of one system."""

    seconds: float
    """Wall time from the start of the process to its end."""
    memory: int
    """Peak memory of the process, in bytes."""


def cold_start_command(
    name: str, where: str | os.PathLike[str], text: str, source: Sequence[int], model: ModelWeights, files: Path
) -> list[str] | None:
    """The command that translates a sentence with a benchmark system; None for a system that has none.

    The sentence is given as text and as token ids. CTranslate2's model is exported into `files`.
    """
    kind, _, precision = name.partition(" ")
    if kind == "glassformer":
        restricts, precision = precision.endswith(SHORTLIST), precision.removesuffix(SHORTLIST)
        options = ["--engine", "plain"] if precision == "plain" else ["--precision", precision]
        options.append("--shortlist" if restricts else "--no-shortlist")
        return [sys.executable, "-c", GLASSFORMER, "translate", *options, "--", str(where), text]
    if kind == "ctranslate2":
        from glassformer.interop.ctranslate2_export import write_ctranslate2  # imports torch

        directory = files / precision
        directory.mkdir()
        write_ctranslate2(model.network, directory, quantization=None if precision == "float32" else precision)
        return [sys.executable, "-c", CTRANSLATE2, str(directory), precision, *map(str, source)]
    return None


def measure_cold_starts(
    commands: Mapping[str, Sequence[str]], rounds: int, on_turn: Callable[[], None] = lambda: None
) -> tuple[dict[str, ColdStart], list[str]]:
    """The fastest of `rounds` cold starts of each system, which take turns, after one that is not measured.

    Returns them, and for each system that failed a sentence that says why.
    """
    fastest: dict[str, ColdStart] = {}
    failures: dict[str, str] = {}
    for number in range(rounds + 1):
        for name, command in commands.items():
            if name not in failures:
                try:
                    start = _cold_start(command)
                except InputError as error:
                    failures[name] = f"{name} did not translate a sentence in a fresh process: {error}"
                    fastest.pop(name, None)
                    continue
                if number and (name not in fastest or start.seconds < fastest[name].seconds):
                    fastest[name] = start
            on_turn()
    return fastest, list(failures.values())


def _cold_start(command: Sequence[str]) -> ColdStart:
    began = time.perf_counter()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    lines = done.stderr.split("\n")
    if done.returncode:
        raise InputError(" ".join(lines[:-2][-1:]) or "no message")
    return ColdStart(seconds, int(lines[-2]))
