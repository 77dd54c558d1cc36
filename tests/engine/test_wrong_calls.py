"""Calls of the C engine with wrong arguments: each is refused with a sentence, before C touches any memory."""

import pytest
import torch

from glassformer.decoding import Beam, Request, Sample, SearchBackend, search
from glassformer.engine.native_library import library
from glassformer.engine.native_model import NativeBatchSearch, NativeStepModel
from glassformer.engine.torch_step_model import PlainStepModel
from glassformer.errors import GlassformerError, InputError, SettingsError
from glassformer.model import ModelConfig
from tests.decoding.test_search_on_models import lively

pytestmark = pytest.mark.skipif(library() is None, reason="there is no C compiler on this machine")


def small(**options):
    shape = {"vocab_size": 40, "d_model": 24, "n_heads": 2, "d_ff": 20, "encoder_layers": 1, "decoder_layers": 1}
    return lively(ModelConfig(**shape | options), 0).float()


def session(width=2, limits=(3, 9), **options):
    opened = NativeStepModel(small(**options), library()).open(width)
    opened.join([[5, 6, 2], [7, 2]], limits)
    return opened


@pytest.mark.parametrize(
    ("sources", "limits", "message"),
    [
        ([], [], "A source is empty"),
        ([[]], [5], "A source is empty"),
        ([[5, 2], []], [5, 5], "A source is empty"),
        ([[2**40, 2]], [5], "from 0 to 39; these go from 2 to 1099511627776"),
        ([[-1, 2]], [5], "these go from -1 to 2"),
        ([[5, 2]], [], "1 sources need as many maximum target lengths"),
        ([[5, 2]], [0], "from 1 to 1,048,576 tokens; there are 1, from 0 to 0"),
        ([[5, 2]], [2**40], "from 1 to 1,048,576 tokens"),
    ],
)
def test_sources_that_cannot_join_are_refused(sources, limits, message):
    with pytest.raises(InputError, match=message):
        session().join(sources, limits)


def test_positions_that_a_model_does_not_have_are_refused():
    with pytest.raises(InputError, match="from 1 to 16 tokens; there are 2, from 3 to 17"):
        session(limits=(3, 17), positions="learned", max_positions=16)
    with pytest.raises(InputError, match="A source has 17 tokens, but this model has only 16 positions"):
        session(limits=(3, 9), positions="learned", max_positions=16).join([[5] * 17], [3])


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "one token for each of the 2 rows of the batch, and got 0"),
        ([1], "got 1"),
        ([1, 1, 1], "got 3"),
        ([1, 40], "from 0 to 39; these go from 1 to 40"),
        ([1, -1], "these go from -1 to 1"),
        ([1, 2**40], "these go from 1 to 1099511627776"),
    ],
)
def test_steps_with_wrong_tokens_are_refused(tokens, message):
    with pytest.raises(InputError, match=message):
        session().step(tokens, 2, ())


def test_suppressed_tokens_that_do_not_exist_are_refused():
    for never in ([40], [-1], [2**40]):
        with pytest.raises(InputError, match="Suppressed token ids must be from 0 to 39"):
            session().step([1, 1], 2, never)


def test_a_step_beyond_the_announced_length_is_refused():
    opened = session()
    for _ in range(3):
        opened.step([1, 1], 2, ())
    with pytest.raises(InputError, match="A target already has its maximum length"):
        opened.step([1, 1], 2, ())
    opened.keep([1])
    opened.step([1], 2, ())  # the other sentence has a larger maximum


def test_a_step_without_rows_is_refused():
    empty = NativeStepModel(small(), library()).open(2)
    with pytest.raises(InputError, match="each of the 0 rows"):
        empty.step([], 2, ())
    finished = session()
    finished.step([1, 1], 2, ())
    finished.keep([])
    with pytest.raises(InputError, match="each of the 0 rows"):
        finished.step([], 2, ())
    finished.join([[5, 2]], [4])
    finished.step([1], 2, ())


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([2], "from 0 to 1; these go from 2 to 2"),
        ([-1, 0], "these go from -1 to 0"),
        ([0, 2**40], "these go from 0 to 1099511627776"),
        ([1, 0], "in the order of their sentences"),
        ([0, 1, 0], "in the order of their sentences"),
        ([0, 0, 0], "at most 2 of each"),
    ],
)
def test_rows_that_cannot_be_kept_are_refused_and_nothing_changes(rows, message):
    opened, other = session(), session()
    opened.step([1, 1], 0, ()), other.step([1, 1], 0, ())
    with pytest.raises(InputError, match=message):
        opened.keep(rows)
    assert opened.step([3, 4], 0, ()).logits.tolist() == other.step([3, 4], 0, ()).logits.tolist()


@pytest.mark.parametrize(
    ("sources", "targets", "message"),
    [
        ([[5, 2]], [], "There are 0 targets for 1 sources"),
        ([[5, 2], []], [[2], [2]], "A source is empty"),
        ([[5, 2], [2]], [[2], []], "A target is empty"),
        ([[5, 2]], [[40, 2]], "from 0 to 39; these go from 2 to 40"),
        ([[5, 2]], [[2, -1]], "these go from -1 to 2"),
        ([[5, 2]], [[2**40]], "these go from 1099511627776"),
        ([[2**40]], [[2]], "these go from 1099511627776"),
        ([[5, 0, 2]], [[2]], r"must not contain the padding token \(0\)"),
        ([[5, 2]], [[5] * 17], "A target has 17 tokens, but this model has only 16 positions"),
        ([[5] * 17], [[2]], "A source has 17 tokens, but this model has only 16 positions"),
    ],
)
def test_pairs_that_cannot_be_read_are_refused(sources, targets, message):
    backend = SearchBackend(NativeStepModel(small(positions="learned", max_positions=16), library()))
    with pytest.raises(InputError, match=message):
        backend.score(sources, targets)
    with pytest.raises(InputError, match=message):
        backend.attention(sources, targets, [(0, 0)])


@pytest.mark.parametrize("head", [(1, 0), (0, 2), (-1, 0), (0, -1), (2**40, 0)])
def test_heads_that_do_not_exist_are_refused_and_nothing_changes(head):
    step_model = NativeStepModel(small(), library())
    with pytest.raises(
        InputError, match=r"The model has no head .* in decoder layer .*: it has 1 decoder layers with 2"
    ):
        SearchBackend(step_model).attention([[5, 2]], [[2]], [(0, 0), head])
    running = NativeBatchSearch(step_model, Beam(), [0])
    good, bad = SearchBackend(step_model).tasks([Request([5, 2]), Request([7, 2], heads=(head,))], Beam(), range(2))
    with pytest.raises(InputError, match="The model has no head"):
        running.join([good, bad])
    with pytest.raises(InputError, match="There is no sentence in the batch"):
        running.advance()


def test_only_an_empty_batch_reads_targets():
    opened = session(width=1)
    opened.step([1, 1], 0, ())
    for read in (opened.score, lambda sources, targets: opened.attention(sources, targets, [(0, 0)])):
        with pytest.raises(InputError, match="must be empty"):
            read([[5, 2]], [[2]])
    with pytest.raises(InputError, match="must be empty"):
        session(width=2).score([[5, 2]], [[2]])


def test_a_search_without_sentences_does_not_advance():
    step_model = NativeStepModel(small(), library())
    empty = NativeBatchSearch(step_model, Beam(), [0])
    with pytest.raises(InputError, match="There is no sentence in the batch"):
        empty.advance()


def test_a_search_whose_logits_are_not_finite_starts_again():
    """Its step ended midway: some sentences were ahead of others, and the next step read tokens that nobody wrote."""
    model = small(share_embeddings=False)
    with torch.no_grad():
        model.encoder.embedding.weight[7] = 3e38
    step_model = NativeStepModel(model, library())
    good, bad = SearchBackend(step_model).tasks([Request([5, 6, 2]), Request([7, 2])], Beam(), range(2))
    fresh, running = (NativeBatchSearch(step_model, Beam(), [0]) for _ in range(2))
    fresh.join([good])
    running.join([good, bad])
    with pytest.raises(InputError, match="The model's logits are not numbers"):
        running.advance()
    with pytest.raises(InputError, match="There is no sentence in the batch"):
        running.advance()
    running.join([good])
    assert running.advance() == fresh.advance()


@pytest.mark.parametrize("width", [0, -1, 1001, 2**40])
def test_a_session_has_a_bounded_width(width):
    with pytest.raises(InputError, match="A sentence can have from 1 to 1,000 hypotheses"):
        NativeStepModel(small(), library()).open(width)


@pytest.mark.parametrize("open_model", [lambda model: NativeStepModel(model, library()), PlainStepModel])
@pytest.mark.parametrize("source", [[], [2**40, 2], [-3, 2], [40, 2]])
def test_requests_with_wrong_sources_are_one_sentence(open_model, source):
    with pytest.raises(InputError, match=r"A source is empty|Token ids must be from 0 to 39"):
        search(open_model(small()), [Request(source)], Beam())


@pytest.mark.parametrize(
    "options",
    [
        {"max_length_extra": 36_000_000},
        {"max_length_extra": 10_000_000},
        {"max_length_extra": 2**31},
        {"max_length_ratio": float("inf")},
        {"max_length_ratio": 1e30},
        {"min_length_ratio": float("inf")},
        {"no_repeat": 2**64},
    ],
)
@pytest.mark.parametrize("kind", [Beam, Sample])
def test_options_have_bounds(options, kind):
    """A size of several gigabytes, computed in 32 bits, made the C engine write outside its memory."""
    with pytest.raises(SettingsError, match=next(iter(options))):
        kind(**options)


@pytest.mark.parametrize("option", ["temperature", "top_k"])
def test_options_of_sampling_have_bounds(option):
    for value in (2**70, float("inf")) if option == "temperature" else (2**70,):
        with pytest.raises(SettingsError, match=option):
            Sample(**{option: float(value) if option == "temperature" else value})


@pytest.mark.parametrize("open_model", [lambda model: NativeStepModel(model, library()), PlainStepModel])
def test_the_maximum_length_of_a_target_has_a_bound(open_model):
    with pytest.raises(GlassformerError, match="would be 2,000,010 tokens, for a source of 2,000 tokens"):
        search(open_model(small()), [Request([5] * 2000)], Beam(max_length_ratio=1000.0))


def test_the_largest_search_that_options_allow_does_not_overflow():
    """A beam of 1,000 with targets of up to a million tokens, where a second step computes with all hypotheses."""
    lengths = {"max_length_ratio": 0.0, "max_length_extra": 2**20 - 1, "min_length_ratio": 1.0, "length_penalty": 0.0}
    settings = Beam(size=1000, **lengths)
    model = small(decoder_ssru=True, d_model=4, n_heads=1, d_ff=2, output_bias=True, vocab_size=1200)
    model.output_projection.bias.data[2] = 30.0
    [n_best] = search(NativeStepModel(model, library()), [Request([5, 2])], settings)
    assert len(n_best[0].tokens) >= 2
    assert n_best[0].tokens[-1] == 2


def test_millions_of_suppressed_tokens_take_no_stack_and_little_time():
    """They were copied to the stack, and compared one by one with every candidate."""
    size = 3_000_000
    model = small(d_model=2, n_heads=1, d_ff=2, vocab_size=size, source_vocab_size=size)
    suppress = tuple(token for token in range(size) if token not in (2, 7, 11))
    settings = Beam(size=2, suppress=suppress, max_length_ratio=0.0, max_length_extra=4, min_length_ratio=1.0)
    [n_best] = search(NativeStepModel(model, library()), [Request([5, 2])], settings)
    assert set(n_best[0].tokens) <= {2, 7, 11}
