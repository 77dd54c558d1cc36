"""A token's way through one attention, as text with numbers and as JSON."""

import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from glassformer.cli.text_layout import columns, paragraph
from glassformer.inspection.explanation.token_names import plain

if TYPE_CHECKING:
    from torch import Tensor

    from glassformer.inspection import Trace
    from glassformer.inspection.explanation.attention_steps import AttentionStep, AttentionWalk, Key, Vector

WIDEST = 100
FIRST = 6
"""Columns of a vector that are shown, where there is room."""
MOST_KEYS = 16
"""Positions that are shown; of more, those that weigh most."""
MOST_VALUES = 6
"""Weighted values that are shown; the others are added up."""
INDENT = "   "
BAR = 20


def terminal() -> int:
    return min(shutil.get_terminal_size().columns, WIDEST)


def walk_text(trace: "Trace", walk: "AttentionWalk") -> str:
    """The whole walk, step by step."""
    return "\n".join(_lines(trace, walk, max(60, terminal())))


def _lines(trace: "Trace", walk: "AttentionWalk", width: int) -> Iterator[str]:
    yield from (paragraph(trace.text), paragraph(trace.translation), "")
    yield _heading(trace, walk)
    yield from ("", *_tokens(trace, walk, width), "", "Of each vector the first columns, and ‖its length‖.")
    heavy = heaviest(walk.keys)
    for number, step in enumerate(_told(walk), start=1):
        yield from ("", f"{number:2} {step.title}")
        if step.name == "softmax":
            yield INDENT + walk.step("scores").formula
        yield INDENT + step.formula
        if step.note:
            yield INDENT + step.note
        yield from _body(walk, step, heavy, width)
        if step.name == "softmax":
            yield f"{INDENT}{recomputed(max_of(walk, 'scores', 'softmax'))}"
        elif step.name == "context":
            yield f"{INDENT}{recomputed(max_of(walk, 'values', 'context'))}"
        else:
            yield f"{INDENT}{recomputed(step.differs)}"


def _told(walk: "AttentionWalk") -> list["AttentionStep"]:
    """Scores and weights are one table, and so are the values and their sum."""
    return [step for step in walk.steps if step.name not in ("scores", "values")]


def max_of(walk: "AttentionWalk", *names: str) -> float | None:
    gaps = [walk.step(name).differs for name in names]
    known = [gap for gap in gaps if gap is not None]
    return max(known) if len(known) == len(gaps) else None


def recomputed(gap: float | None) -> str:
    if gap is None:
        return "not recomputed: the trace was saved without these weights"
    return f"recomputed: differs by {'0' if gap == 0 else f'{gap:.0e}'.replace('e-0', 'e-')}"


def _heading(trace: "Trace", walk: "AttentionWalk") -> str:
    place = walk.place
    who = f"{walk.piece} (position {place.position})"
    if walk.writes is not None:
        who = f"the decoder (position {place.position}), after {walk.piece} and writing {walk.writes},"
    return paragraph(f"{place.at}, head {place.head} of 0 to {trace.config.n_heads - 1}: what does {who} find?")


def _tokens(trace: "Trace", walk: "AttentionWalk", width: int) -> Iterator[str]:
    """The tokens with their numbers, the one that looks in brackets."""
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


def _body(walk: "AttentionWalk", step: "AttentionStep", heavy: "list[Key]", width: int) -> Iterator[str]:
    match step.name:
        case "keys":
            yield from vector_lines([_vector(key.piece, key.k) for key in heavy], width)
            yield from _left_out(walk, heavy)
        case "softmax":
            yield from _looks(walk, heavy, width)
        case "context":
            yield from vector_lines([*_weighted(walk.keys), *step.vectors], width)
        case _:
            yield from vector_lines(step.vectors, width)


def heaviest(keys: "Sequence[Key]", most: int = MOST_KEYS) -> "list[Key]":
    """Those that weigh most, in the order of the sentence."""
    best = sorted(keys, key=lambda key: -key.weight)[:most]
    return sorted(best, key=lambda key: key.position)


def _weighted(keys: "Sequence[Key]") -> "Iterator[Vector]":
    """Weight × v of the heaviest, and all others in one line."""
    most = heaviest([key for key in keys if key.weight >= 0.0005], MOST_VALUES)
    for number_, key in enumerate(most):
        yield _vector(f"{'+ ' if number_ else '  '}{key.weight:.3f} × v of {key.piece}", key.weight * key.v)
    shown = {key.position for key in most}
    rest = [key for key in keys if key.position not in shown]
    if rest:
        others = sum((key.weight * key.v for key in rest[1:]), rest[0].weight * rest[0].v)
        yield _vector(f"+ {sum(key.weight for key in rest):.3f} of {len(rest)} others", others)


def _vector(name: str, numbers: "Tensor") -> "Vector":
    from glassformer.inspection.explanation.attention_steps import Vector

    return Vector(name, numbers)


def _left_out(walk: "AttentionWalk", heavy: "list[Key]") -> Iterator[str]:
    if len(walk.keys) > len(heavy):
        yield f"{INDENT}… {len(walk.keys) - len(heavy)} more, that weigh less"
    if walk.hidden:
        yield f"{INDENT}({walk.hidden} later positions: the future may not be looked at)"


def vector_lines(vectors: "Sequence[Vector]", width: int) -> Iterator[str]:
    """Each vector's first columns, how many there are more, and its length."""
    label = min(max(len(vector.name) for vector in vectors), 30)
    longest = max(len(vector.numbers) for vector in vectors)
    tail = len(f"  … {longest} more  ‖ 123.4 ‖")
    shown = max(2, min(FIRST, (width - len(INDENT) - label - tail) // 8))
    for vector in vectors:
        numbers = vector.numbers.double()
        first = "".join(number(x) for x in numbers[:shown].tolist())
        more = f"  … {len(numbers) - shown} more" if len(numbers) > shown else ""
        more = more.ljust(len(f"  … {longest} more") if longest > shown else 0)
        yield f"{INDENT}{_cut(vector.name, label)}{first}{more}  ‖{number(float(numbers.norm()), 6)} ‖"


def number(x: float, width: int = 8) -> str:
    """Three digits behind the point, fewer of a large one."""
    digits = 3 if abs(x) < 100 else 1 if abs(x) < 10_000 else 0
    digits = min(digits, 2) if width < 7 and abs(x) >= 10 else digits
    x = 0.0 if abs(x) < 0.0005 else x  # no -0.000
    return f"{x:{width}.{digits}f}"


def _cut(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"


def _looks(walk: "AttentionWalk", heavy: "list[Key]", width: int) -> Iterator[str]:
    scaled = walk.scale != 1
    biased = any(key.bias for key in walk.keys)
    heads = ["", "", "q · k"]
    heads += [f"÷ √{round(walk.scale**-2)}"] if scaled else []
    heads += ["+ bias"] if biased else []
    rows = [[*heads, "weight", ""]]
    for key in heavy:
        row = [f"{INDENT}{key.position:2}", key.piece, f"{key.product:.2f}"]
        row += [f"{key.product * walk.scale:.2f}"] if scaled else []
        row += [f"{key.score:.2f}"] if biased else []
        rows.append([*row, f"{key.weight:.3f}", bar(key.weight)])
    total = sum(key.weight for key in walk.keys)
    rows.append(["", "all", *[""] * (len(heads) - 2), f"{total:.3f}", ""])
    yield from columns(rows, "ll" + "r" * (len(heads) - 1)).splitlines()
    yield from _left_out(walk, heavy)
    best = max(walk.keys, key=lambda key: key.weight)
    yield f"{INDENT}{walk.writes or walk.piece} looks most at {best.piece}: {100 * best.weight:.1f} %."


def bar(share: float) -> str:
    """A share as a bar, in eighths of a block."""
    eighths = round(max(0.0, min(1.0, share)) * BAR * 8)
    return "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")


def walk_json(trace: "Trace", walk: "AttentionWalk") -> dict[str, Any]:
    """The same for programs, with every number."""
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
        "keys": [
            {
                "position": key.position,
                "token": key.piece,
                "k": key.k.tolist(),
                "product": key.product,
                "bias": key.bias,
                "score": key.score,
                "weight": key.weight,
                "v": key.v.tolist(),
            }
            for key in walk.keys
        ],
        "steps": [
            {
                "step": step.name,
                "formula": step.formula,
                "vectors": [{"name": vector.name, "numbers": vector.numbers.tolist()} for vector in step.vectors],
                "differs": step.differs,
            }
            for step in walk.steps
        ],
    }
