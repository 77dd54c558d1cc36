"""Routes for translation: our own, and LibreTranslate's for its clients."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from glassformer.server.http_errors import HTTPError
from glassformer.server.http_responses import json_response
from glassformer.server.middleware import admit
from glassformer.server.openapi import request_body, responses
from glassformer.server.request_batching import Ticket
from glassformer.server.request_parsing import FORM, JSON, read_body, read_body_leniently
from glassformer.server.schemas import (
    DetectRequest,
    LibreTranslateRequest,
    LibreTranslateResponse,
    TranslateRequest,
    Translations,
)
from glassformer.server.state import ServerState

ERROR_RESPONSES = responses(400, 401, 403, 408, 413, 415, 421, 422, 503)


def routes(state: ServerState) -> APIRouter:
    router, service = APIRouter(), state.service

    @router.post(
        "/api/translate",
        response_model=Translations,
        responses=ERROR_RESPONSES,
        openapi_extra=request_body(TranslateRequest),
        summary="Translate one or more texts, with n-best lists, probabilities and alignment.",
    )
    async def translate(request: Request) -> Response:
        body = await read_body(request, TranslateRequest)
        service.check_size([body.text] if isinstance(body.text, str) else body.text)
        service.check_width(body.beam, body.n_best)
        ticket = Ticket(service.batcher, state.limits.beam_tokens)
        return await state.translate_pool.run(
            request, lambda: json_response(service.translate(body, ticket)), ticket.cancel
        )

    @router.post(
        "/translate",
        response_model=LibreTranslateResponse,
        responses=ERROR_RESPONSES,
        openapi_extra=request_body(LibreTranslateRequest, content_types=(JSON, FORM)),
        summary="Translate one or more texts, in LibreTranslate's format.",
    )
    async def libre(request: Request) -> Response:
        body = await read_body_leniently(request, LibreTranslateRequest)
        _check_key(request, state, body.api_key)
        if body.format not in ("text", ""):
            raise HTTPError(400, f"{body.format} format is not supported. This server translates plain text.")
        texts = [body.q] if isinstance(body.q, str) else body.q
        service.check_size(texts)
        alternatives, limit = body.alternatives, state.limits.n_best - 1
        if alternatives > limit:
            raise HTTPError(422, f"alternatives = {alternatives} is larger than this server's limit of {limit}.")
        ticket = Ticket(service.batcher, state.limits.beam_tokens)

        def work() -> Response:
            translations = service.translate_lines(texts, 1 + body.alternatives, body.source, body.target, ticket)
            return JSONResponse(_libre_response(state, body, translations))

        return await state.translate_pool.run(request, work, ticket.cancel)

    @router.get("/languages", summary="Language codes, in LibreTranslate's format.")
    async def languages() -> list[dict[str, Any]]:
        return service.languages.listed()

    @router.post(
        "/detect",
        responses=responses(400, 401, 501),
        openapi_extra=request_body(DetectRequest, content_types=(JSON, FORM)),
        summary="The source language of a model of one pair. Nothing is detected, so the confidence is 0.",
    )
    async def detect(request: Request) -> list[dict[str, Any]]:
        body = await read_body_leniently(request, DetectRequest)
        _check_key(request, state, body.api_key)
        service.check_size([body.q] if isinstance(body.q, str) else body.q)
        return [_detected(state)]

    @router.get("/frontend/settings", summary="Settings and limits, in LibreTranslate's format.")
    async def settings() -> dict[str, Any]:
        first, *others = service.languages.listed()
        return {
            "apiKeys": bool(state.keys),
            "charLimit": state.limits.characters,
            "filesTranslation": False,
            "frontendTimeout": 500,
            "keyRequired": bool(state.keys),
            "language": {"source": _code_and_name(first), "target": _code_and_name((others or [first])[0])},
            "suggestions": False,
            "supportedFilesFormat": [],
        }

    return router


def _libre_response(state: ServerState, body: LibreTranslateRequest, translations: list[list[str]]) -> dict[str, Any]:
    response: dict[str, Any] = {"translatedText": [candidates[0] for candidates in translations]}
    if body.alternatives:
        response["alternatives"] = [candidates[1:] for candidates in translations]
    if body.source == "auto":
        response["detectedLanguage"] = [_detected(state) for _ in translations]
    if isinstance(body.q, str):
        response = {name: values[0] for name, values in response.items()}
    return response


def _detected(state: ServerState) -> dict[str, object]:
    detected = state.service.languages.detected()
    if detected is None:
        raise HTTPError(501, "This server does not detect languages. Give the source language, one of /languages.")
    return detected


def _code_and_name(language: dict[str, object]) -> dict[str, object]:
    return {"code": language["code"], "name": language["name"]}


def _check_key(request: Request, state: ServerState, key: str | None) -> None:
    if not request.scope["glassformer.needs_key"]:
        return
    request.scope["glassformer.key"] = known = state.keys.find(key)
    if known is None:
        raise HTTPError(401 if key is None else 403, "This server requires an API key. Send it as api_key.")
    admit(known)
