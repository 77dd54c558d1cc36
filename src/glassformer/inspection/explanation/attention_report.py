"""The steps of one attention head for one token, as text with numbers and as JSON."""

import shutil
from collections.abc import Iterator, Sequence
from typing import Any

from glassformer.inspection.explanation.attention_steps import AttentionStep, AttentionWalk, Key, Vector, worst
from glassformer.inspection.explanation.token_lookup import plain
from glassformer.inspection.tracing.trace import Trace
from glassformer.text_layout import columns, paragraph

MIN_WIDTH, MAX_WIDTH = 60, 100  # columns of the terminal
MAX_NUMBERS_SHOWN = 6
"""Maximum number of a vector's components shown; fewer on a narrow terminal."""
MAX_KEYS_SHOWN = 16
"""Maximum number of key positions shown; of more, those with the largest weights."""
MAX_VALUES_SHOWN = 6
"""Maximum number of weighted values shown on separate lines; the others are summed in one line."""
MAX_LABEL_WIDTH = 30
MERGED_STEPS = {"softmax": "scores", "context": "values"}
"""Step -> the step before it, shown under the same heading: scores beside their weights, values before their sum."""
INDENT = "   "
BAR_WIDTH = 20


def walk_text(trace: Trace, walk: AttentionWalk) -> str:
    """All steps of an attention head, as text for the terminal's width."""
    width = max(MIN_WIDTH, min(shutil.get_terminal_size().columns, MAX_WIDTH))
    return "\n".join(_lines(trace, walk, width))


def _lines(trace: Trace, walk: AttentionWalk, width: int) -> Iterator[str]:
    yield from (paragraph(trace.text), paragraph(trace.translation), "")
    best = max(walk.keys, key=lambda key: key.weight)
    yield f"{walk.writes or walk.piece} attends most to {best.piece}: {100 * best.weight:.1f} %."
    yield _heading(trace, walk)
    yield from ("", *_tokens(trace, walk, width), "", "Of each vector: its first numbers, and its ‖norm‖.")
    shown_keys = heaviest(walk.keys)
    shown_steps = [step for step in walk.steps if step.name not in MERGED_STEPS.values()]
    for number, step in enumerate(shown_steps, start=1):
        yield from ("", f"{number:2} {step.title}")
        if step.name == "softmax":
            yield INDENT + walk.step("scores").formula
        yield INDENT + step.formula
        if step.note:
            yield INDENT + step.note
        yield from _body(walk, step, shown_keys, width)
        merged = MERGED_STEPS.get(step.name)
        yield INDENT + recomputed(worst(step.differs, walk.step(merged).differs) if merged else step.differs)


def recomputed(gap: float | None) -> str:
    if gap is None:
        return "not recomputed: the trace was saved without these weights"
    return f"recomputed: differs by {'0' if gap == 0 else f'{gap:.0e}'.replace('e-0', 'e-')}"


def _heading(trace: Trace, walk: AttentionWalk) -> str:
    place = walk.place
    query = f"{walk.piece} (position {place.position})"
    if walk.writes is not None:
        query = f"position {place.position}, which reads {walk.piece} and writes {walk.writes}"
    return paragraph(f"{place.at}, head {place.head} (of 0 to {trace.config.n_heads - 1}): attention of {query}")


def _tokens(trace: Trace, walk: AttentionWalk, width: int) -> Iterator[str]:
    """Lines that list the tokens with their positions, the query in brackets."""
    decoder = walk.place.stack == "decoder"
    sides = [("source", trace.source, not decoder)] + ([("target", trace.reads, True)] if decoder else [])
    for name, pieces, marked in sides:
        line = f"{name}:"
        for i, piece in enumerate(pieces):
            word = f"[{i} {piece}]" if marked and i == walk.place.position else f"{i} {piece}"
            if len(line) + 2 + len(word) > width:
                yield line
                line = " " * len(f"{name}:")
            line += f"  {word}"
        yield line


def _body(walk: AttentionWalk, step: AttentionStep, shown_keys: list[Key], width: int) -> Iterator[str]:
    match step.name:
        case "keys":
            yield from vector_lines([Vector(key.piece, key.k) for key in shown_keys], width)
            yield from _left_out(walk, shown_keys)
        case "softmax":
            yield from _weight_table(walk, shown_keys)
        case "context":
            yield from vector_lines([*_weighted(walk.keys), *step.vectors], width)
        case _:
            yield from vector_lines(step.vectors, width)


def heaviest(keys: Sequence[Key], count: int = MAX_KEYS_SHOWN) -> list[Key]:
    """The key positions with the largest weights, in the order of the sentence."""
    largest = sorted(keys, key=lambda key: -key.weight)[:count]
    return sorted(largest, key=lambda key: key.position)


def _weighted(keys: Sequence[Key]) -> Iterator[Vector]:
    """Weight × v of the keys with the largest weights, and the sum over all others."""
    shown_keys = heaviest([key for key in keys if key.weight >= 0.0005], MAX_VALUES_SHOWN)
    for i, key in enumerate(shown_keys):
        yield Vector(f"{'+ ' if i else '  '}{key.weight:.3f} × v of {key.piece}", key.weight * key.v)
    shown = {key.position for key in shown_keys}
    rest = [key for key in keys if key.position not in shown]
    if rest:
        others = sum((key.weight * key.v for key in rest[1:]), rest[0].weight * rest[0].v)
        yield Vector(f"+ {sum(key.weight for key in rest):.3f} of {len(rest)} others", others)


def _left_out(walk: AttentionWalk, shown_keys: list[Key]) -> Iterator[str]:
    if len(walk.keys) > len(shown_keys):
        yield f"{INDENT}… {len(walk.keys) - len(shown_keys)} more, with smaller weights"
    if walk.hidden:
        yield f"{INDENT}({walk.hidden} later positions are masked)"


def vector_lines(vectors: Sequence[Vector], width: int) -> Iterator[str]:
    """One line per vector: its first numbers, how many more there are, and its norm."""
    label = min(max(len(vector.name) for vector in vectors), MAX_LABEL_WIDTH)
    longest = max(len(vector.numbers) for vector in vectors)
    tail = len(f"  … {longest} more  ‖ 123.4 ‖")
    shown = max(2, min(MAX_NUMBERS_SHOWN, (width - len(INDENT) - label - tail) // 8))
    for vector in vectors:
        numbers = vector.numbers.double()
        first = "".join(number(x) for x in numbers[:shown].tolist())
        more = f"  … {len(numbers) - shown} more" if len(numbers) > shown else ""
        more = more.ljust(len(f"  … {longest} more") if longest > shown else 0)
        name = vector.name if len(vector.name) <= label else vector.name[: label - 1] + "…"
        yield f"{INDENT}{name:{label}}{first}{more}  ‖{number(float(numbers.norm()), 6)} ‖"


def number(x: float, width: int = 8) -> str:
    """A number as text, with three decimals, or fewer if it is large."""
    digits = 3 if abs(x) < 100 else 1 if abs(x) < 10_000 else 0
    digits = min(digits, 2) if width < 7 and abs(x) >= 10 else digits
    x = 0.0 if abs(x) < 0.0005 else x  # no -0.000
    return f"{x:{width}.{digits}f}"


def _weight_table(walk: AttentionWalk, shown_keys: list[Key]) -> Iterator[str]:
    scaled = walk.scale != 1
    biased = any(key.bias for key in walk.keys)
    headings = ["", "", "q · k", *[f"÷ √{round(walk.scale**-2)}"] * scaled, *["+ bias"] * biased]
    rows = [[*headings, "weight", ""]]
    for key in shown_keys:
        numbers = [key.product, *[key.product * walk.scale] * scaled, *[key.score] * biased]
        scores = [f"{number:.2f}" for number in numbers]
        rows.append([f"{INDENT}{key.position:2}", key.piece, *scores, f"{key.weight:.3f}", bar(key.weight)])
    total = sum(key.weight for key in walk.keys)
    rows.append(["", "sum", *[""] * (len(headings) - 2), f"{total:.3f}", ""])
    yield from columns(rows, "ll" + "r" * (len(headings) - 1)).splitlines()
    yield from _left_out(walk, shown_keys)


def bar(share: float) -> str:
    """A share (0 to 1) as a bar of block characters, in eighths of a block."""
    eighths = round(max(0.0, min(1.0, share)) * BAR_WIDTH * 8)
    return "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")


def walk_json(trace: Trace, walk: AttentionWalk) -> dict[str, Any]:
    """All steps of an attention head as a JSON object, with all numbers."""
    place = walk.place
    return {
        "source": {"text": trace.text, "tokens": trace.source},
        "target": {"text": trace.translation, "tokens": trace.target},
        "at": place.at,
        "head": place.head,
        "position": place.position,
        "token": plain(walk.piece),
        "writes": None if walk.writes is None else plain(walk.writes),
        "scale": walk.scale,
        "keys": [_key_json(key) for key in walk.keys],
        "steps": [_step_json(step) for step in walk.steps],
    }


def _key_json(key: Key) -> dict[str, Any]:
    numbers = {name: getattr(key, name) for name in ("k", "product", "bias", "score", "weight", "v")}
    return {"position": key.position, "token": key.piece} | numbers | {"k": key.k.tolist(), "v": key.v.tolist()}


def _step_json(step: AttentionStep) -> dict[str, Any]:
    vectors = [{"name": vector.name, "numbers": vector.numbers.tolist()} for vector in step.vectors]
    return {"step": step.name, "formula": step.formula, "vectors": vectors, "differs": step.differs}
