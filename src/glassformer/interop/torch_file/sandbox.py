"""The subprocess that describes a torch.save file, without rights: no files, processes or sockets."""

import gc
import os
import sys
from json import dumps
from typing import Any

from glassformer.interop.torch_file.pickle_description import describe
from glassformer.interop.torch_file.refusal import ASK_FOR_STATE_DICT, DOWNLOAD_AGAIN, MAX_PICKLE_BYTES, RefusedError
from glassformer.interop.torch_file.system_call_filter import install

BASE_MEMORY_BYTES = 128 * 2**20
"""Memory limit of the process, in addition to twice the size of the file, or to 1 GiB if that is less."""
EXIT_FAILED, EXIT_FORBIDDEN = 2, 3
"""Exit codes: no result, and an audit event was raised."""


def confine(size: int, seconds: int) -> bool:
    """Sandbox this process: no new files, processes or sockets, no writes; memory and time limited by the file size.

    Returns whether the kernel filters its system calls; where it cannot, the limits and the audit hook remain.
    """
    import resource  # not on Windows, which `torch_file_reader` rejects

    memory = BASE_MEMORY_BYTES + min(2 * size, 32 * MAX_PICKLE_BYTES)
    limits = {"FSIZE": 0, "CORE": 0, "NPROC": 0, "NOFILE": 0, "CPU": seconds, "AS": memory, "DATA": memory}
    for name, limit in limits.items():
        which = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(which)[1]
        limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        try:
            resource.setrlimit(which, (limit, limit))
        except (ValueError, OSError):
            if name not in ("AS", "DATA"):  # macOS does not enforce these
                raise
    filtered = install()
    sys.addaudithook(end_process)
    return filtered


def end_process(event: str, arguments: Any) -> None:
    """Audit hook: parsing raises no audit events, so any event ends the process."""
    os._exit(EXIT_FORBIDDEN)


def main() -> None:
    """Describe standard input on standard output, after a line that says whether system calls are filtered."""
    gc.disable()  # nothing is freed before the end
    size = os.fstat(0).st_size
    filtered = confine(size, int(sys.argv[1]))
    code = EXIT_FAILED
    try:
        os.write(1, b"filtered\n" if filtered else b"unfiltered\n")  # said before the file can have any influence
        unwritten = memoryview(result(size).encode())
        while unwritten:
            unwritten = unwritten[os.write(1, unwritten) :]
        code = 0
    finally:
        os._exit(code)


def result(size: int) -> str:
    """The description of standard input, or the reason it is refused, as JSON."""
    try:
        return describe(0, size)
    except RefusedError as error:
        refused = str(error)
    except MemoryError:
        refused = f"needs more memory than a state dict does: {ASK_FOR_STATE_DICT}."
    except Exception:  # an opcode with wrong operands, a truncated header
        refused = f"is damaged: {DOWNLOAD_AGAIN}."
    return dumps({"refused": refused})
