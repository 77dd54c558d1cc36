"""Traces by their ids: so many, of so many bytes; the one that was not asked for longest makes room."""

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass

from glassformer.data import AnyTokenizer, IdsOnly
from glassformer.inspection import Trace
from glassformer.server.http_errors import HTTPError


@dataclass(frozen=True)
class StoredTrace:
    """A trace with what is needed to ask more about it."""

    identity: str
    trace: Trace
    tokenizer: AnyTokenizer | IdsOnly
    size: int


class TraceStore:
    """What is kept, the newest last."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self.most, self.most_bytes = most, most_bytes
        self._kept: OrderedDict[str, StoredTrace] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return sum(kept.size for kept in list(self._kept.values()))

    def add(self, trace: Trace, tokenizer: AnyTokenizer | IdsOnly) -> StoredTrace:
        kept = StoredTrace(secrets.token_urlsafe(12), trace, tokenizer, size_of(trace))
        if kept.size > self.most_bytes:
            raise HTTPError(
                413, f"This trace has {kept.size:,} bytes, and {self.most_bytes:,} are kept: trace a shorter text."
            )
        with self._lock:
            self._kept[kept.identity] = kept
            while len(self._kept) > self.most or self.size > self.most_bytes:
                self._kept.popitem(last=False)
        return kept

    def get(self, identity: str) -> StoredTrace:
        with self._lock:
            if identity not in self._kept:
                raise HTTPError(
                    404, f"There is no trace {identity!r}: it may have made room for newer ones; ask for it again."
                )
            self._kept.move_to_end(identity)
            return self._kept[identity]


def size_of(trace: Trace) -> int:
    """Bytes of a trace's tensors, each once."""
    return sum(trace[name].nbytes for name in trace if name not in trace.about.same)
