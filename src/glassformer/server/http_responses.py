"""Responses: JSON bodies, downloads, and large bodies that are counted while they are sent."""

from dataclasses import dataclass

from fastapi import Response
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from glassformer.server.http_errors import HTTPError, busy

IMMUTABLE = "private, max-age=31536000, immutable"
"""Cache-Control of everything that belongs to a trace: its id is never reused, so it never changes."""


def json_response(body: BaseModel) -> Response:
    """A pydantic model as a JSON response: default values are omitted, and numbers that are not finite are null."""
    return Response(body.model_dump_json(exclude_defaults=True), media_type="application/json")


@dataclass
class OutgoingBytes:
    """Counter of bytes of large responses being sent, bounded because slow clients would fill the memory."""

    limit: int
    size: int = 0

    def take(self, size: int) -> None:
        if self.size + size > self.limit and self.size:
            raise busy("Other large responses are being sent. Try again in a moment.")
        self.size += size


class LargeResponse(Response):
    """Response that is sent in chunks, and counted in `OutgoingBytes` until the last one is sent."""

    CHUNK_BYTES = 2**16
    media_type = "application/octet-stream"

    def __init__(
        self, content: bytes, outgoing: OutgoingBytes, headers: dict[str, str], media_type: str | None = None
    ) -> None:
        super().__init__(headers=headers | {"content-length": str(len(content))}, media_type=media_type)
        self._content, self._outgoing = memoryview(content), outgoing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        content = self._content
        self._outgoing.take(len(content))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            for first in range(0, len(content), self.CHUNK_BYTES):
                chunk = bytes(content[first : first + self.CHUNK_BYTES])
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._outgoing.size -= len(content)


def attachment(outgoing: OutgoingBytes, content: bytes, name: str, media_type: str | None = None) -> LargeResponse:
    """Response that downloads a file made from a trace, which never changes, under this name."""
    headers = {"cache-control": IMMUTABLE, "content-disposition": f'attachment; filename="{name}"'}
    return LargeResponse(content, outgoing, headers, media_type)


def check_file_size(what: str, content: bytes, limit: int, advice: str = "Use a shorter text.") -> bytes:
    """Refuse a file to download that is too large; returns its content."""
    if len(content) > limit:
        raise HTTPError(413, f"The {what} has {len(content):,} bytes; at most {limit:,} are sent. {advice}")
    return content
