"""API keys: read from a file, stored as digests, compared in constant time, each with a name and a rate."""

import hashlib
import hmac
import math
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from glassformer.errors import DataError, DirectoryError

MIN_KEY_CHARACTERS = 16
MAX_FILE_BYTES = 1_000_000
MAX_PER_MINUTE = 1_000_000
NAME = re.compile(r"[\w.@-]{1,64}", re.ASCII)
RATE = re.compile(r"per-minute=([0-9]{1,7})")


class APIKey:
    """One API key: its digest, the name of who has it, and how many requests per minute it admits."""

    def __init__(
        self,
        key: str,
        name: str | None = None,
        per_minute: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name, self.per_minute = name, per_minute
        self.digest = _digest(key)
        self._now = now
        self._tokens, self._at = float(per_minute or 0), now()

    def seconds_to_wait(self) -> int:
        """Count a request: 0 if it is admitted, or else after how many seconds the next one is.

        As in a token bucket: requests come back evenly, up to a minute's worth of them.
        """
        if self.per_minute is None:
            return 0
        now = self._now()
        self._tokens = min(self.per_minute, self._tokens + (now - self._at) * self.per_minute / 60)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0
        return math.ceil((1 - self._tokens) * 60 / self.per_minute)


class APIKeys:
    """The API keys that a server accepts. Without keys, requests need none."""

    def __init__(self, keys: Iterable[APIKey] = ()) -> None:
        self._keys = list(keys)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find(self, key: str | None) -> APIKey | None:
        """The key with this text. All digests are compared, so that timing reveals nothing."""
        if key is None:
            return None
        digest, found = _digest(key), None
        for known in self._keys:
            if hmac.compare_digest(known.digest, digest):
                found = known
        return found

    def replace(self, others: "APIKeys") -> None:
        """Accept these keys from now on; one whose rate stays the same keeps its count."""
        known = {(key.digest, key.per_minute): key for key in self._keys}
        for key in others._keys:
            if (before := known.get((key.digest, key.per_minute))) is not None:
                key._tokens, key._at = before._tokens, before._at
        self._keys = others._keys


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def read_keys(path: Path) -> APIKeys:
    """Read API keys from a file: KEY, NAME KEY or NAME KEY per-minute=N per line; blank lines and # are skipped."""
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
    keys = [
        _key_of_line(line.split(), f"{path}, line {number}")
        for number, line in enumerate(lines, start=1)
        if line.strip() and not line.strip().startswith("#")
    ]
    if not keys:
        raise DataError(f"{path} contains no key. Expected one key per line.")
    return APIKeys(keys)


def _key_of_line(parts: list[str], where: str) -> APIKey:
    if len(parts) == 1:
        return APIKey(checked_key(parts[0], where))
    name, key, *options = parts
    rate = RATE.fullmatch(options[0]) if len(options) == 1 else None
    per_minute = None if rate is None else int(rate[1])
    if not NAME.fullmatch(name) or (options and not (per_minute and per_minute <= MAX_PER_MINUTE)):
        raise DataError(
            f"{where}: expected KEY, NAME KEY, or NAME KEY per-minute=N; a name has letters, digits, '.', '_', '@' "
            f"and '-', and N is 1 to {MAX_PER_MINUTE:,}."
        )
    return APIKey(checked_key(key, where), name, per_minute)


def checked_key(key: str, where: str) -> str:
    """The key, unless it could be guessed or cannot be sent in a header."""
    if len(key) < MIN_KEY_CHARACTERS or not (key.isascii() and key.isprintable() and " " not in key):
        raise DataError(
            f"{where}: a key needs at least {MIN_KEY_CHARACTERS} printable ASCII characters without spaces, or it "
            'could be guessed. Generate one with python -c "import secrets; print(secrets.token_urlsafe())".'
        )
    return key
