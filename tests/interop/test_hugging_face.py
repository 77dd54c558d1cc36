"""Parity with `transformers` for every supported Hugging Face family: random small models, imported and exported."""

import random

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from glassformer.decoding import Beam, PlainStepModel, Request, search
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
                use_cache=kind != "t5",  # their cache has as many layers as the encoder
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
