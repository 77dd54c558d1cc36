"""Continuous batching across clients: sentences join running batches and leave as they finish.

Only searches with the same settings share a batch. No result depends on what else is in the batch.
"""

import itertools
import logging
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from glassformer.decoding import Hypothesis, Request, SearchSettings, SearchTask
from glassformer.decoding.continuous_batching import RunningBatch, run_batches
from glassformer.engine import Engine
from glassformer.errors import GlassformerError
from glassformer.hardware import lower_thread_priority
from glassformer.server.fair_queue import FairQueue
from glassformer.server.http_errors import HTTPError, busy
from glassformer.server.metrics import Metrics

logger = logging.getLogger("glassformer.server")
STOPPING = "The server is stopping. Try again in a moment."
SEARCH_FAILED = "The search failed with an internal error. The server's log has the details."
MAX_BATCHES_PER_WORKER = 4
"""Maximum number of batches per worker thread; each may take the memory of a whole worker."""
MAX_TASK_NUMBERS = 2**31
"""Number of different task numbers, which are 32 bits wide in C."""


class BatchKey(NamedTuple):
    """Key of a batch: what its searches have in common."""

    search: SearchSettings
    reads_tokens: bool
    """Whether the searches' rules read tokens, which the native search does not support."""


@dataclass(frozen=True, eq=False)
class Job(SearchTask):
    """One sentence of a request, to be searched in a batch."""

    arrival: int
    key: BatchKey
    ticket: "Ticket"
    index: int
    """Position of the sentence in its request."""


class Ticket:
    """One request's handle on the `Batcher`: an engine for the request's `Translator` that can be cancelled."""

    def __init__(self, batcher: "Batcher", max_beam_tokens: int | None = None) -> None:
        """`max_beam_tokens`: maximum number of source tokens times beam size; None where another limit applies."""
        engine = batcher.engine
        self.max_beam_tokens = max_beam_tokens
        self.max_tokens, self.workers = engine.max_tokens, engine.workers
        self.tasks, self.open = engine.tasks, engine.open
        self.score, self.attention = engine.score, engine.attention
        self._batcher = batcher
        self.failed: BaseException | None = None
        self.results: list[list[Hypothesis]] = []
        self.unfinished = 0
        self.done = threading.Event()

    def search(self, requests: Sequence[Request], search: SearchSettings) -> list[list[Hypothesis]]:
        """Search a request's sentences, after waiting in the queue; returns the hypotheses of each, best first."""
        tokens, limit = sum(len(request.source) for request in requests), self.max_beam_tokens
        if limit is not None and tokens * search.width > limit:
            raise HTTPError(
                413,
                f"The request has {tokens:,} tokens; with beam size {search.width}, at most {limit // search.width:,} "
                "are allowed. Send less text, or use a smaller beam.",
            )
        return self._batcher.search(self, requests, search)

    def cancel(self, why: BaseException) -> None:
        """Drop the request's waiting sentences, and raise `why` in the thread that waits for them."""
        self._batcher.cancel(self, why)


class Batcher:
    """Continuous batching over requests: an engine that many threads may call at once, each through a `Ticket`.

    The task source of all worker threads.
    """

    def __init__(self, engine: Engine, max_waiting: int, metrics: Metrics) -> None:
        self.engine, self.max_waiting, self.metrics = engine, max_waiting, metrics
        self._queues: dict[BatchKey, FairQueue[Job]] = {}
        self._changed = threading.Condition()
        self._arrivals = itertools.count()
        self._idle = 0
        self._under_way = 0
        self._stopped = False
        self._tickets: set[Ticket] = set()
        self._workers = [
            threading.Thread(target=self._work, name=f"search-{i}", daemon=True) for i in range(engine.workers)
        ]
        for worker in self._workers:
            worker.start()

    @property
    def waiting(self) -> int:
        """Number of sentences waiting in the queues."""
        return sum(map(len, list(self._queues.values())))

    @property
    def under_way(self) -> int:
        """Number of sentences being searched."""
        return self._under_way

    def search(self, ticket: Ticket, requests: Sequence[Request], search: SearchSettings) -> list[list[Hypothesis]]:
        """Queue a request's sentences, and wait until all are finished."""
        jobs = self._jobs(ticket, requests, search)
        with self._changed:
            if ticket.failed is None:
                self._admit(ticket, jobs)
        ticket.done.wait()
        with self._changed:
            self._tickets.discard(ticket)
        if ticket.failed is not None:
            raise ticket.failed
        return ticket.results

    def cancel(self, ticket: Ticket, why: BaseException) -> None:
        with self._changed:
            self._fail(ticket, why)
            for key, queue in list(self._queues.items()):
                queue.drop(ticket)
                self._remove_if_empty(key)

    def stop(self) -> None:
        """Refuse all waiting and running requests; the workers end after their current step."""
        with self._changed:
            self._stopped = True
            self._queues.clear()
            for ticket in list(self._tickets):
                self._fail(ticket, busy(STOPPING))
            self._changed.notify_all()
        for worker in self._workers:
            worker.join(timeout=2)

    def fill(self, batches: dict[Hashable, RunningBatch[Job]]) -> bool:
        """Let waiting sentences join a worker's batches, longest waiting first; False when the server stops."""
        with self._changed:
            self._remove_finished(batches)
            if not batches:
                self._idle += 1
                self._changed.wait_for(lambda: self._queues or self._stopped)
                self._idle -= 1
            if self._stopped:
                return False
            for key in sorted(self._queues, key=lambda key: self._queues[key].first().arrival):
                if key not in batches:
                    if len(batches) >= MAX_BATCHES_PER_WORKER:
                        break  # so that later arrivals do not overtake it forever
                    batches[key] = self.engine.open(*key)
                self._join(key, batches[key])
        for batch in batches.values():
            self.metrics.batch.observe(len(batch.tasks))
        return True

    def fail(self, batch: RunningBatch[Job], error: Exception) -> None:
        """Report the error to all requests with sentences in this batch, which is then removed."""
        is_internal = not isinstance(error, GlassformerError)
        if is_internal:
            logger.exception("The search failed")
        with self._changed:
            for job in batch.tasks.values():
                self._fail(job.ticket, HTTPError(500, SEARCH_FAILED) if is_internal else error)

    def _admit(self, ticket: Ticket, jobs: list[Job]) -> None:
        if self._stopped:
            raise busy(STOPPING)
        if len(jobs) > self.max_waiting:
            raise HTTPError(
                413, f"The request has {len(jobs):,} sentences; the queue holds {self.max_waiting:,}. Send fewer."
            )
        if self.waiting + len(jobs) > self.max_waiting:
            raise busy(f"{self.waiting:,} sentences are already waiting. Try again in a moment.")
        ticket.results, ticket.unfinished = [[] for _ in jobs], len(jobs)
        ticket.done.clear()
        if not jobs:
            ticket.done.set()
            return
        self._tickets.add(ticket)
        for key in dict.fromkeys(job.key for job in jobs):
            queue = self._queues.setdefault(key, FairQueue())
            queue.add(ticket, [job for job in jobs if job.key == key])
        self._changed.notify_all()

    def _jobs(self, ticket: Ticket, requests: Sequence[Request], search: SearchSettings) -> list[Job]:
        """The jobs of a request's sentences, the longest first, so that none of these is left for the end."""
        arrivals = [next(self._arrivals) for _ in requests]
        tasks = self.engine.tasks(requests, search, [arrival % MAX_TASK_NUMBERS for arrival in arrivals])
        jobs = [
            Job(
                **vars(task), arrival=arrival, key=BatchKey(search, task.rules.reads_tokens), ticket=ticket, index=index
            )
            for index, (arrival, task) in enumerate(zip(arrivals, tasks, strict=True))
        ]
        return sorted(jobs, key=lambda job: -job.cost)

    def _work(self) -> None:
        lower_thread_priority()  # so that the thread that answers or refuses requests does not wait for a core
        for job, hypotheses in run_batches(self):
            self._deliver(job, hypotheses)

    def _remove_finished(self, batches: dict[Hashable, RunningBatch[Job]]) -> None:
        """Remove the batches that no client waits for any more."""
        for key, batch in list(batches.items()):
            if all(job.ticket.failed for job in batch.tasks.values()):
                self._under_way -= len(batch.tasks)
                del batches[key]

    def _join(self, key: BatchKey, batch: RunningBatch[Job]) -> None:
        """Let sentences join a batch: as many as fit, and no more than this worker's share."""
        queue = self._queues[key]
        share = -(-len(queue) // (1 + self._idle))  # the idle workers take the rest
        self._under_way += batch.fill(lambda fits: queue.take() if queue and fits(queue.first()) else None, share)
        self._remove_if_empty(key)

    def _remove_if_empty(self, key: BatchKey) -> None:
        if not self._queues[key]:
            del self._queues[key]

    def _deliver(self, job: Job, hypotheses: list[Hypothesis]) -> None:
        ticket = job.ticket
        self.metrics.tokens.add(len(job.request.source), side="source")
        self.metrics.tokens.add(sum(len(hypothesis.tokens) for hypothesis in hypotheses[:1]), side="target")
        with self._changed:
            self._under_way -= 1
            ticket.results[job.index] = hypotheses
            ticket.unfinished -= 1
            if not ticket.unfinished:
                ticket.done.set()

    def _fail(self, ticket: Ticket, why: BaseException) -> None:
        ticket.failed = ticket.failed or why
        ticket.done.set()
