"""Access log: one line per request, as text or JSON. Texts, queries and keys are never logged."""

import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO

from glassformer.server.http_errors import printable

FORMATS = ("text", "json")
LEVELS = ("info", "warning", "error")
"""Levels in rising order: warning for status 400 and above, error for 500 and above."""


class AccessLog:
    """Writes a line for each request of a level or above."""

    def __init__(
        self,
        log_format: str,
        level: str = "info",
        engine: str = "",
        stream: TextIO | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.format, self.level, self.engine = log_format, LEVELS.index(level), engine
        self._stream, self._now = stream or sys.stderr, now

    def write(
        self, request_id: str, client: str, key: str | None, method: str, path: str, status: int, seconds: float
    ) -> None:
        """`client`: its address; `key`: the name of its API key; `path`: without the query."""
        level = 2 if status >= 500 else 1 if status >= 400 else 0
        if level < self.level:
            return
        at = datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self.format == "json":
            line = json.dumps(
                {
                    "time": at,
                    "level": LEVELS[level],
                    "request_id": request_id,
                    "client": client,
                    "key": key,
                    "method": method,
                    "path": path,
                    "status": status,
                    "seconds": round(seconds, 6),
                    "engine": self.engine,
                }
            )
        else:
            who = client if key is None else f"{client} {key}"
            answered = f"{status} in {1000 * seconds:.1f} ms, engine {self.engine}"
            line = f"{at} {LEVELS[level]} {request_id} {who} {method} {printable(path)} {answered}"
        self._stream.write(f"{line}\n")
        self._stream.flush()
