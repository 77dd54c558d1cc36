"""Routes that translate: ours, and LibreTranslate's, so that its clients work."""

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from glassformer.server.http_errors import HTTPError
from glassformer.server.middleware import responses
from glassformer.server.request_batching import Ticket
from glassformer.server.request_parsing import FORM, JSON, asked, asked_loosely
from glassformer.server.schemas import AskDetect, AskLibre, AskTranslation, Libre, Translations
from glassformer.server.state import ServerState, body_of, in_json

WRONG = responses(400, 401, 403, 408, 413, 415, 421, 422, 503)


def routes(house: ServerState) -> APIRouter:
    router, service = APIRouter(), house.service

    @router.post(
        "/api/translate",
        response_model=Translations,
        responses=WRONG,
        openapi_extra=body_of(AskTranslation),
        summary="Translate one text or several, with n-best lists, probabilities and alignment.",
    )
    async def translate(request: Request) -> Response:
        wanted = await asked(request, AskTranslation)
        service.check_size([wanted.text] if isinstance(wanted.text, str) else wanted.text)
        service.check_width(wanted.beam, wanted.n_best)
        ticket = Ticket(service.batcher)
        return await house.desk.do(request, lambda: in_json(service.translate(wanted, ticket)), ticket.give_up)

    @router.post(
        "/translate",
        response_model=Libre,
        responses=WRONG,
        openapi_extra=body_of(AskLibre, content_types=(JSON, FORM)),
        summary="The same for LibreTranslate's clients.",
    )
    async def libre(request: Request) -> Response:
        wanted = await asked_loosely(request, AskLibre)
        _check_key(request, house, wanted.api_key)
        if wanted.format not in ("text", ""):
            raise HTTPError(400, f"{wanted.format} format is not supported: this server translates text.")
        texts = [wanted.q] if isinstance(wanted.q, str) else wanted.q
        service.check_size(texts)
        service.check_width(1, 1 + wanted.alternatives)
        ticket = Ticket(service.batcher)

        def work() -> Response:
            found = service.several(texts, 1 + wanted.alternatives, wanted.source, wanted.target, ticket)
            return JSONResponse(_as_libre(house, wanted, found))

        return await house.desk.do(request, work, ticket.give_up)

    @router.get("/languages", summary="Codes of languages, as LibreTranslate lists them.")
    async def languages() -> list[dict[str, Any]]:
        return service.languages.listed()

    @router.post(
        "/detect",
        responses=responses(400, 401, 501),
        openapi_extra=body_of(AskDetect, content_types=(JSON, FORM)),
        summary="The source's language, where the model has one; nothing is detected, so the confidence is 0.",
    )
    async def detect(request: Request) -> list[dict[str, Any]]:
        wanted = await asked_loosely(request, AskDetect)
        _check_key(request, house, wanted.api_key)
        service.check_size([wanted.q] if isinstance(wanted.q, str) else wanted.q)
        return [_detected(house)]

    @router.get("/frontend/settings", summary="Limits, as LibreTranslate's clients ask for them.")
    async def settings() -> dict[str, Any]:
        first, *others = service.languages.listed()
        return {
            "apiKeys": bool(house.keys),
            "charLimit": house.limits.characters,
            "filesTranslation": False,
            "frontendTimeout": 500,
            "keyRequired": bool(house.keys),
            "language": {"source": _named(first), "target": _named((others or [first])[0])},
            "suggestions": False,
            "supportedFilesFormat": [],
        }

    return router


def _as_libre(house: ServerState, wanted: AskLibre, found: list[list[str]]) -> dict[str, Any]:
    answer: dict[str, Any] = {"translatedText": [own[0] for own in found]}
    if wanted.alternatives:
        answer["alternatives"] = [own[1:] for own in found]
    if wanted.source == "auto":
        answer["detectedLanguage"] = [_detected(house) for _ in found]
    if isinstance(wanted.q, str):
        answer = {name: own[0] for name, own in answer.items()}
    return answer


def _detected(house: ServerState) -> dict[str, object]:
    detected = house.service.languages.detected()
    if detected is None:
        raise HTTPError(501, "This server detects no languages: name the source's, one of /languages.")
    return detected


def _named(language: dict[str, object]) -> dict[str, object]:
    return {"code": language["code"], "name": language["name"]}


def _check_key(request: Request, house: ServerState, key: str | None) -> None:
    if not (request.scope["glassformer.key"] or house.keys.fits(key)):
        raise HTTPError(401 if key is None else 403, "This server asks for a key: send it as api_key.")
