"""`glassformer score`: log-probabilities and perplexity of given translations."""

import json
import math
from dataclasses import asdict
from typing import Annotated

import typer

from glassformer.cli.common.line_io import WholeLineWriter, groups_of, run_until_signal
from glassformer.cli.common.progress_counter import ProgressCounter
from glassformer.cli.common.search_options import (
    DeviceOption,
    LengthPenalty,
    Model,
    SourceFile,
    TranslationFile,
    report_device,
)
from glassformer.cli.translate import candidate_json

PAIRS_PER_GROUP = 256  # scored together


def score(
    model: Model,
    source: SourceFile,
    target: TranslationFile = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per pair, with tokens and log-probabilities.")
    ] = False,
    length_penalty: LengthPenalty = 1.0,
    device: DeviceOption = "cpu",
) -> None:
    """Score given translations by their log-probability.

    Prints one number per pair, the same that `translate` gives to that translation: with the default length penalty the
    mean log-probability per token, in nats. The perplexity of all pairs goes to stderr.
    """
    from glassformer.data import corpus
    from glassformer.decoding import Beam
    from glassformer.engine import describe_engine
    from glassformer.loading import load

    data = corpus(source, target, "--target")
    pair_count = data.check()
    translator = load(model, search=Beam(length_penalty=length_penalty), device=device)
    report_device(device, translator)
    engine = asdict(describe_engine(translator.engine))

    def work(out: WholeLineWriter) -> None:
        log_probability, tokens = 0.0, 0
        with ProgressCounter("Scored", beside_output=True, total=pair_count) as counter:
            for group in groups_of(data, PAIRS_PER_GROUP):
                scored = translator.score([pair.source for pair in group], [pair.target for pair in group])
                log_probability += sum(sum(candidate.log_probabilities) for candidate in scored)
                tokens += sum(len(candidate.tokens) for candidate in scored)
                lines = [f"{candidate.score:.6f}" for candidate in scored]
                if as_json:
                    tables = [
                        {"source": pair.source, "target": pair.target} | candidate_json(candidate) | {"engine": engine}
                        for pair, candidate in zip(group, scored, strict=True)
                    ]
                    lines = [json.dumps(table, ensure_ascii=False) for table in tables]
                out.write(lines)
                counter.add(len(group))
        perplexity = math.exp(min(-log_probability / tokens, 700))
        typer.echo(f"Perplexity {perplexity:.4f} per token, {tokens:,} tokens.", err=True)

    run_until_signal(work)
