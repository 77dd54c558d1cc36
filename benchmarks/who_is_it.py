"""Does `resolve_pronoun` find what "it" is? Held-out sentences of street, whose grammar knows; each kind of evidence alone.

    python benchmarks/who_is_it.py [--split test] [--count 200] [--model street] [--json]

The grammar's answer is used to count, never to decide. Rules were chosen on sentences of train and dev.
"""

import argparse
import json
import sys
import time
from collections import Counter
from typing import Any

import torch

import glassformer as gf
from glassformer.builtin import street
from glassformer.coreference import PronounReading, resolve_pronoun


def sentences(split: street.Split, count: int, seed: int) -> list[street.Sentence]:
    """So many of a split with a pronoun."""
    drawn = street.sentences(split, 3 * count, seed)
    return [sentence for sentence in drawn if sentence.pronoun][:count]


def right(name: str | None, sentence: street.Sentence) -> bool:
    """Of two words such as "railway track" one is enough."""
    referent = sentence.plot.referent.english
    return name is not None and (name.lower() == referent or name.lower() in referent.split())


def measure(translator: gf.Translator, asked: list[street.Sentence], given: bool) -> dict[str, Any]:
    """How often each row of evidence, and the verdict, point to the referent."""
    hits: Counter[str] = Counter()
    shown: Counter[str] = Counter()
    kinds: dict[str, str] = {}
    failures, undecided, pronouns = [], 0, 0
    for number, sentence in enumerate(asked, start=1):
        nouns = [sentence.plot.mover.english, sentence.plot.place.english]
        try:
            reading = resolve_pronoun(translator, sentence.source, candidates=nouns if given else None).readings[0]
        except gf.GlassformerError as error:
            failures.append((sentence.source, str(error)))
            continue
        for row in reading.evidence:
            kinds[row.kind] = row.name.strip()
            points = row.points_to
            shown[row.kind] += points is not None
            hits[row.kind] += points is not None and right(reading.candidates[points], sentence)
        pronouns += reading.pronoun == sentence.pronoun
        said = None if reading.verdict is None else reading.candidates[reading.verdict]
        undecided += said is None
        shown["verdict"] += said is not None
        hits["verdict"] += right(said, sentence)
        if not right(said, sentence):
            failures.append((sentence.source, _why(reading, said)))
        if sys.stderr.isatty():
            print(f"\r{number} of {len(asked)}", end="", file=sys.stderr)
    kinds["verdict"] = "the verdict"
    return {
        "sentences": len(asked),
        "right": {kind: hits[kind] for kind in kinds},
        "pointing": {kind: shown[kind] for kind in kinds},
        "names": kinds,
        "undecided": undecided,
        "pronoun found": pronouns,
        "failures": failures,
    }


def _why(reading: PronounReading, said: str | None) -> str:
    follows = next((row for row in reading.evidence if row.kind == "following"), None)
    return (
        f"{reading.translation} ({reading.pronoun}); said {said or 'undecided'} of {', '.join(reading.candidates)}; "
        f"follows {follows.note if follows else 'nobody'}"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--model", default="street")
    options.add_argument("--split", default="test", choices=["train", "dev", "test"])
    options.add_argument("--count", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--given", action="store_true", help="name the candidates instead of letting it find them")
    options.add_argument("--json", action="store_true")
    chosen = options.parse_args()
    torch.set_num_threads(1)
    translator = gf.load(chosen.model)
    began = time.monotonic()
    found = measure(translator, sentences(chosen.split, chosen.count, chosen.seed), chosen.given)
    if chosen.json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return
    count = found["sentences"]
    print(f"{count} sentences of {chosen.split}, seed {chosen.seed}, in {time.monotonic() - began:.0f} s")
    print(f"{'evidence':20}{'':38}{'right':>6}{'of':>5}")
    for kind, hits in found["right"].items():
        pointing = found["pointing"][kind]
        share = f"{100 * hits / pointing:6.1f} %" if pointing else ""
        print(f"{kind:20}{found['names'][kind]:38}{hits:6}{pointing:5}{share}")
    print(f"pronoun found in {found['pronoun found']}; undecided {found['undecided']}")
    for source, why in found["failures"]:
        print(f"  {source}\n    {why}")


if __name__ == "__main__":
    main()
