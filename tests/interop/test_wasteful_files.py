"""Files of the maximum size that are as expensive as possible to parse: each gives a model or an error of ours, within
two seconds, and takes at most twice the size of the directory's files, 48 MB, and 1 kB per token of the model."""

import base64
import functools
import itertools
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from glassformer.data.tokenizer_pipeline.tokenizer_json_file import MAX_REST_BYTES
from glassformer.interop.fairseq import open_fairseq
from glassformer.interop.format_detection import open_imported
from glassformer.interop.hugging_face import write_hugging_face
from glassformer.interop.marian.marian_text import read_vocabulary
from glassformer.interop.untrusted_files import MAX_JSON_BYTES, MAX_NON_WEIGHT_BYTES
from glassformer.model import ModelConfig
from glassformer.model.weight_files import MAX_HEADER_BYTES
from tests.examples import only_in_test_all
from tests.interop.memory import BASE, TIMES, allowed, measured
from tests.interop.saved_tensors import with_arrays
from tests.interop.test_untrusted_models import (
    FAMILIES,
    FIRST,
    fairseq_run,
    hugging_face,
    refusal,
    tokenizer_files,
    write,
)
from tests.models import build
from tests.processes import run_fresh

MANY = 100_000
LETTERS = [chr(code) for code in (*range(48, 58), *range(65, 91), *range(97, 123))]


def unique(count: int) -> Iterator[str]:
    """Short, distinct names."""
    every = ("".join(name) for length in range(1, 5) for name in itertools.product(LETTERS, repeat=length))
    return itertools.islice(every, count)


def filled(entry: str, size: int) -> str:
    return "[" + ",".join([entry] * (size // (len(entry) + 1))) + "]"


WASTE: dict[str, Callable[[int], str]] = {
    "lists": lambda size: filled("[]", size),
    "objects": lambda size: filled("{}", size),
    "members": lambda size: filled('{"":0}', size),
    "names": lambda size: "{" + ",".join(f'"{name}":0' for name in unique(size // 9)) + "}",
    "numbered": lambda size: "{" + ",".join(f'"{name}":{i}' for i, name in enumerate(unique(size // 15))) + "}",
    "scored": lambda size: "[" + ",".join(f'["{name}",-1]' for name in unique(size // 12)) + "]",
    "texts": lambda size: "[" + ",".join(f'"{name}"' for name in unique(size // 8)) + "]",
    "pairs": lambda size: filled('["a","b"]', size),
    "numbers": lambda size: filled("1.5", size),
    "wide letters": lambda size: '"' + "x" * (size - 10) + '😀"',
    "a deep list": lambda size: "[" * (size // 2) + "]" * (size // 2),
    "spaces": lambda size: "[" + " " * (size - 2) + "]",
}
OF_TABLES, OF_REST = ("vocab", "merges"), ("added_tokens", "normalizer")


def wasteful_json(here: Path) -> Iterator[Path]:
    """Settings, vocabularies and tokenizer.json: the same directories, with one file replaced at a time."""
    marian, bart = hugging_face(here / "marian"), hugging_face(here / "bart", "bart alone")
    for make in WASTE.values():
        table, rest = make(MAX_NON_WEIGHT_BYTES - 5000), make(min(MAX_JSON_BYTES, MAX_REST_BYTES) - 5000)
        for name in ("config.json", "tokenizer_config.json"):
            with exchanged(marian / name, lambda kept, rest=rest: kept[:-1] + b',"zzz":' + rest.encode() + b"}"):
                yield marian
        with exchanged(marian / "vocab.json", lambda _, table=table: table.encode()):
            yield marian
        for place in (*OF_TABLES, *OF_REST):
            filling = table if place in OF_TABLES else rest
            with exchanged(bart / "tokenizer.json", functools.partial(planted, place=place, filling=filling)):
                yield bart


class exchanged:  # noqa: N801 (used like a function)
    """Replaces the content of a file temporarily."""

    def __init__(self, path: Path, change: Callable[[bytes], bytes]) -> None:
        self.path, self.kept = path, path.read_bytes()
        write(path, change(self.kept))

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None:
        write(self.path, self.kept)


def planted(kept: bytes, place: str, filling: str) -> bytes:
    file = json.loads(kept)
    (file["model"] if place in OF_TABLES else file)[place] = "HERE"
    return json.dumps(file).replace('"HERE"', filling).encode()


def wasteful_others(here: Path) -> Iterator[Path]:
    """Merges, SentencePiece models, safetensors headers, normalisation tables."""
    marian, bart, alone = (hugging_face(here / kind, kind) for kind in ("marian", "bart", "bart alone"))
    for content in (
        b"a b\n" * (MAX_NON_WEIGHT_BYTES // 4),
        b"a" * MAX_NON_WEIGHT_BYTES,
        b"a b" + "😀".encode() * 10**6,
    ):
        with exchanged(bart / "merges.txt", lambda _, content=content: content):
            yield bart
    inner = b"\n\0" * (MAX_NON_WEIGHT_BYTES // 2 - 10)
    specs = b"\x12" + varint(len(inner)) + inner
    symbols = b"\x12" + varint(6 * 10**6) + b"\xf2\x01\0" * (2 * 10**6)
    for content in (inner, specs, symbols, b"\x40\0" + inner, b"\x8a\0\0" * (MAX_NON_WEIGHT_BYTES // 3)):
        with exchanged(marian / "source.spm", lambda _, content=content: content):
            yield marian
    entry = '"%s":{"dtype":"F32","shape":[],"data_offsets":[0,0]}'
    header = ("{" + ",".join(entry % name for name in unique(MAX_HEADER_BYTES // 55)) + "}").encode()
    with exchanged(marian / "model.safetensors", lambda _: struct.pack("<Q", len(header)) + header):
        yield marian
    coded = base64.b64encode(struct.pack("<I", 2**19) + b"\xff" * 2**19 + b"x").decode()
    filling = json.dumps({"type": "Precompiled", "precompiled_charsmap": coded})
    with exchanged(alone / "tokenizer.json", functools.partial(planted, place="normalizer", filling=filling)):
        yield alone


def wasteful_and_many(here: Path) -> Iterator[Path]:
    """A model with many tokens of tiny embeddings, whose vocabulary size raises the limits."""
    names = list(unique(MANY))
    numbers = {name: number for number, name in enumerate([*FIRST, *names[4:]])}
    merges = "".join(f"{name[0]} {name[1:] or name}\n" for name in unique(2 * MANY)).encode()
    pieces = b"".join(b"\n\6\n\4" + name.rjust(4, "~").encode() for name in unique(2 * MANY))
    for kind in ("bart", "marian"):
        options = FAMILIES[kind] | {"d_model": 2, "n_heads": 1, "d_ff": 2, "encoder_layers": 1, "decoder_layers": 1}
        (here / kind).mkdir(parents=True)
        config = ModelConfig(vocab_size=MANY, **options)
        write_hugging_face(build(config, dtype=torch.float32), None, here / kind, max_tokens=16)
        for name, content in {**tokenizer_files(kind), "vocab.json": numbers}.items():
            write(here / kind / name, content)
    write(here / "bart" / "merges.txt", merges)
    yield here / "bart"
    write(here / "marian" / "source.spm", pieces)
    yield here / "marian"


def varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


CHILD = """
import sys
from tests.interop.test_wasteful_files import open_and_measure
open_and_measure(sys.argv[1], sys.argv[2])
"""


def open_and_measure(here: str, answer: str) -> None:
    """In a fresh process without caches: the memory that each call took, and its limit."""
    found: list[Any] = []
    for kind in ("marian", "bart", "bart alone"):  # one-time costs of a first call
        refusal(open_imported, hugging_face(Path(here) / "good" / kind, kind))
    for make in (wasteful_json, wasteful_others):
        for path in make(Path(here) / make.__name__):
            complaint, took = measured(refusal, open_imported, path)
            found.append([complaint, took, allowed(path)])
    for path in wasteful_and_many(Path(here) / "many"):
        complaint, took = measured(refusal, open_imported, path)
        found.append([complaint, took, allowed(path, MANY)])
    run = Path(here) / "run"
    saved = with_arrays(fairseq_run(run))
    for words in (b"a 1\n" * 2**21, b"x" * 2**23, "".join(f"{name} 1\n" for name in unique(10**6)).encode()):
        with exchanged(run / "dict.xx.txt", lambda _, words=words: words):
            complaint, took = measured(refusal, open_fairseq, saved, run / "checkpoint_best.pt")
            found.append([complaint, took, allowed(run)])
    names = list(unique(10**6))
    yml = "".join(f"{name}: {i}\n" for i, name in enumerate(names)).encode()
    for content in (yml, WASTE["numbered"](2**23).encode(), "\n".join(names).encode()):
        complaint, took = measured(refusal, functools.partial(read_vocabulary, size=64), content, "x")
        found.append([complaint, took, TIMES * len(content) + BASE])
    write(Path(answer), found)


@only_in_test_all
def test_the_most_wasteful_files_take_little_time_and_memory(tmp_path: Path) -> None:
    run_fresh(CHILD, str(tmp_path), str(tmp_path / "answer"))
    found = json.loads((tmp_path / "answer").read_bytes())
    assert len(found) == 7 * len(WASTE) + 10 + 2 + 6
    for complaint, took, most in found:
        assert took < most, (took, most, complaint)


def test_the_measure_sees_the_memory_of_json() -> None:
    """Checks the measurement itself: if it always gave 0, everything would pass."""
    content = WASTE["objects"](2**21).encode()
    _, took = measured(json.loads, content)
    assert took == 0 or took > 20 * len(content)
