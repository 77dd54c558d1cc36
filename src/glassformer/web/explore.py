"""Routes that look inside: traces, their tensors, the model's weights, what-ifs and figures."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from glassformer.errors import GlassformerError
from glassformer.inspection.changes import Change, ForcePrefix, ReplaceToken
from glassformer.inspection.trace_file import DETAILS
from glassformer.model import ModelConfig
from glassformer.translator import Translator
from glassformer.web.guard import FIGURE_POLICY, responses
from glassformer.web.house import IMMUTABLE, House, Large, LargeResponse, body_of, flag, in_json
from glassformer.web.manifest import manifest
from glassformer.web.reading import asked
from glassformer.web.refusal import RefusedError
from glassformer.web.schemas import AskTrace, AskWhatIf, Difference, Manifest
from glassformer.web.service import finite
from glassformer.web.store import Kept
from glassformer.web.tensors import Cut, cut, sent, summary

WRONG = responses(401, 404, 413, 422, 503)
ROWS = Query(None, description="Of the axis before the last: 3, 0:8, 8:")
COLUMNS = Query(None, description="Of the last axis: 3, 0:8, 8:")
HALF = Query(None, description="1: float16 instead of float32, where the numbers fit.")
BYTES: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/octet-stream": {}},
        "description": "Little-endian numbers; x-shape, x-dtype, x-axes.",
    }
}


def routes(house: House) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/api/explore",
        response_model=Manifest,
        responses=WRONG,
        openapi_extra=body_of(AskTrace),
        summary="Trace a text's way through the model: an id, and what the trace has.",
    )
    async def explore(request: Request) -> Response:
        wanted = await asked(request, AskTrace)
        house.service.check_size([wanted.text])
        return in_json(await house.bench.do(request, lambda: traced(house, wanted)))

    @router.get("/api/explore/{id}", response_model=Manifest, responses=WRONG, summary="What a trace has, again.")
    async def again(id: str) -> Response:
        return in_json(_manifest(house, house.store.get(id)))

    @router.get(
        "/api/explore/{id}/tensor/{name}", responses={**WRONG, **BYTES}, summary="A tensor of a trace, as bytes."
    )
    async def tensor(
        request: Request,
        id: str,
        name: str,
        rows: str | None = ROWS,
        cols: str | None = COLUMNS,
        half: str | None = HALF,
    ) -> Response:
        trace = house.store.get(id).trace
        if name not in trace:
            raise RefusedError(404, f"The trace has no tensor {name!r}: its manifest lists all.")
        wanted = Cut(rows, cols, flag("half", half))
        found = await house.shelf.do(request, lambda: cut(trace[name], wanted, house.limits.answer_bytes))
        axes = " ".join(trace.axes(name))
        return LargeResponse(Large.of(found, x_axes=axes, cache_control=IMMUTABLE), house.outgoing)

    @router.get("/api/explore/{id}/trace", responses={**WRONG, **BYTES}, summary="A trace as a safetensors file.")
    async def file(
        request: Request,
        id: str,
        detail: str = Query("full", description="attention, full or everything"),
        half: str | None = HALF,
    ) -> Response:
        kept, halved = house.store.get(id), flag("half", half)
        content = await house.bench.do(request, lambda: _saved(house, kept, detail, halved))
        name = {"content-disposition": f'attachment; filename="trace-{kept.identity}.safetensors"'}
        large = Large(content, "application/octet-stream", {"cache-control": IMMUTABLE, **name})
        return LargeResponse(large, house.outgoing)

    @router.get("/api/explore/{id}/tree", responses=WRONG, summary="Every hypothesis that the search looked at.")
    async def tree(id: str) -> JSONResponse:
        return JSONResponse(_tree(house.store.get(id)), headers={"cache-control": IMMUTABLE})

    @router.post(
        "/api/explore/{id}/what-if",
        response_model=Difference,
        responses=WRONG,
        openapi_extra=body_of(AskWhatIf),
        summary="The same text with the model changed: a new trace, and what is different.",
    )
    async def what_if(request: Request, id: str) -> Response:
        wanted, kept = await asked(request, AskWhatIf), house.store.get(id)
        return in_json(await house.bench.do(request, lambda: changed(house, kept, wanted)))

    @router.get(
        "/api/explore/{id}/figure/{view}.{kind}",
        responses={**WRONG, **responses(501)},
        summary="A picture of a trace, as SVG or PNG; what `glassformer.inspection.figures` draws.",
    )
    async def figure(
        request: Request,
        id: str,
        view: str,
        kind: str,
        at: str | None = None,
        head: str | None = None,
        token: str | None = None,
        likeliest: str | None = None,
        width: str | None = None,
        dark: str | None = None,
        caption: str | None = None,
        scale: str | None = None,
    ) -> Response:
        if kind not in ("svg", "png"):
            raise RefusedError(404, "A figure is .svg or .png.")
        given = {
            "at": at,
            "head": _number("head", head),
            "token": _number("token", token) if (token or "").isdecimal() else token,
            "likeliest": _number("likeliest", likeliest),
            "width": width,
            "dark": None if dark is None else flag("dark", dark),
            "caption": None if caption is None else flag("caption", caption),
        }
        options = {name: value for name, value in given.items() if value is not None}
        kept, size = house.store.get(id), _number("scale", scale) or 2
        if not 1 <= size <= 4:
            raise RefusedError(422, f"scale = {size} is not from 1 to 4.")
        content = await house.bench.do(request, lambda: _drawn(kept, view, kind, size, options))
        media_type = "image/svg+xml" if kind == "svg" else "image/png"
        headers = {"cache-control": IMMUTABLE, "content-security-policy": FIGURE_POLICY}
        return Response(content, media_type=media_type, headers=headers)

    @router.get("/api/weight/{name}", responses={**WRONG, **BYTES}, summary="A weight of the model, as bytes.")
    async def weight(
        request: Request,
        name: str,
        rows: str | None = ROWS,
        cols: str | None = COLUMNS,
        half: str | None = HALF,
        to: str | None = Query(None, description="128x128: of each block, the number that is farthest from 0."),
    ) -> Response:
        found = dict(house.service.served.translator.model.named_parameters(remove_duplicate=False)).get(name)
        if found is None:
            raise RefusedError(404, f"The model has no weight {name!r}: /api/model lists all.")
        headers = {"cache-control": "private, no-cache", "etag": f'"{house.boot}"'}
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        wanted, small, weights = Cut(rows, cols, flag("half", half)), to, found.detach()

        def work() -> Large:
            if small is not None:
                return Large.of(sent(summary(weights, small), wanted.half))
            return Large.of(cut(weights, wanted, house.limits.answer_bytes))

        large = await house.shelf.do(request, work)
        large.headers.update(headers)
        return LargeResponse(large, house.outgoing)

    return router


def traced(house: House, wanted: AskTrace) -> Manifest:
    """A new trace, kept."""
    if not wanted.text.strip():
        raise RefusedError(422, "A blank text has no way through the model.")
    beam = house.service.beam(wanted.beam, house.limits.trace_beam)
    if beam > house.limits.trace_beam:
        raise RefusedError(422, f"beam = {beam} is more than the {house.limits.trace_beam} of a traced search.")
    translator = house.service.translator(wanted.source_language, wanted.target_language)
    check_length(house, translator.tokenizer.encode(wanted.text, "source"))
    if wanted.target is not None:
        check_length(house, translator.tokenizer.encode(wanted.target, "target"))
    changes = [_forced(house, translator, wanted)] if wanted.prefix else []
    trace = translator.trace(wanted.text, wanted.target, beam=beam, hypothesis=wanted.hypothesis, changes=changes)
    return _manifest(house, house.store.add(trace, translator.tokenizer))


def _forced(house: House, translator: Translator, wanted: AskTrace) -> ForcePrefix:
    """A way through a tree as the beginning of a translation."""
    if wanted.target is not None:
        raise RefusedError(422, "With a given target nothing is searched for, and no prefix can be forced.")
    check_length(house, wanted.prefix)
    start = translator.tokenizer.encode("", "target")[:-1]  # a language, with some models: it is forced anyhow
    ids = wanted.prefix[len(start) :] if wanted.prefix[: len(start)] == start else wanted.prefix
    _check_ids(ids, translator.model.config, translator.model.config.vocab_size)
    return ForcePrefix(ids=ids)


def changed(house: House, kept: Kept, wanted: AskWhatIf) -> Difference:
    """A traced text again under changes; the new trace is kept."""
    translator = house.service.translator(None, None)
    translator.tokenizer = kept.tokenizer
    replaced = [translator.replacing(kept.trace, one.old, one.new) for one in wanted.replace]
    changes: list[Change] = [*wanted.changes, *replaced]
    _check_changes(house, kept, changes, translator)
    found = translator.what_if(kept.trace, *changes)
    after = house.store.add(found.after, kept.tokenizer)
    return Difference(
        id=after.identity,
        manifest=_manifest(house, after),
        changed_words=found.changed_words,
        kept=[finite(log_p) for log_p in found.kept],
        differences=[finite(difference) for difference in found.differences],
    )


def _check_changes(house: House, kept: Kept, changes: Sequence[Change], translator: Translator) -> None:
    every: list[Change] = [*kept.trace.about.changes, *changes]
    if len(every) > house.limits.changes:
        raise RefusedError(413, f"These are {len(every)} changes, and {house.limits.changes} may stand together.")
    config, longer = translator.model.config, 0
    for change in every:
        if isinstance(change, (ReplaceToken, ForcePrefix)):
            size = config.source_vocab_size if isinstance(change, ReplaceToken) else config.vocab_size
            longer += len(change.ids)
            _check_ids(change.ids, config, size)
    check_length(house, range(len(kept.trace.about.asked.ids) + longer))


def _check_ids(ids: Sequence[int], config: ModelConfig, size: int) -> None:
    if any(not 0 <= token < size or token == config.pad_id for token in ids):
        raise RefusedError(422, f"A change puts a token that is none of the model's {size}.")


def check_length(house: House, ids: Sequence[int]) -> None:
    """Refuse what is too long to be looked at."""
    if len(ids) > house.limits.trace_tokens:
        raise RefusedError(
            413, f"These are {len(ids)} tokens, and {house.limits.trace_tokens} are traced at most: take a part of it."
        )


def _manifest(house: House, kept: Kept) -> Manifest:
    return manifest(kept.identity, kept.trace, house.service.served.translator.model, kept.tokenizer)


def _saved(house: House, kept: Kept, detail: str, half: bool) -> bytes:
    if detail not in DETAILS:
        raise RefusedError(422, f"detail is one of {', '.join(DETAILS)}, and not {detail!r}.")
    with tempfile.TemporaryDirectory(prefix="glassformer-trace-") as passing:
        path = Path(passing) / "trace.safetensors"
        kept.trace.save(path, detail, half)
        if (size := path.stat().st_size) > house.limits.answer_bytes:
            raise RefusedError(
                413, f"The file has {size:,} bytes, and {house.limits.answer_bytes:,} are sent: ask for less detail."
            )
        return path.read_bytes()


def _tree(kept: Kept) -> dict[str, Any]:
    tree = kept.trace.tree
    if tree is None:
        raise RefusedError(404, "The target was given, so there was no search to look back on.")
    return {
        "parent": tree.parent,
        "token": tree.token,
        "piece": kept.tokenizer.pieces(tree.token, "target"),
        "log_probability": [finite(log_p) for log_p in tree.log_probability],
        "score": [finite(score) for score in tree.score],
        "fate": tree.fate,
        "ended": tree.ended,
        "length_penalty": tree.length_penalty,
        "limit": tree.limit,
    }


def _drawn(kept: Kept, view: str, kind: str, scale: int, options: dict[str, Any]) -> bytes:
    try:
        drawn = kept.trace.figure(view, **options)
        return drawn.svg.encode() if kind == "svg" else drawn.png(scale)
    except GlassformerError as error:
        if type(error) is GlassformerError:  # what is missing here, not what was asked
            raise RefusedError(501, str(error)) from None
        raise


def _number(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise RefusedError(422, f"{name} = {text!r} is not a whole number.")
    return int(text)
