"""`glassformer demo`: train on the built-in corpus, score, translate the sentences it all began with, answer whose
W_K and W_V it is, and write the report.
"""

import html
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.keys_values import exchange_text, whose_keys_and_values
from glassformer.cli.street import write_street
from glassformer.cli.text_layout import columns, paragraph
from glassformer.cli.train import train_in_terminal

if TYPE_CHECKING:
    from glassformer.translator import Translator

# The whole recipe; recipes/street.toml says the same, with the reasons.
OPTIONS: dict[str, Any] = {
    "tokenizer": {"vocab_size": 1000},
    "model": {"preset": "tiny", "encoder_layers": 2, "decoder_layers": 2},
    "training": {"updates": 900, "learning_rate": 3e-3, "warmup": 100},
    "validation": {"every": 150},
}
EXCHANGED = 20
"""Test sentences that are translated with other matrices."""


def demo(
    out: Annotated[Path, typer.Option(help="Where the run goes.")] = Path("runs/demo"),
    text: Annotated[Path, typer.Option(help="Where the corpus goes, as text files.")] = Path("runs/street"),
) -> None:
    """Train on the built-in corpus (minutes), score it, translate, and write a report to look at."""
    from glassformer.translator import Translator

    began = time.monotonic()
    typer.echo(
        paragraph(
            'The corpus "street": English sentences with "it", made by a grammar, and their German. What "it" becomes '
            "depends on what it refers to; the test asks about pairs of nouns never seen together in training."
        )
    )
    options = {"out": str(out), "data": write_street(text)} | OPTIONS
    report = train_in_terminal(options)
    translator = Translator.load(out)
    if "pronoun_accuracy" not in report:  # else the run was finished before, and so was this
        report |= {"seconds": time.monotonic() - began} | _understanding(translator, out, text)
        _write(report, translator, out)
    typer.echo(_shown(report, translator, out))


def _understanding(translator: "Translator", out: Path, text: Path) -> dict[str, Any]:
    """How often the pronoun is right, and the two sentences that everything began with."""
    from glassformer.builtin.street import PRONOUN_EXAMPLES, pronouns

    references = (text / "test.de").read_text(encoding="utf-8").splitlines()
    translations = (out / "test.translations.txt").read_text(encoding="utf-8").splitlines()
    asked = [(ours, wanted) for ours, wanted in zip(translations, references, strict=True) if pronouns(wanted)]
    right = sum(pronouns(ours) == pronouns(wanted) for ours, wanted in asked)
    translations = translator.translate(list(PRONOUN_EXAMPLES))
    return {
        "pronoun_accuracy": right / len(asked),
        "pronoun_sentences": len(asked),
        "pronoun_examples": [
            {"source": source, "reference": wanted, "translation": ours}
            for (source, wanted), ours in zip(PRONOUN_EXAMPLES.items(), translations, strict=True)
        ],
    }


def _write(report: dict[str, Any], translator: "Translator", out: Path) -> None:
    from glassformer.inspection.explorer import Frame
    from glassformer.training.checkpoint import write_json
    from glassformer.training.run_report import REPORT, write_page

    report["translations"] = report["pronoun_examples"] + report["translations"]
    write_json(out / REPORT, report)
    rows = "".join(
        f"<li>{html.escape(example['source'])}<br><strong>{html.escape(example['translation'])}</strong></li>"
        for example in report["pronoun_examples"]
    )
    notes = (
        f"<h2>Whom does it mean?</h2><p>The pronoun is right in {100 * report['pronoun_accuracy']:.1f} % of "
        f"{report['pronoun_sentences']} test sentences, all about pairs of nouns never seen together in training.</p>"
        f"<ul>{rows}</ul>"
        "<h2>Look inside</h2><p>The first of these sentences on its way through the model, with every number; each "
        "step is redone in your browser, and nothing is loaded.</p>"
        f"{Frame.of(translator.trace(report['pronoun_examples'][0]['source']), name=out.name).html}"
    )
    write_page(out, report, "street: the demo of glassformer", notes)


def _shown(report: dict[str, Any], translator: "Translator", out: Path) -> str:
    import torch

    from glassformer.builtin.street import sentences
    from glassformer.inspection.interventions.cross_attention_matrices import keys_values

    rows = [
        ("BLEU", f"{report['bleu']:.2f}", report["signature"]),
        ("chrF", f"{report['chrf']:.2f}", report["chrf_signature"]),
        ("pronouns", f"{100 * report['pronoun_accuracy']:.1f} %", f"of {report['pronoun_sentences']} right"),
        ("time", f"{report['seconds']:.0f} s", f"{report['updates']:,} updates, {report['parameters']:,} parameters"),
    ]
    first = report["pronoun_examples"][0]["source"]
    encode = translator.tokenizer.encode
    source = torch.tensor([encode(first, "source")])
    exchanged = keys_values(translator.model, [encode(one.source, "source") for one in sentences("test", EXCHANGED)])
    return "\n".join(
        (
            "",
            columns(rows, "lrl"),
            "",
            *(f"  {example['source']}\n  {example['translation']}\n" for example in report["pronoun_examples"]),
            "Whose W_K and W_V does the decoder use? We listen while the first of them is translated.",
            "",
            whose_keys_and_values(translator.model, source),
            "",
            exchange_text(exchanged),
            "",
            "Each decoder layer's own, used on the encoder's output.",
            "",
            f"model   {out / report['model']}",
            f"report  {out / 'report.html'}",
        )
    )
