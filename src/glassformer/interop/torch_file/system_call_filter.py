"""System call filter (seccomp) for a process that only reads standard input and writes standard output.

The kernel refuses every other system call, so the process has no files, no network and no other processes, whatever
code runs in it. The filter is a program in classic BPF, the kernel's bytecode for socket filters.
"""

import ctypes
import os
import struct
import sys
from errno import EPERM
from typing import NamedTuple

PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_SET_NO_NEW_PRIVS = 22, 2, 38
ALLOW, REFUSE, KILL_PROCESS = 0x7FFF0000, 0x00050000 | EPERM, 0x80000000
"""A filter's verdicts. A refused call fails with EPERM: a C library that tries one falls back to another way."""
LOAD_WORD, JUMP_IF_EQUAL, JUMP_IF_ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
"""The four BPF instructions that are used; they compute with 32-bit words."""
NUMBER_OFFSET, ARCHITECTURE_OFFSET, ARGUMENTS_OFFSET = 0, 4, 16
"""Offsets in `struct seccomp_data`; an argument takes 8 bytes, the lower half first."""
PROT_EXEC, MAP_ANONYMOUS = 4, 0x20
STDIN_FD, STDOUT_FD = 0, 1


class SystemCalls(NamedTuple):
    """The numbers of the permitted system calls on one kind of processor."""

    architecture: int
    """AUDIT_ARCH_* of the kernel; calls in another ABI of the same processor end the process."""
    pread64: int
    write: int
    mmap: int
    mprotect: int
    plain: tuple[int, ...]
    """Permitted with any arguments: munmap, mremap, brk, madvise, futex, rt_sigaction, rt_sigprocmask, rt_sigreturn,
    sched_yield, restart_syscall, clock_gettime, getrandom, exit, exit_group."""


SYSTEM_CALLS = {
    "x86_64": SystemCalls(
        0xC000003E, 17, 1, 9, 10, (11, 25, 12, 28, 202, 13, 14, 15, 24, 219, 228, 318, 60, 231)
    ),
    "aarch64": SystemCalls(
        0xC00000B7, 67, 64, 222, 226, (215, 216, 214, 233, 98, 134, 135, 139, 124, 128, 113, 278, 93, 94)
    ),
}  # fmt: skip


def program(calls: SystemCalls) -> list[tuple[int, int, int, int]]:
    """The filter as BPF instructions: code, jump if true, jump if false, constant. Jumps skip instructions."""
    instructions = [
        (LOAD_WORD, 0, 0, ARCHITECTURE_OFFSET),
        (JUMP_IF_EQUAL, 1, 0, calls.architecture),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD_WORD, 0, 0, NUMBER_OFFSET),
    ]
    for number in calls.plain:
        instructions += [(JUMP_IF_EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    for number, fd in ((calls.pread64, STDIN_FD), (calls.write, STDOUT_FD)):
        instructions += [
            (JUMP_IF_EQUAL, 0, 4, number),
            (LOAD_WORD, 0, 0, ARGUMENTS_OFFSET),
            (JUMP_IF_EQUAL, 0, 1, fd),
            (RETURN, 0, 0, ALLOW),
            (RETURN, 0, 0, REFUSE),
        ]
    instructions += [  # memory without a file, and never executable
        (JUMP_IF_EQUAL, 0, 6, calls.mmap),
        (LOAD_WORD, 0, 0, ARGUMENTS_OFFSET + 2 * 8),
        (JUMP_IF_ANY_BIT, 3, 0, PROT_EXEC),
        (LOAD_WORD, 0, 0, ARGUMENTS_OFFSET + 3 * 8),
        (JUMP_IF_ANY_BIT, 0, 1, MAP_ANONYMOUS),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, REFUSE),
        (JUMP_IF_EQUAL, 0, 3, calls.mprotect),
        (LOAD_WORD, 0, 0, ARGUMENTS_OFFSET + 2 * 8),
        (JUMP_IF_ANY_BIT, 1, 0, PROT_EXEC),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, REFUSE),  # any other call
    ]
    return instructions


def install() -> bool:
    """Filter the system calls of this process from now on, irrevocably; False where the kernel cannot.

    Without other threads only, since they would stay unfiltered. On another system or processor, and where a container
    forbids seccomp, nothing is changed except that the process can gain no privileges (no_new_privs).
    """
    calls = SYSTEM_CALLS.get(os.uname().machine)
    if sys.platform != "linux" or calls is None or sys.maxsize < 2**32:
        return False
    instructions = program(calls)
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(instructions), ctypes.addressof(code)))
    prctl = ctypes.CDLL(None).prctl
    prctl.argtypes, prctl.restype = [ctypes.c_int, *[ctypes.c_ulong] * 4], ctypes.c_int
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.addressof(header), 0, 0) == 0
