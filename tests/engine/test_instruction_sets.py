"""Libraries of the C engine that are built with a wheel: the choice among them, and those that are not used."""

import os
import platform
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest

from glassformer.engine import (
    EngineOptions,
    describe_engine,
    fast_precisions,
    instruction_sets,
    native_library,
    open_engine,
)
from glassformer.engine.engine_options import PRECISIONS
from glassformer.engine.instruction_sets import built_library, file_digest
from glassformer.errors import InputError
from tests.engine.test_native_library import emptied, flipped, needs_compiler, truncated
from tests.examples import only_in_test_all
from tests.processes import ROOT
from tests.small_translator import model

hatch_build = pytest.importorskip("hatch_build", reason="hatchling is not installed")
load = native_library.loaded.__wrapped__
KNOWN = instruction_sets.instruction_sets(platform.machine())
QUICK = ("-std=gnu11", "-O0", "-shared", "-fPIC")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """All libraries for this machine, compiled quickly."""
    directory = tmp_path_factory.mktemp("libraries")
    compiler = hatch_build.find_compiler()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hatch_build.sets, "FLAGS", QUICK)
        assert len(hatch_build.build(compiler, hatch_build.target_of(compiler), directory)) == len(KNOWN)
    return directory


@pytest.fixture
def built(compiled, tmp_path, monkeypatch):
    """A copy of them, in use; and no compiler."""
    monkeypatch.setattr(instruction_sets, "FLAGS", QUICK)
    monkeypatch.setattr(instruction_sets, "BUILT", Path(shutil.copytree(compiled, tmp_path / "libraries")))
    monkeypatch.delenv(native_library.ISA_VARIABLE, raising=False)
    monkeypatch.setenv(native_library.COMPILER_VARIABLE, "")
    return tmp_path / "libraries"


def runnable():
    return [each.name for each, _ in native_library.runnable()]


def path_of(name):
    [known] = [each for each in KNOWN if each.name == name]
    return built_library(known)


@needs_compiler
def test_the_best_library_is_chosen_and_any_can_be_pinned(built, monkeypatch):
    names = runnable()
    assert names[-1] == KNOWN[-1].name  # the baseline
    chosen = load()
    assert (chosen.instruction_set, chosen.digest) == (names[0], file_digest(path_of(names[0])))
    for name in names:
        monkeypatch.setenv(native_library.ISA_VARIABLE, name)
        pinned = load()
        assert (pinned.instruction_set, pinned.functions._name) == (name, str(path_of(name)))
    monkeypatch.delenv(native_library.ISA_VARIABLE)
    for name, following in pairwise(names):
        path_of(name).unlink()
        assert load().instruction_set == following


@needs_compiler
@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="only Linux lists the processor's features")
def test_the_processor_is_asked_for_what_the_compiler_may_use(built):
    """`runs` of native/processor.h and the compiler's options name the same features."""
    features = set(Path("/proc/cpuinfo").read_text().replace("bmi1", "bmi").split())
    listed = {feature.replace("avx512_", "avx512") for feature in features}
    expected = [each.name for each in KNOWN if {flag.removeprefix("-m") for flag in each.flags} <= listed]
    assert runnable() == expected


@needs_compiler
def test_a_name_that_cannot_be_pinned_is_refused(built, monkeypatch, capfd):
    monkeypatch.setenv(native_library.ISA_VARIABLE, "avx3")
    names = ", ".join(each.name for each in KNOWN)
    with pytest.raises(
        InputError, match=f"avx3, but the installed libraries are {names}, and this processor runs .*native"
    ):
        load()
    best = runnable()[0]
    baseline = (KNOWN[-1], path_of(KNOWN[-1].name))
    monkeypatch.setattr(native_library, "runnable", lambda: [baseline])  # an older processor
    if best != KNOWN[-1].name:
        monkeypatch.setenv(native_library.ISA_VARIABLE, best)
        with pytest.raises(InputError, match=f"this processor runs {KNOWN[-1].name}: set it"):
            load()
    shutil.rmtree(built)
    with pytest.raises(InputError, match="there is no library of the installed C sources"):
        load()
    assert capfd.readouterr().err == ""


@needs_compiler
def test_edited_sources_are_compiled_and_not_an_old_library(built, tmp_path, monkeypatch):
    monkeypatch.setattr(
        instruction_sets, "SOURCES", Path(shutil.copytree(instruction_sets.SOURCES, tmp_path / "native"))
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(native_library.COMPILER_VARIABLE)
    assert load().instruction_set == runnable()[0]  # the same sources elsewhere
    with (tmp_path / "native/transformer.c").open("a") as source:
        source.write("/* edited */\n")
    assert runnable() == []
    assert load().instruction_set == "native"
    monkeypatch.setenv(native_library.ISA_VARIABLE, KNOWN[-1].name)
    with pytest.raises(InputError, match=f"GLASSFORMER_ISA is {KNOWN[-1].name}, but there is no library"):
        load()


@needs_compiler
@pytest.mark.parametrize("damage", [truncated, emptied, flipped])
def test_a_damaged_library_is_not_loaded(built, damage, capfd):
    """Loading one that was cut off would kill the process."""
    names = runnable()
    for name, following in zip(names, [*names[1:], None], strict=True):
        path = path_of(name)
        copy = shutil.copy(path, built / "damaged")  # this process has loaded the original
        damage(Path(copy))
        os.replace(copy, path)
        loaded = load()
        assert (loaded and loaded.instruction_set) == following
    [line] = capfd.readouterr().err.splitlines()
    assert "GLASSFORMER_COMPILER is empty" in line


@needs_compiler
def test_native_compiles_for_this_processor(built, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(native_library.ISA_VARIABLE, "native")
    monkeypatch.delenv(native_library.COMPILER_VARIABLE)
    loaded = load()
    assert loaded.instruction_set == "native"
    assert loaded.functions._name.startswith(str(tmp_path / "glassformer"))
    assert loaded.digest in loaded.functions._name


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_engine_in_use_is_described(precision):
    plain = open_engine([model(3)], EngineOptions(engine="plain", precision=precision))
    described = describe_engine(plain)
    assert (described.engine, described.precision, described.digest) == ("plain", precision, None)
    if precision not in fast_precisions():
        return  # refused: see test_bfloat16
    fast = describe_engine(open_engine([model(3), model(3)], EngineOptions(precision=precision)))
    native = native_library.loaded()
    if native is not None:
        expected = ("fast", precision, native.instruction_set, native.digest)
        assert (fast.engine, fast.precision, fast.instruction_set, fast.digest) == expected


def test_the_tag_is_the_newest_glibc_that_a_symbol_needs(tmp_path):
    objdump = shutil.which("objdump")
    if objdump is None or sys.platform != "linux":
        pytest.skip("there is no objdump here")
    for library in [*Path(native_library.loaded().functions._name).parent.glob("*.so"), Path(sys.executable)]:
        symbols = subprocess.run([objdump, "-T", library], capture_output=True, text=True, check=True).stdout
        versions = re.findall(r"\(?GLIBC_(\d+)\.(\d+)", symbols)
        if versions:
            assert hatch_build.needed_glibc(library) == max((int(major), int(minor)) for major, minor in versions)


@only_in_test_all
@pytest.mark.parametrize(
    ("compiler", "magic", "tag"),
    [
        ("aarch64-linux-gnu-gcc", b"\x7fELF", r"manylinux_2_(1[789]|[2-9]\d)_aarch64"),
        ("x86_64-w64-mingw32-gcc", b"MZ", "win_amd64"),
    ],
)
def test_cross_compilers_build_for_their_target(compiler, magic, tag, tmp_path, monkeypatch):
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler} on this machine")
    monkeypatch.setenv("CC", compiler)
    monkeypatch.setattr(hatch_build.sets, "FLAGS", ("-std=gnu11", "-O1", "-shared", "-fPIC"))
    target = hatch_build.target_of(hatch_build.find_compiler())
    libraries = hatch_build.build([compiler], target, tmp_path)
    assert len(libraries) == len(instruction_sets.instruction_sets(target.machine))
    assert all(path.read_bytes().startswith(magic) for path in libraries)
    assert re.fullmatch(tag, hatch_build.platform_tag(target, libraries))


def build_wheel(directory, **env):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | env, capture_output=True, text=True, check=True)
    [wheel] = directory.glob("*.whl")
    return wheel, done.stdout + done.stderr


def test_without_a_compiler_the_wheel_is_pure(tmp_path):
    wheel, said = build_wheel(tmp_path, CC="")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "No C compiler" in said
    assert not any("engine/libraries/" in name for name in zipfile.ZipFile(wheel).namelist())


@only_in_test_all  # half a minute of compiling
@needs_compiler
def test_the_wheel_runs_in_an_empty_environment_without_a_compiler(tmp_path):
    """Only the wheel is installed; what it depends on is found in this environment."""
    wheel, _ = build_wheel(tmp_path)
    assert re.search(r"-py3-none-(manylinux|musllinux|macosx|win)_\w+\.whl$", wheel.name)
    libraries = [entry for entry in zipfile.ZipFile(wheel).infolist() if "engine/libraries/" in entry.filename]
    assert len(libraries) == len(KNOWN)
    assert sum(entry.file_size for entry in libraries) < 2**20
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    [site] = tmp_path.glob("venv/**/site-packages")
    options = ["--quiet", "--no-deps", "--no-index", "--no-compile", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, wheel], check=True)
    import numpy

    (site / "dependencies.pth").write_text(f"{Path(numpy.__file__).parents[1]}\n")  # after the wheel's own place
    code = """
        import glassformer
        from glassformer.engine.native_library import loaded
        assert glassformer.load("street")("The dog was too tired.").startswith("Der Hund")
        print(loaded().functions._name)
    """
    env = {"PATH": str(tmp_path / "venv/bin"), "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [tmp_path / "venv/bin/python", "-I", "-c", "\n".join(map(str.strip, code.splitlines()))]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(str(site))
    assert not (tmp_path / ".cache/glassformer").exists()
