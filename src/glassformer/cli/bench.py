"""`glassformer bench`: speed, memory and cold start of a model on this machine, compared with other systems."""

import json
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.common.progress_counter import ProgressCounter
from glassformer.cli.common.search_options import Model, UseShortlist
from glassformer.text_layout import columns

if TYPE_CHECKING:
    from glassformer.benchmark.cold_start import ColdStart
    from glassformer.benchmark.throughput import ThroughputResult
    from glassformer.loading import OpenedModel

LATENCY_SENTENCES = 8


def bench(
    model: Model,
    text: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Sentences to translate, one per line; by default built-in ones."),
    ] = None,
    count: Annotated[int, typer.Option(min=1, metavar="N", help="Maximum number of sentences.")] = 256,
    beam: Annotated[
        list[int] | None,
        typer.Option(min=1, max=1000, metavar="N", help="Beam size; may be repeated. By default 1 (greedy) and 4."),
    ] = None,
    batch_size: Annotated[
        list[int] | None,
        typer.Option(min=1, metavar="N", help="Sentences per worker at once; may be repeated. By default 1 and 32."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Measure only systems whose name contains this; may be repeated."),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Rounds per system; each system's best one counts.")
    ] = 3,
    shortlist: UseShortlist = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Measure a model's throughput, latency, memory and cold start.

    A shortlist in use is measured too, and CTranslate2 and Hugging Face, if installed and able to run the model. The
    systems take turns, because only results of one run on one machine are comparable.
    """
    from glassformer.benchmark.systems import available_systems
    from glassformer.benchmark.throughput import machine_description
    from glassformer.engine import EngineOptions
    from glassformer.engine.factory import chosen_shortlist
    from glassformer.engine.native_library import loaded
    from glassformer.errors import SettingsError
    from glassformer.loading import open_model
    from glassformer.verification.sample_sentences import sentences

    opened = open_model(model)
    sources = sentences(opened.config, opened.tokenizer, text, count)
    options = EngineOptions(shortlist=shortlist)
    used = chosen_shortlist(options, opened.shortlist(options))
    refusals = available_systems(opened.config, with_shortlist=used is not None)
    if only:
        refusals = {name: refusal for name, refusal in refusals.items() if any(part in name for part in only)}
        if not refusals:
            raise SettingsError(f"--only {' '.join(only)!r} names no system: choose parts of names such as float32.")
    names = [name for name, refusal in refusals.items() if not refusal]
    if not names:
        raise SettingsError(f"No chosen system can run this model: {'; '.join(map(' '.join, refusals.items()))}.")
    machine = machine_description()
    cold_starts, failures = _cold_starts(model, opened, sources[0], names, rounds)
    del opened  # each system loads the model in its own process
    figures = _throughputs(model, sources, names, list(product(beam or [1, 4], batch_size or [1, 32])), rounds)
    absent = [f"{name} {refusal}." for name, refusal in refusals.items() if refusal] + failures
    if as_json:
        native = loaded()
        library = native and {"instruction_set": native.instruction_set, "digest": native.digest}
        table = {"machine": machine, "library": library} | _as_json(figures, cold_starts, absent)
        typer.echo(json.dumps(table, indent=2))
    else:
        parts = [
            f"Tokens per second (relative to {names[0]}), best of {rounds} rounds",
            _speed_table(names, figures),
            _cost_table(names, next(iter(figures.values())), cold_starts),
            "\n".join(absent),
            machine,
        ]
        typer.echo("\n\n".join(filter(None, parts)))


Cell = tuple[int, int]
"""Beam size and batch size."""
Throughputs = dict[Cell, dict[str, "ThroughputResult"]]


def _cold_starts(
    model: str, opened: "OpenedModel", source: list[int], names: list[str], rounds: int
) -> "tuple[dict[str, ColdStart], list[str]]":
    """Cold starts by system, and why there are no others; a model without a tokenizer translates no text."""
    from glassformer.benchmark.cold_start import cold_start_command, measure_cold_starts

    if opened.tokenizer is None:
        return {}, ["The cold start is that of translating a text, and this model has no tokenizer."]
    text = opened.tokenizer.decode(source, "source")
    with tempfile.TemporaryDirectory(prefix="glassformer-benchmark-") as files:
        commands = {}
        for name in names:
            command = cold_start_command(name, model, text, source, opened.weights, Path(files))
            if command is not None:
                commands[name] = command
        with ProgressCounter("Cold starts", total=(rounds + 1) * len(commands)) as counter:
            return measure_cold_starts(commands, rounds, on_turn=lambda: counter.add(1))


def _throughputs(model: str, sources: list[list[int]], names: list[str], cells: list[Cell], rounds: int) -> Throughputs:
    """Results by beam and batch size, and system; latency is measured with the first beam size."""
    from glassformer.benchmark.systems import BenchmarkTask, System
    from glassformer.benchmark.throughput import compare_throughput, sized_task
    from glassformer.decoding import Beam

    figures: Throughputs = {}
    with ExitStack() as stack, ProgressCounter("Measured", total=rounds * len(names) * len(cells)) as counter:
        systems = []
        for name in names:
            systems.append(System(name, model))
            stack.callback(systems[-1].close)
        for beam, batch_size in cells:
            search = Beam.greedy() if beam == 1 else Beam(size=beam)
            latency_task = None if figures else BenchmarkTask(sources[:LATENCY_SENTENCES], search, 1)
            task = sized_task(systems[0], sources, search, batch_size)
            results = compare_throughput(systems, task, rounds, latency_task, on_turn=lambda: counter.add(1))
            figures[beam, batch_size] = {result.name: result for result in results}
    return figures


def _cell_name(cell: Cell) -> str:
    beam, batch_size = cell
    return f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {batch_size}"


def _speed_table(names: list[str], figures: Throughputs) -> str:
    rows = [["", *map(_cell_name, figures)]]
    for name in names:
        row = [name]
        for results in figures.values():
            speed = results[name].tokens_per_second
            row.append(f"{speed:,.0f} ({speed / results[names[0]].tokens_per_second:.2f})")
        rows.append(row)
    return columns(rows, "l" + "r" * len(figures))


def _cost_table(names: list[str], results: "dict[str, ThroughputResult]", cold_starts: "dict[str, ColdStart]") -> str:
    rows = [["", "median latency", "95th percentile", "memory", "cold start", "its memory"]]
    for name in names:
        result, start = results[name], cold_starts.get(name)
        median, p95 = (f"{1000 * (seconds or 0):.1f} ms" for seconds in (result.median, result.p95))
        cold = ["-", "-"] if start is None else [f"{start.seconds:.2f} s", f"{start.memory / 2**20:,.0f} MB"]
        rows.append([name, median, p95, f"{result.memory / 2**20:,.0f} MB", *cold])
    return columns(rows, "lrrrrr")


def _as_json(figures: Throughputs, cold_starts: "dict[str, ColdStart]", absent: list[str]) -> dict[str, object]:
    results = [
        {"beam": beam, "batch_size": batch_size, **asdict(result)}
        for (beam, batch_size), by_name in figures.items()
        for result in by_name.values()
    ]
    starts = [{"name": name, **asdict(start)} for name, start in cold_starts.items()]
    return {"figures": results, "cold_starts": starts, "absent": absent}
