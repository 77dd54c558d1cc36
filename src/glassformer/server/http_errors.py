"""No, in one sentence, with a status."""

from glassformer.errors import GlassformerError

LONGEST = 600
"""Characters of a sentence that is sent back: what was found may be long."""


class HTTPError(GlassformerError):
    """What a client may not have, or not now."""

    def __init__(self, status: int, sentence: str, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.retry_after = retry_after
        """Seconds after which it may go better."""


class ClientDisconnectedError(Exception):
    """The client left: there is nobody to answer."""


def busy(sentence: str, seconds: int = 1) -> HTTPError:
    """503: not now."""
    return HTTPError(503, sentence, seconds)


def printable(sentence: str) -> str:
    """A sentence that can be sent: one line, not too long, without halves of characters."""
    sentence = "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in sentence[: 2 * LONGEST]
    )
    return sentence if len(sentence) <= LONGEST else f"{sentence[: LONGEST - 4]} ..."
