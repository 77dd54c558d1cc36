"""The route that asks who a word is: many short translations, which are given up when their client leaves."""

from fastapi import APIRouter, Request, Response

from glassformer.coreference import PronounReading, resolve_pronoun
from glassformer.coreference.question_cost import tries_within
from glassformer.decoding import Beam
from glassformer.server.http_errors import HTTPError
from glassformer.server.request_batching import Ticket
from glassformer.server.request_parsing import asked
from glassformer.server.schemas import AskWho, EvidenceRow, ReadingOf, WhoFound
from glassformer.server.state import ServerState, body_of, in_json
from glassformer.server.trace_limits import WRONG, check_length


def routes(house: ServerState) -> APIRouter:
    router = APIRouter()

    @router.post(
        "/api/who",
        response_model=WhoFound,
        responses=WRONG,
        openapi_extra=body_of(AskWho),
        summary="What the model takes a word of a text for: evidence for each candidate, and a verdict.",
    )
    async def who(request: Request) -> Response:
        wanted = await asked(request, AskWho)
        house.service.check_size([wanted.text])
        # Its translations stand in line with everybody's, and can be given up; the rest is as short as a trace.
        ticket = Ticket(house.service.batcher)
        return await house.bench.do(request, lambda: in_json(found(house, wanted, ticket)), ticket.give_up)

    return router


def found(house: ServerState, wanted: AskWho, ticket: Ticket) -> WhoFound:
    """`glassformer.coreference.resolve_pronoun`, within bounds."""
    if not wanted.text.strip():
        raise HTTPError(422, "A blank text has no word to ask about.")
    search = Beam(size=house.service.beam(None))
    translator = house.service.translator(wanted.source_language, wanted.target_language, search, ticket)
    check_length(house.limits, len(translator.tokenizer.encode(wanted.text, "source")))
    swap = None if wanted.instead is None else (wanted.instead.old, wanted.instead.new)
    if swap is not None:
        check_length(house.limits, len(translator.tokenizer.encode(" ".join([wanted.text, swap[1]]), "source")))
    most = house.limits.who_translations
    tries = tries_within(most, wanted.text, wanted.word, wanted.candidates, swap is not None)
    who = resolve_pronoun(translator, wanted.text, wanted.word, wanted.candidates, swap, tries=tries)
    return WhoFound(swap=who.swap, found=who.found, tries=tries, readings=[_reading(one) for one in who.readings])


def _reading(reading: PronounReading) -> ReadingOf:
    return ReadingOf(
        source=reading.source,
        translation=reading.translation,
        word=reading.word,
        candidates=reading.candidates,
        pronoun=reading.pronoun,
        scores=reading.scores,
        own_pronouns=reading.own_pronouns,
        evidence=[
            EvidenceRow(
                kind=row.kind,
                name=row.name.strip(),
                values=row.values,
                counted=row.votes,
                points_to=row.points_to,
                note=row.note,
            )
            for row in reading.evidence
        ],
        verdict=reading.verdict,
        votes=reading.votes,
        preference=reading.preference,
        in_words=reading.in_words,
    )
