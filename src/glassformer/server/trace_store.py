"""Store of traces by id, bounded in number and bytes; the least recently used is evicted first."""

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from glassformer.data import AnyTokenizer, IdsOnly
from glassformer.server.http_errors import HTTPError

if TYPE_CHECKING:
    from glassformer.inspection import Trace


@dataclass(frozen=True)
class StoredTrace:
    """A stored trace, with its id and what later requests about it need."""

    identity: str
    trace: "Trace"
    tokenizer: AnyTokenizer | IdsOnly
    size: int


class TraceStore:
    """Store of traces, bounded in number and bytes: the least recently used is evicted first."""

    def __init__(self, max_traces: int, max_bytes: int) -> None:
        self.max_traces, self.max_bytes = max_traces, max_bytes
        self._traces: OrderedDict[str, StoredTrace] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._traces)

    @property
    def size(self) -> int:
        """Size of all stored traces in bytes."""
        return sum(stored.size for stored in list(self._traces.values()))

    def add(self, trace: "Trace", tokenizer: AnyTokenizer | IdsOnly) -> StoredTrace:
        stored = StoredTrace(secrets.token_urlsafe(12), trace, tokenizer, size_of(trace))
        if stored.size > self.max_bytes:
            raise HTTPError(
                413,
                f"The trace has {stored.size:,} bytes; at most {self.max_bytes:,} are stored. Trace a shorter text.",
            )
        with self._lock:
            self._traces[stored.identity] = stored
            while len(self._traces) > self.max_traces or self.size > self.max_bytes:
                self._traces.popitem(last=False)
        return stored

    def get(self, identity: str) -> StoredTrace:
        with self._lock:
            if identity not in self._traces:
                raise HTTPError(
                    404,
                    f"There is no trace {identity!r}. It may have been evicted for newer ones; trace the text again.",
                )
            self._traces.move_to_end(identity)
            return self._traces[identity]


def size_of(trace: "Trace") -> int:
    """Size of a trace's tensors in bytes, each counted once."""
    return sum(trace[name].nbytes for name in trace if name not in trace.about.same)
