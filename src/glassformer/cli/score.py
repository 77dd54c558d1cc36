"""`glassformer score`: how likely a model finds given translations."""

import json
import math
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from glassformer.cli.line_io import WholeLines, until_stopped
from glassformer.cli.progress_counter import Counter
from glassformer.cli.search_options import LengthPenalty, Model
from glassformer.cli.translate import numbers

GROUP = 256  # pairs scored together


def score(
    model: Model,
    source: Annotated[Path, typer.Option(help="Sentences, a line each; or a .tsv or .jsonl file with both sides.")],
    target: Annotated[Path | None, typer.Option(help="Their translations, line by line.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line, with tokens.")] = False,
    length_penalty: LengthPenalty = 1.0,
) -> None:
    """Score given pairs: for each a number, the same that `translate` would give that translation.

    With the default penalty it is the mean log-probability of a token, in nats. The perplexity of all goes to stderr.
    """
    from glassformer.data import corpus
    from glassformer.decoding import Beam
    from glassformer.translator import Translator

    data = corpus(source, target)
    data.check()
    translator = Translator.load(model, search=Beam(length_penalty=length_penalty))

    def work(out: WholeLines) -> None:
        total, tokens, pairs = 0.0, 0, iter(data)
        with Counter("Scored", beside_output=True) as counter:
            while group := list(islice(pairs, GROUP)):
                scored = translator.score([pair.source for pair in group], [pair.target for pair in group])
                total += sum(sum(answer.log_probabilities) for answer in scored)
                tokens += sum(len(answer.tokens) for answer in scored)
                lines = [f"{answer.score:.6f}" for answer in scored]
                if as_json:
                    lines = [
                        json.dumps({"source": pair.source, "target": pair.target} | numbers(answer), ensure_ascii=False)
                        for pair, answer in zip(group, scored, strict=True)
                    ]
                out.write(lines)
                counter.add(len(group))
        typer.echo(f"Perplexity {math.exp(min(-total / tokens, 700)):.4f} a token, {tokens:,} tokens.", err=True)

    until_stopped(work)
