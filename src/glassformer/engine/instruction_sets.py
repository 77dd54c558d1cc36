"""Instruction sets for which the C engine is compiled when a wheel is built, and the names of the libraries.

`hatch_build.py` loads this file before the package and what it depends on are installed: standard library only.
"""

import hashlib
import sys
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).parent / "native"
BUILT = Path(__file__).parent / "libraries"
"""Libraries compiled when the wheel or editable install was built."""
FLAGS = ("-std=gnu11", "-O3", "-shared", "-fPIC")
PLATFORM_FLAGS = {
    "darwin": ("-mmacosx-version-min=11.0",),
    # gcc does not align the stack to the width of vectors on Windows, where the assembler must allow for it.
    "win32": ("-static-libgcc", "-Wa,-muse-unaligned-vector-move"),
}
SUFFIXES = {"darwin": ".dylib", "win32": ".dll"}
NATIVE = "native"
"""The name for "compiled for exactly this processor"."""


class InstructionSet(NamedTuple):
    """An instruction set: its name, the compiler's options, and the processors it is for."""

    name: str
    flags: tuple[str, ...]
    machine: str


_AVX2 = ("-mavx2", "-mfma", "-mbmi", "-mbmi2", "-mf16c")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512cd", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni")
INSTRUCTION_SETS = (
    InstructionSet("avx512-bf16", (*_AVX512, "-mavx512bf16"), "x86_64"),
    InstructionSet("avx512", _AVX512, "x86_64"),
    InstructionSet("avx2", _AVX2, "x86_64"),
    InstructionSet("x86-64", (), "x86_64"),
    InstructionSet("neon", (), "aarch64"),
)
"""Fastest first; the last of a machine is its baseline, which every processor runs. `runs` in native/processor.h asks
for the same features."""
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Other names of the same machines."""


def instruction_sets(machine: str) -> list[InstructionSet]:
    """The instruction sets of a machine, fastest first."""
    machine = MACHINES.get(machine.lower(), machine.lower())
    return [each for each in INSTRUCTION_SETS if each.machine == machine]


def compile_command(flags: tuple[str, ...], output: Path, platform: str | None = None) -> list[str]:
    """Arguments of the compiler that make the library; `platform` as in `sys.platform`, this one by default."""
    return [
        *FLAGS,
        *PLATFORM_FLAGS.get(platform or sys.platform, ()),
        *flags,
        "-o",
        str(output),
        str(SOURCES / "transformer.c"),
        "-lm",
    ]


def sources_digest(*more: object) -> str:
    """Digest of the C sources, the compiler's options and what else a library depends on."""
    digest = hashlib.blake2b(repr((FLAGS, *more)).encode(), digest_size=12)
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=12).hexdigest()


def library_suffix(platform: str | None = None) -> str:
    return SUFFIXES.get(platform or sys.platform, ".so")


def built_prefix(instruction_set: InstructionSet) -> str:
    """Beginning of a built library's name: its instruction set and its sources. The digest of its contents follows.

    A library whose sources were edited after it was built has another name, and is not used.
    """
    return f"{instruction_set.name}-{sources_digest(instruction_set.flags)}-"


def built_library(
    instruction_set: InstructionSet, directory: Path | None = None, platform: str | None = None
) -> Path | None:
    """The undamaged library of an instruction set, built from the sources that are here; None if there is none."""
    prefix = built_prefix(instruction_set)
    for path in sorted((directory or BUILT).glob(f"{prefix}*{library_suffix(platform)}")):
        if path.stem == prefix + file_digest(path):
            return path
    return None
