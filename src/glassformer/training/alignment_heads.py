"""At the end of a run: which heads of its best model align words, measured on the dev set and kept with the model."""

from collections.abc import Callable
from pathlib import Path

from glassformer.errors import InputError
from glassformer.inspection.alignment.head_selection import choose_heads, evenly
from glassformer.inspection.alignment.word_alignment import word_pair, write_alignment_heads
from glassformer.model import load_model
from glassformer.training.run_setup import Run

LEARN_FROM = 5_000
"""Training pairs that links between words are learned from, beside the dev set: two seconds' work."""


def choose_alignment(run: Run, best: Path, said: Callable[[str], None]) -> None:
    """Measure every head of the model in `best`. What cannot be measured is no reason for a run to fail."""
    tokenizer = run.tokenizer
    dev = [
        word_pair(tokenizer, tokenizer.encode(pair.source, "source"), tokenizer.encode(pair.target, "target"))
        for pair in run.dev
    ]
    some = (run.store[i] for i in evenly(len(run.store), LEARN_FROM))
    seen = [word_pair(tokenizer, source.tolist(), target.tolist()) for source, target in some]
    try:
        write_alignment_heads(choose_heads(load_model(best), dev, also=seen).choice, best)
    except InputError as error:
        said(f"No heads were chosen for word alignment: {error}")
