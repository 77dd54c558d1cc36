"""Refusals of a torch.save file, and the limits that lead to them."""

from typing import Any, NoReturn

MAX_PICKLE_BYTES = 32 * 2**20
"""Size limit of the pickle: a tensor takes about 150 bytes, a vocabulary word 15; tensor data is stored elsewhere."""
MAX_DEPTH = 100
"""Nesting limit of containers."""
MAX_AXES = 64
"""Maximum number of axes of a tensor: the limit of torch."""
MAX_INTEGER_BYTES = 128
"""Size limit of an integer: the cost of printing one is quadratic in its length."""
DOWNLOAD_AGAIN = "copy or download it again"
ASK_FOR_STATE_DICT = "use a file from a source you trust that holds only the state dict, or safetensors"


class RefusedError(Exception):
    """Raised to refuse the file, with the problem (a sentence without its subject, the file name) and the way out."""

    def __str__(self) -> str:
        return "{}: {}.".format(*self.args)


def refuse(problem: str, way_out: str = DOWNLOAD_AGAIN) -> NoReturn:
    raise RefusedError(problem, way_out)


def printable(text: Any) -> str:
    """Text from the file, made safe to show in a message."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text)[:100])
