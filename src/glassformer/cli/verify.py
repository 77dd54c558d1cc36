"""`glassformer verify`: invariants of search, checked on any model and sentences."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.common.progress_counter import ProgressCounter
from glassformer.cli.common.search_options import BeamSize, Model
from glassformer.text_layout import columns

if TYPE_CHECKING:
    from glassformer.verification.invariants import InvariantResult


def verify(
    model: Model,
    text: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Sentences to check, one per line; by default built-in ones.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of sentences.")] = 200,
    beam: BeamSize = 4,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Check the invariants of search: translations must not depend on caching, batching, engine or order.

    The exit code is 1 if an invariant fails.
    """
    from glassformer.decoding import Beam
    from glassformer.loading import open_model
    from glassformer.verification.invariants import check_invariants
    from glassformer.verification.sample_sentences import sentences

    opened = open_model(model)
    sources = sentences(opened.config, opened.tokenizer, text, count)
    results: list[InvariantResult] = []
    with ProgressCounter("Invariants checked:") as counter:
        for result in check_invariants(opened.model, sources, Beam(size=beam)):
            results.append(result)
            counter.add(1)
    typer.echo(json.dumps([asdict(result) for result in results], indent=2) if as_json else _table(model, results))
    if any(result.held < result.tried for result in results):
        raise typer.Exit(1)


def _table(model: str, results: "list[InvariantResult]") -> str:
    rows = [("", "invariant", "held", "of", "largest difference", "")]
    for result in results:
        difference = "" if result.worst is None else f"{result.worst:.1e}"
        mark = "holds" if result.held == result.tried else "FAILS"
        rows.append((mark, result.invariant, f"{result.held:,}", f"{result.tried:,}", difference, result.note))
    failed = sum(result.held < result.tried for result in results)
    total = len(results)
    conclusion = f"Failed: {failed} of {total} invariants." if failed else f"All {total} invariants hold for {model}."
    return f"{columns(rows, 'llrrrl')}\n\n{conclusion}"
