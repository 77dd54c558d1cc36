"""`glassformer describe`: a model's configuration, parameters and taps."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.common.progress_counter import ProgressCounter
from glassformer.errors import DirectoryError
from glassformer.text_layout import columns, paragraph

if TYPE_CHECKING:
    from glassformer.decoding import Shortlist
    from glassformer.model import Transformer


def describe(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="Model as for `translate`, or a preset: tiny, small, tutorial, paper-base, paper-big."
        ),
    ],
    names: Annotated[
        bool, typer.Option("--names", help="List all parameters and taps by name, with their shapes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print configuration, parameters and taps as JSON.")] = False,
) -> None:
    """Show a model's configuration and the number of parameters of each part."""
    with ProgressCounter("Reading the model,"):
        transformer, shortlist = _open(model)
    if as_json:
        use = {"shortlist": None if shortlist is None else _shortlist_json(shortlist)}
        typer.echo(json.dumps(_description_json(transformer) | use, indent=2))
        return
    typer.echo("\n".join([*_summary(model, transformer), *_shortlist_text(shortlist)]))
    typer.echo("\n" + (_names(transformer) if names else _sizes(transformer)))


def _open(name: str) -> "tuple[Transformer, Shortlist | None]":
    """The model, and its shortlist if it has one."""
    import torch

    from glassformer.loading import open_model
    from glassformer.model import PRESETS, Transformer, preset

    if name in PRESETS and not Path(name).exists():
        with torch.device("meta"):  # only its shapes are needed
            return Transformer(preset(name)), None
    try:
        opened = open_model(name)
    except DirectoryError as error:
        if Path(name).exists():
            raise
        raise DirectoryError(f"{error} Presets: {', '.join(PRESETS)}.") from None
    return opened.model, None if opened.read_shortlist is None else opened.read_shortlist()


def _shortlist_text(shortlist: "Shortlist | None") -> Iterator[str]:
    if shortlist is not None:
        from glassformer.shortlist_making import measurement_text

        yield f"\n{paragraph(measurement_text(shortlist))}"


def _shortlist_json(shortlist: "Shortlist") -> dict[str, Any]:
    measured = shortlist.measurement
    return {
        "is_default": measured is not None and measured.is_cheap,
        "measurement": None if measured is None else measured.model_dump(mode="json"),
    }


def _summary(name: str, model: "Transformer") -> Iterator[str]:
    config = model.config
    yield f"{name}: {model.n_parameters:,} parameters"
    yield (
        f"  layers       {config.encoder_layers} encoder, {config.decoder_layers} decoder; "
        f"{config.norm} norm {'before' if config.norm_first else 'after'} each sub-layer"
    )
    if config.decoder_ssru:
        yield "  decoder      SSRU: one state vector per layer instead of self-attention"
    yield f"  width        {config.d_model}, in {config.n_heads} heads of {config.d_head}"
    yield f"  feed-forward {config.d_ff} wide, {'gated ' if config.gated else ''}{config.activation}"
    yield f"  positions    {config.positions}"
    if config.share_embeddings:
        yield f"  vocabulary   {config.vocab_size:,} tokens, shared by source and target"
    else:
        yield f"  vocabulary   {config.source_vocab_size:,} source and {config.vocab_size:,} target tokens"
    yield f"  output       {'tied to the target embeddings' if config.tie_output else 'its own matrix'}"


def _sizes(model: "Transformer") -> str:
    from glassformer.inspection.explanation.parameter_parts import parts

    counts: dict[tuple[str, str], int] = {}
    for part in parts(model):
        key = (part.sublayer, part.part)
        counts[key] = counts.get(key, 0) + part.size
    total = sum(counts.values())
    rows, last = [("part", "", "parameters", "share")], ""
    for (sublayer, part_name), size in counts.items():
        label = "" if part_name in sublayer else part_name
        share = f"{100 * size / total:.1f} %"
        rows.append((sublayer if sublayer != last else "", label, f"{size:,}", share))
        last = sublayer
    rows.append(("total", "", f"{total:,}", "100.0 %"))
    return columns(rows, "llrr")


def _names(model: "Transformer") -> str:
    description = _description_json(model)
    parameters = [
        (entry["name"], entry["part"], " × ".join(map(str, entry["shape"]))) for entry in description["parameters"]
    ]
    taps = [(entry["name"], " ".join(entry["axes"])) for entry in description["taps"]]
    return columns([("parameter", "part", "shape"), *parameters]) + "\n\n" + columns([("tap", "axes"), *taps])


def _description_json(model: "Transformer") -> dict[str, Any]:
    from glassformer.inspection.explanation.parameter_parts import parts
    from glassformer.model import taps

    return {
        "config": model.config.model_dump(mode="json"),
        "parameters": [
            {"name": part.name, "sublayer": part.sublayer, "part": part.part, "shape": part.shape}
            for part in parts(model)
        ],
        "taps": [{"name": name, "axes": tap.axes} for name, tap in taps(model).items()],
    }
