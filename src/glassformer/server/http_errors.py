"""HTTP errors with a one-sentence message."""

from glassformer.errors import GlassformerError

MAX_MESSAGE_CHARACTERS = 600
"""Maximum length of an error message in a response: it may quote long input."""


class HTTPError(GlassformerError):
    """An error response: a status, a message, and optionally when to retry."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        """Seconds to wait before retrying; None to say nothing about it."""


class ClientDisconnectedError(Exception):
    """The client closed the connection, so no response can be sent."""


def busy(message: str, seconds: int = 1) -> HTTPError:
    """Make a 503 Service Unavailable error, with the seconds after which to retry."""
    return HTTPError(503, message, seconds)


def printable(message: str) -> str:
    """A message fit to be sent: one line, bounded in length, without control characters or lone surrogates."""
    message = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in message[: 2 * MAX_MESSAGE_CHARACTERS]
    )
    return message if len(message) <= MAX_MESSAGE_CHARACTERS else f"{message[: MAX_MESSAGE_CHARACTERS - 4]} ..."
