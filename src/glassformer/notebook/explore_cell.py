"""`explore`: a sentence, or a trace, to be looked into where one works."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from glassformer.errors import InputError
from glassformer.inspection import Trace
from glassformer.inspection.explorer import Frame, packed
from glassformer.notebook.widget_messages import RepliesFromModel, RepliesFromTrace
from glassformer.translator import Translator

if TYPE_CHECKING:
    from glassformer.notebook.widget import Explorer

NEEDED = {"anywidget": "a widget", "fastapi": "questions to the model", "starlette": "questions to the model"}


def explore(
    what: Translator | Trace,
    text: str | None = None,
    target: str | None = None,
    *,
    beam: int = 4,
    static: bool = False,
    name: str = "",
) -> "Explorer | Frame":
    """The explorer of a translator's way with a text, or of a trace.

    In a notebook it is a widget; of a translator, it asks the kernel for other sentences and what-ifs. With `static`,
    or where no widget can be, it is a page in a frame, which needs no kernel and stays when the notebook is exported.
    """
    if isinstance(what, Translator):
        if text is None or not text.strip():
            raise InputError('The explorer needs a text to begin with: translator.explore("The animal slept.").')
        trace = what.trace(text, target, beam=beam)
    elif text is not None or target is not None:
        raise InputError("A trace is of one text already: ask its translator to explore another.")
    else:
        trace = what
    if static or not _is_possible(what):
        return Frame.of(trace, name=name)
    from glassformer.notebook.widget import Explorer

    if isinstance(what, Trace):
        return Explorer(trace, RepliesFromTrace(packed(trace, name=name)), {}, name)
    start: dict[str, Any] = {"s": text, "b": beam, "t": target or ""}
    return Explorer(trace, _answering(what, name), start, name)


def _is_possible(what: Translator | Trace) -> bool:
    needed = NEEDED if isinstance(what, Translator) else ["anywidget"]
    return all(find_spec(package) for package in needed)


def _answering(translator: Translator, name: str) -> RepliesFromModel:
    """One for each translator, because it keeps threads and traces."""
    kept = vars(translator).get("_explored")
    if isinstance(kept, RepliesFromModel) and kept.name == name:
        return kept
    made = RepliesFromModel(translator, name)
    vars(translator)["_explored"] = made
    return made
