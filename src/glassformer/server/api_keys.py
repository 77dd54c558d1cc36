"""API keys: read from a file, stored as digests, compared in constant time."""

import hashlib
import hmac
from pathlib import Path

from glassformer.errors import DataError, DirectoryError

MIN_KEY_CHARACTERS = 16
MAX_FILE_BYTES = 1_000_000


class APIKeys:
    """The API keys that a server accepts. Without keys, requests need none."""

    def __init__(self, keys: list[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def accepts(self, key: str | None) -> bool:
        """Whether this is one of the keys. All digests are compared, so that timing reveals nothing."""
        if key is None:
            return False
        digest = _digest(key)
        accepted = False
        for known in self._digests:
            accepted |= hmac.compare_digest(known, digest)
        return accepted


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def read_keys(path: Path) -> APIKeys:
    """Read API keys from a file, one per line; blank lines and lines that begin with # are skipped."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
        lines = raw.decode().split("\n")
    except OSError as error:
        raise DirectoryError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8 text. Expected a file with one key per line.") from None
    if len(raw) > MAX_FILE_BYTES:
        raise DataError(f"{path} is larger than {MAX_FILE_BYTES:,} bytes, which is too large for a key file.")
    keys = []
    for number, line in enumerate(lines, start=1):
        key = line.strip()
        if not key or key.startswith("#"):
            continue
        keys.append(checked_key(key, f"{path}, line {number}"))
    if not keys:
        raise DataError(f"{path} contains no key. Expected one key per line.")
    return APIKeys(keys)


def checked_key(key: str, where: str) -> str:
    """The key, unless it could be guessed or cannot be sent in a header."""
    if len(key) < MIN_KEY_CHARACTERS or not (key.isascii() and key.isprintable() and " " not in key):
        raise DataError(
            f"{where}: a key needs at least {MIN_KEY_CHARACTERS} printable ASCII characters without spaces, or it "
            'could be guessed. Generate one with python -c "import secrets; print(secrets.token_urlsafe())".'
        )
    return key
