"""More pickles that attack their reader: gadgets of known scanners' bypasses, malformed programs, false tensors."""

import re
import struct

import pytest

from glassformer.errors import DirectoryError
from glassformer.interop.torch_file.pickle_description import describe
from glassformer.interop.torch_file.torch_file_reader import read_torch_file
from tests.examples import ALL
from tests.interop.test_torch_file import (
    FORMATS,
    as_legacy,
    as_zip,
    call,
    in_dict,
    named,
    tensor_of,
    under_watch,
    word,
)


def gadgets(mark):
    """Functions of Python, numpy and torch that run what they are given, by name, with arguments that create `mark`."""
    touch, code = f"touch {mark}", f"open({str(mark)!r}, 'w')"
    listed = b"](" + word("touch") + word(str(mark)) + b"e"
    arguments = {
        "os.popen": [word(touch)],
        "os.execv": [word("/bin/touch"), listed],
        "os.posix_spawn": [word("/bin/touch"), listed, b"}"],
        "os.symlink": [word("/etc/passwd"), word(str(mark))],
        "nt.system": [word(touch)],
        "commands.getoutput": [word(touch)],
        "subprocess.Popen": [listed],
        "subprocess.check_output": [listed],
        "asyncio.create_subprocess_shell": [word(touch)],
        "multiprocessing.util.spawnv_passfds": [b"C\x0a/bin/touch", listed, b")"],
        "pty.spawn": [listed],
        "shutil.copyfile": [word("/etc/passwd"), word(str(mark))],
        "pathlib.Path.touch": [call("pathlib.Path", word(str(mark)))],
        "runpy.run_path": [word(str(mark))],
        "runpy._run_code": [word(code), b"}"],
        "timeit.timeit": [word(code)],
        "pdb.run": [word(code)],
        "cProfile.run": [word(code)],
        "doctest.debug_script": [word(code)],
        "code.InteractiveInterpreter": [b"}"],
        "pydoc.pipepager": [word("x"), word(touch)],
        "webbrowser.get": [word(touch)],
        "ctypes.CDLL": [word(str(mark))],
        "marshal.loads": [b"C\x01N"],
        "types.FunctionType": [b"N", b"}"],
        "importlib.import_module": [word("os")],
        "functools.partial": [named("os.system"), word(touch)],
        "operator.methodcaller": [word("system"), word(touch)],
        "operator.attrgetter": [word("system.__globals__")],
        "builtins.map": [named("os.system"), listed],
        "builtins.getattr": [named("os.path"), word("os")],
        "builtins.compile": [word(code), word("x"), word("exec")],
        "builtins.globals": [],
        "builtins.breakpoint": [],
        "builtins.bytearray": [b"\x8a\x08" + (2**62).to_bytes(8, "little")],
        "socket.create_connection": [b"(" + word("127.0.0.1") + b"K\x09t"],
        "urllib.request.urlopen": [word(f"file://{mark}")],
        "logging.config.dictConfig": [b"}"],
        "pip.main": [listed],
        "numpy.testing._private.utils.runstring": [word(code), b"}"],
        "numpy.f2py.crackfortran.myeval": [word(code)],
        "numpy.load": [word(str(mark)), b"N", b"\x88"],
        "torch.load": [word(str(mark))],
        "torch.ops.load_library": [word(str(mark))],
        "torch.utils.collect_env.run": [word(touch)],
        "torch.jit.unsupported_tensor_ops.execWrapper": [word(code), b"}", b"}"],
        "torch._utils._rebuild_from_type_v2": [named("os.system"), b"N", word(touch), b"N"],
        "torch._utils._rebuild_wrapper_subclass": [named("os.system"), word(touch)],
        "torch._tensor._rebuild_from_type": [named("os.system"), b"N", word(touch), b"}"],
        "torch.distributed.rpc.rpc_sync": [word("x"), named("os.system"), word(touch)],
    }
    return {name: call(name, *values) for name, values in arguments.items()}


def storage(*parts):
    """A tensor whose storage has this persistent id."""
    return call("torch._utils._rebuild_tensor_v2", b"(" + b"".join(parts) + b"tQ", b"K\x00", b")", b")", b"\x89", b"}")


KIND, FLOATS = word("storage"), named("torch.FloatStorage")
HOOKS = call("collections.OrderedDict")
MALFORMED = {
    "a call without arguments": b"R",
    "a global without a name": b"c\n\n",
    "a global that ends in the middle": b"cos\nsyst",
    "a name in another alphabet": named("\u043es.system"),
    "a name with a control character": named("os\t.system\x1b[2J"),
    "a name of half a surrogate pair": b"\x8c\x02os\x8c\x03\xed\xa0\x80\x93",
    "a name with a line break": word("os") + word("system\nx") + b"\x93",
    "a name that is a number": b"K\x01K\x02\x93",
    "a name that is not UTF-8": b"c\xff\xfe\n\xff\n",
    "an absent memo entry": b"h\x07",
    "an end without a mark": b"t",
    "a list of nothing marked": b"]e",
    "a dict with an odd number of items": b"}(K\x01K\x02K\x03u",
    "a list as a key": b"}]Ns",
    "a dict as an element of a set": b"\x8f(}\x90",
    "a set in itself": b"\x8fq\x00(h\x00\x90",
    "items for a tuple": b")K\x01K\x02s",
    "elements for a dict": b"}(K\x01e",
    "keywords for a class": named("argparse.Namespace") + b")}" + word("x") + b"Ns\x92",
    "arguments that are a list": named("argparse.Namespace") + b"]R",
    "protocol 0: text": b"S'os'\n",
    "protocol 0: a number": b"I99999999999999999999\n",
    "protocol 0: a long": b"L" + b"9" * 5000 + b"L\n",
    "protocol 0: a float": b"Fnan\n",
    "protocol 0: a memo entry": b"Np0\n0g0\n",
    "a bytearray": b"\x96\x08\0\0\0\0\0\0\0" + b"x" * 8,
    "a bytearray beyond memory": b"\x96" + b"\xff" * 7 + b"\x7f",
    "a read-only buffer": b"N\x98",
    "an extension of four bytes": b"\x84\xff\xff\xff\x7f",
    "an unknown opcode": b"\xfe",
    "a codec that unfolds": call("_codecs.encode", word("x" * 99), word("zlib")),
    "a codec that is a module": call("_codecs.encode", word("x"), word("os.system")),
    "a set of text": call("builtins.set", word("abc")),
    "a dict of arguments": call("collections.OrderedDict", b"](" + word("a") + b"Ne"),
    "too many arguments": call("builtins.set", b"]", b"]", b"]"),
    "too few arguments": call("torch._utils._rebuild_tensor_v2"),
    "a parameter of nothing": call("torch._utils._rebuild_parameter"),
    "a tensor of text": call("torch._utils._rebuild_tensor_v2", word("x"), b"K\x00", b")", b")", b"\x89", HOOKS),
    "a persistent id that is text": word("storage") + b"Q",
    "a storage without its size": storage(KIND, FLOATS, word("0"), word("cpu")),
    "a storage of an unknown kind": storage(word("module"), FLOATS, word("0"), word("cpu"), b"K\x04"),
    "a storage whose type is text": storage(KIND, word("torch.FloatStorage"), word("0"), word("cpu"), b"K\x04"),
    "a storage whose key is a number": storage(KIND, FLOATS, b"K\x00", word("cpu"), b"K\x04"),
    "a storage whose size is text": storage(KIND, FLOATS, word("0"), word("cpu"), word("4")),
    "a storage whose size is true": storage(KIND, FLOATS, word("0"), word("cpu"), b"\x88"),
    "a storage of a type that is a call": storage(KIND, named("torch._utils._rebuild_tensor"), word("0")),
    "a quantised storage": tensor_of([4], [1]).replace(b"FloatStorage", b"QInt8Storage"),
    "hooks of a tensor": tensor_of([4], [1])[: -len(HOOKS) - 2] + b"}" + word("x") + named("os.system") + b"stR",
    "a shape of floats": tensor_of([4], [1]).replace(
        b"\x8a\x10" + (4).to_bytes(16, "little"), b"G" + struct.pack(">d", 4)
    ),
    "two shapes of one storage": b"](" + tensor_of([4], [1]) + tensor_of([4], [1], count=3) + b"e",
}


def refused(path, form, data):
    """The error of the parser, which raises no audit events; in test-all, also of the isolated process."""
    path.write_bytes(as_zip(data) if form == "zip" else as_legacy(data))
    with path.open("rb") as file:
        error, events = under_watch(describe, file.fileno(), path.stat().st_size)
    assert isinstance(error, Exception), error
    assert events == []
    if ALL:
        refusal, events = under_watch(read_torch_file, path)
        assert type(refusal) is DirectoryError, refusal
        assert re.fullmatch(r"\S+/hostile\.pt [^\n]*: [^\n]*\.", str(refusal))
        assert str(refusal).isprintable()
        assert set(events) <= {"open", "subprocess.Popen"}
    return str(error)


@pytest.mark.parametrize("form", FORMATS)
def test_functions_that_run_what_they_are_given_are_refused_by_name(tmp_path, form):
    mark = tmp_path / "mark"
    for data in gadgets(mark).values():
        module, name = re.search(rb"c(.*)\n(.*)\n", data).groups()  # the first global that it names
        sentence = refused(tmp_path / "hostile.pt", form, in_dict(data))
        assert f"refers to {module.decode()}.{name.decode()}, which" in sentence
        assert not mark.exists()


@pytest.mark.parametrize("form", FORMATS)
def test_malformed_pickles_are_refused(tmp_path, form):
    for data in MALFORMED.values():
        refused(tmp_path / "hostile.pt", form, in_dict(data))


def test_they_are_as_many_as_reliability_says():
    assert (len(gadgets("")), len(MALFORMED)) == (50, 50)
