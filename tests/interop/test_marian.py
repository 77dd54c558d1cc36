"""Marian models: our model computes what Marian's formulas say; unsupported options are errors."""

import numpy as np
import pytest
import torch
from hypothesis import given

from glassformer.decoding import Beam, Request
from glassformer.engine import EngineOptions, open_engine
from glassformer.engine.torch_step_model import score
from glassformer.errors import DirectoryError
from glassformer.interop.marian.marian_file import read_marian_file
from glassformer.interop.marian.marian_model import SUPPORTED_VALUES, marian_names, open_marian, read_config, weights_of
from glassformer.model import Transformer
from tests.examples import max_examples
from tests.interop import marian_writer as marian
from tests.interop.marian_formulas import formulas
from tests.models import configs

POST = {"transformer_preprocess": "", "transformer_postprocess": "dan", "transformer_postprocess_top": ""}
PRE = {"transformer_preprocess": "n", "transformer_postprocess": "da", "transformer_postprocess_top": "n"}
TIES = {
    "all": {"tied_embeddings_all": True},
    "source and target": {"tied_embeddings_all": False, "tied_embeddings_src": True},
    "target and output": {"tied_embeddings_all": False, "tied_embeddings": True},
    "both pairs": {"tied_embeddings_all": False, "tied_embeddings": True, "tied_embeddings_src": True},
    "none": {"tied_embeddings_all": False},
}


def check(tmp_path, options, **how):
    tensors = marian.tensors(options, **how)
    write = marian.write_npz if len(tensors) % 2 else marian.write_bin
    write(tmp_path / "model", tensors, options)
    model = open_marian(tmp_path / "model").model
    rows = options["dim-vocabs"]
    generator = np.random.default_rng(1)
    source, target = (generator.integers(0, size, length) for size, length in zip(rows, (7, 5), strict=True))
    expected = formulas(options, tensors, source, target)
    start = model.config.bos_id
    found = model(torch.tensor(source)[None], torch.tensor([[start, *target]]))[0].detach().numpy()
    assert np.abs(found[:, : rows[1]] - expected).max() < 1e-5 * max(1, np.abs(expected).max())
    assert (found[:, rows[1] :] < -9000).all()


@pytest.mark.parametrize("activation", ["relu", "swish", "gelu"])
@pytest.mark.parametrize("version", ["v1.11.0", "v1.12.14"])
@pytest.mark.parametrize("norms", [POST, PRE], ids=["post", "pre"])
@pytest.mark.parametrize("autoreg", ["rnn", "self-attention"])
def test_logits_are_what_marians_formulas_say(autoreg, norms, version, activation, tmp_path):
    check(
        tmp_path,
        marian.options(
            transformer_decoder_autoreg=autoreg, version=version, transformer_ffn_activation=activation, **norms
        ),
    )


@pytest.mark.parametrize("out", ["W", "Wt"])
@pytest.mark.parametrize("tie", TIES)
def test_logits_are_right_however_embeddings_are_tied(tie, out, tmp_path):
    sizes = [11, 11] if tie in ("all", "source and target", "both pairs") else [9, 12]
    check(tmp_path, marian.options(dim_vocabs=sizes, **TIES[tie]), out=out)


@pytest.mark.parametrize("sizes", [[9, 12], [12, 9]])
@pytest.mark.parametrize("learned", [0, 20])
@pytest.mark.parametrize("embedding", ["d", "nd"])
@pytest.mark.parametrize("no_bias", [False, True])
def test_logits_are_right_for_everything_else(no_bias, embedding, learned, sizes, tmp_path):
    changes = {"output_omit_bias": no_bias, "transformer_postprocess_emb": embedding, "dim_vocabs": sizes}
    check(tmp_path, marian.options(tied_embeddings_all=False, tied_embeddings=True, **changes), learned=learned)


@max_examples(60)
@given(configs())
def test_names_there_and_back_are_the_same(config):
    names = marian_names(config)
    with torch.device("meta"):
        ours = [name for name, _ in Transformer(config).named_parameters()]
    mapped = [name for name in ours if names.theirs(name) is not None]
    assert all(names.ours(names.theirs(name)) == name for name in mapped if name != "decoder.position.weight")
    assert len({names.theirs(name) for name in mapped}) == len(mapped) - ("decoder.position.weight" in mapped)
    missing = [name for name in ours if name not in mapped]
    assert all(".relative_bias." in name or ".gate_proj." in name for name in missing)  # Marian has neither


def test_a_small_model_uses_every_name_once(tmp_path):
    options = marian.options(**PRE, transformer_postprocess_emb="nd")
    for autoreg in ("rnn", "self-attention"):
        changed = options | {"transformer-decoder-autoreg": autoreg}
        tensors = marian.tensors(changed)
        marian.write_npz(tmp_path / "model.npz", tensors, changed)
        file = read_marian_file(tmp_path / "model.npz")
        config = read_config(file, tmp_path)
        theirs = {marian_names(config).theirs(name) for name in weights_of(file, config, tmp_path)}
        assert theirs == set(tensors)


REFUSED = {
    "type": "s2s",
    "transformer-decoder-autoreg": "average-attention",
    "transformer-ffn-activation": "tanh",
    "transformer-postprocess-emb": "h",
    "transformer-ffn-depth": 3,
    "transformer-decoder-ffn-depth": 1,
    "transformer-decoder-dim-ffn": 99,
    "transformer-tied-layers": [1, 1],
    "transformer-no-projection": True,
    "transformer-pool": True,
    "layer-normalization": True,
    "skip": True,
    "ulr": True,
    "right-left": True,
    "lemma-dim-emb": 7,
    "factors-dim-emb": 7,
    "input-types": ["sequence", "class"],
    "dim-vocabs": [11, 11, 11],
    "dec-cell": "gru",
    "transformer-postprocess": "dar",
    "transformer-preprocess": "n",
    "transformer-postprocess-top": "n",
}


def test_every_checked_option_is_tried():
    assert set(SUPPORTED_VALUES) <= set(REFUSED)


@pytest.mark.parametrize("name", REFUSED)
def test_an_unsupported_option_is_refused_by_name(name, tmp_path):
    tensors = marian.tensors(marian.options())
    marian.write_npz(tmp_path / "model.npz", tensors, marian.options() | {name: REFUSED[name]})
    with pytest.raises(DirectoryError, match=f"{name} = "):
        open_marian(tmp_path)


def test_all_unsupported_options_are_named_together(tmp_path):
    tensors = marian.tensors(marian.options())
    marian.write_npz(
        tmp_path / "model.npz", tensors, marian.options() | REFUSED | {"transformer-decoder-autoreg": "rnn"}
    )
    with pytest.raises(DirectoryError) as error:
        open_marian(tmp_path)
    assert all(f"{name} = " in str(error.value) for name in REFUSED if name != "transformer-decoder-autoreg")


def test_pre_norm_is_refused_for_versions_that_omit_some_norms(tmp_path):
    options = marian.options(**PRE, version="v1.9.56")
    marian.write_npz(tmp_path / "model.npz", marian.tensors(options), options)
    with pytest.raises(DirectoryError, match="keys and values are not normalised"):
        open_marian(tmp_path)


@pytest.mark.parametrize("name", ["dim-emb", "transformer-dim-ffn", "enc-depth", "dec-depth"])
@pytest.mark.parametrize("value", [1, 3, 10**15, "many", True])
def test_stated_sizes_are_checked_against_the_tensors(name, value, tmp_path):
    marian.write_npz(tmp_path / "model.npz", marian.tensors(marian.options()), marian.options() | {name: value})
    with pytest.raises(DirectoryError, match=f"{name} is "):
        open_marian(tmp_path)


def test_unknown_and_missing_tensors_are_named_together(tmp_path):
    options = marian.options()
    tensors = marian.tensors(options)
    unknown = {name: np.ones((2, 2), np.float32) for name in ("lsh_codes", "decoder_l1_aan_W1")}
    marian.write_npz(tmp_path / "model.npz", tensors | unknown, options)
    with pytest.raises(DirectoryError, match="decoder_l1_aan_W1, lsh_codes"):
        open_marian(tmp_path)
    for name in ("encoder_l2_self_Wq", "decoder_l1_rnn_bf"):
        del tensors[name]
    marian.write_npz(tmp_path / "model.npz", tensors, options)
    with pytest.raises(DirectoryError, match=r"decoder.*forget_proj.bias, encoder.*q_proj.weight"):
        open_marian(tmp_path)


@pytest.mark.parametrize("shape", [(), (1,), (8, 1), (11, 2), (1, 12), (2, 11), (1, 1, 11)])
@pytest.mark.parametrize(
    "name", ["decoder_ff_logit_out_b", "decoder_ff_logit_out_W", "encoder_Wemb", "decoder_Wemb", "Wpos"]
)
def test_tensors_of_wrong_shapes_are_refused(name, shape, tmp_path):
    options = marian.options(tied_embeddings_all=False)
    tensors = marian.tensors(options, learned=20) | {name: np.ones(shape, np.float32)}
    marian.write_npz(tmp_path / "model.npz", tensors, options)
    with pytest.raises(DirectoryError, match=r"model\.npz"):
        open_marian(tmp_path)


@pytest.mark.parametrize("engine", ["fast", "plain"])
@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
@pytest.mark.parametrize("autoreg", ["rnn", "self-attention"])
def test_the_added_token_is_never_generated_and_takes_no_probability(autoreg, precision, engine, tmp_path):
    options = marian.options(transformer_decoder_autoreg=autoreg)
    marian.write_npz(tmp_path / "model.npz", marian.tensors(options), options)
    model = open_marian(tmp_path).model
    requests = [Request([*sentence, 0]) for sentence in ([3, 4, 5], [7], [2, 2, 9, 10, 6, 1])]
    opened = open_engine([model], EngineOptions(engine=engine, precision=precision, workers=1))
    for size in (1, 4, 11):
        for found in opened.search(requests, Beam(size=size, n_best=size)):
            assert all(max(hypothesis.tokens) < 11 for hypothesis in found)
            assert all(np.isfinite(hypothesis.log_probabilities).all() for hypothesis in found)
    source, before = torch.tensor([[3, 4, 0]]), torch.tensor([[model.config.bos_id, 5, 6]])
    probabilities = model(source, before).double().softmax(-1)
    assert (probabilities[..., -1] == 0).all()
    (scored,) = score(model, [[3, 4, 0]], [[5, 6, 0]])
    expected = probabilities[0, range(3), [5, 6, 0]].log().tolist()
    assert np.allclose(scored.log_probabilities, expected, atol=1e-5)
