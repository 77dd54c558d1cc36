"""What a vocabulary shortlist costs and gains: BLEU and speed with and without it, in turns.

python benchmarks/shortlist.py MODEL --source FILE --reference FILE [--beam 1 4] [--precision int8 float32]

MODEL: a model with a shortlist, such as one of Firefox's students (`tests/fetch_real_weights.py` fetches two). One
table row per precision and beam: BLEU with and without, how many translations are the same, and among the sentences
whose unrestricted translation lies within the list how many are the same (with greedy search, all), and the ratio of
the speeds, best of the rounds: by the clock, and in CPU time, which a busy machine changes less. Run it with
OMP_NUM_THREADS=1, so that no idle thread of another library counts.
"""

import argparse
import os
import time
from pathlib import Path

import sacrebleu

from glassformer.decoding import Beam, Request
from glassformer.engine import EngineOptions, open_engine
from glassformer.loading import open_model


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--source", required=True)
    parser.add_argument("--reference", required=True)
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--precision", nargs="+", default=["int8", "float32"])
    parser.add_argument("--count", type=int, default=10**9)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    opened = open_model(arguments.model)
    shortlist = None if opened.read_shortlist is None else opened.read_shortlist()
    if shortlist is None:
        raise SystemExit(f"{arguments.model} has no shortlist.")
    texts, references = (
        Path(path).read_text().splitlines()[: arguments.count] for path in (arguments.source, arguments.reference)
    )
    requests = [Request(opened.text_tokenizer.encode(text, "source")) for text in texts]
    lists = [set(shortlist.tokens(request, opened.model.config.eos_id).tolist()) for request in requests]
    print(
        f"{len(texts)} sentences, {sum(map(len, lists)) / len(lists):.0f} tokens per list, {arguments.workers} workers"
    )
    print(
        "| precision | beam | BLEU without | BLEU with | same | same within the list | ratio | of CPU time | tokens/s |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for precision in arguments.precision:
        engines = [
            open_engine(
                [opened.model],
                EngineOptions(precision=precision, shortlist=used, workers=arguments.workers),
                shortlist=shortlist,
            )
            for used in (False, True)
        ]
        for beam in arguments.beam:
            settings = Beam.greedy() if beam == 1 else Beam(size=beam)
            best, cpu = [float("inf")] * 2, [float("inf")] * 2
            results: list[list[list[int]]] = [[], []]
            for _ in range(arguments.rounds):
                for i, engine in enumerate(engines):
                    start, cpu_start = time.perf_counter(), time.process_time()
                    results[i] = [n_best[0].tokens for n_best in engine.search(requests, settings)]
                    best[i] = min(best[i], time.perf_counter() - start)
                    cpu[i] = min(cpu[i], time.process_time() - cpu_start)
            bleu = [
                sacrebleu.corpus_bleu([opened.text_tokenizer.decode(ids) for ids in found], [references]).score
                for found in results
            ]
            same = [one == other for one, other in zip(*results, strict=True)]
            within = [is_same for is_same, ids, listed in zip(same, results[0], lists, strict=True) if listed >= {*ids}]
            speed = sum(map(len, results[1])) / best[1]
            print(
                f"| {precision} | {beam} | {bleu[0]:.2f} | {bleu[1]:.2f} | {sum(same)} "
                f"| {sum(within)} of {len(within)} | {best[0] / best[1]:.2f} | {cpu[0] / cpu[1]:.2f} | {speed:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
