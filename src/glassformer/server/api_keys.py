"""API keys: read from a file, kept as digests, compared in constant time."""

import hashlib
import hmac
from pathlib import Path

from glassformer.errors import DataError, DirectoryError

SHORTEST = 16
LARGEST_FILE = 1_000_000


class APIKeys:
    """Those that open the door; with none of them it stands open."""

    def __init__(self, keys: list[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def fits(self, key: str | None) -> bool:
        """Whether a key is one of them. All are compared, so that time tells nothing."""
        if key is None:
            return False
        digest = _digest(key)
        found = False
        for own in self._digests:
            found |= hmac.compare_digest(own, digest)
        return found


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def read_keys(path: Path) -> APIKeys:
    """A key a line; blank lines and those that begin with # are passed over."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
        lines = raw.decode().split("\n")
    except OSError as error:
        raise DirectoryError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text: a key is a line of letters and digits.") from None
    if len(raw) > LARGEST_FILE:
        raise DataError(f"{path} is larger than {LARGEST_FILE:,} bytes, which no list of keys is.")
    keys = []
    for number, line in enumerate(lines, start=1):
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        if len(key) < SHORTEST or not (key.isascii() and key.isprintable() and " " not in key):
            raise DataError(
                f"{path}, line {number}: a key has at least {SHORTEST} letters, digits and signs and no space, or it "
                'could be guessed; python -c "import secrets; print(secrets.token_urlsafe())" makes one.'
            )
        keys.append(key)
    if not keys:
        raise DataError(f"{path} holds no key: a line a key.")
    return APIKeys(keys)
