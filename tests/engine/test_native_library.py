"""The compiled library in the user's cache: damaged, foreign, or impossible to make."""

import os
import shutil
import stat
import time
from pathlib import Path

import pytest

from glassformer.engine import instruction_sets, native_library

load = native_library.loaded.__wrapped__
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler on this machine"
)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A cache with the compiled library."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setenv(native_library.ISA_VARIABLE, "native")
        patch.setattr(instruction_sets, "FLAGS", ("-std=gnu11", "-O0", "-shared", "-fPIC"))
        assert load() is not None
    return cache


@pytest.fixture
def cache(compiled, tmp_path, monkeypatch):
    """A copy of it, in use."""
    shutil.copytree(compiled, tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv(native_library.ISA_VARIABLE, "native")
    monkeypatch.setattr(instruction_sets, "FLAGS", ("-std=gnu11", "-O0", "-shared", "-fPIC"))
    return tmp_path / "cache" / "glassformer"


def only_file(cache):
    [path] = cache.iterdir()
    return path


@needs_compiler
def test_the_cached_library_is_used_again(cache, monkeypatch):
    monkeypatch.setattr(native_library, "_run_compiler", lambda _: pytest.fail("compiled again"))
    assert load() is not None


def truncated(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(path):
    path.write_bytes(b"")


def flipped(path):
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 2] ^= 1
    path.write_bytes(contents)


def another_library(path):
    path.write_bytes(Path(shutil.which("true")).read_bytes())


def writable_by_others(path):
    path.chmod(0o666)


def link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@needs_compiler
@pytest.mark.parametrize("damage", [truncated, emptied, flipped, another_library, writable_by_others, link])
def test_a_file_that_is_not_what_was_compiled_is_compiled_again(cache, damage, capfd):
    """A half-written library killed every process with SIGBUS, an empty one made every process slow in silence."""
    path = only_file(cache)
    contents = path.read_bytes()
    damage(path)
    assert load() is not None
    assert path.read_bytes() == contents
    assert not path.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert capfd.readouterr().err == ""


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_owner_is_not_loaded(cache):
    path = only_file(cache)
    os.chown(path, 12345, 12345)
    assert load() is not None
    assert path.stat().st_uid == 0


@needs_compiler
def test_contents_reach_the_disk_before_the_name(cache, monkeypatch):
    only_file(cache).unlink()
    events = []
    for name in ("fsync", "replace"):
        original = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, original=original: (events.append(name), original(*a))[1])
    assert load() is not None
    assert events == ["fsync", "replace", "fsync"]


def test_without_a_compiler_one_line_says_why(monkeypatch, tmp_path, capfd):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(native_library.ISA_VARIABLE, "native")
    for compiler, reason in (
        ("", "GLASSFORMER_COMPILER is empty"),
        ("no-such-compiler", "GLASSFORMER_COMPILER is no-such-compiler, and there is no such command"),
        ("false", "false failed with status 1: no message"),  # a command that exists, but compiles nothing
    ):
        monkeypatch.setenv(native_library.COMPILER_VARIABLE, compiler)
        assert load() is None
        [line] = capfd.readouterr().err.splitlines()
        assert line.startswith("glassformer: the fast engine is not available (")
        assert reason in line
    assert list((tmp_path / "glassformer").iterdir()) == []


def is_running(process):
    try:
        return "zombie" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


def test_a_compiler_that_hangs_is_killed_with_its_children(monkeypatch, tmp_path, capfd):
    """A busy machine may take a while to end a killed process, so the test waits for that."""
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\nsleep 1000 & echo $! > " + str(tmp_path / "child") + "\nwait\n")
    compiler.chmod(0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(native_library.ISA_VARIABLE, "native")
    monkeypatch.setenv(native_library.COMPILER_VARIABLE, str(compiler))
    monkeypatch.setattr(native_library, "MAX_COMPILE_SECONDS", 0.5)
    assert load() is None
    assert "did not finish within 0.5 seconds" in capfd.readouterr().err
    if (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip():
        while is_running((tmp_path / "child").read_text().strip()):  # pytest's time limit ends the wait
            time.sleep(0.01)


def test_a_cache_that_others_may_write_to_is_not_used(monkeypatch, tmp_path):
    (tmp_path / "glassformer").mkdir(mode=0o777)
    (tmp_path / "glassformer").chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert native_library._cache_directory() == Path(native_library._temporary_directory().name)


def test_without_a_home_directory_the_library_is_temporary(monkeypatch):
    """As in a container with `--user`: no HOME and no entry in the list of users."""

    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert native_library._cache_directory() == Path(native_library._temporary_directory().name)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert native_library._cache_directory() == Path(native_library._temporary_directory().name)
