"""Odd settings and corpora: a run ends with a model that loads, or with one sentence; never with another error."""

import math
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import GlassformerError
from glassformer.loading import load
from tests.examples import ALL
from tests.training.runs import options, trained

FINISHES, REFUSED, EITHER = "finishes", "is refused", "either"
SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "one update": ({"training": {"updates": 1}}, FINISHES),
    "a validation after every update": ({"validation": {"every": 1}}, FINISHES),
    "a validation after the end": ({"validation": {"every": 10**18}}, FINISHES),
    "a mean of more than there is": ({"training": {"average": "last", "average_last": 10**9, "keep": 1}}, FINISHES),
    "everything is kept": ({"training": {"keep": 10**18}}, FINISHES),
    "warm-up beyond the end": ({"training": {"warmup": 10**18}}, FINISHES),
    "no warm-up": ({"training": {"warmup": 0, "decay": "inverse-sqrt"}}, FINISHES),
    "a rate of almost nothing": ({"training": {"learning_rate": 1e-300}}, FINISHES),
    "a rate of 1e30": ({"training": {"learning_rate": 1e30, "updates": 40, "clip": 0.0, "warmup": 0}}, REFUSED),
    "an infinite rate": ({"training": {"learning_rate": math.inf}}, REFUSED),
    "a rate that is not a number": ({"training": {"learning_rate": math.nan}}, REFUSED),
    "an infinite clip": ({"training": {"clip": math.inf}}, REFUSED),
    "a clip to almost nothing": ({"training": {"clip": 1e-300}}, FINISHES),
    "infinite weight decay": ({"training": {"weight_decay": math.inf}}, REFUSED),
    "much weight decay": ({"training": {"weight_decay": 1e30}}, EITHER),
    "an infinite epsilon": ({"training": {"epsilon": math.inf}}, REFUSED),
    "a large epsilon": ({"training": {"epsilon": 1e300}}, FINISHES),
    "infinite R-Drop": ({"training": {"r_drop": math.inf}}, REFUSED),
    "much R-Drop": ({"training": {"r_drop": 1e30}}, EITHER),
    "no memory in Adam": ({"training": {"betas": [0.0, 0.0]}}, FINISHES),
    "almost only smoothing": ({"training": {"label_smoothing": 0.999999}}, FINISHES),
    "endless saving": ({"training": {"save_minutes": 1e-300}}, FINISHES),
    "no saving by the clock": ({"training": {"save_minutes": math.inf}}, EITHER),
    "the smallest batches": ({"training": {"batch_tokens": 16, "micro_batches": 1}}, FINISHES),
    "everything in one batch": ({"training": {"batch_tokens": 10**12}}, FINISHES),
    "more micro-batches than sentences": ({"training": {"batch_tokens": 16_000, "micro_batches": 1000}}, FINISHES),
    "no epoch": ({"training": {"updates": None, "epochs": 1e-300}}, FINISHES),
    "an infinite number of epochs": ({"training": {"updates": None, "epochs": math.inf}}, REFUSED),
    "no log": ({"training": {"log_every": 10**18}}, FINISHES),
    "a seed of 200 bits": ({"seed": 2**200}, EITHER),
    "sentences of one token": ({"data": {"max_tokens": 1}}, REFUSED),
    "one sentence is validated": ({"validation": {"sentences": 1}}, FINISHES),
    "a beam of a million": ({"validation": {"final_beam": 10**6}}, REFUSED),
    "a beam larger than the vocabulary": ({"validation": {"beam": 420, "final_beam": 430, "sentences": 1}}, FINISHES),
    "all is dropped": ({"model": {"dropout": 1.0}}, REFUSED),
    "almost all is dropped": ({"model": {"dropout": 0.999, "attention_dropout": 0.999}}, FINISHES),
    "one number per token": ({"model": {"d_model": 1, "n_heads": 1, "d_ff": 1}}, EITHER),
    "a layer of a million": ({"model": {"d_ff": 10**15}}, REFUSED),
    "a vocabulary of millions": ({"tokenizer": {"vocab_size": 10**9}}, EITHER),
}
LINES: dict[str, tuple[list[str], list[str], str]] = {
    "one pair, many times": (["The cat sleeps."] * 300, ["Die Katze schläft."] * 300, EITHER),
    "two pairs": (["a b c", "d e f"], ["A B C", "D E F"], EITHER),
    "one target for all": ([f"number {n}" for n in range(300)], ["nein"] * 300, FINISHES),
    "single letters": (list("abcdefghij") * 30, list("ABCDEFGHIJ") * 30, FINISHES),
    "combining marks": (["\u0301" * (n % 9 + 1) + "x" for n in range(300)], ["e\u0301 x"] * 300, FINISHES),
    "emoji of several characters": (["👩‍👩‍👧‍👦🏳️‍🌈" * (n % 4 + 1) for n in range(300)], ["🙂 x"] * 300, FINISHES),
    "right to left": ([f"\u202eשלום {n}" for n in range(300)], [f"مرحبا {n}" for n in range(300)], FINISHES),
    "names of special tokens": (["<s> </s> <pad> <unk> ▁ ▁▁"] * 300, ["</s> <s> @@ &lt;"] * 300, FINISHES),
    "control characters": ([f"a\x01b\x1b[31m{n}\x7f" for n in range(300)], ["a\u200b\u2060b"] * 300, EITHER),
    "other line breaks": ([f"a\u2028b\u0085c\x0bd {n}" for n in range(300)], ["x\x0cy"] * 300, EITHER),
    "NUL": (["a\0b"] * 300, ["x"] * 300, EITHER),
    "one line of 100,000 words": (["a b"] * 299 + ["w " * 100_000], ["x y"] * 300, FINISHES),
    "Windows line ends": ([f"number {n}\r" for n in range(300)], [f"Zahl {n}\r" for n in range(300)], FINISHES),
    "all but one blank": ([""] * 299 + ["a b"], [""] * 299 + ["x y"], EITHER),
    "a byte order mark": (["\ufeffThe cat"] + ["a cat"] * 299, ["x y z"] * 300, FINISHES),
}


def merged(given: dict[str, Any], odd: dict[str, Any]) -> dict[str, Any]:
    sections = {name: given[name] | value if isinstance(value, dict) else value for name, value in odd.items()}
    return given | sections


def judged(run_options: dict[str, Any], expected: str) -> None:
    """Train; what was learnt must load and translate, and an error must be one sentence."""
    sentence = None
    try:
        trained(run_options)
    except GlassformerError as error:
        sentence = str(error)
    if sentence is not None:
        assert expected in (REFUSED, EITHER), sentence
        assert "\n" not in sentence
        assert len(sentence) < 1000
        return
    assert expected in (FINISHES, EITHER)
    translator = load(run_options["out"])
    assert len(translator.translate(["The cat", "", "\u0301🙂"])) == 3


@pytest.mark.parametrize("name", SETTINGS if ALL else ["an infinite rate", "an infinite number of epochs"])
def test_odd_settings_finish_or_are_one_sentence(tmp_path, name):
    odd, expected = SETTINGS[name]
    judged(merged(options(tmp_path, updates=4, warmup=1), odd), expected)


@pytest.mark.parametrize("name", LINES if ALL else ["combining marks"])
def test_odd_corpora_finish_or_are_one_sentence(tmp_path, name):
    source, target, expected = LINES[name]
    run_options = options(tmp_path, updates=4, warmup=1)
    for side, lines in (("source", source), ("target", target)):
        text = "".join(f"{line}\n" for line in lines)
        Path(run_options["data"][side]).write_text(text, encoding="utf-8", newline="")
    run_options["tokenizer"] = {"vocab_size": 400, "kind": "char"} if len(set(source)) < 20 else None
    judged(run_options, expected)
