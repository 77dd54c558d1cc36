"""Every public name has a docstring with an example, and the examples do what they say."""

import doctest
import inspect

import pytest

import glassformer
from glassformer.interop.hugging_face import write_hugging_face
from tests.processes import run_plainly
from tests.small_translator import model, tokenizer
from tests.training.runs import write_corpus

METHODS = ("translate", "translate_async", "translations", "score", "save", "with_search")
"""Methods of the translator that have examples of their own."""
EXAMPLES = """
    import doctest, os, sys
    import glassformer as gf
    from glassformer.training import default_choices

    default_choices.choose_ranks = lambda parameters, device: 1  # a second process would take longer than the run
    os.chdir(sys.argv[1])
    failed = []
    for name in sys.argv[2:]:
        public, _, method = name.partition(".")
        what = getattr(getattr(gf, public), method) if method else getattr(gf, public)
        for test in doctest.DocTestFinder(recurse=False).find(what, name, module=False, globs={"gf": gf}):
            if doctest.DocTestRunner(verbose=False).run(test, out=sys.stderr.write).failed:
                failed.append(name)
    assert not failed, failed
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """What the examples read: parallel text, and a model of another program."""
    here = tmp_path_factory.mktemp("examples")
    for split, name in (("train", "train"), ("test", "test")):
        write_corpus(here, 60 if split == "train" else 5, split)
        for side, ending in (("source", "en"), ("target", "de")):
            (here / f"{split}.{side}").rename(here / f"{name}.{ending}")
    (here / "opus-mt-en-de").mkdir()
    marian = model(positions="sinusoidal-halves", output_bias=True, activation="relu")
    write_hugging_face(marian, tokenizer(), here / "opus-mt-en-de")
    return here


def documented() -> list[str]:
    return [*glassformer.__all__, *(f"Translator.{method}" for method in METHODS)]


@pytest.mark.parametrize("name", documented())
def test_every_public_name_has_an_example(name):
    public, _, method = name.partition(".")
    value = getattr(glassformer, public)
    docstring = inspect.getdoc(getattr(value, method) if method else value)
    assert doctest.DocTestParser().get_examples(docstring), name
    first = docstring.splitlines()[0]
    assert first.endswith((".", ":")), first


def test_the_examples_of_the_docstrings_run(files):
    run_plainly(EXAMPLES, str(files), *documented())
