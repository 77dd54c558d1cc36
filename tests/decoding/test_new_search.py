"""A search of which no module knows runs in every engine and in the server: nothing asks which search it runs."""

import ast
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given

import glassformer
from glassformer import Translator
from glassformer.decoding import Beam, Request, search
from glassformer.decoding.hypothesis import to_hypothesis
from glassformer.decoding.search_settings import SearchSettings, SentenceSearch
from glassformer.engine import EngineOptions, open_engine
from glassformer.errors import InputError
from glassformer.server.metrics import Metrics
from glassformer.server.request_batching import Batcher, Ticket
from tests.decoding.table_models import BOS, EOS, PAD
from tests.decoding.test_search_invariants import batches, short, tables
from tests.decoding.test_search_on_models import lively, texts_of
from tests.examples import max_examples
from tests.models import configs, seeds
from tests.small_translator import model, tokenizer


class SecondBest(SearchSettings):
    """Takes the second most likely of the allowed tokens at every step."""

    @property
    def candidates_per_row(self):
        return 2

    def begin(self, rules, bos, source):
        return SecondBestSearch(rules, bos)


class SecondBestSearch(SentenceSearch):
    def advance(self, candidates):
        [[*_, (token, log_p)]] = candidates
        node = self.growing[0].then(token, log_p, likeliest=False)
        self.growing = [] if token == self.rules.eos else [node]
        if not self.growing:
            self.best = [to_hypothesis(node, 1.0)]
        return [0] * len(self.growing)


@max_examples(50)
@given(tables, batches)
def test_it_decides_as_written(table, texts):
    results = search(table, [Request(text) for text in texts], SecondBest(**short))
    for text, [hypothesis] in zip(texts, results, strict=True):
        expected: list[int] = []
        while EOS not in expected:
            logits = table.logits((*text, -1, BOS, *expected))
            logits[PAD] = -float("inf")
            expected.append(logits.topk(2).indices[1].item() if len(expected) < len(text) + 2 else EOS)
        assert hypothesis.tokens == expected
        assert hypothesis.log_probabilities == pytest.approx(table.log_ps(text, expected))


@max_examples(10)
@given(configs(), seeds)
def test_it_runs_in_both_engines_and_in_the_server(config, seed):
    built, requests = lively(config, seed).float(), [Request(text) for text in texts_of(config, seed)]
    for kind in ("fast", "plain"):
        engine = open_engine([built], EngineOptions(engine=kind, exact=True, workers=2))
        results = engine.search(requests, SecondBest(**short))
        batcher = Batcher(engine, 1000, Metrics())
        try:
            assert Ticket(batcher).search(requests, SecondBest(**short)) == results
        finally:
            batcher.stop()


def test_a_trace_of_it_shows_a_beam_search():
    trace = glassformer.inspect(Translator(model(), tokenizer(), SecondBest())).trace("The dog is tired.")
    assert trace.about.search == Beam()


def test_an_engine_without_it_refuses_it():
    pytest.importorskip("ctranslate2")
    with pytest.raises(InputError, match="does not support"):
        open_engine([model()], EngineOptions(engine="ctranslate2")).search([Request([5, 2])], SecondBest())


def names_in(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def subclasses(kind: type) -> Sequence[type]:
    return [kind, *(below for child in kind.__subclasses__() for below in subclasses(child))]


def test_no_module_asks_which_search_it_runs():
    searches = {kind.__name__ for base in (SearchSettings, SentenceSearch) for kind in subclasses(base)}
    assert {"Beam", "Sample", "BeamSearch", "Sampling"} <= searches
    for file in Path(glassformer.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and names_in(node.func) & {"isinstance", "issubclass", "type"}:
                assert not searches & names_in(node), f"{file}, line {node.lineno}"
            assert not (isinstance(node, ast.MatchClass) and searches & names_in(node.cls)), file
