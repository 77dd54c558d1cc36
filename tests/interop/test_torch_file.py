"""Parity with torch.load for everything that torch.save writes; and no code in a file runs, whatever it holds."""

import argparse
import io
import itertools
import json
import os
import pickle
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import types
import zipfile
import zlib
from collections import OrderedDict, defaultdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import glassformer
from glassformer.errors import DirectoryError, GlassformerError, InputError
from glassformer.interop.torch_file import sandbox, torch_file_reader
from glassformer.interop.torch_file.pickle_description import describe
from glassformer.interop.torch_file.pickled_names import STORAGES
from glassformer.interop.torch_file.torch_file_reader import SavedTensor, read_torch_file
from tests.examples import max_examples, seeded_random
from tests.interop.mutations import MUTATIONS
from tests.interop.saved_tensors import with_tensors
from tests.processes import run_fresh

SHARES = 8
FORMATS = ["zip", "legacy"]
DTYPES = {"zip": [getattr(torch, name) for name in sorted(torch_file_reader.DTYPES)]}
DTYPES["legacy"] = [getattr(torch, name) for name, _ in STORAGES.values()]
"""torch.save writes newer dtypes into the legacy format as well, but torch.load cannot read them from there."""


def save(saved, path, form="zip", protocol=2):
    torch.save(saved, path, pickle_protocol=protocol, _use_new_zipfile_serialization=form == "zip")
    return path


def bits(tensor):
    """All bytes, so that NaN equals itself."""
    return bytes(tensor.detach().clone(memory_format=torch.contiguous_format).untyped_storage().tolist())


def assert_same(ours, theirs):
    """Equal in value, type and order; theirs as torch.load returns it, ours as plain data and arrays."""
    if isinstance(theirs, Tensor):
        assert type(ours) is SavedTensor
        tensor = with_tensors(ours)
        assert type(tensor) is Tensor
        assert (tensor.dtype, tensor.shape) == (theirs.dtype, theirs.shape)
        assert tensor.numel() == 0 or tensor.stride() == theirs.stride()
        assert tensor.numel() == 0 or tensor.data_ptr() == ours.array.ctypes.data
        assert not tensor.requires_grad
        assert ours.array.tobytes() == bits(tensor) == bits(theirs)
    elif isinstance(theirs, torch.dtype):
        assert ours == str(theirs)
    elif isinstance(theirs, np.ndarray):
        assert type(ours) is np.ndarray
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)
    elif isinstance(theirs, np.generic):
        assert ours == theirs.item()
        assert type(ours) is type(theirs.item())
    elif isinstance(theirs, argparse.Namespace):
        assert_same(ours, vars(theirs))
    elif isinstance(theirs, dict):
        assert type(ours) is dict
        assert list(ours) == list(theirs)
        for key, value in theirs.items():
            assert_same(ours[key], value)
    elif isinstance(theirs, torch.Size):
        assert ours == tuple(theirs)
    elif isinstance(theirs, list | tuple):
        assert type(ours) is type(theirs)
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    else:
        assert type(ours) is type(theirs)
        assert repr(ours) == repr(theirs) if isinstance(theirs, float) else ours == theirs


def tensors_of(saved):
    """All tensors in a checkpoint, in order: torch's or ours."""
    if isinstance(saved, Tensor | SavedTensor):
        yield saved
    elif isinstance(saved, dict | argparse.Namespace):
        for value in (saved if isinstance(saved, dict) else vars(saved)).values():
            yield from tensors_of(value)
    elif isinstance(saved, list | tuple):
        for value in saved:
            yield from tensors_of(value)


def sharing(saved):
    """For each pair of tensors: whether they are one object, and their distance if they share a storage."""
    pairs = itertools.combinations([tensor for tensor in tensors_of(saved) if address(tensor)], 2)
    return [(a is b, address(a) - address(b) if shared(a, b) else None) for a, b in pairs]


def address(tensor):
    """Where the first element is in memory; None without elements."""
    if isinstance(tensor, Tensor):
        return tensor.data_ptr() if tensor.numel() else None
    return tensor.array.ctypes.data if tensor.array.size else None


def shared(a, b):
    if isinstance(a, Tensor):
        return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    return a.array.base is b.array.base is not None


# ---- parity with torch.load ------------------------------------------------------------------------------------------

plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(st.characters(codec="utf-8"), max_size=6),
    st.binary(max_size=6),
    st.sampled_from([torch.float32, torch.int8, torch.Size([2, 3]), torch.Size([]), np.float64(2.5), np.int32(-7)]),
    st.sets(st.integers(0, 9), max_size=3),
)
keys = st.one_of(st.text(max_size=5), st.integers(), st.tuples(st.integers(), st.text(max_size=2)))


@st.composite
def bases(draw, form):
    """A storage of any dtype with random content."""
    dtype, length = draw(st.sampled_from(DTYPES[form])), draw(st.integers(0, 40))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    numbers = torch.randint(256, (length * dtype.itemsize,), dtype=torch.uint8, generator=generator)
    return (numbers % 2).bool() if dtype == torch.bool else numbers.view(dtype)


@st.composite
def views(draw, storages):
    """A view of one of the storages: a slice, a matrix, its transpose, a scalar, an empty one, a repeated column."""
    base = draw(st.sampled_from(storages))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    stride = [draw(st.integers(0, 6)) for _ in shape]
    reach = sum((length - 1) * step for length, step in zip(shape, stride, strict=True)) if all(shape) else -1
    if reach >= len(base):
        return draw(st.sampled_from([base, base[1:], base[::2]]))
    tensor = base.as_strided(shape, stride, draw(st.integers(0, len(base) - 1 - max(reach, 0))) if len(base) else 0)
    if base.dtype.is_floating_point and base.dtype.itemsize > 1 and draw(st.booleans()):
        return nn.Parameter(tensor, requires_grad=draw(st.booleans()))
    return tensor


@st.composite
def checkpoints(draw, form):
    storages = draw(st.lists(bases(form), min_size=1, max_size=4))
    tensors = draw(st.lists(views(storages), min_size=1, max_size=5))
    leaves = st.one_of(plain, st.sampled_from(tensors), views(storages))
    nested = st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(keys, inner, max_size=3),
            st.dictionaries(keys, inner, max_size=3).map(OrderedDict),
            st.dictionaries(keys, inner, max_size=3).map(lambda items: defaultdict(list, items)),
            st.dictionaries(st.sampled_from(["arch", "lr"]), inner).map(lambda items: argparse.Namespace(**items)),
        ),
        max_leaves=6,
    )
    return draw(st.dictionaries(st.text(max_size=4), nested, max_size=5))


@pytest.mark.parametrize("form", FORMATS)
@max_examples(100)
@given(data=st.data(), protocol=st.sampled_from([2, 2, 3, 4, 5]))
def test_the_content_is_what_torch_loads(tmp_path, form, data, protocol):
    path = save(data.draw(checkpoints(form)), tmp_path / "any.pt", form, protocol)
    ours, theirs = read_torch_file(path), torch.load(path, weights_only=False)
    assert_same(ours, theirs)
    assert sharing(ours) == sharing(theirs)


@pytest.mark.parametrize("form", FORMATS)
def test_every_dtype_is_read(tmp_path, form):
    numbers = torch.arange(96, dtype=torch.uint8)
    saved = {str(kind): (numbers % 2).bool() if kind == torch.bool else numbers.view(kind) for kind in DTYPES["zip"]}
    saved["transposed"] = saved["torch.float32"].view(4, 6).t()
    saved = {name: tensor.clone() for name, tensor in saved.items()}  # torch refuses two dtypes in one storage
    assert_same(read_torch_file(save(saved, tmp_path / "any.pt", form)), saved)


@pytest.mark.parametrize("form", FORMATS)
def test_a_model_with_tied_weights_keeps_them_tied(tmp_path, form):
    model = nn.ModuleDict({"embedding": nn.Embedding(9, 4), "output": nn.Linear(4, 9, bias=False)})
    model.output.weight = model.embedding.weight
    found = read_torch_file(save({"model": model.state_dict()}, tmp_path / "tied.pt", form))["model"]
    assert list(found) == ["embedding.weight", "output.weight"]
    assert shared(*found.values())
    assert torch.equal(with_tensors(found)["output.weight"], model.output.weight)


@pytest.mark.parametrize("form", FORMATS)
def test_a_storage_by_itself_is_a_tensor(tmp_path, form):
    base = torch.arange(6.0)
    storage = torch.storage.TypedStorage(wrap_storage=base.untyped_storage(), dtype=base.dtype, _internal=True)
    found = read_torch_file(save({"storage": storage, "half": base[3:]}, tmp_path / "storage.pt", form))
    assert torch.equal(with_tensors(found["storage"]), base)
    assert shared(*found.values())


def test_big_endian_files_are_read(tmp_path):
    """A file from a big-endian machine: the bytes of each element are reversed."""
    saved = {"a": torch.arange(5.0), "b": torch.arange(7), "c": torch.tensor([1 + 2j]), "d": torch.arange(3).byte()}
    source = zipfile.ZipFile(save(saved, tmp_path / "little.pt"))
    with zipfile.ZipFile(tmp_path / "big.pt", "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if "/data/" in name:
                dtype = list(saved.values())[int(name.rpartition("/")[2])].dtype
                width = dtype.itemsize // (2 if dtype.is_complex else 1)
                data = b"".join(data[at : at + width][::-1] for at in range(0, len(data), width))
            target.writestr(name, b"big" if name.endswith("byteorder") else data)
    assert_same(read_torch_file(tmp_path / "big.pt"), saved)


def test_a_file_without_checksums_is_read(tmp_path):
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        path = save({"a": torch.arange(5.0)}, tmp_path / "any.pt")
    finally:
        torch.serialization.set_crc32_options(before)
    assert_same(read_torch_file(path), {"a": torch.arange(5.0)})


def test_tensors_are_mapped_and_the_file_stays_as_it_is(tmp_path):
    path = save({"a": torch.arange(100.0)}, tmp_path / "any.pt")
    before = path.read_bytes()
    found = with_tensors(read_torch_file(path)["a"])
    assert found.data_ptr() % torch_file_reader.ALIGNMENT == 0
    found.zero_()
    assert path.read_bytes() == before
    path.unlink()  # the mapping does not need the file name
    assert found.sum() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="uses the memory statistics of Linux")
@pytest.mark.parametrize(("form", "times"), [("zip", 0.1), ("legacy", 1.1)])
def test_reading_costs_no_more_memory_than_the_file(tmp_path, form, times):
    """Mapped files are not copied; legacy files are copied once."""

    def anonymous_bytes():
        return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) * 1024

    path = save({"model": {str(n): torch.ones(2**20) for n in range(32)}}, tmp_path / "large.pt", form)
    read_torch_file(save({}, tmp_path / "small.pt"))  # one-time costs of a first call
    before = anonymous_bytes()
    found = with_tensors(read_torch_file(path))
    assert anonymous_bytes() - before < times * path.stat().st_size
    assert all(tensor.sum() == 2**20 for tensor in found["model"].values())


def test_keys_that_are_not_selected_are_not_read(tmp_path):
    """A wrong checksum in the optimiser state is an error only if that is selected."""
    path = save({"model": torch.ones(9), "last_optimizer_state": torch.full((9,), 3.0)}, tmp_path / "any.pt")
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack("<9f", *[3.0] * 9), struct.pack("<9f", *[4.0] * 9)))
    assert list(read_torch_file(path, keep=lambda key: key == "model")) == ["model"]
    with pytest.raises(DirectoryError, match="checksum of a tensor is wrong: copy or download it again"):
        read_torch_file(path)


def foreign_classes(monkeypatch, **classes):
    """Classes as if from a package that is not installed: omegaconf__nodes__AnyNode is `omegaconf.nodes.AnyNode`."""
    made = []
    for full, base in classes.items():
        *modules, name = full.split("__")
        for depth in range(len(modules)):
            module = ".".join(modules[: depth + 1])
            if module not in sys.modules:
                monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
        made.append(type(name, (base,), {"__module__": ".".join(modules)}))
        monkeypatch.setattr(sys.modules[".".join(modules)], name, made[-1], raising=False)
    return made


def test_objects_of_other_packages_are_their_attributes(tmp_path, monkeypatch):
    import enum

    meter, choice = foreign_classes(monkeypatch, fairseq__meters__AverageMeter=object, fairseq__data__Choices=object)
    meter = meter()
    meter.val, meter.inner = 3, argparse.Namespace(lr=[0.1])
    choice = enum.Enum("Choices", {"SINE": "sine"}, module="fairseq.data")
    monkeypatch.setattr(sys.modules["fairseq.data"], "Choices", choice)
    monkeypatch.setattr(
        choice, "__reduce_ex__", lambda self, protocol: (choice, (self.value,))
    )  # that of Python 3.11 differs
    saved = {"args": argparse.Namespace(arch="t", none=None), "meter": meter}
    saved |= {"positions": choice.SINE, "path": Path("a/b")}
    assert read_torch_file(save(saved, tmp_path / "any.pt")) == {
        "args": {"arch": "t", "none": None},
        "meter": {"val": 3, "inner": {"lr": [0.1]}},
        "positions": "sine",
        "path": ("a", "b"),
    }


def test_settings_of_omegaconf_are_plain_again(tmp_path, monkeypatch):
    """Its nodes refer to their parents; only the references to children are data."""
    kinds = ("omegaconf__dictconfig__DictConfig", "omegaconf__listconfig__ListConfig", "omegaconf__nodes__AnyNode")
    mapping, sequence, node = foreign_classes(monkeypatch, **dict.fromkeys(kinds, object))

    def held(value, parent=None):
        made = (mapping if isinstance(value, dict) else sequence if isinstance(value, list) else node)()
        made._metadata, made._parent = argparse.Namespace(ref_type=dict, flags={}), parent
        if isinstance(value, dict):
            made._content = {key: held(part, made) for key, part in value.items()}
        elif isinstance(value, list):
            made._content = [held(part, made) for part in value]
        else:
            made._val = value
        return made

    settings = {"model": {"layers": 6, "names": ["a", None, {"deep": 0.5}]}, "empty": {}}
    assert read_torch_file(save({"cfg": held(settings)}, tmp_path / "any.pt")) == {"cfg": settings}


# ---- code is not run -------------------------------------------------------------------------------------------------


def named(full):
    """The opcode that names a global."""
    module, _, name = full.rpartition(".")
    return f"c{module}\n{name}\n".encode()


def word(text):
    return b"X" + struct.pack("<I", len(text.encode())) + text.encode()


def call(full, *arguments):
    return named(full) + b"(" + b"".join(arguments) + b"tR"


def tensor_of(shape, stride, offset=0, count=4, key="0"):
    """A float tensor as torch.save writes it, with arbitrary shape, stride, offset and size."""

    def whole(number):
        return b"\x8a\x10" + number.to_bytes(16, "little", signed=True)

    identity = b"(" + word("storage") + named("torch.FloatStorage") + word(key) + word("cpu") + whole(count) + b"tQ"
    sizes = [b"(" + b"".join(map(whole, numbers)) + b"t" for numbers in (shape, stride)]
    hooks = call("collections.OrderedDict")
    return call("torch._utils._rebuild_tensor_v2", identity, whole(offset), *sizes, b"\x89", hooks)


def in_dict(value):
    """A pickle of {"model": value}."""
    return b"\x80\x02}" + word("model") + value + b"s."


def as_zip(data, storage=b"\0" * 16, **how):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **how) as target:
        target.writestr("archive/data.pkl", data)
        target.writestr("archive/data/0", storage)
    return file.getvalue()


def as_legacy(data, storage=b"\0" * 16):
    start = b"".join(pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
    keys = pickle.dumps(["0"] if b"Q" in data else [], 2)
    return start + data + keys + struct.pack("<q", len(storage) // 4) + storage


def attacks(mark):
    """Pickles that create the file `mark` when they are loaded, and others that only tamper; by name."""
    touch = f"touch {mark}"
    system = call("os.system", word(touch))
    chain = call("builtins.getattr", call("builtins.__import__", word("os")), word("system")) + word(touch) + b"\x85R"
    empty_namespace = named("argparse.Namespace") + b")\x81"
    armed = empty_namespace + b"}" + word("__setstate__") + named("os.system") + b"sb" + word(touch) + b"b"
    return {
        "os.system": system,
        "posix.system": call("posix.system", word(touch)),
        "builtins.eval": call("builtins.eval", word(f"__import__('os').system({touch!r})")),
        "__builtin__.eval": call("__builtin__.eval", word(f"__import__('os').system({touch!r})")),
        "builtins.exec": call("builtins.exec", word(f"import os; os.system({touch!r})")),
        "builtins.open": call("builtins.open", word(str(mark)), word("w")),
        "subprocess.call": call("subprocess.call", b"(" + word("touch") + word(str(mark)) + b"t"),
        "a chain of getattr": chain,
        "a global from the stack": word("os") + word("system") + b"\x93" + word(touch) + b"\x85R",
        "a global from the memo": named("os.system") + b"q\x000h\x00" + word(touch) + b"\x85R",
        "a name with dots": b"\x80\x04" + word("os") + word("path.os.system") + b"\x93" + word(touch) + b"\x85R",
        "BUILD arms, BUILD fires": armed,
        "INST": b"(" + word(touch) + b"ios\nsystem\n",
        "OBJ": b"(" + named("os.system") + word(touch) + b"o",
        "NEWOBJ": named("os.system") + word(touch) + b"\x85\x81",
        "NEWOBJ_EX": named("os.system") + word(touch) + b"\x85}\x92",
        "hidden among arguments": call("argparse.Namespace", system),
        "as a dict's factory": call("collections.defaultdict", named("os.system")),
        "as a persistent id": system + b"Q",
        "a persistent id in text": b"Pos.system\n",
        "a registered extension": b"\x82\x01",
        "registering an extension": call("copyreg.add_extension", word("os"), word("system"), b"K\x01") + b"0\x82\x01",
        "copyreg's maker": call("copyreg._reconstructor", named("os.system"), named("builtins.object"), b"N"),
        "torch.hub.load": call("torch.hub.load", word("anyone/anything"), word("x")),
        "torch._utils._import_dotted_name": call("torch._utils._import_dotted_name", word("os.system")),
        "torch.storage._load_from_bytes": call("torch.storage._load_from_bytes", call("_codecs.encode", word("x"))),
        "through what is allowed": word("collections") + word("OrderedDict.__reduce__.__globals__") + b"\x93",
        "calling a label": call("torch.FloatStorage", word("x")),
        "calling text": word("os.system") + word(touch) + b"\x85R",
        "calling a tensor": tensor_of([4], [1]) + b")R",
        "calling a record": empty_namespace + word(touch) + b"\x85R",
        "attributes for a class": named("argparse.Namespace") + b"}" + word("__new__") + word("x") + b"sb",
        "attributes for our own": named("torch._utils._rebuild_tensor_v2") + b"(N}" + word("__code__") + b"Nstb",
        "attributes for a tensor": tensor_of([4], [1]) + b"}" + word("__class__") + word("x") + b"sb",
        "a buffer from outside": b"\x97",
    }


LIVE = ["os.system", "posix.system", "builtins.eval", "__builtin__.eval", "builtins.exec", "builtins.open"]
LIVE += ["subprocess.call", "a chain of getattr", "a global from the stack", "a global from the memo"]
LIVE += ["a name with dots", "BUILD arms, BUILD fires", "INST", "OBJ", "hidden among arguments"]

watched: list[str] | None = None


def watch(event, arguments):
    if watched is not None:
        watched.append(event)


sys.addaudithook(watch)


def under_watch(call, *arguments):
    """The result or exception of a call, and the audit events that Python raises meanwhile."""
    global watched
    watched = events = []
    try:
        return call(*arguments), events
    except Exception as error:
        return error, events
    finally:
        watched = None


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", attacks(""))
def test_attacks_are_refused_and_do_not_run(tmp_path, name, form):
    """Refused in one sentence; the mark is not created; and the parser itself raises no audit events."""
    mark, path = tmp_path / "mark", tmp_path / "attack.pt"
    data = in_dict(attacks(mark)[name])
    path.write_bytes(as_zip(data) if form == "zip" else as_legacy(data))
    refusal, events = under_watch(read_torch_file, path)
    assert type(refusal) is DirectoryError
    assert re.fullmatch(r"\S+/attack\.pt [^\n]*: [^\n]*\.", str(refusal))
    if "." in name and not name.startswith("__"):
        assert f"refers to {name}, which" in str(refusal)
    assert set(events) <= {"open", "subprocess.Popen"}
    assert events.count("subprocess.Popen") == 1  # our own
    with path.open("rb") as file:
        refusal, events = under_watch(describe, file.fileno(), path.stat().st_size)
    assert isinstance(refusal, Exception)
    assert events == []
    assert not mark.exists()


@pytest.mark.parametrize("name", LIVE)
def test_these_attacks_are_real(tmp_path, name):
    """Loading the same pickle with `pickle.load` creates the mark."""
    (tmp_path / "attack.pkl").write_bytes(in_dict(attacks(tmp_path / "mark")[name]))
    load = f"import argparse, pickle; pickle.load(open({str(tmp_path / 'attack.pkl')!r}, 'rb'))"
    subprocess.run([sys.executable, "-c", load], check=False, capture_output=True, timeout=60)
    assert (tmp_path / "mark").exists()


def test_an_unknown_name_in_a_known_package_stays_a_record(tmp_path):
    mark = tmp_path / "mark"
    (tmp_path / "any.pt").write_bytes(as_zip(in_dict(call("omegaconf.os.system", word(f"touch {mark}")))))
    assert read_torch_file(tmp_path / "any.pt") == {"model": f"touch {mark}"}
    assert not mark.exists()


ACTIONS = {
    "open": "open('/etc/passwd')",
    "write": "__import__('posix').open('/tmp/x', 65)",
    "fork": "__import__('posix').fork()",
    "exec": "__import__('posix').execv('/bin/true', ['true'])",
    "system": "__import__('posix').system('true')",
    "import": "__import__('socket')",
    "compile": "eval('1 + ' + str(size))",
    "memory": "try: bytearray(200 * 2**20)\nexcept MemoryError: sandbox.os._exit(4)",
    "time": "for _ in iter(int, 1): pass",
}


@pytest.mark.parametrize("action", ACTIONS)
def test_the_process_may_do_nothing_else(action):
    """Even if code ran in it, the sandbox would stop it."""
    if (action, sys.platform) == ("memory", "darwin"):
        pytest.skip("macOS limits no memory")
    here = str(Path(glassformer.__file__).parents[1])
    code = f"import sys; sys.path.append({here!r}); from glassformer.interop.torch_file import sandbox\n"
    code += f"size = 1; sandbox.confine(size, 1)\n{ACTIONS[action]}\nsandbox.os.write(1, b'did it')"
    command = [sys.executable, "-I", "-S", "-B", "-c", code]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert done.stdout == b""
    ended = {"memory": [4], "time": [-signal.SIGKILL, -signal.SIGXCPU]}
    assert done.returncode in ended.get(action, [sandbox.EXIT_FORBIDDEN])


def test_reading_needs_no_torch(tmp_path):
    """Neither the reader nor the subprocess; a tensor is made by who needs one."""
    path = save({"model": {"a": torch.arange(3.0), "b": torch.ones(2, dtype=torch.bfloat16)}}, tmp_path / "any.pt")
    printed = run_fresh(f"""
        import sys
        from pathlib import Path
        from glassformer.interop.torch_file.torch_file_reader import read_torch_file
        saved = read_torch_file(Path({str(path)!r}))["model"]
        print([(name, array.dtype.name, array.tolist()) for array, name in saved.values()])
        assert "torch" not in sys.modules
    """)
    assert printed.strip() == "[('float32', 'float32', [0.0, 1.0, 2.0]), ('bfloat16', 'uint16', [16256, 16256])]"


# ---- excessive memory and time ---------------------------------------------------------------------------------------


def laughs(levels=30):
    """A list of ten of a list of ten of ..."""
    data = b"]q\x000"
    for level in range(levels):
        data += b"](" + bytes([ord("h"), level]) * 10 + b"eq" + bytes([level + 1]) + b"0"
    return data + bytes([ord("h"), levels])


def many_sets():
    """Many sets built from one long list."""
    return b"](" + b"K\x01" * 10**5 + b"eq\x000](" + (named("builtins.set") + b"h\x00\x85R") * 10**3 + b"e"


def colliding():
    """A dict whose keys all have the hash 0."""
    numbers = (n * (2**61 - 1) for n in range(70_000))
    return b"}(" + b"".join(b"\x8a\x0b" + number.to_bytes(11, "little") + b"N" for number in numbers) + b"u"


BOMBS = {
    "a billion laughs": laughs(),
    "a list in itself": b"]q\x00h\x00a",
    "a dict in itself": b"}q\x00" + word("x") + b"h\x00s",
    "lists in lists in lists": b"]" * 10**6 + b"a" * (10**6 - 1),
    "tuples in tuples in tuples": b")" + b"\x85" * 10**6,
    "a deep tuple as a key": b"}" + b")" + b"\x85" * 10**6 + b"Ns",
    "a set of deep tuples": call("builtins.set", b"]" + b")" + b"\x85" * 10**6 + b"a"),
    "marks upon marks": b"(" * 10**6,
    "a long integer": b"\x8b" + struct.pack("<I", 10**6) + b"\x7f" * 10**6,
    "an integer longer than the file": b"\x8b\xff\xff\xff\x7f",
    "a text longer than the file": b"\x8d" + b"\xff" * 7 + b"\x7f",
    "bytes longer than memory": b"\x8e\x00\x00\x00\x00\x00\x01\x00\x00",
    "a long text many times": word("x" * 10**5) + b"q\x000](" + b"h\x00" * 10**4 + b"e",
    "one list, many sets": many_sets(),
    "keys that collide": colliding(),
    "a name without an end": b"c" + b"x" * 10**6,
    "a shape of 10^18": tensor_of([10**18], [1]),
    "a shape of 10^18 without steps": tensor_of([10**18], [0]),
    "a shape beyond 64 bits": tensor_of([10**10, 10**10], [0, 0]),
    "nothing, 10^37 times": tensor_of([2**62, 2**62, 0], [1, 1, 1]),
    "a length below zero": tensor_of([-4], [1]),
    "a step below zero": tensor_of([4], [-1], offset=3),
    "an offset below zero": tensor_of([2], [1], offset=-1),
    "an offset beyond the end": tensor_of([4], [1], offset=1),
    "a step beyond the end": tensor_of([2, 2], [3, 1]),
    "more dimensions than torch has": tensor_of([1] * 1000, [1] * 1000),
    "more lengths than steps": tensor_of([2, 2], [1]),
    "a storage of 10^18": tensor_of([4], [1], count=10**18),
    "a storage of less than nothing": tensor_of([0], [1], count=-1),
    "a storage of another size": tensor_of([4], [1], count=5),
    "a storage that is not there": tensor_of([4], [1], key="1"),
    "a storage elsewhere": tensor_of([4], [1], key="../../../etc/passwd"),
    "many tensors of everything": b"](" + tensor_of([2**18], [0], count=4) * 10 + b"e",
}  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused(tmp_path, name, form):
    path, data = tmp_path / "bomb.pt", in_dict(BOMBS[name])
    path.write_bytes(as_zip(data) if form == "zip" else as_legacy(data))
    started = cpu_seconds()
    with pytest.raises(DirectoryError, match=r"^\S+/bomb\.pt [^\n]*: [^\n]*\.$"):
        read_torch_file(path)
    assert cpu_seconds() - started < 10  # the process has 2 s; loading the file normally would take hours


def cpu_seconds() -> float:
    """Processor time of this process and its ended children, which does not depend on the load of the machine."""
    return sum(os.times()[:4])


@pytest.mark.parametrize("form", FORMATS)
def test_a_large_memo_index_costs_nothing(tmp_path, form):
    data = in_dict(b"Nr\xff\xff\xff\xff0j\xff\xff\xff\xff")
    (tmp_path / "any.pt").write_bytes(as_zip(data) if form == "zip" else as_legacy(data))
    assert read_torch_file(tmp_path / "any.pt") == {"model": None}


# ---- zip files -------------------------------------------------------------------------------------------------------

GOOD = in_dict(tensor_of([4], [1]))


def zipped(*entries):
    """A zip file of (name or ZipInfo, data), in which a name may occur twice."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        for name, data in entries:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(target, "_writecheck", lambda info: None)  # it would warn about duplicates
                target.writestr(name, data)
    return file.getvalue()


def changed(data, place, new):
    """With other bytes at an offset, which may be negative."""
    place = place % len(data)
    return data[:place] + new + data[place + len(new) :]


def inflated(claim):
    """A deflated data.pkl of 64 MiB that states another size."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(b"N" * 2**26) + packer.flush()
    data = zipped(("archive/data.pkl", packed))
    central = data.rindex(b"PK\x01\x02")
    data = changed(data, 8, struct.pack("<H", 8))
    return changed(changed(data, central + 10, struct.pack("<H", 8)), central + 24, struct.pack("<I", claim))


def a_link():
    link = zipfile.ZipInfo("archive/data/0")
    link.external_attr = 0o120777 << 16
    return zipped(("archive/data.pkl", GOOD), (link, b"/etc/passwd\0\0\0\0\0"))


@cache
def zips():
    good, numbers = as_zip(GOOD), ("archive/data/0", b"\0" * 16)
    central = good.rindex(b"PK\x01\x02")  # the entry of the storage, the last one
    return {
        "a name twice": zipped(("archive/data.pkl", GOOD), numbers, numbers),
        "two pickles": zipped(("archive/data.pkl", GOOD), ("other/data.pkl", GOOD), numbers),
        "no pickle": zipped(numbers),
        "no storage": zipped(("archive/data.pkl", GOOD)),
        "a way up": zipped(("archive/data.pkl", GOOD), numbers, ("archive/../../x", b"")),
        "a way from the root": zipped(("archive/data.pkl", GOOD), numbers, ("/etc/x", b"")),
        "a way back": zipped(("archive/data.pkl", GOOD), numbers, ("archive@x", b"")).replace(b"@", b"\\"),
        "a link": a_link(),
        "two entries in one place": changed(good, central + 42, b"\0\0\0\0"),
        "an entry of another name": good.replace(b"archive/data/0", b"archive/data/1", 1),
        "an entry beyond the end": changed(good, central + 42, b"\xff\xff\xff\x7f"),
        "an entry in zip64 without its number": changed(good, central + 42, b"\xff\xff\xff\xff"),
        "a wrong checksum of the pickle": good.replace(b"model", b"nodel", 1),
        "a wrong checksum of the numbers": good.replace(b"archive/data/0" + b"\0" * 16, b"archive/data/0" + b"\1" * 16),
        "compressed numbers": as_zip(GOOD, compression=zipfile.ZIP_DEFLATED),
        "an encrypted entry": changed(good, central + 8, b"\1\0"),
        "a comment at the end": changed(good, -2, b"\5\0") + b"hello",
        "too few entries": changed(good, -12, b"\1\0"),
        "too many entries": changed(good, -12, b"\3\0"),
        "a directory elsewhere": changed(good, -6, b"\0\0\0\0"),
        "bytes before": b"PK\x03\x04" + good,
        "a pickle that unfolds": inflated(2**26),
        "a pickle that unfolds beyond what it says": inflated(100),
        "an odd byte order": zipped(("archive/data.pkl", GOOD), numbers, ("archive/byteorder", b"middle")),
    }


@pytest.mark.parametrize("name", zips())
def test_zip_files_with_two_meanings_are_refused(tmp_path, name):
    path = tmp_path / "zip.pt"
    path.write_bytes(zips()[name])
    with pytest.raises(DirectoryError, match=r"^\S+/zip\.pt [^\n]*: [^\n]*\.$"):
        read_torch_file(path)


def test_zip_files_of_others_are_read(tmp_path):
    """Repacked by other tools: unaligned storages, a deflated pickle, with and without zip64."""
    expected = {"model": torch.zeros(4)}
    deflated = zipfile.ZipInfo("archive/data.pkl")
    deflated.compress_type = zipfile.ZIP_DEFLATED
    large = io.BytesIO()
    with zipfile.ZipFile(large, "w") as target:
        for name, data in (("x/data.pkl", GOOD), ("x/data/0", b"\0" * 16)):
            with target.open(name, "w", force_zip64=True) as entry:
                entry.write(data)
    for data in (as_zip(GOOD), zipped((deflated, GOOD), ("archive/data/0", b"\0" * 16)), large.getvalue()):
        (tmp_path / "any.pt").write_bytes(data)
        assert_same(read_torch_file(tmp_path / "any.pt"), expected)


def test_offsets_beyond_32_bits_are_read(tmp_path):
    """A storage after a hole of four gigabytes in a sparse file."""
    hole, good = 2**32 + 64, zipped(("a/data.pkl", GOOD), ("a/data/0", b"\0" * 15 + b"\x40"))
    head, central = good.rindex(b"PK\x03\x04"), good.index(b"PK\x01\x02")
    second, end = good.rindex(b"PK\x01\x02"), good.index(b"PK\x05\x06")
    extra = struct.pack("<2HQ", 1, 8, hole)
    last = changed(changed(good[second:end], 42, b"\xff" * 4), 30, struct.pack("<H", len(extra)))
    listed = good[central:second] + last + extra
    start = hole + central - head
    wide = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 2, 2, len(listed), start)
    wide += b"PK\x06\x07" + struct.pack("<IQI", 0, start + len(listed), 1)
    with (tmp_path / "large.pt").open("wb") as file:
        file.write(good[:head])
        file.seek(hole)
        file.write(good[head:central] + listed + wide + changed(good[end:], 12, b"\xff" * 8))
    found = read_torch_file(tmp_path / "large.pt")["model"]
    assert found.array.tolist() == [0.0, 0.0, 0.0, 2.0]


# ---- other files -----------------------------------------------------------------------------------------------------


def test_other_files_are_refused_in_a_sentence(tmp_path):
    (tmp_path / "empty.pt").touch()
    (tmp_path / "text.pt").write_text("Once upon a time")
    (tmp_path / "pickle.pt").write_bytes(pickle.dumps({"a": 1}))
    os.mkfifo(tmp_path / "pipe.pt")
    (tmp_path / "zero.pt").symlink_to("/dev/zero")
    (tmp_path / "loop.pt").symlink_to("loop.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    torch.save({1: 2}, tmp_path / "numbers.pt")
    torch.save(torch.zeros(3).conj_physical().to(torch.complex64).conj(), tmp_path / "tensor.pt")
    torch.save({"model": nn.Linear(2, 2)}, tmp_path / "module.pt")
    expected = {
        "empty": "is empty",
        "text": "was not written by torch.save",
        "pickle": "was not written by torch.save",
        "pipe": "is not a regular file",
        "zero": "is not a regular file",
        "loop": "cannot be opened",
        "absent": "cannot be opened: No such file",
        "nul\0": "cannot be opened",
        "list": "does not hold a dict",
        "numbers": "does not hold a dict with string keys",
        "tensor": "a lazily negated or conjugated one",
        "module": "refers to torch.nn.modules.linear.Linear, which no state dict needs .*: use a file from a source",
    }
    for name, sentence in expected.items():
        with pytest.raises(DirectoryError, match=sentence):
            read_torch_file(tmp_path / f"{name}.pt")
    with pytest.raises(DirectoryError, match="is not a regular file"):
        read_torch_file(tmp_path)


def test_a_link_to_a_checkpoint_is_the_checkpoint(tmp_path):
    save({"a": 1}, tmp_path / "blob")
    (tmp_path / "link.pt").symlink_to("blob")
    assert read_torch_file(tmp_path / "link.pt") == {"a": 1}


def test_windows_is_not_supported(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(InputError, match="on Linux and macOS only"):
        read_torch_file(tmp_path / "any.pt")


def test_a_broken_python_is_named(tmp_path, monkeypatch):
    path = save({"a": 1}, tmp_path / "any.pt")
    for python, sentence in (("/nowhere/python", "could not be started"), (shutil.which("false"), "did not start")):
        monkeypatch.setattr(sys, "executable", python)
        with pytest.raises(InputError, match=sentence):
            read_torch_file(path)


# ---- the description is untrusted ------------------------------------------------------------------------------------


def claims():
    """A valid description of a file of 4096 bytes, and changes that each make it invalid."""
    good = {"top": ["d", "a", ["T", 0]], "tensors": [[0, "float32", 0, [4], [1]]], "storages": [[64, 16, None]]}
    good["reverse"] = False
    changes = {
        "storages": [[[64, 15, None]], [[-64, 16, None]], [[4090, 16, None]], [[2**63, 16, None]], [[64.0, 16, None]]],
        "tensors": [
            [[0, kind, offset, shape, stride]]
            for kind, offset, shape, stride in [
                ("float64", 0, [4], [1]),
                ("quint8", 0, [4], [1]),
                (["float32"], 0, [4], [1]),
                ("float32", 1, [4], [1]),
                ("float32", -1, [4], [1]),
                ("float32", True, [1], [1]),
                ("float32", 0, [4.0], [1]),
                ("float32", 0, [4], [2]),
                ("float32", 0, [4], [1, 1]),
                ("float32", 0, [4], None),
                ("float32", 0, [2**40], [0]),
                ("float32", 0, [2**63], [0]),
                ("float32", 0, [2**62, 2], [0, 0]),
            ]
        ],
        "top": [
            None,
            [],
            ["l"],
            ["d", 1, 2],
            ["d", "a"],
            ["d", "a", ["T", 1]],
            ["d", "a", ["T"]],
            ["d", "a", ["?", 0]],
        ],
    }
    changes["tensors"] += [[], [[1, "float32", 0, [4], [1]]], [[-1, "float32", 0, [4], [1]]], [[]], [None]]
    changes["storages"] += [[], [[64, 16]], [None], [[64, 16, None], [70, 16, None]], [[64, 16, 5]], None]
    changes["top"] += [
        ["d", "a", ["b", "xyz"]],
        ["d", "a", ["n", "O", [1], "00"]],
        ["d", "a", ["n", "f8", [2**40], "00"]],
    ]
    changes["top"] += [["d", "a", ["n", "f8", [2], "00" * 8]], ["d", "a", ["d", ["l"], 1]], ["d", "a", ["s", ["l"]]]]
    changes["top"] += [["d", "a", [[], 1]], ["d", "a", ["S", 0, "x"]], ["d", "a", ["S", 3, "int8"]]]
    return good, [(part, change) for part, found in changes.items() for change in found]


def as_described(path, monkeypatch, description):
    path.write_bytes(b"\0" * 4096)
    monkeypatch.setattr(torch_file_reader, "_describe", lambda *_: json.loads(json.dumps(description)))
    return read_torch_file(path)


@pytest.mark.parametrize("number", range(len(claims()[1])))
def test_every_number_of_a_description_is_checked(tmp_path, monkeypatch, number):
    good, changes = claims()
    assert_same(as_described(tmp_path / "any.pt", monkeypatch, good), {"a": torch.zeros(4)})
    part, change = changes[number]
    with pytest.raises(DirectoryError):
        as_described(tmp_path / "any.pt", monkeypatch, {**good, part: change})


def test_a_process_that_waits_for_a_core_is_not_ended(tmp_path, monkeypatch):
    """The limit of 2 s once counted the time that passed: on a busy machine good files were refused as too slow."""
    path = save({"a": 1}, tmp_path / "any.pt")
    monkeypatch.setattr(torch_file_reader, "CHILD_CODE", f"import time; time.sleep(3); {torch_file_reader.CHILD_CODE}")
    assert read_torch_file(path) == {"a": 1}


@pytest.mark.parametrize(
    "code",
    [
        "import time; time.sleep(60)",
        "import os; os.close(1); import time; time.sleep(60)",
        "import os, time\nos.close(0)\nwhile True: os.write(1, b'[' * 65536)",
        "print('[' * 100_000)",
        "print('not JSON')",
        "print('5')",
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    ],
)
def test_a_process_that_misbehaves_is_ended(tmp_path, monkeypatch, code):
    path = save({"a": 1}, tmp_path / "any.pt")
    monkeypatch.setattr(torch_file_reader, "CHILD_CODE", code)
    monkeypatch.setattr(torch_file_reader, "BUSY_MACHINE", 1)
    with pytest.raises(DirectoryError, match="took more time or memory than a state dict needs"):
        read_torch_file(path)


# ---- mutations -------------------------------------------------------------------------------------------------------


def small_checkpoints():
    """Small checkpoints like fairseq's: settings, weights (some tied), optimiser state, meters."""
    weight = torch.randn(7, 4, generator=torch.Generator().manual_seed(0))
    model = OrderedDict([("embedding", weight), ("output", weight), ("t", weight.t()), ("half", weight.half())])
    model |= {"version": torch.tensor(3.0), "none": torch.empty(0, 4)}
    saved = {
        "args": argparse.Namespace(arch="tiny", layers=6, lr=[0.5], share=True, none=None),
        "model": model,
        "last_optimizer_state": {"state": {0: {"step": 5, "exp_avg": weight.clone()}}, "param_groups": [{"lr": 1e-3}]},
        "extra_state": {"best": np.float64(7.5), "counts": np.arange(3), "meters": [(10, "loss", {"sum": 2**40})]},
    }
    other = {"model": {"a": torch.ones(3, dtype=torch.int64), "b": nn.Parameter(torch.ones(2, 3))}, "cfg": {"x": (1,)}}
    for content, form in itertools.product((saved, other), FORMATS):
        file = io.BytesIO()
        torch.save(content, file, _use_new_zipfile_serialization=form == "zip")
        yield content, form, file.getvalue()


def mutated(chance, data, others):
    """Bytes flipped, truncated, deleted, overwritten, repeated, or copied from another file; often near either end."""
    new = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 4, 16])):
        place, length = chance.randrange(len(new)), chance.choice([1, 2, 4, 8, 64, 300])
        place = chance.choice([place, place, place % 700, -1 - place % 700]) % len(new)
        kind = chance.randrange(7)
        if kind == 0:
            new[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            new[place] = chance.randrange(256)
        elif kind == 2:
            new = new[: place + 1]
        elif kind == 3:
            new = new[:place] + new[place + length :] or new
        elif kind == 4:
            new[place : place + length] = bytes([chance.choice([0, 255])]) * len(new[place : place + length])
        elif kind == 5:
            new[place:place] = new[place : place + length]
        else:
            other = chance.choice(others)
            start = chance.choice([place, chance.randrange(len(other))])
            new[place : place + length] = other[start : start + length] or b"."
    return bytes(new)


SAFE = [argparse.Namespace, np.dtype, np.ndarray, np.dtypes.Float64DType, np.dtypes.Int64DType]
SAFE += [np._core.multiarray._reconstruct, np._core.multiarray.scalar]


def read_or_refused(path):
    """The content, or None if the file is refused with a well-formed message."""
    try:
        return read_torch_file(path)
    except GlassformerError as error:
        sentence = str(error)
    assert sentence.startswith(f"{path} ")
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return None


def judged(path, content, form):
    """A damaged file is refused or read unchanged; legacy files have no checksums, and are read as torch reads them."""
    ours = read_or_refused(path)
    if ours is None:
        return "refused"
    if form == "zip":
        assert_same(ours, content)
        return "read unchanged"
    try:
        with torch.serialization.safe_globals(SAFE):
            theirs = torch.load(path, weights_only=True)
    except Exception:
        return "read, but not by torch"
    assert_same(ours, theirs)
    return "read as torch reads it"


@pytest.mark.parametrize("share", range(SHARES))
def test_damaged_files_are_refused_or_read_correctly(tmp_path, share):
    files = list(small_checkpoints())
    path, slowest, verdicts = tmp_path / "mutated.pt", 0.0, defaultdict(int)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(share, MUTATIONS, SHARES):
        chance = seeded_random(f"torch {number}")
        content, form, data = chance.choice(files)
        path.write_bytes(mutated(chance, data, [other for _, _, other in files]))
        started = cpu_seconds()
        verdicts[f"{form}: {judged(path, content, form)}"] += 1
        slowest = max(slowest, cpu_seconds() - started)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert len(verdicts) >= 4 or MUTATIONS < 1000  # damage may hit bytes that are not read
    assert slowest < 10  # the process has 2 s
    assert grown * (1 if sys.platform == "darwin" else 1024) < 2**28
