"""Parameter counts, by part, compared with published ones."""

from collections import Counter

import pytest
import torch
from hypothesis import given

from glassformer.inspection.explanation.parameter_parts import parts
from glassformer.model import Transformer, preset
from tests.examples import max_examples
from tests.models import configs


def without_weights(name: str, **changes) -> Transformer:
    with torch.device("meta"):
        return Transformer(preset(name, **changes))


def test_paper_base_by_part():
    """Table 3, base: N = 6, d_model = 512, d_ff = 2048, h = 8, d_k = d_v = 64, a vocabulary of 37,000."""
    n_layers, d_model, d_ff, heads, d_k, vocabulary = 6, 512, 2048, 8, 64, 37_000
    attentions = 3 * n_layers  # encoder self-attention, decoder self-attention, cross-attention
    matrix = d_model * heads * d_k + heads * d_k
    expected = {
        "W_Q": attentions * matrix,
        "W_K": attentions * matrix,
        "W_V": attentions * matrix,
        "W_O": attentions * matrix,
        "feed-forward": 2 * n_layers * (d_model * d_ff + d_ff + d_ff * d_model + d_model),
        "norms": 5 * n_layers * 2 * d_model,  # two in an encoder layer, three in a decoder layer
        "embeddings": vocabulary * d_model,  # source, target and output: one matrix (section 3.4)
    }
    counts = Counter()
    for part in parts(without_weights("paper-base")):
        counts[part.part] += part.size
    assert counts == expected
    assert sum(expected.values()) == 63_082_496


@pytest.mark.parametrize(
    ("changes", "millions"),
    [
        ({}, 65),
        ({"encoder_layers": 2, "decoder_layers": 2}, 36),
        ({"encoder_layers": 4, "decoder_layers": 4}, 50),
        ({"encoder_layers": 8, "decoder_layers": 8}, 80),
        ({"d_model": 256, "n_heads": 8, "d_head": 32}, 28),
        ({"d_model": 1024, "n_heads": 8, "d_head": 128}, 168),
        ({"d_ff": 1024}, 53),
        ({"d_ff": 4096}, 90),
        ({"n_heads": 16, "d_head": 32}, 65),
    ],
)
def test_the_rows_of_the_papers_table_3(changes, millions):
    """The published counts of the base rows imply a vocabulary of 41,000; with it every row agrees within rounding.

    (The text says "about 37000", which is what paper-big's 213 million agrees with: see docs/decisions.md.)
    """
    assert abs(without_weights("paper-base", vocab_size=41_000, **changes).n_parameters / 1e6 - millions) < 0.8


def test_paper_big():
    assert without_weights("paper-big").n_parameters == 214_245_376  # the paper says 213 million


def test_the_tutorial_has_the_count_it_prints():
    """bentrevett's notebook 6: "The model has 9,038,341 trainable parameters"."""
    assert without_weights("tutorial").n_parameters == 9_038_341


@max_examples(50)
@given(configs())
def test_every_parameter_of_every_config_belongs_to_one_part(config):
    with torch.device("meta"):
        model = Transformer(config)
    assert sum(part.size for part in parts(model)) == model.n_parameters


def test_a_model_has_no_buffers():
    """So nothing but weights can be saved, and nothing can be cast wrongly."""
    assert list(without_weights("tiny").buffers()) == []
