"""Peak memory of building a token store, for corpora of different sizes: it must not grow with the corpus."""

import argparse
import multiprocessing
import resource
import tempfile
import time
from itertools import islice
from pathlib import Path

from glassformer.builtin import street
from glassformer.data import Pair, TokenizerSettings, corpus, open_store, scan, train_tokenizer


def build(pairs: int, folder: Path) -> None:
    """Build a store and print the peak memory; runs in its own process."""
    sample = [Pair(0, s.source, s.target) for s in islice(street.sentences("train", 5000), 5000)]
    tokenizer = train_tokenizer(TokenizerSettings(vocab_size=2000), sample)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    store = open_store(scan(corpus(folder / f"{pairs}.tsv")), tokenizer, folder / f"store-{pairs}")
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size = (folder / f"{pairs}.tsv").stat().st_size
    print(
        f"{len(store):>10,} pairs {size / 1e6:>8.0f} MB of text: {seconds:>6.1f} s, "
        f"{len(store) / seconds:>8,.0f} pairs/s, peak {peak / 1024:.0f} MB, "
        f"of which {(peak - before) / 1024:.0f} MB while building"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--pairs", type=int, nargs="+", default=[100_000, 2_000_000], metavar="N", help="Sizes of the corpora in pairs."
    )
    options = parser.parse_args()
    lines = [f"{s.source}\t{s.target}" for s in islice(street.sentences("train", 100_000), 100_000)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for pairs in options.pairs:
            with (folder / f"{pairs}.tsv").open("w") as file:
                for number in range(pairs):  # the same sentences repeated, with numbers: all lines differ
                    file.write(lines[number % len(lines)].replace("\t", f" {number}\t") + "\n")
            process = multiprocessing.get_context("spawn").Process(target=build, args=(pairs, folder))
            process.start()
            process.join()


if __name__ == "__main__":
    main()
