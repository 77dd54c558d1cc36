"""Exported models translate the same: all kinds of models, in CTranslate2 and onnxruntime, on real sentences."""

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from glassformer.builtin import street
from glassformer.cli import app
from glassformer.evaluation import score
from glassformer.interop.capabilities import unsupported
from glassformer.interop.ctranslate2_export import ExportVocabulary, write_ctranslate2
from glassformer.interop.onnx_export import write_onnx
from glassformer.model import ModelConfig, load_model
from glassformer.model_location import find_model, tokenizer_of
from glassformer.verification import parity as agreement
from tests.examples import ALL
from tests.models import build_source_sensitive

MULTI30K = Path(__file__).parents[3] / "shared/data/multi30k/raw/test_2016_flickr.en"
KINDS = {
    "the paper's": {},
    "norms first": {"norm_first": True},
    "halves": {"positions": "sinusoidal-halves", "scale_embeddings": False},
    "fairseq": {"positions": "sinusoidal-fairseq", "position_offset": 2, "norm_first": True, "tie_output": False},
    "bart": {"positions": "learned", "position_offset": 2, "embedding_norm": True, "activation": "gelu"},
    "marian": {"positions": "sinusoidal-halves", "output_bias": True, "activation": "silu", "norm_eps": 1e-6},
    "t5": {
        "positions": "relative",
        "norm": "rms",
        "norm_first": True,
        "gated": True,
        "activation": "gelu-tanh",
        "linear_bias": False,
        "scale_scores": False,
        "scale_embeddings": False,
        "scale_output": True,
    },
    "nothing shared": {"share_embeddings": False, "tie_output": False, "source_vocab_size": 1003},
    "ssru": {"decoder_ssru": True, "positions": "sinusoidal-fairseq"},
    "rotary": {"positions": "rotary", "norm_first": True},
}
KINDS["umt5"] = KINDS["t5"] | {"positions": "relative-per-layer"}
SIZES = {"d_model": 32, "n_heads": 4, "d_ff": 48, "encoder_layers": 2, "decoder_layers": 2}


@pytest.fixture(scope="module")
def sources():
    """Ids of 200 sentences: the built-in corpus, or Multi30k in `make test-all` if it is there."""
    if ALL and MULTI30K.exists():
        lines = MULTI30K.read_text().splitlines()[:200]
    else:
        lines = [pair.source for pair in street.sentences("test", 200)]
    tokenizer = tokenizer_of(find_model("street"))
    return [tokenizer.encode(line, "source") for line in lines]


@pytest.fixture(params=KINDS)
def model(request):
    config = ModelConfig(vocab_size=1000, **SIZES | KINDS[request.param])
    made = build_source_sensitive(config, 5)
    if config.norm_first:  # else the residual stream would outweigh the layers, and each word predict itself
        with torch.no_grad():
            for name, weight in made.named_parameters():
                weight.mul_(0.2 if "embedding" in name else 1)
    return made


def varied(targets):
    assert len({tuple(target) for target in targets}) > 20, "a model with constant output proves little"
    return targets


def test_ctranslate2_translates_the_same(model, sources, tmp_path):
    if options := unsupported("CTranslate2", model.config):
        pytest.skip(f"CTranslate2 does not support {', '.join(options)}")
    write_ctranslate2(model, tmp_path)
    theirs = agreement.by_ctranslate2(tmp_path, model.config, ExportVocabulary.numbers(model.config), sources)
    assert agreement.compare_targets(varied(agreement.by_glassformer(model, sources)), theirs).complete


def test_onnxruntime_translates_the_same(model, sources, tmp_path):
    write_onnx(model, tmp_path)
    theirs = agreement.by_onnxruntime(tmp_path, sources)
    assert agreement.compare_targets(varied(agreement.by_glassformer(model, sources)), theirs).complete


def test_eight_bits_cost_little(tmp_path):
    """On a trained model, within 0.5 BLEU."""
    directory = find_model("street")
    model, tokenizer = load_model(directory), tokenizer_of(directory)
    pairs = list(street.sentences("test", 200))
    sources = [tokenizer.encode(pair.source, "source") for pair in pairs]
    write_ctranslate2(model, tmp_path, quantization="int8")
    theirs = agreement.by_ctranslate2(tmp_path, model.config, ExportVocabulary.numbers(model.config), sources)
    bleus = [
        score([tokenizer.decode(ids) for ids in targets], [pair.target for pair in pairs]).bleu
        for targets in (agreement.by_glassformer(model, sources), theirs)
    ]
    assert abs(bleus[0] - bleus[1]) < 0.5


@pytest.mark.parametrize("to", ["huggingface", "ctranslate2", "onnx"])
@pytest.mark.filterwarnings("ignore:Recommended")
def test_export_verifies_itself(to, tmp_path):
    done = CliRunner().invoke(app, ["export", "street", str(tmp_path / "out"), "--to", to, "--count", "8"])
    assert done.exit_code == 0, done.output
    assert "8 of 8 sentences" in done.stdout
    assert "8 of 8 sentences" in (tmp_path / "out/README.md").read_text()
    assert not (tmp_path / "out/manifest.json").exists()


def test_nothing_is_left_of_an_export_that_translates_differently(tmp_path, monkeypatch):
    monkeypatch.setattr(agreement, "by_onnxruntime", lambda _, sources: [[5, 2] for _ in sources])
    done = CliRunner().invoke(app, ["export", "street", str(tmp_path / "out"), "--to", "onnx", "--count", "3"])
    assert "3 of 3 sentences differ; the first is sentence 1. Nothing was written." in str(done.exception)
    assert not any(tmp_path.iterdir())


def test_a_quantization_for_another_format_is_refused(tmp_path):
    done = CliRunner().invoke(app, ["export", "street", str(tmp_path / "x"), "--to", "onnx", "--quantization", "int8"])
    assert "--quantization has no effect with --to onnx: it is for --to ctranslate2 only." in str(done.exception)
