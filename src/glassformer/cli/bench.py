"""`glassformer bench`: how fast a model is here, beside others that can run it."""

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
    from glassformer.benchmark.throughput import ThroughputResult


def bench(
    model: Model,
    text: Annotated[Path | None, typer.Option(help="Sentences to use, a line each; else the built-in ones.")] = None,
    count: Annotated[int, typer.Option(min=1, help="How many sentences, at most.")] = 256,
    beam: BeamSize = 4,
    batch_size: Annotated[int, typer.Option(min=1, help="Sentences that go together, for each worker.")] = 32,
    rounds: Annotated[int, typer.Option(min=1, help="How often everybody takes a turn; the best counts.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON, for programs.")] = False,
) -> None:
    """Measure a model: tokens a second, the wait for one sentence, memory.

    CTranslate2 and Hugging Face take part where they are installed and know such a model. All take turns, since only
    figures of one run on one machine can be compared.
    """
    from glassformer.benchmark.systems import BenchmarkTask, System, available_systems
    from glassformer.benchmark.throughput import compare_throughput, machine
    from glassformer.decoding import Beam
    from glassformer.model import ModelConfig
    from glassformer.model_location import find_model

    directory = find_model(model)
    config = ModelConfig.read(directory / "config.json")
    sources = sentences(directory, config, text, count)
    task = BenchmarkTask(sources, Beam(size=beam), batch_size)
    alone = BenchmarkTask(sources[: min(20, len(sources))], task.beam, 1)
    invited = available_systems(config)
    here = machine()
    contestants = [System(name, directory) for name, refusal in invited.items() if not refusal]
    try:
        with Counter("Turns taken:", total=rounds * len(contestants)) as counter:
            figures = compare_throughput(contestants, task, rounds, alone, turn_taken=lambda: counter.add(1))
    finally:
        for one in contestants:
            one.close()
    absent = [f"{name} {refusal}." for name, refusal in invited.items() if refusal]
    if as_json:
        table = {"machine": here, "figures": [asdict(one) for one in figures], "absent": absent}
        typer.echo(json.dumps(table, indent=2))
    else:
        title = f"{len(sources):,} sentences, beam {beam}, {batch_size} at a time; best of {rounds}"
        typer.echo("\n\n".join(filter(None, [title, _shown(figures), "\n".join(absent), here])))


def _shown(figures: "list[ThroughputResult]") -> str:
    rows = [("", "tokens/s", "against the first", "median wait", "slowest in 20", "memory")]
    for one in figures:
        ratio = f"{one.tokens_per_second / figures[0].tokens_per_second:.2f}"
        rows.append(
            (
                one.name,
                f"{one.tokens_per_second:,.0f}",
                ratio,
                f"{1000 * (one.median or 0):.1f} ms",
                f"{1000 * (one.slow or 0):.1f} ms",
                f"{one.memory / 2**20:,.0f} MB",
            )
        )
    return columns(rows, "lrrrrr")
