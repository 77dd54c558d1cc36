"""Validation set split off a corpus that has none, and samples of a corpus."""

from collections.abc import Sequence

from glassformer.data.corpus import Pair
from glassformer.data.corpus_scan import ScannedCorpus
from glassformer.errors import DataError


def split_off_dev(corpus: ScannedCorpus, sentences: int) -> ScannedCorpus:
    """The part of a corpus to hold out as its dev set, of which no more than `sentences` will be used."""
    # A twentieth, but no more than is translated at each validation; more of a very small corpus, or it would be empty.
    for one_in in (max(20, corpus.pairs // sentences), 5, 2):
        dev = corpus.part(one_in)
        if dev.usable and dev.complement.usable:
            return dev
    raise DataError(
        f"{corpus}: too few pairs have text on both sides to split off a dev set. Give one with --dev-source and "
        "--dev-target, or add more text."
    )


class CorpusSample:
    """Every `every`-th pair of a corpus, or of its pairs with text on both sides; filled by `read_samples`."""

    def __init__(self, corpus: ScannedCorpus, every: int, limit: int | None = None, with_text: bool = False) -> None:
        self.corpus, self.pairs = corpus, list[Pair]()
        self._every, self._limit, self._with_text = every, limit, with_text
        self._offered = 0

    def offer(self, pair: Pair) -> None:
        if (self._with_text and not pair.has_text) or not self.corpus.holds(pair):
            return
        if self._offered % self._every == 0 and len(self.pairs) != self._limit:
            self.pairs.append(pair)
        self._offered += 1


def read_samples(samples: Sequence[CorpusSample]) -> None:
    """Fill the samples; those of the same files, such as a dev set and the rest of its corpus, in one pass."""
    for corpus in dict.fromkeys(sample.corpus.corpus for sample in samples):
        wanted = [sample for sample in samples if sample.corpus.corpus == corpus]
        for pair in corpus:
            for sample in wanted:
                sample.offer(pair)
