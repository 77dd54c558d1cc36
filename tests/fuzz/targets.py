"""Fuzz targets: every reader of untrusted bytes, with small valid inputs to start from.

A target reads one input completely. It returns on success and on one of our errors; any other exception is a bug.
"""

import argparse
import gzip
import io
import json
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import h11
import numpy as np
import torch
from safetensors.torch import save

from glassformer.atomic_directory import read_file
from glassformer.data.corpus import corpus
from glassformer.data.imported_tokenizer import ImportedTokenizerSettings
from glassformer.data.subword_segmentation import ByteLevelSegmenter, SentencePieceSegmenter, SubwordNMTSegmenter
from glassformer.data.tokenizer_pipeline import Pipeline
from glassformer.decoding import Request, Shortlist
from glassformer.engine.shortlist_file import parse_shortlist
from glassformer.errors import GlassformerError
from glassformer.inspection.tracing.trace import Trace
from glassformer.interop import fairseq
from glassformer.interop.bounded_files import read_merges, read_spm, read_vocab_json
from glassformer.interop.marian.marian_file import read_marian_file
from glassformer.interop.marian.marian_shortlist import CHECKED_FROM, marian_checksum, read_marian_shortlist
from glassformer.interop.marian.marian_text import read_options, read_vocabulary
from glassformer.interop.torch_file import torch_file_reader
from glassformer.interop.torch_file.pickle_description import describe
from glassformer.interop.torch_file.refusal import RefusedError
from glassformer.interop.torch_file.torch_file_reader import read_torch_file
from glassformer.interop.untrusted_files import read_json
from glassformer.model import ModelConfig
from glassformer.model.eight_bits import from_eight_bits
from glassformer.model.weight_files import read_tensors
from glassformer.server import schemas
from glassformer.server.load_shedding import route_of_complete_request
from glassformer.server.request_parsing import FORM, JSON, _parse_leniently, _parse_strictly
from glassformer.server.uvicorn_internals import StrictParser
from glassformer.server.what_if_schemas import WhatIfRequest

TEXT = "the cat, <mask> é😀 12"
MAX_MESSAGE = 2500
VOCAB_SIZE = 64


@cache
def directory() -> Path:
    """Where inputs are written: in memory if possible, and removed at the end."""
    shared = Path("/dev/shm")
    made = tempfile.TemporaryDirectory(dir=shared if os.access(shared, os.W_OK) else None)
    _directories.append(made)
    return Path(made.name)


_directories: list[Any] = []


def as_file(data: bytes, name: str) -> Path:
    """A new file with this content: one that is memory-mapped must not be overwritten."""
    path = directory() / name
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    return path


def safetensors(data: bytes) -> None:
    for tensor in from_eight_bits(read_tensors(as_file(data, "model.safetensors"))).values():
        tensor.tensor().shape.numel()


def model_config(data: bytes) -> None:
    ModelConfig.read(as_file(data, "config.json"))


def manifest(data: bytes) -> None:
    read_file(as_file(data, "manifest.json").parent, "config.json")


def trace(data: bytes) -> None:
    opened = Trace.load(as_file(data, "trace.safetensors"))
    for name in opened:
        opened[name]


def described_here(path: Path, file: int, size: int) -> dict[str, Any]:
    """The description of a file, made in this process, where coverage is measured, instead of in the sandbox."""
    try:
        return json.loads(describe(file, size))
    except RefusedError as error:
        raise GlassformerError(f"{path} {error}") from None
    except Exception as error:  # an opcode with wrong operands, a truncated header: as `sandbox.result` does
        raise GlassformerError(f"{path} is damaged: {type(error).__name__}.") from None


def torch_file(data: bytes) -> None:
    torch_file_reader._describe = described_here
    read_torch_file(as_file(data, "checkpoint.pt"))


def marian_npz(data: bytes) -> None:
    read_marian(as_file(data, "model.npz"))


def marian_bin(data: bytes) -> None:
    read_marian(as_file(data, "model.bin"))


def read_marian(path: Path) -> None:
    file = read_marian_file(path)
    for name in file.tensors:
        file.tensors[name]


def marian_options(data: bytes) -> None:
    read_options(data, "model.yml")


def marian_vocabulary(data: bytes) -> None:
    read_vocabulary(data, "vocab.yml", VOCAB_SIZE)


def marian_shortlist(data: bytes) -> None:
    """With a valid checksum, so that changes reach the checks behind it; unless the first byte says otherwise."""
    if data[:1] != b"\xf4" and len(data) > CHECKED_FROM:
        data = data[:8] + marian_checksum(data[CHECKED_FROM:]).to_bytes(8, "little") + data[CHECKED_FROM:]
    use_shortlist(read_marian_shortlist(as_file(data, "lex.bin"), VOCAB_SIZE, VOCAB_SIZE, is_shared=True))


def shortlist(data: bytes) -> None:
    use_shortlist(parse_shortlist(data, VOCAB_SIZE, VOCAB_SIZE))


def use_shortlist(shortlist: Shortlist) -> None:
    assert len(shortlist.tokens(Request(range(VOCAB_SIZE)), 0)) <= VOCAB_SIZE


def json_options(data: bytes) -> None:
    read_json(as_file(data, "config.json"))


def vocab_json(data: bytes) -> None:
    read_vocab_json(as_file(data, "vocab.json").parent, "vocab.json", VOCAB_SIZE)


def tokenizer_settings(data: bytes) -> None:
    ImportedTokenizerSettings.read(as_file(data, "tokenizer.json"))


def tokenizer_json(data: bytes) -> None:
    pipeline = Pipeline(data)
    pipeline.join(pipeline.segment(TEXT))


def sentencepiece_model(data: bytes) -> None:
    segmenter = SentencePieceSegmenter(read_spm(as_file(data, "source.spm"), VOCAB_SIZE))
    segmenter.pieces()
    segmenter.join(segmenter.segment(TEXT))


def merges(data: bytes) -> None:
    segmenter = ByteLevelSegmenter(read_merges(as_file(data, "merges.txt"), VOCAB_SIZE))
    segmenter.join(segmenter.segment(TEXT))


def bpe_codes(data: bytes) -> None:
    segmenter = SubwordNMTSegmenter(data)
    segmenter.join(segmenter.segment(TEXT))


def fairseq_dictionary(data: bytes) -> None:
    fairseq._dictionary(as_file(data, "dict.en.txt"), VOCAB_SIZE)


def corpus_tsv(data: bytes) -> None:
    list(corpus(as_file(data, "pairs.tsv")))


def corpus_csv(data: bytes) -> None:
    list(corpus(as_file(data, "pairs.csv")))


def corpus_jsonl(data: bytes) -> None:
    list(corpus(as_file(data, "pairs.jsonl")))


def corpus_gzip(data: bytes) -> None:
    list(corpus(as_file(data, "pairs.tsv.gz")))


STRICT = [schemas.TranslateRequest, schemas.TraceRequest, WhatIfRequest, schemas.PronounRequest]
LENIENT = [schemas.LibreTranslateRequest, schemas.DetectRequest]


def http_request(data: bytes) -> None:
    """The first byte chooses the route and the content type, the rest is the body."""
    choice, body = data[0] % (len(STRICT) + 2 * len(LENIENT)) if data else 0, data[1:]
    if choice < len(STRICT):
        _parse_strictly(body, JSON, STRICT[choice])
    else:
        number = choice - len(STRICT)
        _parse_leniently(body, (JSON, FORM)[number % 2], LENIENT[number // 2])


class Target(NamedTuple):
    """A reader, its initial inputs, and tokens of its format that a mutation may insert."""

    read: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    words: tuple[bytes, ...] = ()


def http_head(data: bytes) -> None:
    """The bytes of a connection, in two packets; the first byte chooses where they are cut."""
    cut, data = data[0] if data else 0, data[1:]
    parser, events = StrictParser(max_head_bytes=1024), []
    try:
        for packet in filter(None, (data[:cut], data[cut:])):  # an empty one would mean the end of the connection
            parser.receive_data(packet)
            while (event := parser.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
                events.append(event)
    except h11.RemoteProtocolError:
        raise GlassformerError(parser.refusal[1]) from None
    if (route := route_of_complete_request(data)) is not None:  # a full server refuses it unparsed
        assert (events[0].method, events[0].target, type(events[-1])) == (b"POST", route, h11.EndOfMessage)
        assert not parser.trailing_data[0]


def small_heads() -> list[bytes]:
    post = b"POST /api/translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    return [
        b"\xff" + post + b"Content-Length: 2\r\n\r\n{}",
        b"\x20" + post + b"Transfer-Encoding: chunked\r\n\r\n2;x=y\r\n{}\r\n0\r\nA: b\r\n\r\n",
        b"\x05GET /health HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
    ]


def small_tensors() -> list[bytes]:
    levels = {"c": torch.ones(2, 3, dtype=torch.int8), "c.scale": torch.ones(2)}
    return [
        save({"a": torch.ones(2, 3), "b": torch.zeros(1, dtype=torch.int8)}),
        save({}, {"format": "pt"}),
        save(levels),
    ]


def small_config() -> list[bytes]:
    return [ModelConfig(vocab_size=9, d_model=8, n_heads=2, d_ff=9).as_json().encode()]


def small_manifest() -> list[bytes]:
    entry = {"bytes": 2, "sha256": "00" * 32}
    return [
        (json.dumps({"format": "glassformer", "version": 1, "files": {"config.json": entry}}, indent=2) + "\n").encode()
    ]


def small_trace() -> list[bytes]:
    import tarfile

    with tarfile.open(Path(__file__).parents[1] / "golden/0.1.0.tar.xz") as tar:
        return [tar.extractfile("small-trace.safetensors").read()]  # type: ignore[union-attr]


def small_checkpoints() -> list[bytes]:
    weight = torch.ones(2, 3)
    saved = {"args": argparse.Namespace(arch="tiny", lr=[0.5]), "model": {"a": weight, "t": weight.t()}}
    saved["extra"] = {"best": np.float64(7.5), "counts": np.arange(3), "set": {1}, "b": b"x", "big": 2**70}
    files = []
    for form in (True, False):
        for protocol in (2, 4):
            file = io.BytesIO()
            torch.save(saved, file, pickle_protocol=protocol, _use_new_zipfile_serialization=form)
            files.append(file.getvalue())
    return files


def small_npz() -> list[bytes]:
    plain, packed = io.BytesIO(), io.BytesIO()
    arrays = {"encoder_W": np.ones((2, 3), np.float32), "special:model.yml": np.frombuffer(OPTIONS, np.int8)}
    np.savez(plain, **arrays)
    np.savez_compressed(packed, **arrays)
    return [plain.getvalue(), packed.getvalue()]


def small_bin() -> list[bytes]:
    from tests.interop.marian_writer import CODES, INTGEMM, bin_bytes, quantised

    matrix = np.ones((64, 8), np.float32)
    codes = [INTGEMM["intgemm8"][number] for number in range(2)] if "intgemm8" in INTGEMM else []
    items = [
        ("encoder_b", CODES["float32"], (1, 3), bytes(12)),
        ("special:model.yml", CODES["int8"], (len(OPTIONS),), OPTIONS),
    ]
    files = [bin_bytes(items, 16)]
    for code in codes:
        files.append(bin_bytes([*items, ("encoder_W", code, (64, 8), quantised("encoder_W", matrix, "intgemm8"))], 16))
    return files


OPTIONS = b"""type: transformer
dim-emb: 8
enc-depth: 1
transformer-heads: 2
version: "v1.9.0; 2020-01-01"
dim-vocabs: [9, 9]
transformer-ffn-activation: swish
tied-embeddings: true
skip: false
dim-list:
  - 1
  - 2
"""


def small_vocabularies() -> list[bytes]:
    return [b'"</s>": 0\n<unk>: 1\n"\\u00e9": 2\n\'a\': 3\n', b'{"</s>": 0, "<unk>": 1, "a": 2}', b"</s>\n<unk>\na\n"]


def small_json() -> list[bytes]:
    return [b'{"model_type": "marian", "d_model": 8, "list": [1, null, true, 1.5e3], "text": "\\u00e9"}']


def small_tokenizers() -> list[bytes]:
    from tests.interop.test_untrusted_models import FIRST
    from tests.interop.test_untrusted_models import tokenizer_json as content

    pieces = [*FIRST, *"abcdefgh", "ab", "cd", "abcd", "<mask>"]
    return [json.dumps(content(kind, pieces)).encode() for kind in ("bart", "mbart", "t5")]


def small_tokenizer_settings() -> list[bytes]:
    ends = {"after_source": ["</s>"], "after_target": ["</s>"]}
    return [ImportedTokenizerSettings(cut="words", joint=True, **ends).as_json().encode()]


def small_spm() -> list[bytes]:
    import sentencepiece

    files = []
    for kind in ("unigram", "bpe", "char", "word"):
        file = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["the cat sat on a mat", "a red cat", "the sun"] * 3),
            model_writer=file,
            model_type=kind,
            vocab_size=30 if kind != "word" else 12,
            hard_vocab_limit=False,
            normalization_rule_name="identity",
            minloglevel=2,
        )
        files.append(file.getvalue())
    return files


def small_requests() -> list[bytes]:
    bodies: list[dict[str, Any]] = [
        {"text": ["the cat", "a"], "beam": 4, "n_best": 2, "length_penalty": 0.6},
        {"text": "the cat", "prefix": [3, 4], "hypothesis": 1},
        {
            "changes": [{"kind": "replace-word", "old": "a", "new": "b"}, {"kind": "begin-with", "text": "c"}],
            "replace": [],
        },
        {"text": "it", "word": "it", "candidates": ["a", "b"], "swap": {"old": "a", "new": "b", "which": 1}},
        {"q": "the cat", "source": "en", "target": "de", "alternatives": 2},
    ]
    files = [bytes([number]) + json.dumps(body).encode() for number, body in enumerate(bodies)]
    return [*files, b"\x05q=the+cat&source=en&target=de", b"\x06" + b'{"q": "a"}', b"\x07q=%C3%A9&q=b"]


PAIRS = b"the cat\tdie Katze\na \xc3\xa9\tb\n"
JSON_WORDS = (b'"', b"{", b"[", b"null", b"1e999", b"\\ud800", b"\xff", b"-1", b"true")
PICKLE_WORDS = (b"PK\x01\x02", b"PK\x03\x04", b"c", b"R", b"b", b"s.", b"(", b"t")
YAML_WORDS = (b": ", b"- ", b"[", b"&a", b"*a", b'"\\x', b"!!python")


def small_marian_shortlists() -> list[bytes]:
    from tests.interop.marian_writer import shortlist_bytes

    return [shortlist_bytes([[], [3, 9], [4]], 2), shortlist_bytes([[63]] * VOCAB_SIZE, 0)]


def small_shortlists() -> list[bytes]:
    from glassformer.decoding.vocabulary_shortlist import ShortlistMeasurement
    from glassformer.engine.shortlist_file import shortlist_bytes

    numbers = [np.array(values, np.int32) for values in ([0, 5], [0, 0, 2, 3], [3, 9, 63])]
    measurement = ShortlistMeasurement(
        sentences=3, bleu=30.5, unrestricted_bleu=31, has_references=True, identical=2, speedup=1.5, tokens=9
    )
    return [shortlist_bytes(Shortlist(*numbers, VOCAB_SIZE, True, found)) for found in (None, measurement)]


TARGETS = {
    "safetensors": Target(safetensors, small_tensors, (b'"dtype":"F32"', b'"shape":[', b'"data_offsets":[')),
    "model-config": Target(model_config, small_config, (*JSON_WORDS, b'"rotary"', b'"d_head"')),
    "manifest": Target(manifest, small_manifest, (*JSON_WORDS, b"../", b'"/')),
    "trace": Target(trace, small_trace, JSON_WORDS),
    "torch-file": Target(torch_file, small_checkpoints, PICKLE_WORDS),
    "marian-npz": Target(marian_npz, small_npz, (b"PK\x01\x02", b"'descr': '<f4'", b"\x93NUMPY")),
    "marian-bin": Target(marian_bin, small_bin, (b"special:model.yml\0",)),
    "marian-options": Target(marian_options, lambda: [OPTIONS], YAML_WORDS),
    "marian-vocabulary": Target(marian_vocabulary, small_vocabularies, (b": 1\n", b'"', b"\\u00", b"- ", b"{")),
    "marian-shortlist": Target(marian_shortlist, small_marian_shortlists, (b"\1\0\0\0\0\0\0\0", b"\xff\xff\xff\xff")),
    "shortlist": Target(shortlist, small_shortlists, (*JSON_WORDS, b'"dtype":"I32"', b'"shape":[')),
    "json-options": Target(json_options, small_json, JSON_WORDS),
    "vocab-json": Target(vocab_json, lambda: [b'{"<unk>": 0, "a": 1, "\\u00e9": 2}'], JSON_WORDS),
    "tokenizer-settings": Target(tokenizer_settings, small_tokenizer_settings, JSON_WORDS),
    "tokenizer-json": Target(tokenizer_json, small_tokenizers, (*JSON_WORDS, b'"BPE"', b'"Unigram"', b'"Replace"')),
    "sentencepiece": Target(sentencepiece_model, small_spm, (b"\n\x05", b"\x12", b"\x1a", b"\xff\xff\xff\xff\x0f")),
    "merges": Target(merges, lambda: [b"#version: 0.2\na b\nab c\n\xc4\xa0 a\n"], (b" ", b"\n", b"\xff")),
    "bpe-codes": Target(bpe_codes, lambda: [b"#version: 0.2\na b</w>\na b\n", b"a b\na </w>\n"], (b"</w>",)),
    "fairseq-dictionary": Target(fairseq_dictionary, lambda: [b"a@@ 9\n\xc3\xa9 1 #fairseq:overwrite\n"], (b" 9\n",)),
    "corpus-tsv": Target(corpus_tsv, lambda: [PAIRS], (b"\t", b"\n", b"\r", b"\xff", b"\xef\xbb\xbf")),
    "corpus-csv": Target(corpus_csv, lambda: [PAIRS.replace(b"\t", b",")], (b'"', b",", b";", b"\n", b"sep=;")),
    "corpus-jsonl": Target(corpus_jsonl, lambda: [b'{"source": "a", "target": "b"}\n'], JSON_WORDS),
    "corpus-gzip": Target(corpus_gzip, lambda: [gzip.compress(PAIRS, mtime=0)], (b"\x1f\x8b",)),
    "http-head": Target(
        http_head, small_heads, (b"\r\n", b"\n ", b": ", b"Content-Length: 1\r\n", b"\r\n\r\n", b"chunked")
    ),
    "http-request": Target(http_request, small_requests, (*JSON_WORDS, b'"beam": ', b'"text": ', b"&q=")),
}


def check(target: Target, data: bytes) -> bool:
    """Read one input; whether it was accepted. A refusal must be one sentence, and any other exception is a bug."""
    try:
        target.read(data)
    except GlassformerError as error:
        message = str(error)
        assert "\n" not in message, message
        assert len(message) < MAX_MESSAGE, message[:MAX_MESSAGE]
        assert message.endswith((".", "?")), message
        return False
    return True
