"""`glassformer bench`: speed and memory of a model on this machine, compared with other systems that can run it."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.common.benchmark_sentences import sentences
from glassformer.cli.common.progress_counter import ProgressCounter
from glassformer.cli.common.search_options import BeamSize, Model
from glassformer.text_layout import columns

if TYPE_CHECKING:
    from glassformer.benchmark.throughput import ThroughputResult

LATENCY_SENTENCES = 20


def bench(
    model: Model,
    text: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Sentences to translate, one per line; by default built-in ones."),
    ] = None,
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of sentences.")] = 256,
    beam: BeamSize = 4,
    batch_size: Annotated[int, typer.Option(min=1, metavar="N", help="Sentences per worker at once.")] = 32,
    rounds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Rounds per system; each system's best one counts.")
    ] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Measure a model's throughput, latency and memory.

    CTranslate2 and Hugging Face are measured too, if installed and able to run the model. The systems take turns,
    because only results of one run on one machine are comparable.
    """
    from glassformer.benchmark.systems import BenchmarkTask, System, available_systems
    from glassformer.benchmark.throughput import compare_throughput, machine_description
    from glassformer.decoding import Beam
    from glassformer.loading import open_model

    opened = open_model(model)
    sources, config = sentences(opened, text, count), opened.model.config
    del opened  # each system loads the model in its own process
    task = BenchmarkTask(sources, Beam(size=beam), batch_size)
    latency_task = BenchmarkTask(sources[: min(LATENCY_SENTENCES, len(sources))], task.beam, 1)
    refusals = available_systems(config)
    hardware = machine_description()
    systems = [System(name, model) for name, refusal in refusals.items() if not refusal]
    try:
        with ProgressCounter("Measured", total=rounds * len(systems)) as counter:
            results = compare_throughput(systems, task, rounds, latency_task, on_turn=lambda: counter.add(1))
    finally:
        for system in systems:
            system.close()
    absent = [f"{name} {refusal}." for name, refusal in refusals.items() if refusal]
    if as_json:
        table = {"machine": hardware, "figures": [asdict(result) for result in results], "absent": absent}
        typer.echo(json.dumps(table, indent=2))
    else:
        title = f"{len(sources):,} sentences, beam {beam}, {batch_size} at a time; best of {rounds} rounds"
        typer.echo("\n\n".join(filter(None, [title, _table(results), "\n".join(absent), hardware])))


def _table(results: "list[ThroughputResult]") -> str:
    rows = [("", "tokens/s", "ratio to first", "median latency", "95th percentile", "memory")]
    for result in results:
        ratio = f"{result.tokens_per_second / results[0].tokens_per_second:.2f}"
        rows.append(
            (
                result.name,
                f"{result.tokens_per_second:,.0f}",
                ratio,
                f"{1000 * (result.median or 0):.1f} ms",
                f"{1000 * (result.p95 or 0):.1f} ms",
                f"{result.memory / 2**20:,.0f} MB",
            )
        )
    return columns(rows, "lrrrrr")
