"""The command line: one module per command, of its name. Only the command that runs is imported: it starts at once."""

import gc
import os
import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import typer

from glassformer import __version__
from glassformer.cli.common.help_pages import PlainHelpCommand, PlainHelpGroup
from glassformer.errors import GlassformerError
from glassformer.extras import TRAINING, explained
from glassformer.synonyms import closest

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # to find them, it reads the metadata of every package
COMMANDS = {module.name.replace("_", "-"): module.name for module in iter_modules(__path__) if not module.ispkg}
"""The modules of the commands, by name."""
TRAINING_COMMANDS = ("train", "demo")


class Commands(PlainHelpGroup):
    """The group of all commands; each is imported when it runs, or when its help is shown."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            meant = closest(args[0], COMMANDS)
            ctx.fail(f"There is no command {args[0]!r}" + (f"; did you mean {meant!r}?" if meant else "."))
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in self.commands:
            name = COMMANDS[cmd_name]
            command = typer.Typer(add_completion=False)
            command.command(cls=PlainHelpCommand)(getattr(import_module(f"{__name__}.{name}"), name))
            self.commands[cmd_name] = typer.main.get_command(command)
        return self.commands[cmd_name]


app = typer.Typer(
    name="glassformer",
    cls=Commands,
    help="Train, run and inspect encoder-decoder Transformers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a user's mistake gets one sentence; anything else is a bug, with its traceback
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    if sys.platform == "win32":
        for stream in (sys.stdout, sys.stderr):  # a pipe's would be the system's code page
            stream.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    command = next((argument for argument in sys.argv[1:] if not argument.startswith("-")), "")
    gc.disable()  # importing creates no garbage; `PlainHelpCommand.invoke` enables it
    try:
        with explained(TRAINING if command in TRAINING_COMMANDS else None):
            app()
    except GlassformerError as error:
        typer.echo(f"glassformer: {error}", err=True)
        sys.exit(1)
    except BrokenPipeError:  # `glassformer describe tiny --names | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    finally:
        gc.enable()
        gc.freeze()  # the process ends: its last collections would go over all objects, a tenth of a short command
