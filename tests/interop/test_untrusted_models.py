"""Untrusted files, randomly damaged or malicious: each gives a model or one error of ours, within limits of time and
memory, and no code in them runs."""

import base64
import contextlib
import functools
import io
import json
import os
import pickle
import random
import re
import resource
import signal
import struct
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
from safetensors.torch import load_file, save_file

import glassformer
from glassformer.atomic_directory import MANIFEST, building
from glassformer.errors import DirectoryError, GlassformerError
from glassformer.interop.fairseq import NAMES, open_fairseq
from glassformer.interop.format_detection import open_imported
from glassformer.interop.hugging_face import write_hugging_face
from glassformer.interop.tutorial_notebook import NAMES as TUTORIAL
from glassformer.interop.tutorial_notebook import open_tutorial
from glassformer.model import ModelConfig, load_model, save_model
from tests.examples import seeded_random
from tests.interop.memory import BASE, measured
from tests.interop.mutations import MUTATIONS
from tests.interop.saved_tensors import with_arrays
from tests.interop.test_marian_file import mutated
from tests.models import build
from tests.processes import run_fresh

SECONDS = 2
TOKENS = 64
SIZES = {"d_model": 8, "n_heads": 2, "d_ff": 9, "encoder_layers": 1, "decoder_layers": 1}
FAIRSEQ_IDS = {"pad_id": 1, "bos_id": 2, "eos_id": 2}
T5 = {"norm_eps": 1e-6, "linear_bias": False, "scale_embeddings": False, "scale_scores": False, "scale_output": True}
FAMILIES: dict[str, dict[str, Any]] = {
    "marian": {"positions": "sinusoidal-halves", "pad_id": 63, "bos_id": 63, "eos_id": 2, "output_bias": True},
    "bart": {"positions": "learned", "max_positions": 16, "position_offset": 2, "embedding_norm": True, **FAIRSEQ_IDS},
    "m2m_100": {"positions": "sinusoidal-fairseq", "position_offset": 2, "norm_first": True, **FAIRSEQ_IDS},
    "t5": {"positions": "relative", "norm": "rms", "norm_first": True, "pad_id": 0, "bos_id": 0, "eos_id": 1, **T5},
}
FAMILIES["mbart"] = FAMILIES["bart"] | {"norm_first": True}
FAMILIES["umt5"] = FAMILIES["t5"] | {"positions": "relative-per-layer"}
ALONE = ("bart", "mbart", "t5")
"""Families whose only tokenizer file may be tokenizer.json: the kinds "bart alone" and so on."""
FAMILIES |= {f"{kind} alone": FAMILIES[kind] for kind in ALONE}
FIRST = ["<s>", "<pad>", "</s>", "<unk>"]
CODES = ["en_XX", "de_DE", "fr_XX"]


@functools.cache
def spm() -> bytes:
    """A small SentencePiece model."""
    line = "the cat sat on a mat and it was a red mat so they sang of red cats in the sun "
    lines = [line[i:] + line[:i] for i in range(len(line))]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=40, hard_vocab_limit=False, minloglevel=2
    )
    return model.getvalue()


def tokenizer_files(kind: str) -> dict[str, Any]:
    """The tokenizer files of a model of this family: bytes, or values for JSON."""
    opened = sentencepiece.SentencePieceProcessor(model_proto=spm())
    pieces = [opened.id_to_piece(i) for i in range(opened.vocab_size())]
    numbers = {piece: number for number, piece in enumerate(pieces)}
    about = {"tokenizer_class": "MBart50Tokenizer", "src_lang": "en_XX", "tgt_lang": "de_DE"}
    tokens = {"additional_special_tokens": [CODES[0], {"content": CODES[1], "lstrip": False}, CODES[2]]}
    many = {"sentencepiece.bpe.model": spm(), "tokenizer_config.json": about, "special_tokens_map.json": tokens}
    letters = [*FIRST, *"abcdefgh", "ab", "cd", "abcd", "<mask>"]
    if kind.endswith(" alone"):
        return {"tokenizer.json": tokenizer_json(kind.removesuffix(" alone"), letters), "tokenizer_config.json": about}
    return {
        "marian": {
            **dict.fromkeys(("source.spm", "target.spm"), spm()),
            **dict.fromkeys(("vocab.json", "target_vocab.json"), numbers | {"<pad>": TOKENS - 1}),
            "tokenizer_config.json": {"separate_vocabs": True},
        },
        "bart": {
            "vocab.json": {piece: number for number, piece in enumerate(letters)},
            "merges.txt": b"#version: 0.2\na b\nc d\nab cd\n",
        },
        "mbart": many,
        "m2m_100": many | {"vocab.json": {piece: number for number, piece in enumerate([*FIRST, *pieces[3:]])}},
        "t5": {"spiece.model": spm()},
        "umt5": {"spiece.model": spm(), "tokenizer_config.json": {"extra_ids": 9}},
    }[kind]


def tokenizer_json(kind: str, pieces: list[str]) -> dict[str, Any]:
    """A small tokenizer.json with the components that this family has."""
    special = [*FIRST, "<mask>", *(CODES if kind == "mbart" else [])]
    pieces = [*pieces, *CODES, "▁a", "▁"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    sign = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    words = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, sign]}
    spaces = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    forms = [{"type": "Precompiled", "precompiled_charsmap": CHARSMAP}, strip, spaces]
    after = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}]
    template = {"single": after, "special_tokens": {"</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}}
    of_bytes = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    roberta = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}
    bytes_too = kind == "bart"
    numbers = {piece: number for number, piece in enumerate(pieces)}
    merged = {"type": "BPE", "unk_token": "<unk>", "vocab": numbers, "merges": [["a", "b"], ["c", "d"], ["ab", "cd"]]}
    scored = {"type": "Unigram", "unk_id": 3, "vocab": [[piece, -1.0 - n / 8] for piece, n in numbers.items()]}
    return {
        "version": "1.0",
        "added_tokens": [{"id": numbers[piece], "content": piece, **flags} for piece in special],
        "normalizer": None if bytes_too else {"type": "Sequence", "normalizers": forms},
        "pre_tokenizer": of_bytes if bytes_too else words,
        "post_processor": roberta if bytes_too else {"type": "TemplateProcessing", **template},
        "decoder": of_bytes if bytes_too else {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, sign]},
        "model": scored if kind == "t5" else merged,
    }


CHARSMAP = base64.b64encode(struct.pack("<3I", 8, 0, 0) + b"x\0").decode()


def write(path: Path, content: Any) -> None:
    """Write a new file: one that is memory-mapped must not be overwritten."""
    path.unlink(missing_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())


def hugging_face(directory: Path, kind: str = "marian") -> Path:
    """A small model of this family with its tokenizer; M2M100's weights in two shards."""
    directory.mkdir(parents=True)
    model = build(ModelConfig(vocab_size=TOKENS, **SIZES, **FAMILIES[kind]), dtype=torch.float32)
    write_hugging_face(model, None, directory, max_tokens=16)
    for name, content in tokenizer_files(kind).items():
        write(directory / name, content)
    if kind == "m2m_100":
        in_shards(directory)
    return directory


def in_shards(directory: Path) -> None:
    tensors = load_file(directory / "model.safetensors")
    shards = {name: f"model-{i % 2 + 1}-of-2.safetensors" for i, name in enumerate(sorted(tensors))}
    for shard in set(shards.values()):
        save_file({name: tensors[name].clone() for name in tensors if shards[name] == shard}, directory / shard)
    (directory / "model.safetensors").unlink()
    write(directory / "model.safetensors.index.json", {"metadata": {"total_size": 1}, "weight_map": shards})


def fairseq_run(directory: Path) -> dict[str, Any]:
    """Write the files of a small fairseq run except its checkpoint, whose content is returned."""
    directory.mkdir(parents=True)
    options = {"positions": "sinusoidal-fairseq", "position_offset": 2, "share_embeddings": False, **FAIRSEQ_IDS}
    config = ModelConfig(vocab_size=12, source_vocab_size=10, **SIZES, **options)
    model = build(config, dtype=torch.float32)
    weights = {NAMES.theirs(name): weight.detach() for name, weight in model.named_parameters()}
    both = {"embed_dim": 8, "ffn_embed_dim": 9, "attention_heads": 2, "normalize_before": False, "learned_pos": False}
    args = {f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in both.items()}
    args |= {"encoder_layers": 1, "decoder_layers": 1, "source_lang": "xx", "target_lang": "yy", "dropout": 0.1}
    args |= {"activation_fn": "relu", "layernorm_embedding": False, "no_scale_embedding": False}
    write(
        directory / "dict.xx.txt", "".join(f"{piece} 9\n" for piece in ("a@@", "b@@", "é@@", "a", "b", "ab")).encode()
    )
    write(directory / "dict.yy.txt", "".join(f"{piece} 9\n" for piece in "cdefghij").encode())
    write(directory / "bpecodes", "#version: 0.2\na b</w>\na b\né b\n".encode())
    return {"args": None, "cfg": {"model": args, "task": {"source_lang": "xx"}}, "model": weights}


def tutorial_weights() -> dict[str, Any]:
    options = {"positions": "learned", "max_positions": 9, "share_embeddings": False, "tie_output": False}
    config = ModelConfig(vocab_size=11, source_vocab_size=10, **SIZES, **options, output_bias=True)
    return {TUTORIAL.theirs(name): w.detach() for name, w in build(config, dtype=torch.float32).named_parameters()}


WRONG: list[Any] = [None, True, False, -1, 0, 1, 3, 2**31, 2**63, 10**9, 10**18, 10**400, 1.5, 1e308, 1e-320]
WRONG += [float("nan"), float("inf"), "", "x", "12", "\ud800", "\0", "../x", "/etc/passwd", "x" * 5000, "é\n"]
WRONG += [[], [1], [-1], [None], [[1]], [[[[]]]], {}, {"content": 5}, {"a": {"b": [None]}}, [0] * 500]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every nested value."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if type(value) is list else ():
        yield (*path, key)
        yield from places(inner, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    return functools.reduce(lambda inner, key: inner[key], path, value)


def swapped(value: Any, chance: random.Random) -> Any:
    """A copy with one value deleted, renamed, copied over another, or replaced by a wrong one."""
    value = json.loads(json.dumps(value))
    paths = list(places(value))
    if not paths:
        return chance.choice(WRONG)
    *path, key = chance.choice(paths)
    inside = at(value, tuple(path))
    match chance.randrange(10):
        case 0:
            del inside[key]
        case 1 if isinstance(inside, dict):
            inside[chance.choice(["x", "\ud800", "n" * 3000, "", "a\nb"])] = inside.pop(key)
        case 2:
            inside[key] = json.loads(json.dumps(at(value, chance.choice(paths))))
        case _:
            inside[key] = chance.choice(WRONG)
    return value


def damaged(name: str, content: bytes, chance: random.Random) -> bytes:
    """A damaged file: in its bytes, or in its parsed content."""
    if name.endswith(".json") and chance.random() < 0.7:
        value = json.loads(content)
        for _ in range(chance.choice([1, 1, 2])):
            value = swapped(value, chance)
        return json.dumps(value).encode()
    if name.endswith(".safetensors") and chance.random() < 0.6:
        size = struct.unpack("<Q", content[:8])[0]
        header = json.dumps(swapped(json.loads(content[8 : 8 + size]), chance)).encode()
        return struct.pack("<Q", len(header)) + header + content[8 + size :]
    if chance.random() < 0.2:
        return content[: chance.randrange(len(content))]
    return mutated(content, chance)


def refusal_within_memory(call: Any, *arguments: Any, longest: int = 2500) -> str | None:
    """Like `refusal`, and fails if the call takes too much memory."""
    complaint, took = measured(functools.partial(refusal, longest=longest), call, *arguments)
    assert took < BASE, (took, complaint)
    return complaint


def refusal(call: Any, *arguments: Any, longest: int = 2500) -> str | None:
    """The error message of a call; None if it succeeds. Fails on foreign errors, slow calls and ill-formed messages."""
    start, complaint = time.process_time(), None
    try:
        call(*arguments)
    except GlassformerError as error:
        complaint = str(error)
    assert time.process_time() - start < SECONDS
    if complaint is not None:
        assert len(complaint) < longest, complaint[:3000]
        assert "\n" not in complaint, complaint
        assert complaint.endswith((".", "?")), complaint
    return complaint


def used(path: Path) -> None:
    """Open a directory and use its tokenizer, which may raise our errors."""
    tokenizer = open_imported(path).tokenizer
    if tokenizer is not None:
        with contextlib.suppress(GlassformerError):
            tokenizer.encode("a cat, <mask> abcd é😀 \u0301 12", "source")
        tokenizer.decode(range(tokenizer.vocab_size("target")))


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_damaged_directory_gives_a_model_or_a_sentence(kind, tmp_path):
    here = hugging_face(tmp_path / "model", kind)
    files = {path.name: path.read_bytes() for path in sorted(here.iterdir())}
    chance, refused = seeded_random(kind), 0
    assert refusal_within_memory(used, here) is None
    for _ in range(MUTATIONS):
        name = chance.choice(list(files))
        write(here / name, damaged(name, files[name], chance))
        complaint = refusal_within_memory(used, here)
        assert complaint is None or str(here) in complaint, complaint
        refused += complaint is not None
        write(here / name, files[name])
    assert refused > 0.4 * MUTATIONS  # the others changed a weight, or something without effect


def test_a_damaged_run_of_fairseq_gives_a_model_or_a_sentence(tmp_path):
    """Dictionaries, BPE codes, options and tensors; reading the checkpoint itself is tested in test_torch_file."""
    here = tmp_path / "run"
    saved = fairseq_run(here)
    files = {path.name: path.read_bytes() for path in sorted(here.iterdir())}
    chance, refused = seeded_random("fairseq"), 0
    assert refusal_within_memory(open_fairseq, with_arrays(saved), here / "checkpoint_best.pt") is None
    for _ in range(MUTATIONS):
        wrong, name = dict(saved), None
        match chance.randrange(4):
            case 0:
                wrong["cfg"] = swapped(saved["cfg"], chance)
            case 1:
                wrong["model"] = other_tensors(saved["model"], chance)
            case _:
                name = chance.choice(list(files))
                write(here / name, damaged(name, files[name], chance))
        complaint = refusal_within_memory(open_fairseq, with_arrays(wrong), here / "checkpoint_best.pt")
        assert complaint is None or str(here) in complaint, complaint
        refused += complaint is not None
        if name:
            write(here / name, files[name])
    assert refused > 0.4 * MUTATIONS


def other_tensors(tensors: dict[str, Any], chance: random.Random) -> dict[Any, Any]:
    """A copy with one tensor deleted, of another shape or type, or renamed."""
    found: dict[Any, Any] = dict(tensors)
    name, other = chance.choice(list(found)), chance.choice(list(found))
    wrong = [torch.zeros(()), torch.zeros(0), torch.zeros(3, 0), torch.zeros(1, 1, 1), found[name].double()]
    wrong += [found[name].half(), found[name].long(), found[name].bool(), found[name].cfloat(), found[name][:1]]
    wrong += [torch.zeros(1).expand(10**9), found[name].to(torch.float8_e5m2), found[other], None, "x", [1], {}]
    names = ["x", "\n", 5, None, "n" * 3000, other, name.replace("0", "999999"), name.replace("0", "1" * 5000)]
    match chance.randrange(6):
        case 0:
            del found[name]
        case 1:
            found[chance.choice(names)] = found.pop(name)
        case _:
            found[name] = chance.choice(wrong)
    return found


def test_a_damaged_state_dict_of_the_tutorial_gives_a_model_or_a_sentence(tmp_path):
    weights, path = tutorial_weights(), tmp_path / "tut6-model.pt"
    chance, refused = seeded_random("tensors"), 0
    assert refusal_within_memory(open_tutorial, with_arrays(weights), path, 2) is None
    for _ in range(MUTATIONS):
        heads = chance.choice([2, 2, 2, 2, None, 3, -1, 10**9])
        complaint = refusal_within_memory(open_tutorial, with_arrays(other_tensors(weights, chance)), path, heads)
        assert complaint is None or str(path) in complaint, complaint
        refused += complaint is not None
    assert refused > 0.4 * MUTATIONS


def test_a_damaged_model_of_ours_with_valid_checksums_gives_a_model_or_a_sentence(tmp_path):
    here = tmp_path / "ours"
    save_model(build(ModelConfig(vocab_size=TOKENS, **SIZES), dtype=torch.float32), here)
    files = {path.name: path.read_bytes() for path in sorted(here.iterdir()) if path.name != MANIFEST}
    chance, refused = seeded_random("directory"), 0
    for number in range(MUTATIONS // 4):
        name = chance.choice(list(files))
        with_checksums(tmp_path / str(number), files | {name: damaged(name, files[name], chance)})
        refused += refusal_within_memory(load_model, tmp_path / str(number), longest=20_000) is not None
    assert refused > 0.4 * (MUTATIONS // 4)


def with_checksums(directory: Path, files: dict[str, bytes]) -> None:
    with building(directory) as aside:
        for name, content in files.items():
            (aside / name).write_bytes(content)


def edited(directory: Path, name: str = "config.json", **changes: Any) -> Path:
    write(directory / name, json.loads((directory / name).read_bytes()) | changes)
    return directory


def malicious_settings(here: Path) -> Iterator[tuple[Path, str]]:
    """Wrong config.json and tokenizer files: a path, and a pattern of the expected error."""

    def new(name: str, kind: str = "marian") -> Path:
        return hugging_face(here / name, kind)

    for name in ("auto_map", "trust_remote_code", "_attn_implementation_internal"):
        yield (
            edited(new(name), **{name: {"AutoModel": "evil.Model"}}),
            f"asks to run custom code .{name}., which is not supported",
        )
    yield edited(new("type"), model_type="evil"), "has model_type 'evil'; supported are"
    yield edited(new("layers"), encoder_layers=10**9), "1,000,000,001 layers need|encoder_layers = 1000000000"
    yield edited(new("layers more", "t5"), num_layers=10**6), "1,000,001 layers need at least 8,000,008 tensors"
    yield edited(new("width"), d_model=10**18), "d_model = 10{18}, which is not a plausible value"
    yield edited(new("words", "t5"), vocab_size=2 * 10**9), "vocab_size = 2000000000 exceeds the limit of 16,777,216"
    yield edited(new("heads"), encoder_attention_heads=2**23, decoder_attention_heads=2**23), "cannot be split"
    yield edited(new("kv", "t5"), d_kv=2**23), r"n_heads \* d_head = 16777216|does not match its config"
    yield (
        edited(new("text", "bart"), max_position_embeddings="9"),
        "max_position_embeddings = '9', which is not an integer",
    )
    yield (
        edited(new("pad", "m2m_100"), "generation_config.json", pad_token_id=[[]]),
        "pad_token_id = .*is not an integer",
    )
    yield edited(new("nan"), d_model=float("nan")), "NaN is not valid in JSON"
    config = edited(new("infinite", "t5"), layer_norm_epsilon=1) / "config.json"
    write(config, config.read_bytes().replace(b'epsilon": 1,', b'epsilon": 1e999,'))
    yield here / "infinite", "layer_norm_epsilon = inf, which is not a plausible value"
    deep = b'{"a":' * 100_000
    for name in ("config.json", "vocab.json", "tokenizer_config.json", "generation_config.json"):
        write(new(f"deep {name}") / name, deep)
        yield here / f"deep {name}", f"{name} is not readable JSON: it is nested too deeply"
        write(new(f"twice {name}") / name, b'{"d_model": 8, "d_model": 9}')
        yield here / f"twice {name}", f"{name} is not readable JSON: 'd_model' is given twice"
        os.truncate(new(f"sparse {name}") / name, 2**30)
        yield here / f"sparse {name}", f"{name} has 1,073,741,824 bytes; the limit for such a file is"
    yield edited(new("beyond"), "vocab.json", extra=TOKENS), "'extra' has the id 64, out of range for the model's 64"
    yield edited(new("negative"), "vocab.json", extra=-1), "does not give each piece an id: 'extra' has -1"
    yield (
        edited(new("half"), "vocab.json", **{"\ud800": 9}),
        "vocab.json is not .*an unpaired surrogate",
    )
    yield edited(new("long"), "vocab.json", **{"x" * 10**6: 9}), "a piece of 1,000,000 characters"
    write(new("lines", "bart") / "merges.txt", b"a b c\n" * 10**4)
    yield here / "lines", "merges file has a line that is not two pieces"
    write(new("more lines", "bart") / "merges.txt", b"a b\n" * 10**5)
    yield here / "more lines", "merges.txt has 100,000 lines, too many for a model of 64 tokens"
    write(new("pieces") / "source.spm", b"\n\0" * 10**5)
    yield here / "pieces", "source.spm has more than 50,128 pieces, too many for a model of 64 tokens"
    yield from malicious_tokenizers(new)


def malicious_tokenizers(new: Callable[[str, str], Path]) -> Iterator[tuple[Path, str]]:
    """Wrong tokenizer.json files, as the only tokenizer file."""
    contents = {
        "deep": (b'{"a":' + b"[" * 10**5, "nested too deeply"),
        "twice": (b'{"model": null, "model": 5}', "'model' is given twice"),
        "no model": (b"{}", "the model must be an object, not None"),
        "no end": (b'{"model": {"vocab": {"a": 0', "expected an entry at byte"),
        "no string": (b'{"model": {"vocab": {"' + b"a" * 10**6, "expected an entry at byte"),
        "long": (b'{"model": {"vocab": {"' + b"a" * 10**6 + b'": 0}}}', "a piece of 1,000,000 bytes"),
        "half": (b'{"model": {"vocab": {"\\ud800": 0}}}', "an unpaired surrogate"),
        "half more": (b'{"a": "\\ud800", "model": {"vocab": {}}}', "not a readable tokenizer file: .*surrogates"),
        "number": (b'{"model": {"vocab": {"a": ' + b"9" * 10**5 + b"}}}", "expected an entry at byte"),
        "behind": (b'{"model": null} {}', "there is extra data after its end"),
        "rest": (b'{"a": "' + b"a" * 2**21 + b'"}', "without its tables it has"),
    }
    for name, (content, complaint) in contents.items():
        directory = new(f"tokenizer {name}", "bart alone")
        write(directory / "tokenizer.json", content)
        yield directory, f"tokenizer.json: .*{complaint}"
    sparse = new("tokenizer sparse", "bart alone")
    os.truncate(sparse / "tokenizer.json", 2**30)
    yield sparse, "tokenizer.json has 1,073,741,824 bytes; the limit for such a file is"


def irregular_files(here: Path) -> Iterator[tuple[Path, str]]:
    """Links, pipes, devices, directories, bad names and bad shards, in place of a file or of the directory."""
    secret = here / "secret.json"
    for name in ("config.json", "model.safetensors", "vocab.json", "source.spm"):
        directory = hugging_face(here / f"link {name}")
        os.rename(directory / name, secret)
        (directory / name).symlink_to("../secret.json")
        yield directory, f"{name} is a symbolic link to .*secret.json, outside its directory: replace"
        (hugging_face(here / f"device {name}") / name).unlink()
        (here / f"device {name}" / name).symlink_to("/dev/zero")
        yield here / f"device {name}", f"{name} is a symbolic link to /dev/zero, outside"
        (hugging_face(here / f"pipe {name}") / name).unlink()
        os.mkfifo(here / f"pipe {name}" / name)
        yield here / f"pipe {name}", f"{name} is not a regular file"
        (hugging_face(here / f"folder {name}") / name).unlink()
        (here / f"folder {name}" / name).mkdir()
        yield here / f"folder {name}", f"{name} is not a regular file"
    index = "model.safetensors.index.json"
    names = ["../x.safetensors", "/etc/passwd", "a/b", "..", "", "a\0b", "x" * 300, "\u20ac" * 100, "a\nb"]
    for number, name in enumerate(names):
        directory = edited(hugging_face(here / f"part {number}", "m2m_100"), index, weight_map={"x": name})
        yield directory, "refers to '.*', which is not a file name in that directory"
    yield (
        edited(hugging_face(here / "part half", "m2m_100"), index, weight_map={"x": "\ud800"}),
        "an unpaired surrogate",
    )
    yield edited(hugging_face(here / "no part", "m2m_100"), index, weight_map={"x": "y"}), "y cannot be read: No such"
    yield edited(hugging_face(here / "no map", "m2m_100"), index, weight_map=[]), "does not map each tensor to a file"
    double = hugging_face(here / "double", "m2m_100")
    write(double / "model-2-of-2.safetensors", (double / "model-1-of-2.safetensors").read_bytes())
    yield double, "holds tensors that another shard holds too"
    os.mkfifo(here / "pipe")
    yield here / "pipe", "is neither a file nor a directory"
    (here / "loop").symlink_to("loop")
    yield here / "loop", "is not a valid model path: Too many levels of symbolic links"
    (hugging_face(here / "inner loop") / "vocab.json").unlink()
    (here / "inner loop" / "vocab.json").symlink_to("vocab.json")
    yield here / "inner loop", ""  # treated as missing: the model takes ids
    yield Path("/dev/zero"), "is neither a file nor a directory"
    yield here / ("x" * 300), "is not a valid model path: File name too long"
    yield here / "\ud800", "There is no|is not a valid model path: .*surrogates not allowed"
    yield here / "a\0b", "is not a valid model path: embedded null byte"


def malicious_weights(here: Path) -> Iterator[tuple[Path, str]]:
    """Pickles, decompression bombs, and headers that state more data than there is."""
    only = hugging_face(here / "bin")
    os.rename(only / "model.safetensors", only / "pytorch_model.bin")
    yield only, "pytorch_model.bin is not supported, save the model again"
    shape = {"dtype": "F32", "shape": [10**9, 10**9], "data_offsets": [0, 4 * 10**18]}
    kinds = {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}
    for name, entry in {"shape": shape, "kind": kinds, "overflow": shape | {"shape": [2**63, 4]}}.items():
        header = json.dumps({"x": entry}).encode()
        write(hugging_face(here / name) / "model.safetensors", struct.pack("<Q", len(header)) + header + b"\0")
        yield here / name, "is not a readable safetensors file|does not have: x"
    sparse = hugging_face(here / "header") / "model.safetensors"
    write(sparse, struct.pack("<Q", 90 * 2**20))
    os.truncate(sparse, 2**30)
    yield here / "header", "has a header of 94,371,840 bytes; the limit is"
    many = {f"x{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(10_000)}
    header = json.dumps(many).encode()
    write(hugging_face(here / "many") / "model.safetensors", struct.pack("<Q", len(header)) + header)
    yield here / "many", "does not have: x0, x1, .* and 9980 more"
    with (
        zipfile.ZipFile(here / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file,
        file.open("Wemb.npy", "w", force_zip64=True) as entry,
    ):
        for _ in range(300):
            entry.write(bytes(2**20))
    yield here / "bomb.npz", "bomb.npz"


def malicious_models_of_ours(here: Path) -> Iterator[tuple[Path, str]]:
    """Model directories in our format with valid checksums, but wrong settings."""
    config = ModelConfig(vocab_size=TOKENS, **SIZES)
    save_model(build(config, dtype=torch.float32), here / "good")
    weights, good = (here / "good" / "model.safetensors").read_bytes(), json.loads(config.as_json())
    changes: dict[str, tuple[dict[str, Any], str]] = {
        "layers": ({"encoder_layers": 10**9}, "encoder_layers = 1000000000 exceeds the limit of"),
        "many layers": ({"decoder_layers": 10**6}, "1,000,001 layers need at least 8,000,008 tensors"),
        "words": ({"vocab_size": 10**18, "source_vocab_size": 10**18}, "vocab_size = 10{18} exceeds the limit of"),
        "width": ({"d_model": 10**400}, "d_model = 10+[.]{3}0+ exceeds the limit of"),
        "heads": ({"n_heads": 2**20, "d_head": 2**20}, r"n_heads \* d_head = 1099511627776 exceeds the limit of"),
        "offset": ({"position_offset": 10**7}, "position_offset = 10,000,000 is larger than every dimension of"),
    }
    for name, (change, complaint) in changes.items():
        with_checksums(here / name, {"config.json": json.dumps(good | change).encode(), "model.safetensors": weights})
        yield here / name, complaint


class Runs:
    """An object whose unpickling runs a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


CHILD = """
import sys
from tests.interop.test_untrusted_models import open_under_watch
open_under_watch(sys.argv[1])
"""
FORBIDDEN = ("exec", "compile", "import", "subprocess.", "socket.", "os.", "shutil.", "ctypes.", "pickle.", "marshal.")
READING = ("os.listdir", "os.scandir")


def open_under_watch(request_file: str) -> None:
    """In a child process: open each of these paths; write the errors and the audit events to a file."""
    request = json.loads(Path(request_file).read_bytes())
    for path in request["first"]:  # one-time costs of a first call
        refusal(open_imported, Path(path))
    events: list[str] | None = None

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if events is None or event in READING:
            return
        if event.startswith(FORBIDDEN):
            events.append(f"{event} {arguments}"[:200])
        elif event == "open" and (set(arguments[1] or "") & set("wax+") or arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            events.append(f"writing {arguments}"[:200])

    sys.addaudithook(watch)
    events = []
    compile("1", "watched", "eval")
    assert events, "the audit hook is not active"
    events = None
    signal.alarm(200)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 2**30 + BASE, -1))  # 2**30: the sparse files are mapped
    found = {}

    def under_watch(path: str) -> tuple[str | None, list[str]]:
        nonlocal events
        events = []
        complaint = refusal(load_model if "/ours/" in path else open_imported, Path(path))
        noticed, events = events, None
        return complaint, noticed

    for path in request["paths"]:
        (complaint, noticed), took = measured(under_watch, path)
        found[path] = [complaint, noticed, took]
    Path(request["answer"]).write_text(json.dumps(found))


def test_malicious_files_are_refused_in_a_sentence_and_no_code_runs(tmp_path):
    here = tmp_path / "set"
    here.mkdir()
    expected = dict([*malicious_settings(here), *irregular_files(here), *malicious_weights(here)])
    expected |= dict(malicious_models_of_ours(here / "ours"))
    mark = tmp_path / "mark"
    (here / "attack.pt").write_bytes(pickle.dumps({"model": Runs(f"touch {mark}")}))
    expected[here / "attack.pt"] = "attack.pt is a pickle, .* `glassformer convert --allow-pickle`"
    (here / "blobs").mkdir()
    cached = here / "snapshots" / ("1" * 40)
    for number, file in enumerate(sorted(hugging_face(cached).iterdir())):
        os.rename(file, here / "blobs" / str(number))
        file.symlink_to(f"../../blobs/{number}")
    first = [str(hugging_face(here / "good" / kind, kind)) for kind in FAMILIES]
    request = {"first": first, "paths": [str(path) for path in (*expected, cached)], "answer": str(tmp_path / "answer")}
    write(tmp_path / "request", request)
    run_fresh(CHILD, str(tmp_path / "request"))
    found = json.loads((tmp_path / "answer").read_bytes())
    assert found.pop(str(cached))[:2] == [None, []]
    for path, pattern in expected.items():
        complaint, events, grown = found[str(path)]
        assert events == [], (path.name, events)
        assert grown < BASE, (path.name, grown)
        assert complaint is not None or not pattern, path.name
        assert complaint is None or re.search(pattern, complaint), (path.name, complaint)
    assert not mark.exists()


@pytest.mark.parametrize("form", ["zip", "legacy", "pickle"])
def test_a_pickle_that_runs_code_is_refused_even_if_pickles_are_allowed(form, tmp_path):
    mark, path = tmp_path / "mark", tmp_path / "checkpoint_best.pt"
    saved = {"args": None, "model": {"encoder.version": Runs(f"touch {mark}")}}
    if form == "pickle":
        path.write_bytes(pickle.dumps(saved))
    else:
        torch.save(saved, path, _use_new_zipfile_serialization=form == "zip")
    with pytest.raises(DirectoryError, match=r"refers to (posix|os)\.system, which|was not written by torch") as error:
        open_imported(tmp_path, allow_pickle=True)
    assert re.fullmatch(r"[^\n]+\.", str(error.value))
    assert not mark.exists()


@pytest.mark.parametrize("name", ["dict.xx.txt", "dict.yy.txt", "bpecodes"])
def test_irregular_files_of_a_run_are_refused(name, tmp_path):
    here = tmp_path / "run"
    torch.save(fairseq_run(here), here / "checkpoint_best.pt")
    opened = functools.partial(open_imported, allow_pickle=True)
    assert refusal(opened, here) is None
    os.rename(here / name, tmp_path / "elsewhere")
    (here / name).symlink_to("../elsewhere")
    assert f"{name} is a symbolic link to {tmp_path / 'elsewhere'}, outside its directory" in str(refusal(opened, here))
    (here / name).unlink()
    write(here / name, b"")
    os.truncate(here / name, 2**30)
    assert f"{name} has 1,073,741,824 bytes" in str(refusal(opened, here))
    (here / name).unlink()
    os.mkfifo(here / name)
    assert name == "bpecodes" or f"{name} is not a regular file" in str(refusal(opened, here))


def test_load_refuses_malicious_files_too(tmp_path):
    """It checks first whether a model is in our format, and reads files for that."""
    files = dict([*malicious_settings(tmp_path), *malicious_models_of_ours(tmp_path / "ours")])
    for path, pattern in files.items():
        complaint = refusal(glassformer.load, path)
        assert complaint is not None, path
        assert re.search(pattern, complaint), complaint
