"""Routes for inspection: traces, their tensors, the model's weights, what-ifs."""

from typing import Any

from fastapi import APIRouter, Query, Request, Response

from glassformer.inspection import inspect
from glassformer.inspection.interventions.changes import ForcePrefix
from glassformer.inspection.tracing.trace_file import (
    DETAILS,
    PARAMETER_PREFIX,
    as_float16,
    reduce_trace,
    safetensors_bytes,
    serialised,
    tree_tensors,
)
from glassformer.inspection.tracing.trace_manifest import Manifest
from glassformer.server.http_errors import HTTPError
from glassformer.server.http_responses import IMMUTABLE, LargeResponse, attachment, check_file_size, json_response
from glassformer.server.openapi import TRACE_ERRORS, request_body
from glassformer.server.request_parsing import FLAG, flag, read_body
from glassformer.server.schemas import HeadRanking, TraceRequest
from glassformer.server.state import ServerState
from glassformer.server.tensor_slices import cut, summary
from glassformer.server.trace_limits import check_ids, check_length
from glassformer.server.trace_store import StoredTrace
from glassformer.server.what_if_schemas import WhatIfRequest, WhatIfResponse
from glassformer.server.what_if_service import CancellationToken, rank_heads, run_what_if, texts_of
from glassformer.translator import Translator

RANGE = {"pattern": "^([0-9]{1,9}|[0-9]{0,9}:[0-9]{0,9})$"}
ROWS = Query(None, description="Index or range along the axis before the last: 3, 0:8, 8:", json_schema_extra=RANGE)
COLUMNS = Query(None, description="Index or range along the last axis: 3, 0:8, 8:", json_schema_extra=RANGE)
HALF = Query(None, description="1: float16 instead of float32, if the values fit.", json_schema_extra=FLAG)
FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        "description": "A safetensors file.",
    }
}


def routes(state: ServerState) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/api/explore",
        response_model=Manifest,
        responses=TRACE_ERRORS,
        openapi_extra=request_body(TraceRequest),
        summary="Trace the translation of a text: returns the trace's id and manifest.",
    )
    async def explore(request: Request) -> Response:
        body = await read_body(request, TraceRequest)
        state.service.check_size([body.text])
        return await state.trace_pool.run(request, lambda: json_response(make_trace(state, body)))

    @router.get("/api/explore/{id}", response_model=Manifest, responses=TRACE_ERRORS, summary="A trace's manifest.")
    async def again(request: Request, id: str) -> Response:
        stored = state.store.get(id)
        return await state.read_pool.run(request, lambda: json_response(state.manifest_of(stored)))

    @router.get(
        "/api/explore/{id}/tensor/{name}",
        response_class=Response,
        responses={**TRACE_ERRORS, **FILE},
        summary="A tensor of a trace, as a safetensors file.",
    )
    async def tensor(
        request: Request,
        id: str,
        name: str,
        rows: str | None = ROWS,
        cols: str | None = COLUMNS,
        half: str | None = HALF,
    ) -> Response:
        trace = state.store.get(id).trace
        if name not in trace:
            raise HTTPError(404, f"The trace has no tensor {name!r}. Its manifest lists all of them.")
        use_half = flag("half", half)

        def work() -> bytes:
            part = cut(trace[name], rows, cols, state.limits.answer_bytes)
            return safetensors_bytes({name: as_float16(part) if use_half else part})

        content = await state.read_pool.run(request, work)
        return LargeResponse(content, state.outgoing, {"cache-control": IMMUTABLE})

    @router.get(
        "/api/explore/{id}/trace",
        response_class=Response,
        responses={**TRACE_ERRORS, **FILE},
        summary="A trace as a safetensors file.",
    )
    async def file(
        request: Request,
        id: str,
        detail: str = Query("full", description="How much of the trace.", json_schema_extra={"enum": [*DETAILS]}),
        half: str | None = HALF,
    ) -> Response:
        stored, use_half = state.store.get(id), flag("half", half)
        content = await state.trace_pool.run(request, lambda: _trace_file(state, stored, detail, use_half))
        return attachment(state.outgoing, content, f"trace-{stored.identity}.safetensors")

    @router.get(
        "/api/explore/{id}/tree",
        response_class=Response,
        responses={**TRACE_ERRORS, **FILE},
        summary="The search tree, every hypothesis of the search, as the tensors `search.*` of a safetensors file.",
    )
    async def tree(request: Request, id: str) -> Response:
        searched = state.store.get(id).trace.tree
        if searched is None:
            raise HTTPError(
                404, "This trace has no search tree, because its target was given. Trace the text without a target."
            )
        content = await state.read_pool.run(request, lambda: safetensors_bytes(tree_tensors(searched)))
        return LargeResponse(content, state.outgoing, {"cache-control": IMMUTABLE})

    @router.post(
        "/api/explore/{id}/what-if",
        response_model=WhatIfResponse,
        responses=TRACE_ERRORS,
        openapi_extra=request_body(WhatIfRequest),
        summary="Translate the same text with changes to the model or the source: a new trace, and what differs.",
    )
    async def what_if(request: Request, id: str) -> Response:
        body, stored = await read_body(request, WhatIfRequest), state.store.get(id)
        state.service.check_size(texts_of(body))
        return await state.trace_pool.run(request, lambda: json_response(run_what_if(state, stored, body)))

    @router.get(
        "/api/explore/{id}/heads",
        response_model=HeadRanking,
        responses=TRACE_ERRORS,
        summary="All heads by how much their removal costs the traced translation, the most important first.",
    )
    async def heads(request: Request, id: str) -> Response:
        stored, token = state.store.get(id), CancellationToken()
        response = await state.trace_pool.run(
            request, lambda: json_response(rank_heads(state, stored, token.check)), token.cancel
        )
        response.headers["cache-control"] = IMMUTABLE
        return response

    @router.get(
        "/api/weight/{name}",
        response_class=Response,
        responses={**TRACE_ERRORS, **FILE, 304: {"description": "The client's cached copy is current."}},
        summary="A weight of the model, as a safetensors file.",
    )
    async def weight(
        request: Request,
        name: str,
        rows: str | None = ROWS,
        cols: str | None = COLUMNS,
        half: str | None = HALF,
        to: str | None = Query(
            None,
            description="Size of a summary, such as 128x128: the value of each block that is farthest from 0.",
            json_schema_extra={"pattern": "^[0-9]{1,4}x[0-9]{1,4}$"},
        ),
    ) -> Response:
        parameter = dict(state.service.served.translator.model.named_parameters(remove_duplicate=False)).get(name)
        if parameter is None:
            raise HTTPError(404, f"The model has no weight {name!r}. /api/model lists all of them.")
        if to is not None and (rows is not None or cols is not None):
            raise HTTPError(422, "to= summarises the whole weight. Omit rows= and cols=.")
        headers = {"cache-control": "private, no-cache", "etag": f'"{state.boot}"'}
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        weight, use_half = parameter.detach(), flag("half", half)

        def work() -> bytes:
            values = weight.cpu()
            part = cut(values, rows, cols, state.limits.answer_bytes) if to is None else summary(values, to)
            return safetensors_bytes({f"{PARAMETER_PREFIX}{name}": as_float16(part) if use_half else part})

        return LargeResponse(await state.read_pool.run(request, work), state.outgoing, headers)

    return router


def make_trace(state: ServerState, body: TraceRequest) -> Manifest:
    """Compute and store a trace."""
    if not body.text.strip():
        raise HTTPError(422, "The text is blank. Send a text to trace.")
    beam = state.service.beam(body.beam, state.limits.trace_beam)
    if beam > state.limits.trace_beam:
        raise HTTPError(
            422, f"beam = {beam} is larger than this server's limit of {state.limits.trace_beam} for traces."
        )
    translator = state.service.translator(body.source_language, body.target_language)
    check_length(state.limits, len(translator.tokenizer.encode(body.text, "source")))
    if body.target is not None:
        check_length(state.limits, len(translator.tokenizer.encode(body.target, "target")))
    changes = [_forced_prefix(state, translator, body)] if body.prefix else []
    trace = inspect(translator).trace(body.text, body.target, beam=beam, hypothesis=body.hypothesis, changes=changes)
    return state.manifest_of(state.store.add(trace, translator.tokenizer))


def _forced_prefix(state: ServerState, translator: Translator, body: TraceRequest) -> ForcePrefix:
    """Check the request's prefix, a path through a search tree, and make it a forced beginning of the translation."""
    if body.target is not None:
        raise HTTPError(
            422, "prefix and target cannot be combined, because a given target is not searched for. Omit one."
        )
    check_length(state.limits, len(body.prefix))
    start = list(translator.target_start)  # some models' language token, which is forced anyway
    ids = body.prefix[len(start) :] if body.prefix[: len(start)] == start else body.prefix
    check_ids(ids, translator.model.config, translator.model.config.vocab_size)
    return ForcePrefix(ids=ids)


def _trace_file(state: ServerState, stored: StoredTrace, detail: str, half: bool) -> bytes:
    if detail not in DETAILS:
        raise HTTPError(422, f"detail = {detail!r} is not one of {', '.join(DETAILS)}.")
    content = serialised(reduce_trace(stored.trace, detail, half))
    return check_file_size("file", content, state.limits.answer_bytes, "Request less detail.")
