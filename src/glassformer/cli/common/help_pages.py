"""Help pages that show metavars (FILE, N) but no Python types such as <str> or <bool>."""

import gc
from typing import Any

from typer.core import TyperCommand, TyperGroup

AS_WRITTEN = "\b\n"
"""Marker before a paragraph of a help text whose line breaks are kept."""


class PlainHelpCommand(TyperCommand):
    """A Typer command whose help page shows arguments and flags without a type."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.help = reflowed(self.help or "")

    def get_params(self, ctx: Any) -> Any:
        return without_types(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        gc.enable()  # the command line itself is imported and parsed without
        return super().invoke(ctx)


class PlainHelpGroup(TyperGroup):
    """A Typer command group whose help page, the list of all commands, shows flags without a type."""

    def get_params(self, ctx: Any) -> Any:
        return without_types(super().get_params(ctx))


def reflowed(text: str) -> str:
    """The help text with each paragraph as one line, for the terminal to wrap; `AS_WRITTEN` ones keep their lines."""
    return "\n\n".join(
        paragraph.removeprefix(AS_WRITTEN) if paragraph.startswith(AS_WRITTEN) else " ".join(paragraph.split())
        for paragraph in text.split("\n\n")
    )


def without_types(parameters: list[Any]) -> list[Any]:
    """Make arguments and flags show no type in help pages; returns the same parameters."""
    for parameter in parameters:
        if parameter.param_type_name == "argument" or parameter.is_flag:
            parameter.display_type_rich = _no_type
    return parameters


def _no_type(ctx: Any) -> None:
    return None
