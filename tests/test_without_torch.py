"""Translating, evaluating, serving and converting need no torch: it is neither imported nor missed."""

import json
import os
import subprocess
import sys

import pytest

from glassformer.engine.native_library import library
from glassformer.interop.hugging_face import write_hugging_face
from tests.cli.test_every_command_opens_every_model import save_marian
from tests.processes import ROOT, TIMEOUT_SECONDS, run_fresh
from tests.small_translator import model, saved, tokenizer

pytestmark = pytest.mark.skipif(library() is None, reason="there is no C compiler on this machine")

HIDDEN = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "jaxtyping"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NoTorch())
"""
"""Code that makes this process one in which torch is not installed."""


def command(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run the `glassformer` command where torch is not installed."""
    code = f"{HIDDEN}\nfrom glassformer.cli import main\nmain()"
    argv = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, cwd=ROOT)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two models, the same as Hugging Face's files, and a test set."""
    here = tmp_path_factory.mktemp("files")
    for number in range(2):
        saved(here / str(number), number)
    (here / "huggingface").mkdir()
    marian = model(positions="sinusoidal-halves", output_bias=True, activation="relu")
    write_hugging_face(marian, tokenizer(), here / "huggingface")
    save_marian(here / "marian")
    (here / "source").write_text("The dog sleeps.\nThe man reads the book.\n")
    (here / "reference").write_text("Der Hund schläft.\nDer Mann liest das Buch.\n")
    return here


def test_searches_do_not_import_torch(files):
    """Greedy, beam, n-best, constraints, sampling, MBR, diversity, ensembles, in every precision."""
    run_fresh(
        """
        import sys
        import glassformer as gf
        from glassformer.decoding import Beam, Sample
        from glassformer.engine import EngineOptions
        from glassformer.translator import Constraints

        first, second = sys.argv[1:]
        texts = ["The dog sleeps.", "The man reads."]
        searches = [Beam.greedy(), Beam(), Beam(size=3, n_best=3), Beam(n_best=3, diversity=0.5), Beam(no_repeat=2)]
        searches += [Sample(n_best=3, top_k=5, top_p=0.9, epsilon=0.01), Sample(temperature=2.0)]
        for options in (EngineOptions(), EngineOptions(precision="float16"), EngineOptions(precision="int8")):
            for models in ([first], [first, second]):
                translator = gf.load(*models, engine=options)
                for search in searches:
                    found = translator.replace(search=search).translations(texts)
                    assert all(translation.candidates for translation in found)
                constraints = [Constraints("Der", ("Hund",)), Constraints("", ("Mann",))]
                first_text, second_text = translator.translations(texts, constraints)
                assert first_text.text.startswith("Der") and "Hund" in first_text.text and "Mann" in second_text.text
                assert translator.replace(search=Sample(n_best=4)).translations(texts, mbr=True)
        assert "torch" not in sys.modules and "sacrebleu" not in sys.modules and "rich" not in sys.modules
        """,
        str(files / "0"),
        str(files / "1"),
    )


def test_finding_no_gpu_driver_does_not_import_torch(files):
    run_fresh(
        """
        import sys
        import glassformer as gf
        from glassformer.engine import describe_engine, devices

        devices.CUDA_DRIVER_FILES = ()
        assert describe_engine(gf.load(sys.argv[1], device="auto").engine).device == "cpu"
        assert "torch" not in sys.modules
        """,
        str(files / "0"),
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["translate", "0", "The dog sleeps."],
        ["translate", "0", "The dog sleeps.", "--n-best", "3", "--phrase", "Hund"],
        ["translate", "0", "The dog sleeps.", "--sample", "--top-p", "0.9"],
        ["translate", "0", "The dog sleeps.", "--ensemble-with", "1", "--precision", "int8"],
        ["translate", "huggingface", "The dog sleeps."],
        ["translate", "0", "The dog sleeps.", "--json"],
        ["translate", "marian/model.npz", "The dog sleeps."],
        ["score", "0", "--source", "source", "--target", "reference"],
        ["align", "0", "--source", "source", "--target", "reference"],
        ["evaluate", "0", "--source", "source", "--reference", "reference"],
    ],
    ids=" ".join,
)
def test_commands_answer_the_same_where_torch_is_not_installed(files, arguments):
    there = [str(files / argument) if (files / argument).exists() else argument for argument in arguments]
    hidden = command(*there)
    assert hidden.returncode == 0, hidden.stderr
    plain = subprocess.run(
        [sys.executable, "-m", "glassformer", *there], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, cwd=ROOT
    )
    assert hidden.stdout == plain.stdout


def test_a_hugging_face_directory_is_converted_to_the_same_files(files, tmp_path):
    hidden = command("convert", files / "huggingface", tmp_path / "hidden")
    assert hidden.returncode == 0, hidden.stderr
    plain = [sys.executable, "-m", "glassformer", "convert", files / "huggingface", tmp_path / "plain"]
    subprocess.run(plain, check=True, timeout=TIMEOUT_SECONDS, cwd=ROOT)
    for name in ("config.json", "model.safetensors", "manifest.json"):
        assert (tmp_path / "hidden" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


def test_bench_measures_our_systems(files):
    few = ["--count", 2, "--rounds", 1, "--beam", 1, "--batch-size", 1, "--only", "float32", "--only", "plain"]
    hidden = command("bench", files / "0", *few, "--json")
    assert hidden.returncode == 0, hidden.stderr
    table = json.loads(hidden.stdout)
    assert "glassformer float32" in str(table)
    assert any("glassformer plain needs PyTorch" in line for line in table["absent"])


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["train", "--source", "source", "--target", "reference", "--out", "new"], "train"),
        (["trace", "0", "The dog sleeps.", "new.safetensors"], "inspect"),
        (["explain", "0", "The dog sleeps."], "inspect"),
        (["translate", "0", "The dog sleeps.", "--engine", "plain"], "inspect"),
        (["translate", "0", "The dog sleeps.", "--device", "cuda"], "inspect"),
    ],
)
def test_what_needs_torch_says_in_one_sentence_what_to_type(files, arguments, extra):
    there = [str(files / argument) if (files / argument).exists() else argument for argument in arguments]
    refused = command(*there)
    assert refused.returncode == 1
    assert refused.stderr == f"glassformer: PyTorch is not installed: `pip install 'glassformer[{extra}]'`.\n"


def test_a_server_translates_and_refuses_traces(files):
    """Also its description of the model; traces and the OpenAPI document need torch."""
    code = """
        import asyncio
        import json
        from glassformer.server.app import make_app
        from glassformer.server.limits import Limits
        from glassformer.server.state import ServerState
        from glassformer.server.translation_service import open_served_model

        state = ServerState(open_served_model(sys.argv[1]), Limits())
        app = make_app(state)

        async def request(method, path, body=b""):
            answer = {}
            headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
            headers.append((b"content-length", str(len(body)).encode()))
            scope = {"type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode()}
            scope |= {"query_string": b"", "headers": headers, "scheme": "http", "client": ("127.0.0.1", 5)}
            scope |= {"server": ("localhost", 80), "state": {}}
            parts = [{"type": "http.request", "body": body, "more_body": False}]

            async def receive():
                if parts:
                    return parts.pop()
                await asyncio.Event().wait()

            async def send(message):
                answer.setdefault("status", message.get("status"))
                answer["body"] = answer.get("body", b"") + message.get("body", b"")

            await app(scope, receive, send)
            return [answer["status"], json.loads(answer["body"])]

        async def requests():
            text = json.dumps({"text": "The dog sleeps."}).encode()
            asked = [("POST", "/api/translate", text), ("GET", "/api/model"), ("POST", "/api/explore", text)]
            return [await request(*each) for each in asked]

        print(json.dumps(asyncio.run(requests())))
        assert "torch" not in sys.modules
        state.close()
    """
    import textwrap

    printed = run_fresh(HIDDEN + textwrap.dedent(code), str(files / "0"), env=dict(os.environ))
    (translated, answer), (described, about), (traced, refusal) = json.loads(printed)
    assert (translated, described, traced) == (200, 200, 501)
    assert answer["translations"][0]["text"]
    names = {name for name, _ in model().named_parameters(remove_duplicate=False)}
    assert len(about["parameters"]) <= len(names)
    assert refusal == {"error": "PyTorch is not installed: `pip install 'glassformer[inspect]'`."}


@pytest.mark.parametrize("name", ["train", "inspect", "explore", "figure", "RemoveHead", "Transformer"])
def test_public_names_that_need_torch_say_so(name):
    extra = "train" if name == "train" else "inspect"
    run_fresh(f"""{HIDDEN}
import glassformer
try:
    glassformer.{name}
except glassformer.GlassformerError as error:
    assert str(error) == "PyTorch is not installed: `pip install 'glassformer[{extra}]'`.", error
else:
    raise AssertionError("it was imported")
assert glassformer.ModelConfig(vocab_size=9) and glassformer.preset("tiny") and glassformer.load("street")
for name in ("Beam", "Constraints", "EngineOptions", "Sample", "convert", "evaluate", "export", "score", "serve"):
    assert getattr(glassformer, name)
""")
