"""Text of a run: all of it is scanned before anything is written, and what the other ranks need of it is saved.

Each file of a new run is read at most three times before the first update: by the scan, for the tokenizer and the dev
set, and for the token store. The other ranks read none.
"""

import json
import shlex
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from glassformer.atomic_directory import replace_file
from glassformer.data import Pair, ScannedCorpus, corpus, scan
from glassformer.data.corpus import OneFile, Watch
from glassformer.data.corpus_scan import KINDS, source_keys
from glassformer.data.dev_split import CorpusSample, split_off_dev
from glassformer.data.line_shifts import describe, shifted_pairs
from glassformer.errors import DataError
from glassformer.training.run_settings import DataSettings, RunSettings

DEV = "dev.jsonl"


class Corpora(NamedTuple):
    """The training set and the dev set of a run."""

    train: ScannedCorpus
    dev: ScannedCorpus


def scan_corpora(settings: RunSettings, watch: Watch) -> Corpora:
    """Scan all text of a run; every file is readable to its end, and every set has pairs with text on both sides."""
    data = settings.data
    test = [scan(corpus(data.test_source, data.test_target))] if data.test_source else []
    train = scan(corpus(data.source, data.target), source_keys(chain.from_iterable(test)), watch)
    if data.dev_source is None:
        dev = split_off_dev(train, settings.validation.sentences)
        train = dev.complement
    else:
        dev = scan(corpus(data.dev_source, data.dev_target))
    for part in (train, dev, *test):
        if not part.usable:
            raise DataError(f"{part} has no pair with text on both sides: check the files.")
    return Corpora(train, dev)


def log_findings(train: ScannedCorpus, data: DataSettings, log: Callable[[str], None]) -> None:
    """Report what the scan found, one line per kind, and the command that shows more."""
    if train.shifts:
        shifted = shifted_pairs(train.shifts, train.pairs)
        log(
            f"shifted: {shifted:,} of {train.pairs:,} pairs do not belong together. "
            f"{describe(train.shifts, train.corpus)}"
        )
    for finding in train.findings.values():
        more = ", ..." if finding.count > 1 else ""
        log(
            f"{finding.kind}: {finding.count:,} of {train.pairs:,} pairs (line {finding.lines[0]:,}{more}): "
            f"{KINDS[finding.kind]}."
        )
    if train.findings or train.shifts:
        options = {"--source": data.source, "--target": data.target}
        if "leaked" in train.findings:
            options |= {"--test-source": data.test_source, "--test-target": data.test_target}
        arguments = " ".join(f"{name} {shlex.quote(path)}" for name, path in options.items() if path)
        fix = "" if train.shifts else "; --fix DIR writes a clean copy"
        log(f"`glassformer doctor {arguments}` shows these lines and checks further{fix}.")


def dev_sample(dev: ScannedCorpus, settings: RunSettings) -> CorpusSample:
    """The pairs of a dev set that are translated at each validation: evenly spaced, all with text."""
    sentences = settings.validation.sentences
    return CorpusSample(dev, max(1, dev.usable // sentences), limit=sentences, with_text=True)


def write_dev(pairs: Sequence[Pair], directory: Path) -> None:
    """Write the dev set for the other ranks, in a format that is also a corpus."""
    path = directory / DEV
    lines = [f"{line}\n" for pair in pairs for line in OneFile(path).format_pair(pair)]
    replace_file(path, "".join(lines).encode())


def read_dev(directory: Path) -> list[Pair]:
    """The dev set that `write_dev` wrote."""
    lines = (directory / DEV).read_text(encoding="utf-8").split("\n")[:-1]
    return [Pair(number, **json.loads(line)) for number, line in enumerate(lines, start=1)]
