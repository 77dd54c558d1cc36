"""Parity with `transformers` for every supported Hugging Face family: random small models, imported and exported."""

import json
import random

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM

from glassformer.decoding import Beam, Request, search
from glassformer.engine import EngineOptions, open_search_backend
from glassformer.engine.native_model import NativeStepModel
from glassformer.engine.torch_step_model import PlainStepModel
from glassformer.errors import GlassformerError
from glassformer.interop.hugging_face import open_hugging_face, write_hugging_face
from tests.examples import ALL
from tests.interop.hugging_face_models import FAMILIES

LIMIT = 24
SEEDS = range(8) if ALL else range(2, 4)
every_family = pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind in FAMILIES for seed in SEEDS])


def saved(kind, seed, directory):
    theirs = FAMILIES[kind](seed)
    theirs.save_pretrained(directory)
    return theirs


def sources(config, count, seed):
    pick = random.Random(seed)
    tokens = [token for token in range(3, 28) if token not in (config.pad_id, config.eos_id)]
    return [[pick.choice(tokens) for _ in range(pick.randint(1, 12))] + [config.eos_id] for _ in range(count)]


def padded(rows, pad):
    width = max(map(len, rows))
    return torch.tensor([row + [pad] * (width - len(row)) for row in rows])


@torch.no_grad()
def logits(theirs, source, target, pad):
    return theirs(input_ids=source, attention_mask=(source != pad).long(), decoder_input_ids=target).logits


def examples(config, seed):
    source = padded(sources(config, 8, seed), config.pad_id)
    target = torch.tensor([row[:1] * 7 for row in sources(config, 8, seed + 1)])
    target[:, 2:5] = source[:, :1]
    target[:, 0] = config.bos_id
    return source, target


@every_family
def test_the_logits_equal_theirs(kind, seed, tmp_path):
    theirs = saved(kind, seed, tmp_path)
    ours = open_hugging_face(tmp_path).model
    source, target = examples(ours.config, seed)
    expected = logits(theirs, source, target, ours.config.pad_id)
    assert expected.std() > 0.1, "logits that hardly differ would agree too easily"
    with torch.no_grad():
        torch.testing.assert_close(ours(source, target), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["t5", "umt5", "byt5"])
def test_the_c_engine_computes_what_they_compute(kind, tmp_path):
    """The probability of every token of every beam, next to theirs for the same target."""
    theirs = saved(kind, 2, tmp_path)
    ours = open_hugging_face(tmp_path).model
    config = ours.config
    engine = open_search_backend([ours], EngineOptions())
    assert isinstance(engine.step_model, NativeStepModel)
    texts = sources(config, 20, 2)
    settings = Beam(size=3, keep_greedy=False, max_length_ratio=0.0, max_length_extra=LIMIT)
    for text, [best, *_] in zip(texts, engine.search([Request(text) for text in texts], settings), strict=True):
        source, target = torch.tensor([text]), torch.tensor([[config.bos_id, *best.tokens[:-1]]])
        expected = logits(theirs, source, target, config.pad_id)[0]
        log_ps = expected.log_softmax(-1).gather(1, torch.tensor(best.tokens)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(best.log_probabilities), log_ps, rtol=0, atol=1e-4)


def test_an_umt5_with_an_output_matrix_of_its_own_is_not_scaled(tmp_path):
    """As published: tie_word_embeddings is false. `transformers` 5 ignores it, and divides every logit by √d_model."""
    theirs = saved("umt5", 1, tmp_path)
    options = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(options | {"tie_word_embeddings": False}))
    weights = load_file(tmp_path / "model.safetensors")
    theirs.lm_head.weight = torch.nn.Parameter(torch.randn(theirs.lm_head.weight.shape))
    weights["lm_head.weight"] = theirs.lm_head.weight.detach()
    save_file(weights, tmp_path / "model.safetensors")
    ours = open_hugging_face(tmp_path).model
    assert not ours.config.scale_output
    assert not ours.config.tie_output
    source, target = examples(ours.config, 1)
    expected = logits(theirs, source, target, ours.config.pad_id) * ours.config.d_model**0.5
    with torch.no_grad():
        torch.testing.assert_close(ours(source, target), expected, rtol=0, atol=1e-4)


def test_a_t5_with_a_bias_per_layer_is_refused(tmp_path):
    saved("umt5", 2, tmp_path)  # with three encoder layers
    options = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(options | {"model_type": "t5"}))
    with pytest.raises(GlassformerError, match="relative_attention_bias"):
        open_hugging_face(tmp_path)


@pytest.mark.parametrize("missing", ["encoder.block.0", "decoder.block.0"])
def test_an_umt5_without_the_bias_of_a_layer_is_refused(missing, tmp_path):
    saved("umt5", 2, tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights[f"{missing}.layer.0.SelfAttention.relative_attention_bias.weight"]
    save_file(weights, tmp_path / "model.safetensors")
    name = missing.replace("block", "layers")
    with pytest.raises(GlassformerError, match=rf"missing: {name}.relative_bias.weight"):
        open_hugging_face(tmp_path)


@pytest.mark.parametrize("kind", FAMILIES)
def test_searches_find_what_theirs_find(kind, tmp_path):
    """50 inputs per model. Unfinished hypotheses at the length limit: they truncate, we end with the end token."""
    compared = 0
    for seed in SEEDS:
        theirs = saved(kind, seed, tmp_path / str(seed))
        ours = open_hugging_face(tmp_path / str(seed)).model
        config = ours.config
        texts = sources(config, 50, seed)
        ids = padded(texts, config.pad_id)
        for size, penalty in ((1, 0.0), (4, 0.0), (4, 1.0)):
            how = Beam(
                size=size, length_penalty=penalty, keep_greedy=False, max_length_ratio=0.0, max_length_extra=LIMIT
            )
            found = search(PlainStepModel(ours), [Request(text) for text in texts], how)
            generated = theirs.generate(
                input_ids=ids,
                attention_mask=(ids != config.pad_id).long(),
                num_beams=size,
                do_sample=False,
                max_new_tokens=LIMIT,
                suppress_tokens=[config.pad_id],
                use_cache="t5" not in kind,  # their cache has as many layers as the encoder
                **({"length_penalty": penalty, "early_stopping": "never"} if size > 1 else {}),
            )
            for hypotheses, row in zip(found, generated[:, 1:].tolist(), strict=True):
                if config.eos_id in row:
                    assert hypotheses[0].tokens == row[: row.index(config.eos_id) + 1]
                    compared += 1
                elif size == 1:
                    assert hypotheses[0].tokens[:-1] == row[: LIMIT - 1]
                    compared += 1
    assert compared >= 0.6 * len(SEEDS) * 150


@every_family
def test_exported_and_imported_again_is_bitwise_the_same(kind, seed, tmp_path):
    saved(kind, seed, tmp_path / "theirs")
    ours = open_hugging_face(tmp_path / "theirs").model
    (tmp_path / "out").mkdir()
    write_hugging_face(ours, None, tmp_path / "out", max_tokens=64)
    again = open_hugging_face(tmp_path / "out").model
    assert again.config == ours.config
    for (name, weight), (other, same) in zip(ours.named_parameters(), again.named_parameters(), strict=True):
        assert name == other
        assert torch.equal(weight, same)


@every_family
def test_an_exported_model_computes_the_same_in_transformers(kind, seed, tmp_path):
    theirs = saved(kind, seed, tmp_path / "theirs")
    ours = open_hugging_face(tmp_path / "theirs").model
    (tmp_path / "out").mkdir()
    write_hugging_face(ours, None, tmp_path / "out", max_tokens=64)
    again = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    source, target = examples(ours.config, seed)
    pad = ours.config.pad_id
    torch.testing.assert_close(
        logits(again, source, target, pad), logits(theirs, source, target, pad), rtol=0, atol=1e-5
    )
