"""The command line: one file per command. Heavy imports happen when a command runs, so --help is instant."""

import os
import sys

import typer

from glassformer import __version__
from glassformer.cli.align import align
from glassformer.cli.bench import bench
from glassformer.cli.common.help_pages import PlainHelpCommand, PlainHelpGroup
from glassformer.cli.convert import convert
from glassformer.cli.demo import demo
from glassformer.cli.describe import describe
from glassformer.cli.doctor import doctor
from glassformer.cli.evaluate import evaluate
from glassformer.cli.explain import explain
from glassformer.cli.explore import explore
from glassformer.cli.export import export
from glassformer.cli.figure import figure
from glassformer.cli.score import score
from glassformer.cli.serve import serve
from glassformer.cli.street import street
from glassformer.cli.trace import trace
from glassformer.cli.train import train
from glassformer.cli.translate import translate
from glassformer.cli.verify import verify
from glassformer.cli.what_if import what_if
from glassformer.errors import GlassformerError

app = typer.Typer(
    name="glassformer",
    cls=PlainHelpGroup,
    help="Train, run and inspect encoder-decoder Transformers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a user's mistake gets one sentence; anything else is a bug, with its traceback
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    align,
    bench,
    convert,
    demo,
    describe,
    doctor,
    evaluate,
    explain,
    explore,
    export,
    figure,
    score,
    serve,
    street,
    trace,
    train,
    translate,
    verify,
    what_if,
):
    app.command(cls=PlainHelpCommand)(command)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"glassformer {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", help="Print the version and exit.", callback=_print_version),
) -> None:
    pass


def main() -> None:
    """Run a command. Exit code 0 for success, 1 for an error in the input or settings, 2 for wrong usage."""
    try:
        app()
    except GlassformerError as error:
        typer.echo(f"glassformer: {error}", err=True)
        sys.exit(1)
    except BrokenPipeError:  # `glassformer describe tiny --names | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
