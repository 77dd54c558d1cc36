"""Writer for random small Marian models in both file formats, after Marian's source."""

import io
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

CODES = {"int8": 0x101, "float16": 0x402, "float32": 0x404, "float64": 0x408}
INTGEMM = {"intgemm8": (0x4101, 0x10001), "intgemm16": (0x4102, 0x10002)}
"""Type codes of the students' Marian, and of Marian itself."""
Tensors = dict[str, np.ndarray]


def options(**changes: Any) -> dict[str, Any]:
    """The options (`special:model.yml`) of a small student; underscores stand for hyphens."""
    defaults: dict[str, Any] = {
        "dec-cell": "ssru",
        "dec-depth": 2,
        "dim-emb": 8,
        "dim-vocabs": [11, 11],
        "enc-depth": 2,
        "input-types": [],
        "layer-normalization": False,
        "lemma-dim-emb": 0,
        "output-omit-bias": False,
        "right-left": False,
        "skip": False,
        "tied-embeddings": False,
        "tied-embeddings-all": True,
        "tied-embeddings-src": False,
        "transformer-decoder-autoreg": "rnn",
        "transformer-decoder-dim-ffn": 0,
        "transformer-decoder-ffn-depth": 0,
        "transformer-dim-ffn": 12,
        "transformer-ffn-activation": "relu",
        "transformer-ffn-depth": 2,
        "transformer-heads": 2,
        "transformer-no-projection": False,
        "transformer-pool": False,
        "transformer-postprocess": "dan",
        "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "",
        "transformer-preprocess": "",
        "transformer-tied-layers": [],
        "transformer-train-position-embeddings": False,
        "type": "transformer",
        "ulr": False,
        "version": "v1.11.0 f00ba4 2022-02-08 11:22:33 +0000",
    }
    return defaults | {name.replace("_", "-"): value for name, value in changes.items()}


def tensors(options: dict[str, Any], seed: int = 0, learned: int = 0, out: str = "W") -> Tensors:
    """Random weights for these options. `learned`: rows of a position table; `out`: the layout of an untied output."""
    generator = np.random.default_rng(seed)
    width, hidden = options["dim-emb"], options["transformer-dim-ffn"]
    source, target = options["dim-vocabs"]
    pre = "_pre" if "n" in options["transformer-preprocess"] else ""
    found: Tensors = {}

    def matrix(name: str, *shape: int) -> None:
        found[name] = (0.4 * generator.standard_normal(shape)).astype(np.float32)

    def norm(name: str, suffix: str = pre) -> None:
        for part in ("scale", "bias"):
            matrix(f"{name}_ln_{part}{suffix}", 1, width)

    def attention(name: str) -> None:
        for part in "qkvo":
            matrix(f"{name}_W{part}", width, width)
            matrix(f"{name}_b{part}", 1, width)
        norm(f"{name}_Wo")

    for stack in ("encoder", "decoder"):
        for i in range(1, options[f"{stack[:3]}-depth"] + 1):
            layer = f"{stack}_l{i}"
            if stack == "encoder" or options["transformer-decoder-autoreg"] == "self-attention":
                attention(f"{layer}_self")
            else:
                matrix(f"{layer}_rnn_W", width, width)
                matrix(f"{layer}_rnn_Wf", width, width)
                matrix(f"{layer}_rnn_bf", 1, width)
                norm(f"{layer}_rnn" if pre else f"{layer}_rnn_ffn")
            if stack == "decoder":
                attention(f"{layer}_context")
            for number, (inputs, outputs) in enumerate(((width, hidden), (hidden, width)), start=1):
                matrix(f"{layer}_ffn_W{number}", inputs, outputs)
                matrix(f"{layer}_ffn_b{number}", 1, outputs)
            norm(f"{layer}_ffn_ffn")
        if options["transformer-postprocess-top"]:
            norm(f"{stack}_top", "")
        if "n" in options["transformer-postprocess-emb"]:
            norm(f"{stack}_emb", "_pre")
    if options["tied-embeddings-all"] or options["tied-embeddings-src"]:
        matrix("Wemb", source, width)
    else:
        matrix("encoder_Wemb", source, width)
        matrix("decoder_Wemb", target, width)
    if not (options["tied-embeddings-all"] or options["tied-embeddings"]):
        matrix(f"decoder_ff_logit_out_{out}", *((width, target) if out == "W" else (target, width)))
    if not options["output-omit-bias"]:
        matrix("decoder_ff_logit_out_b", 1, target)
    if learned:
        matrix("Wpos", learned, width)
    return found


def yaml(options: dict[str, Any]) -> bytes:
    """As Marian writes it, with a NUL at the end."""
    return ("\n".join(_line(name, value) for name, value in sorted(options.items())) + "\0").encode()


def _line(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"{name}: {str(value).lower()}"
    if isinstance(value, list) and value:
        return f"{name}:" + "".join(f"\n  - {item}" for item in value)
    return f'{name}: ""' if value == "" else f"{name}: {value}"


def quantised(name: str, tensor: np.ndarray, kind: str) -> bytes:
    """Integers and the quantisation factor; all but embeddings are transposed."""
    if kind == "intgemm8":
        factor, dtype, most = np.float32(127) / np.abs(tensor).max(), np.int8, 127
    else:
        factor, dtype, most = np.float32(1024), np.dtype("<i2"), 32767
    laid_out = tensor if "Wemb" in name else tensor.T
    integers = np.clip(np.rint(laid_out * factor), -most, most).astype(dtype)
    return integers.tobytes() + struct.pack("<f", factor)


def write_bin(
    path: Path, found: Tensors, options: dict[str, Any], kind: str = "float32", numbering: int = 0, align: int = 256
) -> None:
    """`kind`: type of the matrices; `numbering`: which type codes; `align`: alignment of tensors."""
    items = []
    for name, tensor in found.items():
        part = name.rsplit("_", 1)[-1]
        if kind.startswith("intgemm") and part.startswith("W") and part not in ("Wpos", "Wt"):
            items.append((name, INTGEMM[kind][numbering], tensor.shape, quantised(name, tensor, kind)))
        else:
            plain = "float32" if kind.startswith("intgemm") else kind
            items.append((name, CODES[plain], tensor.shape, tensor.astype(plain).tobytes()))
    items = [(name, code, shape, data + bytes(-len(data) % align)) for name, code, shape, data in items]
    text = yaml(options)
    items.append(("special:model.yml", CODES["int8"], (len(text),), text))
    path.write_bytes(bin_bytes(items, align))


def bin_bytes(items: list[tuple[str, int, tuple[int, ...], bytes]], align: int = 256) -> bytes:
    """Version 1 of Marian's binary format."""
    out = struct.pack("<QQ", 1, len(items))
    for name, code, shape, data in items:
        out += struct.pack("<QQQQ", len(name.encode()) + 1, code, len(shape), len(data))
    out += b"".join(name.encode() + b"\0" for name, *_ in items)
    out += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in items)
    padding = (-(len(out) + 8)) % align
    return out + struct.pack("<Q", padding) + bytes(padding) + b"".join(data for *_, data in items)


def arrays(found: Tensors, options: dict[str, Any], kind: str = "float32") -> Tensors:
    """The arrays of an .npz."""
    return {name: tensor.astype(kind) for name, tensor in found.items()} | {
        "special:model.yml": np.frombuffer(yaml(options), dtype=np.int8)
    }


def write_npz(path: Path, found: Tensors, options: dict[str, Any], kind: str = "float32") -> None:
    write_zip(path, {f"{name}.npy": npy(array) for name, array in arrays(found, options, kind).items()})


def write_zip(path: Path, entries: dict[str, bytes]) -> None:
    """Uncompressed, as Marian writes it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        for name, content in entries.items():
            file.writestr(name, content)


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def shortlist_bytes(lists: list[list[int]], always: int) -> bytes:
    """A binary shortlist: the target ids of each source id, and how many first target ids are in every list."""
    offsets = [sum(map(len, lists[:i])) for i in range(len(lists) + 1)]
    targets = [token for tokens in lists for token in tokens]
    header = (always, max(map(len, lists), default=0), len(offsets), len(targets))
    checked = struct.pack(f"<{4 + len(offsets)}Q{len(targets)}I", *header, *offsets, *targets)
    checksum = 0
    for (word,) in struct.iter_unpack("<Q", checked[: len(checked) // 8 * 8]):
        checksum ^= (word + 0x9E3779B9 + (checksum << 6) + (checksum >> 2)) % 2**64
    return struct.pack("<QQ", 0xF11A48D5013417F5, checksum) + checked
