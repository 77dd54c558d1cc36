"""Application state shared by all routes: the model, the worker pools, stored traces, and bytes being sent."""

import secrets
from dataclasses import asdict
from typing import TYPE_CHECKING

from glassformer import __version__
from glassformer.hardware import lower_thread_priority
from glassformer.server.api_keys import APIKeys
from glassformer.server.http_responses import OutgoingBytes
from glassformer.server.limits import Limits
from glassformer.server.metrics import Metrics
from glassformer.server.process_metrics import add_process_metrics
from glassformer.server.trace_store import StoredTrace, TraceStore
from glassformer.server.translation_service import ServedModel, TranslationService
from glassformer.server.worker_pool import WorkerPool

if TYPE_CHECKING:
    from glassformer.inspection.tracing.trace_manifest import Manifest

READ_THREADS = 2
"""Number of threads that copy parts of tensors."""


class ServerState:
    """State of one server: limits, API keys, metrics, translation service, worker pools, stored traces."""

    def __init__(
        self, served: ServedModel, limits: Limits, keys: APIKeys | None = None, named: tuple[str, str] | None = None
    ) -> None:
        self.limits, self.keys = limits, keys or APIKeys([])
        self.metrics = Metrics()
        self.service = TranslationService(served, limits, self.metrics, named)
        seconds, metrics = limits.seconds, self.metrics
        self.translate_pool = WorkerPool("translating", limits.requests, limits.requests, seconds, metrics)
        capacity = limits.tracing + limits.tracing_waiting
        self.trace_pool = WorkerPool("tracing", limits.tracing, capacity, seconds, metrics, lower_thread_priority)
        self.read_pool = WorkerPool("reading", READ_THREADS, limits.requests, seconds, metrics)
        """Worker pool for work of milliseconds, which should not wait behind a trace."""
        self.store = TraceStore(limits.traces, limits.trace_bytes)
        self.outgoing = OutgoingBytes(limits.sending_bytes)
        self.boot = secrets.token_hex(8)
        """ETag of this start of the server, so that a browser does not reuse what it cached from another model."""
        self.metrics.info("build", "The version, and the model.", {"version": __version__, "model": served.name})
        self.metrics.info("engine", "The engine that translates.", asdict(self.service.engine))
        add_process_metrics(self.metrics)
        for name, meaning, read in (
            ("requests_under_way", "Translation requests waiting or running.", lambda: self.translate_pool.count),
            ("traces_under_way", "Traces, what-ifs, figures waiting or running.", lambda: self.trace_pool.count),
            ("waiting_sentences", "Sentences waiting in the queue.", lambda: self.service.batcher.waiting),
            ("searching_sentences", "Sentences being searched.", lambda: self.service.batcher.under_way),
            ("traces", "Stored traces.", lambda: len(self.store)),
            ("trace_bytes", "Bytes of all stored traces.", lambda: self.store.size),
            ("sending_bytes", "Bytes of large responses being sent.", lambda: self.outgoing.size),
        ):
            self.metrics.gauge(name, meaning, read)

    def manifest_of(self, stored: StoredTrace) -> "Manifest":
        """The manifest of a stored trace: everything but its numbers."""
        from glassformer.inspection.tracing.trace_manifest import manifest, weights_of

        model = self.service.served.translator.model
        return manifest(stored.identity, stored.trace, weights_of(model), stored.tokenizer)

    @property
    def stopping(self) -> bool:
        return self.translate_pool.stopping

    def stop_pools(self) -> None:
        """Refuse all requests in progress, once the time to finish them has passed."""
        self.translate_pool.stop()
        self.trace_pool.stop()
        self.read_pool.stop()

    def close(self) -> None:
        self.service.batcher.stop()
        self.translate_pool.close()
        self.trace_pool.close()
        self.read_pool.close()
