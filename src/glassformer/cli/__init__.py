"""The command line. One file a command; heavy imports happen when a command runs, so --help is instant."""

import os
import sys

import typer

from glassformer import __version__
from glassformer.cli.align import align
from glassformer.cli.bench import bench
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
    help="The encoder-decoder Transformer you can train, run fast, and see through.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # what a user can cause is one sentence; the rest is a bug, shown plainly
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(align)
app.command()(bench)
app.command()(convert)
app.command()(demo)
app.command()(describe)
app.command()(doctor)
app.command()(evaluate)
app.command()(explain)
app.command()(explore)
app.command()(export)
app.command()(figure)
app.command()(score)
app.command()(serve)
app.command()(street)
app.command()(trace)
app.command()(train)
app.command()(translate)
app.command()(verify)
app.command()(what_if)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"glassformer {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", help="Print the version and leave.", callback=_version),
) -> None:
    pass


def main() -> None:
    """Run a command: 0 when it did its work, 1 when something was wrong with what it was given, 2 for usage."""
    try:
        app()
    except GlassformerError as error:
        typer.echo(f"glassformer: {error}", err=True)
        sys.exit(1)
    except BrokenPipeError:  # `glassformer describe tiny --names | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
