"""`glassformer verify`: the laws of search, tried on a model and sentences of one's own."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.benchmark_sentences import sentences
from glassformer.cli.progress_counter import Counter
from glassformer.cli.search_options import BeamSize, Model
from glassformer.cli.text_layout import columns

if TYPE_CHECKING:
    from glassformer.verification.invariants import InvariantResult


def verify(
    model: Model,
    text: Annotated[Path | None, typer.Option(help="Sentences to try, a line each; else the built-in ones.")] = None,
    count: Annotated[int, typer.Option(min=1, help="How many sentences to try, at most.")] = 200,
    beam: BeamSize = 4,
    as_json: Annotated[bool, typer.Option("--json", help="Print the check_invariants as JSON, for programs.")] = False,
) -> None:
    """Try the laws of search on a model: no answer may depend on caches, neighbours, engines or order.

    Ends with 1 if a law is broken.
    """
    from glassformer.decoding import Beam
    from glassformer.model import load_model
    from glassformer.model_location import find_model
    from glassformer.verification.invariants import check_invariants

    directory = find_model(model)
    opened = load_model(directory)
    sources = sentences(directory, opened.config, text, count)
    found: list[InvariantResult] = []
    with Counter("Laws tried:") as counter:
        for verdict in check_invariants(opened, sources, Beam(size=beam)):
            found.append(verdict)
            counter.add(1)
    typer.echo(json.dumps([asdict(one) for one in found], indent=2) if as_json else _shown(model, found))
    if any(one.held < one.tried for one in found):
        raise typer.Exit(1)


def _shown(model: str, found: "list[InvariantResult]") -> str:
    rows = [("", "law", "held", "of", "apart by at most", "")]
    for one in found:
        apart = "" if one.worst is None else f"{one.worst:.1e}"
        mark = "holds" if one.held == one.tried else "BROKEN"
        rows.append((mark, one.law, f"{one.held:,}", f"{one.tried:,}", apart, one.note))
    broken = sum(one.held < one.tried for one in found)
    end = f"{broken} of {len(found)} laws are broken." if broken else f"All {len(found)} laws hold for {model}."
    return f"{columns(rows, 'llrrrl')}\n\n{end}"
