"""random_models.c, compiled for a processor and with sanitizers, and the inputs that fuzzing found."""

import fcntl
import os
import platform
import shutil
import subprocess
from pathlib import Path

from glassformer.engine.instruction_sets import SOURCES

HERE = Path(__file__).parent
KEPT_INPUTS = HERE / "kept_inputs.txt"
"""One per line, in hexadecimal; see `fuzz_engine.py`."""
WARNINGS = ("-Wall", "-Wextra", "-Werror")
ADDRESS = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")
THREAD = ("-O1", "-fsanitize=thread")
TRAPPING = ("-O2", "-static", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error")
# All of `undefined` in every vector operation would take clang minutes; gcc checks it on the same inputs.
CHECKED = "address,signed-integer-overflow,shift,bounds,integer-divide-by-zero"
FUZZING = ("-O1", "-DFUZZ", "-Wno-unused-function", f"-fsanitize=fuzzer,{CHECKED}", "-fno-sanitize-recover=all")
NATIVE = "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"
INSTRUCTION_SETS = {"native": (NATIVE, ""), "haswell": ("-march=haswell", "avx2"), "x86-64": ("-march=x86-64", "sse2")}
"""Options of the compiler, and what the processor must have."""


def missing_feature(instruction_set: str) -> bool:
    """Whether this processor cannot run programs for an instruction set."""
    feature = INSTRUCTION_SETS[instruction_set][1]
    return bool(feature) and feature not in Path("/proc/cpuinfo").read_text().split()


def compile_program(path: Path, compiler: str, *flags: str) -> Path:
    """Compile random_models.c unless another process has; returns its path."""
    wrappers = ("-include", str(HERE / "failing_allocations.h"), f"-I{SOURCES}")
    command = [compiler, "-std=gnu11", "-g", *WARNINGS, *flags, *wrappers, str(HERE / "random_models.c")]
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            subprocess.run([*command, "-o", str(path), "-lm", "-lpthread"], check=True)
    return path


def run_program(*command: str | Path, stdin: str = "") -> str:
    """What a program prints; an AssertionError with the sanitizer's report if it fails."""
    options = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, env=os.environ | options, check=False)
    assert done.returncode == 0, f"{command}: status {done.returncode}\n{done.stderr[-5000:]}"
    assert done.stderr == "", done.stderr[-5000:]
    return done.stdout


def cross_tools() -> tuple[str | None, str | None]:
    """The compiler for AArch64 and the emulator that runs its programs."""
    return shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
