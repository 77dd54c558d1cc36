"""Reader for gold word links of a corpus; checks that their word indices fit the sentences."""

from pathlib import Path

from glassformer.data import AnyTokenizer, Pair
from glassformer.data.corpus import OneFile, TwoFiles, count_lines, read_lines
from glassformer.data.word_spans import WordPair, word_pair
from glassformer.errors import DataError
from glassformer.inspection.alignment.alignment_error_rate import Links, read_links


class WordSplitter:
    """Splits a sentence pair into words with their tokens."""

    def __init__(self, tokenizer: AnyTokenizer, apart: bool, is_kind_given: bool) -> None:
        self.tokenizer, self.apart = tokenizer, apart
        self.is_kind_given = is_kind_given
        """Whether the user said what counts as a word."""

    def __call__(self, pair: Pair) -> WordPair:
        encode = self.tokenizer.encode
        return word_pair(self.tokenizer, encode(pair.source, "source"), encode(pair.target, "target"), self.apart)

    def check(self, pair: Pair, words: WordPair, where: str) -> None:
        """Check that gold links count the same words of a pair as we do; otherwise all later links would be wrong."""
        if self.is_kind_given and self.apart:
            return
        by_spaces = len(pair.source.split()), len(pair.target.split())
        ours = len(words.source), len(words.target)
        if by_spaces == ours:
            return
        if self.is_kind_given:
            raise DataError(
                f"{where}: split at spaces there are {by_spaces[0]} and {by_spaces[1]} words, but the model's tokens "
                f"form {ours[0]} and {ours[1]}. Expected gold links that count the model's words."
            )
        raise DataError(
            f"{where}: split at spaces there are {by_spaces[0]} and {by_spaces[1]} words, with punctuation separated "
            f"{ours[0]} and {ours[1]}. Which of them do the gold links count: --words spaces or --words apart?"
        )


def read_gold_links(path: Path, data: TwoFiles | OneFile, pair_count: int, to_words: WordSplitter) -> list[Links]:
    """Read the gold links of every sentence pair, and check that each connects two words that exist."""
    if (lines := count_lines(path)) != pair_count:
        raise DataError(f"{path} has {lines:,} lines for {pair_count:,} pairs; expected one line per pair.")
    gold_links = []
    for pair, line in zip(data, read_lines(path), strict=True):
        where = f"{path}, line {pair.line}"
        links, words = read_links(line, where), to_words(pair)
        to_words.check(pair, words, where)
        for source, target in sorted(links.possible):
            if source >= len(words.source) or target >= len(words.target):
                raise DataError(
                    f"{where}: the link {source}-{target} is out of range for {len(words.source)} source and "
                    f"{len(words.target)} target words, counted from 0."
                )
        gold_links.append(links)
    return gold_links
