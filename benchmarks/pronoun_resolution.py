"""Accuracy of `resolve_pronoun` on held-out sentences of street: the verdict, and each kind of evidence alone.

    python benchmarks/pronoun_resolution.py [--split test] [--count 200] [--model street] [--json]

The grammar gives the true referent, which is used for counting only. The rules were chosen on train and dev sentences.
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
from glassformer.inspection import inspect
from glassformer.inspection.coreference import PronounReading


def sentences(split: street.Split, count: int, seed: int) -> list[street.Sentence]:
    """This many sentences of a split that have a pronoun."""
    candidates = street.sentences(split, 3 * count, seed)
    return [sentence for sentence in candidates if sentence.pronoun][:count]


def correct(name: str | None, sentence: street.Sentence) -> bool:
    """Whether the name is the referent, or one word of a referent such as "railway track"."""
    referent = sentence.plot.referent.english
    return name is not None and (name.lower() == referent or name.lower() in referent.split())


def measure(translator: gf.Translator, tested: list[street.Sentence], given: bool) -> dict[str, Any]:
    """How often each kind of evidence, and the verdict, point to the referent."""
    hits: Counter[str] = Counter()
    pointing: Counter[str] = Counter()
    kinds: dict[str, str] = {}
    failures, undecided, pronouns = [], 0, 0
    for number, sentence in enumerate(tested, start=1):
        nouns = [sentence.plot.mover.english, sentence.plot.place.english]
        try:
            reading = (
                inspect(translator).resolve_pronoun(sentence.source, candidates=nouns if given else None).readings[0]
            )
        except gf.GlassformerError as error:
            failures.append((sentence.source, str(error)))
            continue
        for row in reading.evidence:
            kinds[row.kind] = row.name.strip()
            points = row.points_to
            pointing[row.kind] += points is not None
            hits[row.kind] += points is not None and correct(reading.candidates[points], sentence)
        pronouns += reading.pronoun == sentence.pronoun
        verdict = None if reading.verdict is None else reading.candidates[reading.verdict]
        undecided += verdict is None
        pointing["verdict"] += verdict is not None
        hits["verdict"] += correct(verdict, sentence)
        if not correct(verdict, sentence):
            failures.append((sentence.source, _explanation(reading, verdict)))
        if sys.stderr.isatty():
            print(f"\r{number} of {len(tested)}", end="", file=sys.stderr)
    kinds["verdict"] = "verdict"
    return {
        "sentences": len(tested),
        "correct": {kind: hits[kind] for kind in kinds},
        "pointing": {kind: pointing[kind] for kind in kinds},
        "names": kinds,
        "undecided": undecided,
        "pronouns_detected": pronouns,
        "failures": failures,
    }


def _explanation(reading: PronounReading, verdict: str | None) -> str:
    follows = next((row for row in reading.evidence if row.kind == "following"), None)
    return (
        f"{reading.translation} ({reading.pronoun}); {verdict or 'undecided'} of {', '.join(reading.candidates)}; "
        f"follows {follows.note if follows else 'none'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="street")
    parser.add_argument("--split", default="test", choices=["train", "dev", "test"])
    parser.add_argument("--count", type=int, default=200, metavar="N", help="Number of sentences.")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="Random seed of the sentences.")
    parser.add_argument("--given", action="store_true", help="Name the candidates instead of detecting them.")
    parser.add_argument("--json", action="store_true", help="Print JSON.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    translator = gf.load(options.model)
    start = time.monotonic()
    results = measure(translator, sentences(options.split, options.count, options.seed), options.given)
    if options.json:
        print(json.dumps(results, indent=2, ensure_ascii=False))
        return
    count = results["sentences"]
    print(f"{count} sentences of {options.split}, seed {options.seed}, in {time.monotonic() - start:.0f} s")
    print(f"{'evidence':20}{'':38}{'correct':>8}{'of':>5}")
    for kind, hits in results["correct"].items():
        pointing = results["pointing"][kind]
        share = f"{100 * hits / pointing:6.1f} %" if pointing else ""
        print(f"{kind:20}{results['names'][kind]:38}{hits:8}{pointing:5}{share}")
    print(f"pronoun detected in {results['pronouns_detected']}; undecided {results['undecided']}")
    for source, explanation in results["failures"]:
        print(f"  {source}\n    {explanation}")


if __name__ == "__main__":
    main()
