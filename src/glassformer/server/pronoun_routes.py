"""Route for pronoun analysis: many short translations, which are cancelled when the client leaves."""

from fastapi import APIRouter, Request, Response

from glassformer.decoding import Beam
from glassformer.inspection import inspect
from glassformer.inspection.coreference import PronounEvidence, PronounReading
from glassformer.inspection.coreference.translation_budget import tries_within
from glassformer.server.http_errors import HTTPError
from glassformer.server.http_responses import json_response
from glassformer.server.openapi import TRACE_ERRORS, request_body
from glassformer.server.request_batching import Ticket
from glassformer.server.request_parsing import read_body
from glassformer.server.schemas import EvidenceRow, PronounReadingOut, PronounRequest, PronounResponse
from glassformer.server.state import ServerState
from glassformer.server.trace_limits import check_length


def routes(state: ServerState) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/api/pronoun",
        response_model=PronounResponse,
        responses=TRACE_ERRORS,
        openapi_extra=request_body(PronounRequest),
        summary="Which noun the model takes a pronoun to mean: evidence for each candidate, and a verdict.",
    )
    async def pronoun(request: Request) -> Response:
        body = await read_body(request, PronounRequest)
        state.service.check_size([body.text])
        # Its translations wait in the shared queue and can be cancelled; the rest is as short as a trace.
        ticket = Ticket(state.service.batcher)
        return await state.trace_pool.run(
            request, lambda: json_response(analyse_pronoun(state, body, ticket)), ticket.cancel
        )

    return router


def analyse_pronoun(state: ServerState, body: PronounRequest, ticket: Ticket) -> PronounResponse:
    """Run `Inspector.resolve_pronoun` within the server's limits."""
    if not body.text.strip():
        raise HTTPError(422, "The text is blank. Send a sentence with a pronoun.")
    search = Beam(size=state.service.beam(None))
    translator = state.service.translator(body.source_language, body.target_language, search, ticket)
    swap = None if body.swap is None else (body.swap.old, body.swap.new)
    longest = body.text if swap is None else f"{body.text} {swap[1]}"
    tokens = len(translator.tokenizer.encode(longest, "source"))
    check_length(state.limits, tokens)
    most = min(state.limits.pronoun_translations, state.limits.beam_tokens // (tokens * search.size))
    tries = tries_within(most, body.text, body.word, body.candidates, swap is not None)
    result = inspect(translator).resolve_pronoun(body.text, body.word, body.candidates, swap, tries=tries)
    readings = [_reading(reading) for reading in result.readings]
    return PronounResponse(swap=result.swap, swap_searched=result.swap_searched, tries=tries, readings=readings)


def _reading(reading: PronounReading) -> PronounReadingOut:
    fields = {name: getattr(reading, name) for name in PronounReadingOut.model_fields}
    return PronounReadingOut(**fields | {"evidence": [_row(row) for row in reading.evidence]})


def _row(row: PronounEvidence) -> EvidenceRow:
    own = {"name": row.name.strip(), "counted": row.votes}
    return EvidenceRow(**own, **{name: getattr(row, name) for name in EvidenceRow.model_fields if name not in own})
