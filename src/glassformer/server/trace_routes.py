"""Routes for inspection: traces, their tensors, the model's weights, what-ifs."""

from typing import Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from glassformer.inspection import inspect
from glassformer.inspection.interventions.changes import ForcePrefix
from glassformer.inspection.tracing.trace_file import DETAILS, reduce_trace, serialised
from glassformer.inspection.tracing.trace_manifest import Manifest
from glassformer.server.http_errors import HTTPError
from glassformer.server.request_parsing import read_body
from glassformer.server.schemas import HeadRanking, TraceRequest, WhatIfRequest, WhatIfResponse
from glassformer.server.state import (
    FLAG,
    IMMUTABLE,
    LargeBody,
    LargeResponse,
    ServerState,
    flag,
    json_response,
    request_body,
)
from glassformer.server.tensor_slices import TensorSlice, as_bytes, cut, summary
from glassformer.server.trace_limits import (
    ERROR_RESPONSES,
    attachment,
    check_file_size,
    check_ids,
    check_length,
    manifest_of,
)
from glassformer.server.trace_store import StoredTrace
from glassformer.server.translation_service import finite
from glassformer.server.what_if_requests import CancellationToken, rank_heads, run_what_if, texts_of
from glassformer.translator import Translator

RANGE = {"pattern": "^([0-9]{1,9}|[0-9]{0,9}:[0-9]{0,9})$"}
ROWS = Query(None, description="Index or range along the axis before the last: 3, 0:8, 8:", json_schema_extra=RANGE)
COLUMNS = Query(None, description="Index or range along the last axis: 3, 0:8, 8:", json_schema_extra=RANGE)
HALF = Query(None, description="1: float16 instead of float32, if the values fit.", json_schema_extra=FLAG)
BYTES: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        "description": "Little-endian values; the headers x-shape, x-dtype and x-axes describe them.",
    }
}


def routes(state: ServerState) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/api/explore",
        response_model=Manifest,
        responses=ERROR_RESPONSES,
        openapi_extra=request_body(TraceRequest),
        summary="Trace the translation of a text: returns the trace's id and manifest.",
    )
    async def explore(request: Request) -> Response:
        body = await read_body(request, TraceRequest)
        state.service.check_size([body.text])
        return await state.trace_pool.run(request, lambda: json_response(make_trace(state, body)))

    @router.get("/api/explore/{id}", response_model=Manifest, responses=ERROR_RESPONSES, summary="A trace's manifest.")
    async def again(request: Request, id: str) -> Response:
        stored = state.store.get(id)
        return await state.read_pool.run(request, lambda: json_response(manifest_of(state, stored)))

    @router.get(
        "/api/explore/{id}/tensor/{name}",
        response_class=Response,
        responses={**ERROR_RESPONSES, **BYTES},
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
        trace = state.store.get(id).trace
        if name not in trace:
            raise HTTPError(404, f"The trace has no tensor {name!r}. Its manifest lists all of them.")
        part = TensorSlice(rows, cols, flag("half", half))
        values = await state.read_pool.run(request, lambda: cut(trace[name], part, state.limits.answer_bytes))
        axes = " ".join(trace.axes(name))
        return LargeResponse(LargeBody.of(values, x_axes=axes, cache_control=IMMUTABLE), state.outgoing)

    @router.get(
        "/api/explore/{id}/trace",
        response_class=Response,
        responses={**ERROR_RESPONSES, **BYTES},
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
        return attachment(state, content, "application/octet-stream", f"trace-{stored.identity}.safetensors")

    @router.get(
        "/api/explore/{id}/tree", responses=ERROR_RESPONSES, summary="The search tree: every hypothesis of the search."
    )
    async def tree(request: Request, id: str) -> Response:
        stored = state.store.get(id)
        return await state.read_pool.run(
            request, lambda: JSONResponse(_tree(stored), headers={"cache-control": IMMUTABLE})
        )

    @router.post(
        "/api/explore/{id}/what-if",
        response_model=WhatIfResponse,
        responses=ERROR_RESPONSES,
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
        responses=ERROR_RESPONSES,
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
        responses={**ERROR_RESPONSES, **BYTES, 304: {"description": "The client's cached copy is current."}},
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
        part, size, values = TensorSlice(rows, cols, flag("half", half)), to, parameter.detach()

        def work() -> LargeBody:
            if size is not None:
                return LargeBody.of(as_bytes(summary(values, size), part.half))
            return LargeBody.of(cut(values, part, state.limits.answer_bytes))

        large = await state.read_pool.run(request, work)
        large.headers.update(headers)
        return LargeResponse(large, state.outgoing)

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
    return manifest_of(state, state.store.add(trace, translator.tokenizer))


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


def _tree(stored: StoredTrace) -> dict[str, Any]:
    tree = stored.trace.tree
    if tree is None:
        raise HTTPError(
            404, "This trace has no search tree, because its target was given. Trace the text without a target."
        )
    return {
        "parent": tree.parent,
        "token": tree.token,
        "piece": stored.tokenizer.pieces(tree.token, "target"),
        "log_probability": [finite(log_p) for log_p in tree.log_probability],
        "score": [finite(score) for score in tree.score],
        "fate": tree.fate,
        "ended": tree.ended,
        "length_penalty": tree.length_penalty,
        "limit": tree.limit,
    }
