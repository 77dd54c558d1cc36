"""Build hook: compiles the C engine for several instruction sets when a wheel or an editable install is built.

The compiler is the one in CC, or else cc, gcc or clang. A cross compiler makes a wheel for its own target. Without a
compiler the wheel has no libraries, and a line says so.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
MAX_COMPILE_SECONDS = 600


def _load_instruction_sets() -> Any:
    """The module, without the package, which needs its dependencies."""
    path = ROOT / "src/glassformer/engine/instruction_sets.py"
    spec = importlib.util.spec_from_file_location("instruction_sets", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sets = _load_instruction_sets()


class Target(NamedTuple):
    """What a compiler compiles for."""

    machine: str
    platform: str
    """As in `sys.platform`."""
    musl: bool = False


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the libraries to a wheel and sets its tag; an editable install gets them beside the sources."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        compiler = find_compiler()
        target = target_of(compiler) if compiler else None
        if target is None:
            self.app.display_warning(
                "No C compiler (CC, cc, gcc, clang): the C engine is not built, and is compiled at its first use."
            )
            return
        if version == "editable":
            build(compiler, target, sets.BUILT)
            return
        self._temporary = tempfile.TemporaryDirectory()
        libraries = build(compiler, target, Path(self._temporary.name))
        if libraries:
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform_tag(target, libraries)}"
            directory = sets.BUILT.relative_to(ROOT / "src").as_posix()
            build_data["force_include"] |= {str(path): f"{directory}/{path.name}" for path in libraries}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_temporary"):
            self._temporary.cleanup()


def find_compiler() -> list[str]:
    """The compiler's command; empty if there is none."""
    commands = [os.environ["CC"]] if "CC" in os.environ else ["cc", "gcc", "clang"]
    return next((words for words in map(shlex.split, commands) if words and shutil.which(words[0])), [])


def target_of(compiler: list[str]) -> Target | None:
    """What the compiler compiles for; None if the C code does not support it."""
    done = subprocess.run([*compiler, "-dumpmachine"], capture_output=True, text=True, check=False)
    triple = done.stdout.strip().lower()
    machine = triple.partition("-")[0]
    platform = next((name for word, name in PLATFORMS.items() if word in triple), None)
    if done.returncode or platform is None or not sets.instruction_sets(machine):
        say(f"{compiler[0]} compiles for {triple or 'nothing known'}: the C engine is not built for that.")
        return None
    return Target(sets.MACHINES.get(machine, machine), platform, "musl" in triple)


PLATFORMS = {"linux": "linux", "darwin": "darwin", "mingw": "win32", "windows-gnu": "win32"}
"""Part of a compiler's target -> `sys.platform`."""


def build(compiler: list[str], target: Target, directory: Path) -> list[Path]:
    """Compile the libraries that are not there yet, all at once; returns their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    wanted = sets.instruction_sets(target.machine)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        libraries = list(pool.map(lambda each: _library(compiler, target, each, directory), wanted))
    if libraries[-1] is None:  # the baseline, which says what the processor runs
        return []
    kept = [path for path in libraries if path is not None]
    for path in directory.glob(f"*{sets.library_suffix(target.platform)}"):
        if path not in kept:
            path.unlink()
    return kept


def _library(compiler: list[str], target: Target, instruction_set: Any, directory: Path) -> Path | None:
    """The library of an instruction set, compiled if it is not there; None, and a line says why, if it cannot be."""
    known: Path | None = sets.built_library(instruction_set, directory, target.platform)
    if known is not None:
        return known
    suffix = sets.library_suffix(target.platform)
    temporary = directory / f"{instruction_set.name}-{os.getpid()}.new"
    command = [*compiler, *sets.compile_command(instruction_set.flags, temporary, target.platform)]
    command += [] if target.platform == "darwin" else ["-s"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=MAX_COMPILE_SECONDS)
        name = f"{sets.built_prefix(instruction_set)}{sets.file_digest(temporary)}{suffix}"
        return temporary.replace(directory / name)
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        say(f"The C engine is not built for {instruction_set.name}: {reason[0] if reason else compiler[0]}")
        return None
    finally:
        temporary.unlink(missing_ok=True)


def platform_tag(target: Target, libraries: list[Path]) -> str:
    """The platforms on which the libraries run."""
    if target.platform == "win32":
        return {"x86_64": "win_amd64", "aarch64": "win_arm64"}[target.machine]
    if target.platform == "darwin":
        return {"x86_64": "macosx_11_0_x86_64", "aarch64": "macosx_11_0_arm64"}[target.machine]
    if target.musl:
        return f"musllinux_1_2_{target.machine}"
    major, minor = max(map(needed_glibc, libraries))
    return f"manylinux_{major}_{minor}_{target.machine}"


def needed_glibc(library: Path) -> tuple[int, int]:
    """The oldest glibc that has every symbol of a library: the largest version among the names that its symbols carry.

    The names are strings of their own in the library's string table (`.dynstr`).
    """
    contents = library.read_bytes()
    versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)", contents)
    if b"\0GLIBC_ABI_DT_RELR\0" in contents:  # packed relocations
        versions.append((b"2", b"36"))
    if not versions:
        raise RuntimeError(f"{library.name} names no version of glibc: it was not linked as a library of this system.")
    return max((int(major), int(minor)) for major, minor in versions)


def say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":  # the libraries of an editable install, after a change of the C code
    command = find_compiler()
    build_for = target_of(command) if command else None
    if build_for is None or not build(command, build_for, sets.BUILT):
        sys.exit("The C engine was not built.")
