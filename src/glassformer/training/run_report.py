"""Report of a finished run: report.json for programs, report.html for people; both are made from the run's files."""

import html
import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from glassformer.atomic_directory import replace_file
from glassformer.training.checkpoint import METRICS, TrainingState, write_json
from glassformer.training.run_setup import Run

if TYPE_CHECKING:
    from glassformer.training.validation import ValidationTranslations

REPORT, PAGE = "report.json", "report.html"
MIN_LENGTH_RATIO, MAX_LENGTH_RATIO = 0.6, 1.67
"""Limits of what is normal for the length of a translation, divided by that of its reference."""
MAX_SAMPLES = 20


def write_report(
    run: Run, state: TrainingState, parameters: int, results: "dict[str, ValidationTranslations]"
) -> dict[str, Any]:
    """Write a run's report files and the translations; returns the contents of report.json."""
    scored_on = "test" if "test" in results else "dev"
    scores = results[scored_on].scores
    report: dict[str, Any] = {
        "bleu": scores.bleu,
        "chrf": scores.chrf,
        "signature": scores.signature,
        "chrf_signature": scores.chrf_signature,
        "scored_on": scored_on,
        "beam": run.settings.validation.final_beam,
        "length_ratio": length_ratio(results[scored_on]),
        "scores": {name: result.scores.as_dict() for name, result in results.items()},
        "seconds": state.seconds,
        "updates": state.update,
        "updates_asked_for": run.settings.training.updates,
        "epochs": state.epoch,
        "best_update": state.best_update,
        "ended": state.ended,
        "skipped_updates": state.skipped,
        "pairs": len(run.store),
        "parameters": parameters,
        "model": f"best-{state.best_update}",
        "machine": state.machine,
        "translations": [
            {"source": pair.source, "reference": pair.target, "translation": text}
            for pair, text in list(zip(results[scored_on].pairs, results[scored_on].texts, strict=True))[:MAX_SAMPLES]
        ],
    }
    for name, result in results.items():
        lines = "".join(f"{text}\n" for text in result.texts)
        (run.directory / f"{name}.translations.txt").write_text(lines, encoding="utf-8")
    write_json(run.directory / REPORT, report)
    write_page(run.directory, report)
    return report


def length_ratio(result: "ValidationTranslations") -> float:
    """The median length of a translation, divided by that of its reference, in characters."""
    lengths = ((len(text), len(pair.target)) for text, pair in zip(result.texts, result.pairs, strict=True))
    return median(ours / max(1, theirs) for ours, theirs in lengths)


def length_warning(report: dict[str, Any]) -> str | None:
    """A sentence about translations that are far too short or too long; None if their length is normal."""
    ratio = report.get("length_ratio", 1.0)  # reports of earlier versions have none
    if MIN_LENGTH_RATIO <= ratio <= MAX_LENGTH_RATIO:
        return None
    kind = "short" if ratio < 1 else "long"
    return (
        f"The translations are far too {kind}: half of them have {100 * ratio:.0f} % of their reference's length or "
        f"{'less' if ratio < 1 else 'more'}. Train longer (--epochs, --updates) or on more data, and check that the "
        "lines of both files match (`glassformer doctor`)."
    )


def write_page(directory: Path, report: dict[str, Any], title: str = "", notes: str = "") -> None:
    """Write report.html: one file that loads nothing and has no script of its own; scripts in `notes` run in frames."""
    metrics = [json.loads(line) for line in (directory / METRICS).read_text(encoding="utf-8").splitlines()]
    settings = (directory / "run.toml").read_text(encoding="utf-8")
    page = _PAGE.format(
        title=html.escape(title or f"{directory.name}: training report"),
        notes=notes + (f"<p>{html.escape(warning)}</p>" if (warning := length_warning(report)) else ""),
        tiles=_tiles(report),
        curves=_curves(metrics),
        samples=_samples(report["translations"]),
        settings=html.escape(settings),
        signature=html.escape(f"{report['signature']}; {report['chrf_signature']}"),
        scored_on=report["scored_on"],
    )
    replace_file(directory / PAGE, page.encode())


def _tiles(report: dict[str, Any]) -> str:
    tiles = [
        ("BLEU", f"{report['bleu']:.2f}"),
        ("chrF", f"{report['chrf']:.2f}"),
        ("training time", duration(report["seconds"])),
        ("updates", f"{report['updates']:,}"),
        ("sentence pairs", f"{report['pairs']:,}"),
        ("parameters", f"{report['parameters']:,}"),
    ]
    return "".join(f"<div><b>{value}</b><span>{name}</span></div>" for name, value in tiles)


def duration(seconds: float) -> str:
    """A time in seconds, minutes, or hours and minutes."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02} min"


def _curves(metrics: Sequence[dict[str, Any]]) -> str:
    def series(name: str) -> list[tuple[float, float]]:
        return [(line["update"], line[name]) for line in metrics if line.get(name) is not None]

    losses = {"training (with label smoothing)": series("loss"), "dev set": series("dev_loss")}
    scores = {"BLEU": series("dev_bleu"), "chrF": series("dev_chrf")}
    charts = {"Loss (nats per token)": losses, "Dev set scores": scores, "Learning rate": {"": series("learning_rate")}}
    return "".join(_chart(title, lines) for title, lines in charts.items())


def _chart(title: str, lines: dict[str, list[tuple[float, float]]]) -> str:
    """An SVG line chart over updates, with axis ticks at round numbers."""
    points = [point for line in lines.values() for point in line]
    if not points:
        return ""
    width, height, left, bottom = 460, 240, 52, 28
    right = max(x for x, _ in points) or 1
    low, high = min(0.0, *(y for _, y in points)), max(y for _, y in points)
    ticks = _round_ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])

    def at(x: float, y: float) -> str:
        across = left + (width - left - 8) * x / right
        down = 8 + (height - bottom - 8) * (1 - (y - low) / ((high - low) or 1))
        return f"{across:.1f},{down:.1f}"

    parts = []
    for tick in ticks:
        x, y = at(0, tick).split(",")
        parts.append(f'<line class="grid" x1="{x}" x2="{width - 8}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{left - 6}" y="{float(y) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for tick in _round_ticks(0, right):
        if tick <= right:
            x, _ = at(tick, low).split(",")
            parts.append(f'<text x="{x}" y="{height - 8}" text-anchor="middle">{tick:,.0f}</text>')
    for i, line in enumerate(lines.values()):
        path = [at(x, y) for x, y in line]
        dots = [f'<circle class="c{i}" cx="{x}" cy="{y}" r="2.5"/>' for x, y in (point.split(",") for point in path)]
        parts.append(f'<polyline class="c{i}" points="{" ".join(path)}"/>{"".join(dots) if len(line) <= 40 else ""}')
    legend = " ".join(f'<span class="c{i}">{name}</span>' for i, name in enumerate(lines))
    last = "; ".join(f"{name} ends at {line[-1][1]:.4g}" for name, line in lines.items() if line)
    return (
        f'<figure><figcaption>{title} {legend}</figcaption><svg viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{title} over {right:,.0f} updates: {last.strip()}">{"".join(parts)}</svg></figure>'
    )


def _round_ticks(low: float, high: float) -> list[float]:
    """About five round numbers that cover a range."""
    span = (high - low) or abs(high) or 1.0
    step = 10 ** math.floor(math.log10(span / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 5)
    first = math.floor(low / step)
    return [step * i for i in range(first, math.ceil(high / step) + 1)]


def _samples(translations: Sequence[dict[str, str]]) -> str:
    rows = ""
    for sample in translations:
        identical = "identical" if sample["translation"] == sample["reference"] else ""
        cells = "".join(f"<td>{html.escape(sample[name])}</td>" for name in ("source", "reference", "translation"))
        rows += f"<tr>{cells}<td>{identical}</td></tr>"
    return rows


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --line: #d9dee3; --paper: #fff; --card: #f6f8fa;
  --c0: #0b62b8; --c1: #b3470b; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e6e9ec; --soft: #9aa4ae; --line: #353c44; --paper: #14171a;
  --card: #1d2126; --c0: #6cb2f5; --c1: #f0965a; }} }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  padding: 1.5rem; max-width: 70rem; }}
h1 {{ font-size: 1.6rem; margin: 0 0 1rem; }} h2 {{ font-size: 1.15rem; margin: 2rem 0 .5rem; }}
p, figcaption {{ color: var(--soft); margin: .4rem 0; }}
.tiles, .curves {{ display: flex; flex-wrap: wrap; gap: .75rem; }}
.tiles div {{ background: var(--card); border-radius: 8px; padding: .6rem 1rem; min-width: 7rem; }}
.tiles b {{ display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; }}
.tiles span {{ color: var(--soft); }}
figure {{ margin: 0; flex: 1 1 20rem; max-width: 34rem; }} svg {{ width: 100%; height: auto; }}
svg text {{ font: 13px system-ui, sans-serif; fill: var(--soft); }} .grid {{ stroke: var(--line); }}
polyline {{ fill: none; stroke-width: 1.8; }}
polyline.c0 {{ stroke: var(--c0); }} polyline.c1 {{ stroke: var(--c1); }}
circle.c0 {{ fill: var(--c0); }} circle.c1 {{ fill: var(--c1); }}
span.c0 {{ color: var(--c0); margin-left: .6rem; }} span.c1 {{ color: var(--c1); margin-left: .6rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; min-width: 40rem; }}
th, td {{ text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid var(--line); }}
th {{ color: var(--soft); font-weight: 600; }} td:last-child {{ color: var(--soft); }}
pre {{ background: var(--card); border-radius: 8px; padding: 1rem; overflow-x: auto; }}
</style>
<h1>{title}</h1>
<div class="tiles">{tiles}</div>
<p>Scores on the {scored_on} set: {signature}</p>
{notes}
<h2>Training curves</h2>
<div class="curves">{curves}</div>
<h2>Sample translations</h2>
<div class="wide"><table><thead><tr><th>source</th><th>reference</th><th>translation</th><th></th></tr></thead>
<tbody>{samples}</tbody></table></div>
<h2>Settings</h2>
<details><summary>run.toml</summary><pre>{settings}</pre></details>
</html>
"""
