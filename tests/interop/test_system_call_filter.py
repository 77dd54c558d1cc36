"""The kernel refuses everything but reading standard input and writing standard output to the process with pickles."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import glassformer
from glassformer.interop.format_detection import UNFILTERED, open_imported
from glassformer.interop.torch_file import torch_file_reader
from glassformer.interop.torch_file.system_call_filter import (
    ALLOW,
    JUMP_IF_ANY_BIT,
    JUMP_IF_EQUAL,
    KILL_PROCESS,
    LOAD_WORD,
    REFUSE,
    RETURN,
    SYSTEM_CALLS,
    program,
)
from glassformer.interop.torch_file.torch_file_reader import open_torch_file
from tests.interop.test_untrusted_models import tutorial_weights

HERE = str(Path(glassformer.__file__).parents[1])
MACHINE = os.uname().machine
needs_seccomp = pytest.mark.skipif(
    sys.platform != "linux" or MACHINE not in SYSTEM_CALLS or "Seccomp:" not in Path("/proc/self/status").read_text(),
    reason="this kernel has no seccomp",
)

PRELUDE = f"""
import ctypes, mmap, os, socket, sys
sys.path.append({HERE!r})
from glassformer.interop.torch_file import system_call_filter
libc = ctypes.CDLL(None, use_errno=True)
other = os.open("/dev/null", os.O_RDWR)
def attempt(call, *arguments):  # the errno of a system call, 0 if it succeeded
    ctypes.set_errno(0)
    return ctypes.get_errno() if libc.syscall(ctypes.c_long(call), *map(ctypes.c_long, arguments)) == -1 else 0
"""


def filtered(code):
    """Run code in a process after the filter is installed; the filter alone, without limits and audit hook."""
    command = [sys.executable, "-I", "-S", "-B", "-c", f"{PRELUDE}assert system_call_filter.install()\n{code}"]
    with Path(__file__).open("rb") as stdin:
        return subprocess.run(command, stdin=stdin, capture_output=True, timeout=60, check=False)


ACTIONS = {
    "open": "os.open('/etc/passwd', os.O_RDONLY)",
    "create": "os.open('/tmp/never-created', os.O_WRONLY | os.O_CREAT)",
    "list": "os.listdir('/')",
    "stat": "os.stat('/')",
    "remove": "os.unlink('/tmp/never-created')",
    "TCP": "socket.socket()",
    "UDP": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "Unix socket": "socket.socketpair()",
    "fork": "os.fork()",
    "exec": "os.execv('/bin/true', ['true'])",
    "spawn": "os.posix_spawn('/bin/true', ['true'], {})",
    "kill": "os.kill(os.getppid(), 0)",
    "pipe": "os.pipe()",
    "duplicate": "os.dup(0)",
    "read another descriptor": "os.pread(other, 1, 0)",
    "write another descriptor": "os.write(2, b'x')",
    "map a file": "mmap.mmap(0, 1)",
    "executable memory": "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)",
}


@needs_seccomp
@pytest.mark.parametrize("action", ACTIONS)
def test_the_kernel_refuses(action):
    done = filtered(f"try: {ACTIONS[action]}\nexcept OSError as error: os.write(1, str(error.errno).encode())")
    assert done.stdout == str(errno.EPERM).encode(), done.stderr


@needs_seccomp
def test_the_kernel_refuses_every_other_system_call():
    """By number, past Python and the C library: all that exist today, and the numbers of tomorrow."""
    calls = SYSTEM_CALLS[MACHINE]
    allowed = {calls.pread64, calls.write, calls.mmap, calls.mprotect, *calls.plain}
    if MACHINE == "x86_64":
        allowed |= {335, 336}  # uretprobe, uprobe: never filtered, and end a process in which no probe was placed
    others = sorted({*range(512)} - allowed)
    done = filtered(f"os.write(1, repr([attempt(number, -1) for number in {others}]).encode())")
    assert done.stdout.decode() == repr([errno.EPERM] * len(others)), done.stderr


@needs_seccomp
@pytest.mark.skipif(MACHINE != "x86_64", reason="another ABI of x86-64")
def test_calls_of_another_abi_are_refused():
    """x32's numbers have a bit of their own; the same processor would take them."""
    done = filtered("os.write(1, str(attempt(0x40000000 + 2, 0)).encode())")
    assert done.stdout.decode() == str(errno.EPERM), done.stderr


@needs_seccomp
def test_memory_grows_and_is_freed():
    """Small objects, large ones, growing and shrinking: brk, anonymous mmap, mremap, munmap."""
    done = filtered("""
objects = [bytes(n) for n in range(3000)]
big = bytearray(1 << 20)
for _ in range(24): big += bytes(1 << 20)
del objects, big
again = [[n] for n in range(300_000)]
brk = libc.sbrk
brk.restype = ctypes.c_void_p
assert brk(1 << 20) != ctypes.c_void_p(-1).value
mapped = mmap.mmap(-1, 1 << 20)
mapped[0] = 1
mapped.close()
os.write(1, b"grew")
""")
    assert done.stdout == b"grew", done.stderr


def simulated(machine, number, arguments=(0, 0, 0, 0), architecture=None):
    """The verdict of the filter, from an interpreter for its four instructions: also for the other processor."""
    calls = SYSTEM_CALLS[machine]
    data = {0: number, 4: calls.architecture if architecture is None else architecture}
    data |= {16 + 8 * place: value & 0xFFFFFFFF for place, value in enumerate(arguments)}
    place = word = 0
    instructions = program(calls)
    while True:
        code, if_true, if_false, constant = instructions[place]
        place += 1
        if code == RETURN:
            return constant
        if code == LOAD_WORD:
            word = data[constant]
        else:
            assert code in (JUMP_IF_EQUAL, JUMP_IF_ANY_BIT)
            place += if_true if (word == constant if code == JUMP_IF_EQUAL else word & constant) else if_false


@pytest.mark.parametrize("machine", SYSTEM_CALLS)
def test_the_filter_allows_exactly_its_list(machine):
    calls = SYSTEM_CALLS[machine]
    for number in range(600):
        verdict = ALLOW if number in calls.plain else REFUSE
        if number not in (calls.pread64, calls.write, calls.mmap, calls.mprotect):
            assert simulated(machine, number) == verdict, number
    assert simulated(machine, calls.write, architecture=0x40000003) == KILL_PROCESS
    for fd in range(-1, 6):
        assert simulated(machine, calls.pread64, (fd, 0, 0, 0)) == (ALLOW if fd == 0 else REFUSE)
        assert simulated(machine, calls.write, (fd, 0, 0, 0)) == (ALLOW if fd == 1 else REFUSE)
    for protection in range(8):
        allowed = not protection & 4
        for flags in (0x02, 0x22, 0x01, 0x21):
            verdict = ALLOW if allowed and flags & 0x20 else REFUSE
            assert simulated(machine, calls.mmap, (0, 4096, protection, flags)) == verdict
        assert simulated(machine, calls.mprotect, (0, 4096, protection, 0)) == (ALLOW if allowed else REFUSE)


@pytest.mark.parametrize("form", ["zip", "legacy"])
@needs_seccomp
def test_checkpoints_are_read_under_the_filter(tmp_path, form):
    path = tmp_path / "any.pt"
    saved = {"model": {str(n): torch.full((3,), float(n)) for n in range(20_000)}}  # a pickle of megabytes
    torch.save(saved, path, _use_new_zipfile_serialization=form == "zip")
    file = open_torch_file(path)
    assert file.filtered
    assert [tensor.array[0] for tensor in file.contents["model"].values()] == list(range(20_000))


@pytest.mark.parametrize("status", [b"filtered", b"unfiltered", b"anything else"])
def test_the_first_line_of_the_process_says_whether_it_is_filtered(tmp_path, monkeypatch, status):
    """It is written before the file is read, and what follows cannot change it."""
    path = tmp_path / "any.pt"
    torch.save({"a": 1}, path)
    answer = status + b'\n{"top": ["d", "a", 1], "tensors": [], "storages": [], "reverse": false, "filtered": true}'
    monkeypatch.setattr(torch_file_reader, "CHILD_CODE", f"import os; os.write(1, {answer!r})")
    assert open_torch_file(path) == ({"a": 1}, status == b"filtered")


@pytest.mark.parametrize("available", [True, False])
def test_an_import_says_where_the_kernel_has_no_filter(tmp_path, monkeypatch, available):
    """It works there as well, with the limits and the audit hook."""
    torch.save(tutorial_weights(), tmp_path / "tut6-model.pt")
    if not available:
        without = "from glassformer.interop.torch_file import sandbox; sandbox.install = lambda: False; sandbox.main()"
        code = f"import sys; sys.path.append(sys.argv.pop(1)); {without}"
        monkeypatch.setattr(torch_file_reader, "CHILD_CODE", code)
    imported = open_imported(tmp_path / "tut6-model.pt", allow_pickle=True, heads=2)
    has_filter = available and needs_seccomp.args[0] is False
    assert (UNFILTERED in imported.notes) == (not has_filter)
