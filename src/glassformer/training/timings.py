"""timings.jsonl: when a run was at which update, and how fast.

Beside metrics.jsonl, which has no times: that file is the same whatever interrupted the run.
"""

import json
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TIMINGS = "timings.jsonl"


class Timings:
    """The file of a run: a line when the run starts or resumes, then one per line of metrics with a loss.

    Every line has the run's id and the time; lines are only added, so those of updates that a kill undid remain.
    """

    def __init__(self, directory: Path, update: int, machine: dict[str, Any]) -> None:
        self._path = directory / TIMINGS
        self.run = self._saved_id() or uuid.uuid4().hex
        self._began = self._logged_at = time.monotonic()
        self._write(event="resumed" if update else "started", update=update, machine=machine)

    def log(self, update: int, tokens: int) -> None:
        """Log the target tokens of the updates since the last line."""
        now = time.monotonic()
        rate = tokens / max(now - self._logged_at, 1e-9)
        self._logged_at = now
        self._write(update=update, seconds=round(now - self._began, 3), tokens=tokens, tokens_per_second=round(rate, 1))

    def _saved_id(self) -> str | None:
        try:
            with self._path.open(encoding="utf-8") as file:
                saved = json.loads(file.readline())["run"]
        except (OSError, ValueError, KeyError, TypeError):  # none yet, or its first line was cut by a kill
            return None
        return saved if isinstance(saved, str) else None

    def _write(self, **values: Any) -> None:
        line = {"run": self.run, "time": datetime.now(UTC).isoformat(timespec="milliseconds")} | values
        with self._path.open("ab+") as file:
            if file.tell() > 0:
                file.seek(-1, 2)
                if file.read(1) != b"\n":  # a kill cut the last line
                    file.write(b"\n")
            file.write((json.dumps(line) + "\n").encode())
