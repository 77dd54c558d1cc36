"""CTranslate2 export: the same probabilities and the same translations as our model."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from glassformer.decoding import Beam, Request, search
from glassformer.engine.torch_step_model import PlainStepModel, score
from glassformer.errors import InputError
from glassformer.interop.capabilities import unsupported
from glassformer.interop.ctranslate2_export import open_ctranslate2, write_ctranslate2
from glassformer.model import ModelConfig
from tests.decoding.test_search_on_models import lively
from tests.examples import max_examples
from tests.models import build_source_sensitive, configs, seeds
from tests.rounding import float32_error


def named(sentences):
    return [[str(token) for token in sentence] for sentence in sentences]


@max_examples(60)
@given(configs(d_model=12, n_heads=3, d_head=4), seeds, st.data())
def test_it_gives_every_target_the_same_probability(tmp_path_factory, config, seed, data):
    assume(not unsupported("CTranslate2", config))
    model = lively(config, seed)
    words = [
        token
        for token in range(min(config.vocab_size, config.source_vocab_size))
        if token not in (config.pad_id, config.eos_id, config.bos_id)
    ]
    sentences = st.lists(st.sampled_from(words), min_size=1, max_size=9).map(lambda ids: [*ids, config.eos_id])
    sources, targets = (data.draw(st.lists(sentences, min_size=5, max_size=5)) for _ in range(2))
    directory = tmp_path_factory.mktemp("ct2")
    write_ctranslate2(model, directory)
    theirs = open_ctranslate2(directory, compute_type="float32", intra_threads=1)
    found = theirs.score_batch(named(sources), named(target[:-1] for target in targets))

    def log_ps(model):
        scored = score(model, sources, targets)
        return torch.tensor([p for target in scored for p in target.log_probabilities], dtype=torch.float64)

    ours = log_ps(model)
    error = float32_error(log_ps, model, one_pass_variance=True)  # as CTranslate2 on CPUs
    assert (torch.tensor([p for result in found for p in result.log_probs]) - ours).abs().max() <= error


@pytest.mark.parametrize("seed", range(3))
def test_it_translates_the_same(tmp_path, seed):
    config = ModelConfig(vocab_size=23, d_model=16, n_heads=2, d_ff=24, encoder_layers=2, decoder_layers=2)
    model = build_source_sensitive(config, seed)
    write_ctranslate2(model, tmp_path)
    generator = torch.Generator().manual_seed(seed)
    sources = [[*torch.randint(3, 23, (length,), generator=generator).tolist(), 2] for length in range(1, 12)]
    how = Beam(size=1, max_length_ratio=0.0, max_length_extra=16)
    theirs = open_ctranslate2(tmp_path, compute_type="float32", intra_threads=1).translate_batch(
        named(sources), beam_size=1, max_decoding_length=15, min_decoding_length=0, suppress_sequences=[["0"]]
    )
    for [ours], result in zip(
        search(PlainStepModel(model), [Request(source) for source in sources], how), theirs, strict=True
    ):
        assert [str(token) for token in ours.tokens[:-1]] == result.hypotheses[0]


def test_an_unsupported_option_is_refused_by_name(tmp_path):
    model = lively(ModelConfig(vocab_size=9, d_model=8, n_heads=2, d_ff=8, positions="rotary"), 0)
    with pytest.raises(InputError, match="does not support models with positions = rotary"):
        write_ctranslate2(model, tmp_path)
