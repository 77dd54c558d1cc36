"""Shifted lines: how often, and how exactly, the doctor finds where the sides of a corpus part.

Each trial takes pairs that follow each other in a corpus (by default `street`), checks that they are not accused, then
deletes a line of one side, or inserts one, 50 pairs or more from both ends, and looks for it.

    python benchmarks/shifted_lines.py
    python benchmarks/shifted_lines.py --source train.en --target train.de --trials 200 --pairs 300
"""

import argparse
import random
import tempfile
from collections import Counter
from pathlib import Path

from glassformer.builtin import street
from glassformer.data import corpus, scan
from glassformer.data.line_shifts import Shift

MARGIN = 50


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--source")
    parser.add_argument("--target")
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--pairs", type=int, default=1000)
    options = parser.parse_args()
    if options.source:
        texts = [pair[1:] for pair in corpus(options.source, options.target)]
    else:
        texts = [(sentence.source, sentence.target) for sentence in street.sentences("train", 20_000)]
    pick = random.Random(1)
    results = Counter[str]()
    for _ in range(options.trials):
        begin = pick.randrange(max(1, len(texts) - options.pairs))
        results.update(trial(texts[begin : begin + options.pairs], pick))
    for result, count in results.items():
        print(f"{result:24}{count:5} of {options.trials}")


def trial(pairs: list[tuple[str, str]], pick: random.Random) -> dict[str, bool]:
    """What holds in one trial."""
    sound = shifts(pairs)
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    side, inserted, place = pick.randrange(2), pick.random() < 0.5, pick.randrange(MARGIN, len(pairs) - MARGIN)
    sides[side][place : place + (not inserted)] = [pick.choice(sides[side])] if inserted else []
    found = shifts(list(zip(*sides, strict=False)))
    is_found = [shift.shift for shift in found] == [1 if inserted == (side == 1) else -1]
    distance = abs(found[0].line - place - 1) if is_found else len(pairs)
    return {
        "sound text accused": bool(sound),
        "shift found": is_found,
        "place within 1 line": distance <= 1,
        "place within 5 lines": distance <= 5,
        "among the lines named": is_found and found[0].first - 1 <= place + 1 <= found[0].last + 1,
    }


def shifts(pairs: list[tuple[str, str]]) -> list[Shift]:
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("source", "target")]
        for file, texts in zip(files, zip(*pairs, strict=True), strict=True):
            file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        return scan(corpus(files[0], files[1])).shifts


if __name__ == "__main__":
    main()
