"""`explore`: the explorer of a sentence or a trace, in a notebook cell."""

from importlib.util import find_spec
from os import PathLike
from typing import TYPE_CHECKING, Any

from glassformer.errors import InputError
from glassformer.inspection import Trace, inspect
from glassformer.inspection.explorer import Frame, packed
from glassformer.notebook.widget_messages import RepliesFromModel, RepliesFromTrace
from glassformer.translator import Translator

if TYPE_CHECKING:
    from glassformer.notebook.widget import Explorer

REQUIRED_PACKAGES = {
    "anywidget": "the widget",
    "fastapi": "requests to the model",
    "starlette": "requests to the model",
}


def explore(
    what: Translator | Trace,
    text: str | None = None,
    target: str | None = None,
    *,
    beam: int = 4,
    static: bool = False,
    name: str = "",
) -> "Explorer | Frame":
    """Show the explorer in a notebook cell: for a translator and a text, or for a given trace.

    In a notebook it is a widget; that of a translator asks the kernel for other sentences and what-ifs. With `static`,
    or without the packages for the widget, it is a page in a frame, which needs no kernel and is kept when the notebook
    is exported.

    >>> gf.explore(gf.load("street"), "The animal slept.", static=True)
    <glassformer explorer: The animal slept.>
    """
    if isinstance(what, str | PathLike):
        raise InputError(f"explore takes a translator or a trace, not a name: explore(load({str(what)!r}), ...).")
    if isinstance(what, Translator):
        if text is None or not text.strip():
            raise InputError('The explorer needs a text, as in explore(translator, "The animal slept.").')
        trace = inspect(what).trace(text, target, beam=beam)
    elif text is not None or target is not None:
        raise InputError("A trace already has its text. To explore another, give explore the translator and the text.")
    else:
        trace = what
    if static or not _has_widget(what):
        return Frame.of(trace, name=name)
    from glassformer.notebook.widget import Explorer

    if isinstance(what, Trace):
        return Explorer(trace, RepliesFromTrace(packed(trace, name=name)), {}, name)
    start: dict[str, Any] = {"s": text, "b": beam, "t": target or ""}
    return Explorer(trace, _replies_from_model(what, name), start, name)


def _has_widget(what: Translator | Trace) -> bool:
    packages = REQUIRED_PACKAGES if isinstance(what, Translator) else ["anywidget"]
    return all(find_spec(package) for package in packages)


def _replies_from_model(translator: Translator, name: str) -> RepliesFromModel:
    """The reply source of a translator's widget: created once per translator, because it holds threads and traces."""
    cached = vars(translator).get("_explored")
    if isinstance(cached, RepliesFromModel) and (cached.translator, cached.name) == (translator, name):
        return cached
    replies = RepliesFromModel(translator, name)
    vars(translator)["_explored"] = replies
    return replies
