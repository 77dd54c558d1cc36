"""Help pages that show metavars (FILE, N) but no Python types such as <str> or <bool>."""

import gc
from typing import Any

from typer.core import TyperCommand, TyperGroup

from glassformer.synonyms import closest

AS_WRITTEN = "\b\n"
"""Marker before a paragraph of a help text whose line breaks are kept."""


class PlainHelpCommand(TyperCommand):
    """A Typer command whose help page shows arguments and flags without a type."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.help = reflowed(self.help or "")

    def get_params(self, ctx: Any) -> Any:
        return without_types(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if type(error).__name__ == "NoSuchOption":  # of click, or of typer's own copy of it
                error.message, error.possibilities = self._hint(ctx, error.option_name), None  # type: ignore[attr-defined]
            raise

    def _hint(self, ctx: Any, option: str) -> str:
        """What to say about an option that this command does not have."""
        options = [name for parameter in self.params for name in parameter.opts if name.startswith("--")]
        meant = closest(option, options)
        return f"{ctx.info_name} has no option {option}" + (
            f"; did you mean {meant}?" if meant else f". Its options: {', '.join(sorted(options))}."
        )

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
