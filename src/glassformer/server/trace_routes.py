"""Routes that look inside: traces, their tensors, the model's weights, what-ifs."""

from typing import Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from glassformer.inspection.interventions.changes import ForcePrefix
from glassformer.inspection.tracing.trace_file import DETAILS, part_of, serialised
from glassformer.inspection.tracing.trace_manifest import Manifest
from glassformer.server.http_errors import HTTPError
from glassformer.server.request_parsing import asked
from glassformer.server.schemas import AskTrace, AskWhatIf, Difference, Ranked
from glassformer.server.state import FLAG, IMMUTABLE, LargeBody, LargeResponse, ServerState, body_of, flag, in_json
from glassformer.server.tensor_slices import TensorSlice, cut, sent, summary
from glassformer.server.trace_limits import WRONG, attached, check_ids, check_length, manifest_of, small_enough
from glassformer.server.trace_store import StoredTrace
from glassformer.server.translation_service import finite
from glassformer.server.what_if_requests import RequestCancelled, changed, ranked, texts_of
from glassformer.translator import Translator

SPAN = {"pattern": "^([0-9]{1,9}|[0-9]{0,9}:[0-9]{0,9})$"}
ROWS = Query(None, description="Of the axis before the last: 3, 0:8, 8:", json_schema_extra=SPAN)
COLUMNS = Query(None, description="Of the last axis: 3, 0:8, 8:", json_schema_extra=SPAN)
HALF = Query(None, description="1: float16 instead of float32, where the numbers fit.", json_schema_extra=FLAG)
BYTES: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        "description": "Little-endian numbers; x-shape, x-dtype, x-axes.",
    }
}


def routes(house: ServerState) -> APIRouter:
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
        return await house.bench.do(request, lambda: in_json(traced(house, wanted)))

    @router.get("/api/explore/{id}", response_model=Manifest, responses=WRONG, summary="What a trace has, again.")
    async def again(request: Request, id: str) -> Response:
        kept = house.store.get(id)
        return await house.shelf.do(request, lambda: in_json(manifest_of(house, kept)))

    @router.get(
        "/api/explore/{id}/tensor/{name}",
        response_class=Response,
        responses={**WRONG, **BYTES},
        summary="A tensor of a trace, as bytes.",
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
            raise HTTPError(404, f"The trace has no tensor {name!r}: its manifest lists all.")
        wanted = TensorSlice(rows, cols, flag("half", half))
        found = await house.shelf.do(request, lambda: cut(trace[name], wanted, house.limits.answer_bytes))
        axes = " ".join(trace.axes(name))
        return LargeResponse(LargeBody.of(found, x_axes=axes, cache_control=IMMUTABLE), house.outgoing)

    @router.get(
        "/api/explore/{id}/trace",
        response_class=Response,
        responses={**WRONG, **BYTES},
        summary="A trace as a safetensors file.",
    )
    async def file(
        request: Request,
        id: str,
        detail: str = Query("full", description="How much of it.", json_schema_extra={"enum": [*DETAILS]}),
        half: str | None = HALF,
    ) -> Response:
        kept, halved = house.store.get(id), flag("half", half)
        content = await house.bench.do(request, lambda: _saved(house, kept, detail, halved))
        return attached(house, content, "application/octet-stream", f"trace-{kept.identity}.safetensors")

    @router.get("/api/explore/{id}/tree", responses=WRONG, summary="Every hypothesis that the search looked at.")
    async def tree(request: Request, id: str) -> Response:
        kept = house.store.get(id)
        return await house.shelf.do(request, lambda: JSONResponse(_tree(kept), headers={"cache-control": IMMUTABLE}))

    @router.post(
        "/api/explore/{id}/what-if",
        response_model=Difference,
        responses=WRONG,
        openapi_extra=body_of(AskWhatIf),
        summary="The same text with the model changed: a new trace, and what is different.",
    )
    async def what_if(request: Request, id: str) -> Response:
        wanted, kept = await asked(request, AskWhatIf), house.store.get(id)
        house.service.check_size(texts_of(wanted))
        return await house.bench.do(request, lambda: in_json(changed(house, kept, wanted)))

    @router.get(
        "/api/explore/{id}/heads",
        response_model=Ranked,
        responses=WRONG,
        summary="Every head of the model by what its removal costs the traced translation, the dearest first.",
    )
    async def heads(request: Request, id: str) -> Response:
        kept, given_up = house.store.get(id), RequestCancelled()
        answer = await house.bench.do(request, lambda: in_json(ranked(house, kept, given_up.check)), given_up.hear)
        answer.headers["cache-control"] = IMMUTABLE
        return answer

    @router.get(
        "/api/weight/{name}",
        response_class=Response,
        responses={**WRONG, **BYTES, 304: {"description": "What the browser has is the same."}},
        summary="A weight of the model, as bytes.",
    )
    async def weight(
        request: Request,
        name: str,
        rows: str | None = ROWS,
        cols: str | None = COLUMNS,
        half: str | None = HALF,
        to: str | None = Query(
            None,
            description="128x128: of each block, the number that is farthest from 0.",
            json_schema_extra={"pattern": "^[0-9]{1,4}x[0-9]{1,4}$"},
        ),
    ) -> Response:
        found = dict(house.service.served.translator.model.named_parameters(remove_duplicate=False)).get(name)
        if found is None:
            raise HTTPError(404, f"The model has no weight {name!r}: /api/model lists all.")
        if to is not None and (rows is not None or cols is not None):
            raise HTTPError(422, "to makes a whole weight small: leave out rows and cols.")
        headers = {"cache-control": "private, no-cache", "etag": f'"{house.boot}"'}
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        wanted, small, weights = TensorSlice(rows, cols, flag("half", half)), to, found.detach()

        def work() -> LargeBody:
            if small is not None:
                return LargeBody.of(sent(summary(weights, small), wanted.half))
            return LargeBody.of(cut(weights, wanted, house.limits.answer_bytes))

        large = await house.shelf.do(request, work)
        large.headers.update(headers)
        return LargeResponse(large, house.outgoing)

    return router


def traced(house: ServerState, wanted: AskTrace) -> Manifest:
    """A new trace, kept."""
    if not wanted.text.strip():
        raise HTTPError(422, "A blank text has no way through the model.")
    beam = house.service.beam(wanted.beam, house.limits.trace_beam)
    if beam > house.limits.trace_beam:
        raise HTTPError(422, f"beam = {beam} is more than the {house.limits.trace_beam} of a traced search.")
    translator = house.service.translator(wanted.source_language, wanted.target_language)
    check_length(house.limits, len(translator.tokenizer.encode(wanted.text, "source")))
    if wanted.target is not None:
        check_length(house.limits, len(translator.tokenizer.encode(wanted.target, "target")))
    changes = [_forced(house, translator, wanted)] if wanted.prefix else []
    trace = translator.trace(wanted.text, wanted.target, beam=beam, hypothesis=wanted.hypothesis, changes=changes)
    return manifest_of(house, house.store.add(trace, translator.tokenizer))


def _forced(house: ServerState, translator: Translator, wanted: AskTrace) -> ForcePrefix:
    """A way through a tree as the beginning of a translation."""
    if wanted.target is not None:
        raise HTTPError(422, "With a given target nothing is searched for, and no prefix can be forced.")
    check_length(house.limits, len(wanted.prefix))
    start = translator.tokenizer.encode("", "target")[:-1]  # a language, with some models: it is forced anyhow
    ids = wanted.prefix[len(start) :] if wanted.prefix[: len(start)] == start else wanted.prefix
    check_ids(ids, translator.model.config, translator.model.config.vocab_size)
    return ForcePrefix(ids=ids)


def _saved(house: ServerState, kept: StoredTrace, detail: str, half: bool) -> bytes:
    if detail not in DETAILS:
        raise HTTPError(422, f"detail is one of {', '.join(DETAILS)}, and not {detail!r}.")
    content = serialised(part_of(kept.trace, detail, half))
    return small_enough("file", content, house.limits.answer_bytes, "ask for less detail")


def _tree(kept: StoredTrace) -> dict[str, Any]:
    tree = kept.trace.tree
    if tree is None:
        raise HTTPError(404, "The target was given, so there was no search to look back on.")
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
