"""Reader for Marian's files: weights are read bitwise, and malformed files are refused."""

import random
import re
import struct
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from glassformer.errors import DirectoryError, GlassformerError
from glassformer.interop.marian import open_marian
from glassformer.interop.marian.marian_file import read_marian_file
from glassformer.interop.marian.marian_text import read_options, read_vocabulary
from tests.examples import seeded_random
from tests.interop import marian_writer as marian
from tests.interop.mutations import MUTATIONS

OPTIONS = marian.options()
TENSORS = marian.tensors(OPTIONS)


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("write", [marian.write_bin, marian.write_npz])
def test_weights_are_read_bitwise(write, kind, tmp_path):
    path = tmp_path / "model"
    write(path, TENSORS, OPTIONS, kind)
    file = read_marian_file(path)
    assert file.options == OPTIONS
    assert list(file.tensors) == list(TENSORS)
    for name, tensor in TENSORS.items():
        assert file.tensors[name].dtype == np.float32
        assert np.array_equal(file.tensors[name], tensor.astype(kind).astype(np.float32)), name


@pytest.mark.parametrize("align", [1, 4, 256])
def test_tensors_may_begin_anywhere(align, tmp_path):
    marian.write_bin(tmp_path / "model.bin", TENSORS, OPTIONS, align=align)
    found = read_marian_file(tmp_path / "model.bin").tensors
    assert all(np.array_equal(found[name], tensor) for name, tensor in TENSORS.items())


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_an_npz_may_be_numpys_and_column_major(write, tmp_path):
    found = marian.arrays(TENSORS, OPTIONS)
    found["encoder_l1_self_Wq"] = np.asfortranarray(found["encoder_l1_self_Wq"])
    write(tmp_path / "model.npz", **found)
    read = read_marian_file(tmp_path / "model.npz").tensors
    assert all(np.array_equal(read[name], tensor) for name, tensor in TENSORS.items())


@pytest.mark.parametrize("numbering", [0, 1])
@pytest.mark.parametrize("kind", ["intgemm8", "intgemm16"])
def test_quantised_matrices_are_right_to_half_a_step(kind, numbering, tmp_path):
    marian.write_bin(tmp_path / "model.bin", TENSORS, OPTIONS, kind, numbering)
    found = read_marian_file(tmp_path / "model.bin").tensors
    for name, tensor in TENSORS.items():
        step = np.abs(tensor).max() / 127 if kind == "intgemm8" else 1 / 1024
        bound = 0.5001 * step if "W" in name.rsplit("_", 1)[-1] else 0
        assert np.abs(found[name] - tensor).max() <= bound, name


def test_input_scales_are_read_and_are_not_weights(tmp_path):
    input_scales = {f"{name}_QuantMultA": np.full((1, 1), 20 + i, np.float32) for i, name in enumerate(TENSORS)}
    marian.write_bin(tmp_path / "model.bin", TENSORS | input_scales, OPTIONS, "intgemm8")
    file = read_marian_file(tmp_path / "model.bin")
    assert set(file.tensors) == set(TENSORS)
    assert file.input_scales == {name: 20.0 + i for i, name in enumerate(TENSORS)}


def test_a_tensor_can_be_changed_and_the_file_stays(tmp_path):
    path = tmp_path / "model.bin"
    marian.write_bin(path, TENSORS, OPTIONS)
    before = path.read_bytes()
    for tensor in read_marian_file(path).tensors.values():
        tensor[...] = 0
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a: 1", 1),
        ("a: -1.5e-3", -0.0015),
        ("a: true  # yes", True),
        ("a: ~", None),
        ("a:", None),
        ('a: ""', ""),
        (r'a: "x \"\u00e9\x21\\ # y"', 'x "é!\\ # y'),
        ("a: 'it''s'", "it's"),
        ("a: n", "n"),
        ("a: v1.9.56 94aeaa46 2021-04-28 00:28:35 +0100", "v1.9.56 94aeaa46 2021-04-28 00:28:35 +0100"),
        ("a: []", []),
        ("a:\n  []", []),
        ("a: [1, two]", [1, "two"]),
        ("a:\n  - 1\n  - false\nb: 2", [1, False]),
        ("---\n# so\na:\n- x.bin\n- y", ["x.bin", "y"]),
    ],
)
def test_options_are_read_as_marian_writes_them(text, meaning):
    assert read_options(text.encode(), "x")["a"] == meaning


@pytest.mark.parametrize(
    "text",
    [
        *("a", "a: {b: 1}", "a: &x 1", "a: *x", "a: !!python/object 1", "a: |\n  x", "a: [[1]]", "a: 1\na: 2"),
        *("  - 1", "a:\n  b: 1", "a: 1\n  - 2", 'a: "x', "a: [1", "a: 1\n  b", 'a: "\\ud800"', "é: 1", "a: b: c"),
    ],
)
def test_other_options_are_refused_with_their_line(text):
    with pytest.raises(DirectoryError, match=r"x, line \d"):
        read_options(text.encode(), "x")


@pytest.mark.parametrize(
    "text",
    [
        '</s>: 0\n<unk>: 1\n"\\"": 2\n\'\'\'\': 3\n▁a: 4\n":": 5\n? "' + "x" * 130 + '"\n: 6\n"\\xe9": 7\n#: 8\n',
        '{"</s>": 0, "<unk>": 1, "\\"": 2, "\'": 3, "▁a": 4, ":": 5, "' + "x" * 130 + '": 6, "é": 7, "#": 8}',
        "</s>\n<unk>\n\"\n'\n▁a\n:\n" + "x" * 130 + "\né\n#\n",
    ],
)
def test_vocabularies_are_yaml_or_json_or_lines(text):
    words = ["</s>", "<unk>", '"', "'", "▁a", ":", "x" * 130, "é", "#"]
    assert read_vocabulary(text.encode(), "x") == {word: number for number, word in enumerate(words)}


@pytest.mark.parametrize("text", ["a: 1\nb: 1\n", "a: 1\nb\n", '{"a": "b"}', "{", "a: 1\na: 2\n", '"\\ud800": 1\n'])
def test_other_vocabularies_are_refused(text):
    with pytest.raises(DirectoryError, match=r"^x"):
        read_vocabulary(text.encode(), "x")


def hostile_bins():
    """Sizes and counts that exceed the file, at each place of the format."""
    text = marian.yaml(OPTIONS)
    items = [("Wemb", 0x404, (11, 8), bytes(352)), ("special:model.yml", 0x101, (len(text),), text)]
    good = bytearray(marian.bin_bytes(items))
    places = {"version": 0, "count": 8, "name": 16, "type": 24, "axes": 32, "size": 40}
    for what, place in places.items():
        for value in (2**64 - 1, 2**63, 2**40, len(good), 0):
            yield f"{what} {value}", good[:place] + struct.pack("<Q", value) + good[place + 8 :]
    shape = 16 + 2 * 32 + len("Wemb\0special:model.yml\0")
    for value in (-1, 0, 2**31 - 1):
        yield f"shape {value}", good[:shape] + struct.pack("<i", value) + good[shape + 4 :]
    yield "padding", good[: shape + 12] + struct.pack("<Q", 2**50) + good[shape + 20 :]
    yield "cut off", good[:-1]
    yield "longer", good + b"\0"
    yield "twice", marian.bin_bytes([items[0], *items])
    yield "no options", marian.bin_bytes(items[:1])
    for factor in (0.0, -1.0, 1e-45, float("inf"), float("nan")):
        data = bytes(88) + struct.pack("<f", factor)
        yield f"factor {factor}", marian.bin_bytes([("Wemb", 0x4101, (11, 8), data), items[1]])
    yield "packed", marian.bin_bytes([("Wemb", 0x1801, (11, 8), bytes(352)), items[1]])
    yield "gzip", b"\x1f\x8b" + bytes(30)
    yield "empty", b""


def hostile_npzs(tmp_path):
    path = tmp_path / "good.npz"
    text = marian.npy(np.frombuffer(marian.yaml(OPTIONS), dtype=np.int8))

    def with_wemb(wemb: bytes) -> bytes:
        marian.write_zip(path, {"Wemb.npy": wemb, "special:model.yml.npy": text})
        return path.read_bytes()

    array = marian.npy(TENSORS["Wemb"])
    good = with_wemb(array)
    for shape in (b"(9999999999999,)", b"(0, 8)", b"(1,1,1,1,1,1,1,1,88)", b"(-1, 8)", b"(" + b"9" * 900 + b",)"):
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + b", }\n"
        yield f"shape {shape[:20]}", with_wemb(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(352))
    yield "empty array", with_wemb(marian.npy(np.zeros((0, 8), np.float32)))
    yield "objects", with_wemb(array.replace(b"'<f4'", b"'|O' "))
    yield "big-endian", with_wemb(array.replace(b"'<f4'", b"'>f4'"))
    yield "no array", with_wemb(b"hello")
    for size in (2**31, 10**6):  # a decompression bomb, with a true or a false size
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("Wemb.npy", bytes(10**7))
        packed = bytearray(path.read_bytes())
        entry = packed.rfind(b"PK\1\2")
        packed[entry + 24 : entry + 28] = struct.pack("<I", size)
        yield f"bomb {size}", packed
    entries = [bytes(entry) for entry in good[good.find(b"PK\1\2") : good.rfind(b"PK\5\6")].split(b"PK\1\2")[1:]]
    table = b"".join(b"PK\1\2" + entry for entry in (*entries, entries[0].replace(b"Wemb", b"Wpos")))
    begin = good.find(b"PK\1\2")
    last = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 3, 3, len(table), begin, 0)
    yield "overlap", good[:begin] + table + last
    end = good.rfind(b"PK\5\6")
    for at, kind, value in ((8, "<HH", (65535, 65535)), (12, "<I", (2**32 - 1,)), (16, "<I", (2**32 - 1,))):
        new = struct.pack(kind, *value)
        yield f"end {at}", good[: end + at] + new + good[end + at + len(new) :]
    yield "cut off", good[:-30]
    flipped = bytearray(good)
    flipped[300] ^= 1
    yield "checksum", flipped


def test_malicious_files_are_refused_quickly_and_with_little_memory(tmp_path):
    for what, content in [*hostile_bins(), *hostile_npzs(tmp_path)]:
        path = tmp_path / "hostile"
        path.write_bytes(content)
        tracemalloc.start()
        start = time.process_time()
        with pytest.raises(DirectoryError) as error:
            read_marian_file(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert time.process_time() - start < 2, what
        assert peak < 2 * len(content) + 2**18, (what, peak)
        assert str(path) in str(error.value), what
        assert what != "overlap" or what in str(error.value)
        assert re.fullmatch(r"[^\n]+[.]", str(error.value)), what


def test_a_table_of_millions_costs_nothing(tmp_path):
    """20 million bytes of table: a Python object per entry would take twenty times that."""
    path = tmp_path / "model"
    path.write_bytes(struct.pack("<QQ", 1, 600_000) + bytes(20_000_000))
    tracemalloc.start()
    with pytest.raises(DirectoryError, match="600,000 tensors"):
        read_marian_file(path)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def mutated(content: bytes, chance: random.Random) -> bytes:
    """A few changes, mostly near the beginning and the end, where sizes and counts are stored."""
    found = bytearray(content)
    for _ in range(chance.choice([1, 1, 1, 2, 5])):
        edge = chance.choice([64, 1024, 8192, len(found)])
        place = min(chance.randrange(edge), len(found) - 1)
        place = place if chance.random() < 0.7 else len(found) - 1 - place
        match chance.randrange(6):
            case 0:
                found[place] ^= 1 << chance.randrange(8)
            case 1:
                found[place] = chance.choice([0, 1, 127, 128, 255])
            case 2:
                width = chance.choice([2, 4, 8])
                value = chance.choice([0, 1, 2**15, 2**31 - 1, 2**31, 2**62, 2**63, 2**64 - 1]) % 2 ** (8 * width)
                found[place : place + width] = value.to_bytes(width, "little")
            case 3:
                del found[place : place + chance.choice([1, 7, 256])]
            case 4:
                found[place:place] = chance.randbytes(chance.choice([1, 4, 300]))
            case 5:
                other = chance.randrange(len(found))
                found[place : place + 16] = found[other : other + 16]
        if not found:
            break
    return bytes(found)


def mutated_zip(entries: dict[str, bytes], chance: random.Random) -> dict[str, bytes]:
    """One entry changed, with valid checksums, so that the change reaches the parser."""
    name = chance.choice([*entries, *["special:model.yml.npy"] * len(entries)])
    return entries | {name: mutated(entries[name], chance)}


def is_refused(path: Path) -> bool:
    complaint = None
    try:
        open_marian(path)
    except GlassformerError as error:
        complaint = str(error)
    assert complaint is None or str(path) in complaint
    return complaint is not None


SMALL = marian.options(dec_depth=1, enc_depth=1, dim_emb=4, transformer_dim_ffn=5, dim_vocabs=[6, 6])


@pytest.mark.parametrize("kind", ["float32", "intgemm8", "npz", "inside the npz"])
def test_damaged_files_give_our_errors_and_nothing_else(kind, tmp_path):
    chance, refused = seeded_random(kind), 0
    path = tmp_path / ("model.npz" if "npz" in kind else "model.bin")
    found = marian.tensors(SMALL)
    entries = {f"{name}.npy": marian.npy(array) for name, array in marian.arrays(found, SMALL).items()}
    if "npz" in kind:
        marian.write_zip(path, entries)
    else:
        marian.write_bin(path, found, SMALL, kind, align=64)
    good = path.read_bytes()
    open_marian(path)
    for _ in range(MUTATIONS // 2):
        if kind == "inside the npz":
            marian.write_zip(path, mutated_zip(entries, chance))
        else:
            path.write_bytes(mutated(good, chance))
        start = time.process_time()
        refused += is_refused(path)
        assert time.process_time() - start < 2
    assert refused > 0.3 * (MUTATIONS // 2)  # the others changed a weight, or something without effect


def test_checksums_of_an_npz_are_verified(tmp_path):
    path = tmp_path / "model.npz"
    marian.write_npz(path, TENSORS, OPTIONS)
    content = bytearray(path.read_bytes())
    place = content.find(TENSORS["Wemb"].tobytes()[:16])
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(DirectoryError, match="'Wemb' does not match its checksum"):
        read_marian_file(path)
