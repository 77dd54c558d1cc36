"""Coverage-guided fuzzing of the C engine with libFuzzer: `python -m tests.native.fuzz_engine DIRECTORY [options]`.

The options are libFuzzer's, such as -max_total_time=60. New inputs are added to the directory; an input that fails is
written beside it. `... fuzz_engine pack DIRECTORY` keeps the smallest inputs that together reach the same code, and
`... fuzz_engine coverage` prints the share of the engine's lines that the kept inputs execute.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from glassformer.engine.instruction_sets import SOURCES
from tests.native.programs import FUZZING, INSTRUCTION_SETS, KEPT_INPUTS, compile_program

MAX_INPUTS, MAX_INPUT_BYTES, RANDOM_INPUTS = 600, 400, 50
MARCH = INSTRUCTION_SETS["haswell"][0]  # clang takes minutes to compile for AVX-512 with coverage


def fuzz(program: Path, directory: Path, options: list[str]) -> int:
    directory.mkdir(parents=True, exist_ok=True)
    for number, line in enumerate(KEPT_INPUTS.read_text().split()):
        (directory / f"kept-{number}").write_bytes(bytes.fromhex(line))
    for number in range(RANDOM_INPUTS):  # long ones, which mutation alone would reach late
        (directory / f"random-{number}").write_bytes(random.Random(number).randbytes(MAX_INPUT_BYTES))
    limits = [f"-max_len={MAX_INPUT_BYTES}", "-len_control=0", "-timeout=60", "-rss_limit_mb=4096"]
    command = [program, *limits, f"-artifact_prefix={directory}-", *options, directory]
    return subprocess.run(command, check=False).returncode


def pack(program: Path, directory: Path) -> None:
    with tempfile.TemporaryDirectory() as merged:
        subprocess.run([program, "-merge=1", f"-max_len={MAX_INPUT_BYTES}", merged, directory], check=True)
        inputs = sorted((path.read_bytes() for path in Path(merged).iterdir()), key=lambda data: (len(data), data))
    KEPT_INPUTS.write_text("".join(f"{data.hex()}\n" for data in inputs[:MAX_INPUTS] if data))


def print_coverage(directory: Path) -> None:
    flags = ("-O1", MARCH, "-fprofile-instr-generate", "-fcoverage-mapping")
    program, profile = compile_program(directory / "coverage", "clang", *flags), directory / "profile"
    environment = os.environ | {"LLVM_PROFILE_FILE": f"{profile}.raw"}
    subprocess.run([program, "replay"], input=KEPT_INPUTS.read_bytes(), env=environment, check=True)
    subprocess.run(["llvm-profdata", "merge", f"{profile}.raw", "-o", profile], check=True)
    subprocess.run(["llvm-cov", "report", program, f"-instr-profile={profile}", *SOURCES.iterdir()], check=True)


def main() -> None:
    if not shutil.which("clang"):
        sys.stdout.write("The C engine is not fuzzed: there is no clang (Debian: clang, libclang-rt-dev).\n")
        return
    with tempfile.TemporaryDirectory() as temporary:
        if sys.argv[1] == "coverage":
            print_coverage(Path(temporary))
            return
        program = compile_program(Path(temporary) / "fuzz", "clang", MARCH, *FUZZING)
        if sys.argv[1] == "pack":
            pack(program, Path(sys.argv[2]))
        else:
            sys.exit(fuzz(program, Path(sys.argv[1]), sys.argv[2:]))


if __name__ == "__main__":
    main()
