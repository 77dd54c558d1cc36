"""The table of what every target can hold: it names every option, and a refusal says what would be possible."""

import pytest
from hypothesis import given

from glassformer.errors import InputError
from glassformer.interop.capabilities import CAPABILITIES, check_supported, unsupported
from glassformer.interop.hugging_face import family_of
from glassformer.interop.hugging_face.pretrained_directory import FAMILIES
from glassformer.model import ModelConfig
from tests.models import configs, seeds

every_target = pytest.mark.parametrize("target", CAPABILITIES)


class Newer(ModelConfig):
    novelty: bool = False
    """An option that no target knows."""


@every_target
def test_every_option_of_the_config_is_in_the_table(target):
    assert CAPABILITIES[target].keys() == ModelConfig.model_fields.keys()


def test_every_hugging_face_family_is_a_target():
    assert FAMILIES.keys() <= CAPABILITIES.keys()


@every_target
def test_a_new_option_is_refused_until_the_table_names_it(target):
    config = Newer(vocab_size=9)
    assert not any("novelty" in option for option in unsupported(target, config))
    refusal = unsupported(target, config.model_copy(update={"novelty": True}))
    assert "novelty = True (only False)" in refusal


@every_target
def test_a_new_kind_of_positions_is_refused_until_the_table_names_it(target):
    config = ModelConfig(vocab_size=9).model_copy(update={"positions": "wavelets"})
    with pytest.raises(InputError, match=r"does not support models with positions = wavelets \(only .*\)"):
        check_supported(target, config)


@pytest.mark.parametrize(
    ("target", "options", "sentence"),
    [
        (
            "CTranslate2",
            {"positions": "rotary", "d_head": 4},
            "CTranslate2 does not support models with d_head = 4 (only d_model / n_heads), positions = rotary (only "
            "sinusoidal, sinusoidal-halves, sinusoidal-fairseq, learned, relative or relative-per-layer).",
        ),
        (
            "m2m_100",
            {"positions": "sinusoidal-fairseq", "position_offset": 2, "norm_first": True},
            "M2m_100 does not support models with position_offset = 2 (only pad_id + 1).",
        ),
        ("CTranslate2", {"norm": "rms"}, "norm = rms (only layer, or rms with norm_first and without embedding_norm)."),
    ],
)
def test_a_refusal_names_the_option_its_value_and_what_is_possible(target, options, sentence):
    with pytest.raises(InputError) as refused:
        check_supported(target, ModelConfig(vocab_size=9, **options))
    assert str(refused.value).endswith(sentence)


@given(configs(), seeds)
def test_the_c_engine_and_onnx_hold_every_model(config, seed):
    assert unsupported("the C engine", config) == unsupported("the ONNX export", config) == []


def test_the_closest_family_is_named():
    with pytest.raises(
        InputError, match=r"Hugging Face Pegasus comes closest, .* positions = rotary \(only sinusoidal,"
    ):
        family_of(ModelConfig(vocab_size=9, positions="rotary", norm_first=True))
