"""The inputs that fuzzing found and that are kept: `corpus.tar.xz`, one directory per target, replayed by a test.

`python -m tests.fuzz.kept_inputs DIRECTORY` packs the corpora that `make fuzz` left in a directory, the smallest inputs
of each target; an input that once failed (`failed-*`) is always kept. `... coverage` prints the coverage of the kept
inputs: the share of the readers' lines that they execute.
"""

import hashlib
import io
import random
import sys
import tarfile
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import glassformer
from tests.fuzz.targets import TARGETS, check

ARCHIVE = Path(__file__).with_name("corpus.tar.xz")
MAX_INPUTS, MAX_BYTES = 400, 60_000
"""Limits per target."""
READERS = {
    "safetensors": ["model/weight_files.py", "model/eight_bits.py", "model/saved_tensor.py"],
    "model-config": ["model/config.py", "settings.py"],
    "manifest": ["atomic_directory.py"],
    "trace": ["inspection/tracing/trace_file.py"],
    "torch-file": [
        f"interop/torch_file/{name}.py"
        for name in ("pickle_interpreter", "pickle_description", "save_formats", "zip_directory", "torch_file_reader")
    ],
    "marian-npz": ["interop/marian/npz.py"],
    "marian-bin": ["interop/marian/marian_file.py"],
    "marian-options": ["interop/marian/marian_text.py"],
    "marian-vocabulary": ["interop/marian/marian_text.py"],
    "marian-shortlist": ["interop/marian/marian_shortlist.py", "decoding/vocabulary_shortlist.py"],
    "shortlist": ["engine/shortlist_file.py", "decoding/vocabulary_shortlist.py"],
    "json-options": ["interop/untrusted_files.py"],
    "vocab-json": ["data/json_streaming.py", "interop/bounded_files.py"],
    "tokenizer-settings": ["settings.py"],
    "tokenizer-json": ["data/tokenizer_pipeline/*.py", "data/json_streaming.py"],
    "sentencepiece": ["interop/bounded_files.py"],
    "merges": ["interop/bounded_files.py", "data/subword_segmentation.py"],
    "bpe-codes": ["data/subword_segmentation.py"],
    "fairseq-dictionary": ["interop/fairseq.py"],
    "corpus-tsv": ["data/corpus.py"],
    "corpus-csv": ["data/corpus.py", "data/csv_pairs.py"],
    "corpus-jsonl": ["data/corpus.py"],
    "corpus-gzip": ["data/corpus.py"],
    "http-head": ["server/uvicorn_internals.py", "server/load_shedding.py"],
    "http-request": ["server/request_parsing.py", "settings.py"],
}
"""The modules that a target reads with, for its coverage; some have other parts as well."""


@cache
def kept() -> dict[str, list[bytes]]:
    """The kept inputs by target."""
    inputs = defaultdict(list)
    with tarfile.open(ARCHIVE) as tar:
        for member in tar:
            inputs[member.name.split("/")[0]].append(tar.extractfile(member).read())  # type: ignore[union-attr]
    return dict(inputs)


def unpack(name: str, directory: Path) -> None:
    """Write the kept inputs of a target into a directory, from which fuzzing continues."""
    with tarfile.open(ARCHIVE) as tar:
        for member in tar:
            if member.name.startswith(f"{name}/"):
                (directory / Path(member.name).name).write_bytes(tar.extractfile(member).read())  # type: ignore[union-attr]


def inputs(name: str, count: int, seed: str) -> Iterator[bytes]:
    """Seeds and kept inputs, then mutations of them: bytes changed, removed, repeated, copied, words inserted."""
    target = TARGETS[name]
    known = [*target.seeds(), *kept().get(name, [])]
    yield from known
    chance = random.Random(f"{name} {seed}")
    for _ in range(count - len(known)):
        yield mutated(chance.choice(known), chance.choice(known), target.words, chance)


def mutated(data: bytes, other: bytes, words: tuple[bytes, ...], chance: random.Random) -> bytes:
    new = bytearray(data or b"\0")
    for _ in range(chance.choice([1, 1, 2, 4])):
        place, length = chance.randrange(len(new)), chance.choice([1, 2, 4, 16, 64])
        kind = chance.randrange(6)
        if kind == 0:
            new[place] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
        elif kind == 1:
            new = new[:place] + new[place + length :]
        elif kind == 2:
            new[place:place] = new[place : place + length]
        elif kind == 3:
            start = chance.randrange(len(other) or 1)
            new[place : place + length] = other[start : start + length]
        elif kind == 4:
            new[place:place] = chance.choice(words or (b"\0",))
        else:
            new[place : place + length] = chance.choice([b"", bytes(length), b"\xff" * length])
        new = new or bytearray(b"\0")
    return bytes(new)


def pack(directory: Path) -> None:
    """Write the archive from the corpora in a directory, in an order that depends on their contents only."""
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as tar:
        for name, target in TARGETS.items():
            seeds = set(target.seeds())
            files = {path.read_bytes() for path in sorted((directory / name).glob("*"))} - seeds
            failed = {path.read_bytes() for path in sorted((directory / name).glob("failed-*"))}
            chosen, room = sorted(failed), MAX_BYTES
            for data in sorted(files - failed, key=lambda data: (len(data), data))[:MAX_INPUTS]:
                room -= len(data)
                if room >= 0:
                    chosen.append(data)
            for data in chosen:
                prefix = "failed-" if data in failed else ""
                entry = tarfile.TarInfo(f"{name}/{prefix}{hashlib.sha256(data).hexdigest()[:12]}")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))


def executable_lines(path: Path) -> set[int]:
    """The lines of a module's functions; those of its top level run on import."""

    def lines(code: CodeType) -> Iterator[int]:
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from lines(constant)
                if constant.co_flags & 2:  # a function, not a class body
                    yield from (line for _, _, line in constant.co_lines() if line and line != constant.co_firstlineno)

    return set(lines(compile(path.read_text(encoding="utf-8"), str(path), "exec")))


def coverage(name: str, count: int) -> tuple[int, int]:
    """Lines of the target's readers that its inputs execute, and all of them."""
    home = Path(glassformer.__file__).parent
    paths = {str(path) for pattern in READERS[name] for path in home.glob(pattern)}
    executed: set[tuple[str, int]] = set()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in paths:
            return None
        executed.add((frame.f_code.co_filename, frame.f_lineno))
        return trace

    known = list(inputs(name, count, "fixed"))
    sys.settrace(trace)
    try:
        for data in known:
            check(TARGETS[name], data)
    finally:
        sys.settrace(None)
    every = {(path, line) for path in paths for line in executable_lines(Path(path))}
    return len(executed & every), len(every)


def main() -> None:
    if sys.argv[1] != "coverage":
        pack(Path(sys.argv[1]))
        return
    for name in TARGETS:
        executed, every = coverage(name, 1000)
        sys.stdout.write(f"| {name} | {len(kept().get(name, []))} | {executed} of {every} ({executed / every:.0%}) |\n")


if __name__ == "__main__":
    main()
