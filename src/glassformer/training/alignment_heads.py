"""Alignment head selection at the end of a run, measured on the dev set and saved with the best model."""

from collections.abc import Callable
from pathlib import Path

from glassformer.data.word_spans import word_pair
from glassformer.decoding.alignment_choice import write_alignment_heads
from glassformer.errors import InputError
from glassformer.inspection.alignment.head_selection import choose_heads, evenly
from glassformer.model import load_model
from glassformer.training.run_setup import Run

MAX_ALIGNER_PAIRS = 5_000
"""Training pairs that the word aligner is trained on, in addition to the dev set: about two seconds of work."""


def select_alignment_heads(run: Run, best: Path, log: Callable[[str], None]) -> None:
    """Measure every head of the model in `best` and save the selection there. A failure here does not fail the run."""
    tokenizer = run.tokenizer
    dev_pairs = [word_pair(tokenizer, source, target) for source, target in run.dev_ids]
    sample = (run.store[i] for i in evenly(len(run.store), MAX_ALIGNER_PAIRS))
    training_pairs = [word_pair(tokenizer, source.tolist(), target.tolist()) for source, target in sample]
    try:
        write_alignment_heads(choose_heads(load_model(best), dev_pairs, also=training_pairs).choice, best)
    except InputError as error:
        log(f"No alignment heads were selected: {error}")
