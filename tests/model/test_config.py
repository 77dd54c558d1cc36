"""ModelConfig: invalid and inconsistent options are refused with a message; presets; reading and writing."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.errors import GlassformerError, SettingsError
from glassformer.model import PRESETS, ModelConfig, preset
from tests.models import configs


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "The option 'vocab_size' is missing."),
        ({"n_heads": 7}, "d_model = 512 cannot be split evenly into n_heads = 7"),
        ({"n_heads": 0}, "n_heads = 0 should be at least 1."),
        ({"d_model": 0}, "d_model = 0 should be at least 1."),
        ({"d_model": -8, "n_heads": 2}, "d_model = -8 should be"),
        ({"d_model": 512.0}, "d_model = 512.0 should be a whole number."),
        ({"d_model": "512"}, "d_model = '512' should be a whole number."),
        ({"d_model": True}, "d_model = True should be a whole number."),
        ({"encoder_layers": 0}, "encoder_layers = 0 should be"),
        ({"dropout": 1.0}, "dropout = 1.0 should be less than 1."),
        ({"dropout": -0.1}, "dropout = -0.1 should be at least 0."),
        ({"norm_eps": 0}, "norm_eps = 0 should be greater than 0."),
        ({"activation": "tanh"}, "activation = 'tanh' should be 'relu', 'gelu', 'gelu-tanh' or 'silu'."),
        ({"positions": "none"}, "positions = 'none' should be 'sinusoidal'"),
        ({"norm": "batch"}, "norm = 'batch' should be 'layer' or 'rms'."),
        ({"d_modle": 8}, "There is no option 'd_modle'; did you mean 'd_model'?"),
        ({"colour": "blue"}, "There is no option 'colour'."),
        ({"source_vocab_size": 12}, "share_embeddings needs one vocabulary, but the source has 12 tokens"),
        ({"eos_id": 100}, "eos_id = 100 is outside a vocabulary of 100 tokens (0 to 99)."),
        ({"pad_id": -1}, "pad_id = -1 should be at least 0."),
        ({"pad_id": 2}, "pad_id and eos_id are both 2"),
        ({"positions": "rotary", "d_head": 3}, "Rotary positions rotate pairs of columns, so d_head = 3 must be even."),
        ({"positions": "relative", "relative_buckets": 10}, "must be a multiple of 4"),
        ({"positions": "relative", "relative_max_distance": 16}, "must be greater than half of relative_buckets = 32"),
        ({"positions": "learned", "max_positions": 2, "position_offset": 2}, "leaves no rows of max_positions = 2"),
        ({"max_positions": 100}, "max_positions = 100 has no effect with positions = 'sinusoidal'"),
        ({"rotary_base": 100.0}, "it applies only to 'rotary'."),
        ({"positions": "rotary", "position_offset": 2}, "position_offset = 2 has no effect"),
    ],
)
def test_invalid_options_are_refused_with_a_message(options, sentence):
    given_options = options if sentence.endswith("'vocab_size' is missing.") else {"vocab_size": 100} | options
    with pytest.raises(SettingsError) as error:
        ModelConfig(**given_options)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_an_error_is_not_followed_by_others_that_it_causes():
    with pytest.raises(SettingsError, match=r"^d_model = 0 should be at least 1\.$"):
        ModelConfig(vocab_size=100, d_model=0)


def test_several_errors_are_reported_together():
    with pytest.raises(SettingsError) as error:
        ModelConfig(vocab_size=100, eos_id=100, bos_id=200, max_positions=9)
    assert all(name in str(error.value) for name in ("eos_id", "bos_id", "max_positions"))


@given(configs())
def test_a_config_survives_its_file(tmp_path_factory, config):
    path = tmp_path_factory.mktemp("config") / "config.json"
    path.write_text(config.as_json())
    assert ModelConfig.read(path) == config


junk = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers()))


@given(st.dictionaries(st.sampled_from(sorted(ModelConfig.model_fields)) | st.text(max_size=8), junk, max_size=6))
def test_any_junk_gives_a_config_or_our_error(options):
    with contextlib.suppress(GlassformerError):
        ModelConfig(**options)


def test_a_config_cannot_be_changed_after_the_fact():
    config = preset("tiny")
    with pytest.raises(Exception, match="frozen"):
        config.d_model = 7


def test_every_option_says_what_it_means():
    meanings = ModelConfig.meanings()
    for name in ModelConfig.model_fields:
        assert meanings[name].endswith("."), name


def test_presets_have_the_published_sizes():
    base, big, tutorial = preset("paper-base"), preset("paper-big"), preset("tutorial")
    assert (base.d_model, base.n_heads, base.d_head, base.d_ff) == (512, 8, 64, 2048)
    assert (base.encoder_layers, base.decoder_layers, base.norm_first, base.dropout) == (6, 6, False, 0.1)
    assert (big.d_model, big.n_heads, big.d_head, big.d_ff, big.dropout) == (1024, 16, 64, 4096, 0.3)
    assert (tutorial.d_model, tutorial.encoder_layers, tutorial.decoder_layers) == (256, 3, 3)
    assert tutorial.positions == "learned"
    assert all(preset(name).vocab_size for name in PRESETS)
    assert preset("tiny", vocab_size=99).source_vocab_size == 99


def test_an_unknown_preset_names_the_known_ones():
    with pytest.raises(SettingsError, match="the presets are paper-base, paper-big, tutorial, tiny, small"):
        preset("huge")
