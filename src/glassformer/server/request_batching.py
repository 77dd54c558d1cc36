"""Continuous batching across clients: sentences join running batches and leave as they finish.

Only searches with the same settings share a batch. No result depends on what else is in the batch.
"""

import itertools
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from glassformer.decoding import (
    BatchLimits,
    BatchSearch,
    Hypothesis,
    Request,
    SearchResult,
    SearchSettings,
    SearchTask,
)
from glassformer.decoding.continuous_batching import BatchCapacity, open_batch_search, suppressed, task_for
from glassformer.decoding.rules import rules_for
from glassformer.engine import Engine, SearchBackend
from glassformer.errors import GlassformerError
from glassformer.hardware import cores, lower_thread_priority
from glassformer.server.fair_queue import FairQueue
from glassformer.server.http_errors import HTTPError, busy
from glassformer.server.metrics import Metrics

logger = logging.getLogger("glassformer.server")
STOPPING = "The server is stopping. Try again in a moment."
SEARCH_FAILED = "The search failed with an internal error. The server's log has the details."
MAX_GROUPS_PER_WORKER = 4
"""Maximum number of groups per worker thread; each group may take the memory of a whole worker."""
MAX_TASK_NUMBERS = 2**31
"""Number of different task numbers, which are 32 bits wide in C."""


class GroupKey(NamedTuple):
    """Key of a group: what searches must have in common to share a batch."""

    search: SearchSettings
    reads_tokens: bool
    """Whether the searches' rules read tokens, which the native search does not support."""


@dataclass(eq=False)
class Job:
    """One sentence of a request, to be searched in a batch."""

    arrival: int
    task: SearchTask
    key: GroupKey
    ticket: "Ticket"
    index: int
    """Position of the sentence in its request."""


class Ticket:
    """One request's handle on the `Batcher`: an engine for the request's `Translator` that can be cancelled."""

    def __init__(self, batcher: "Batcher") -> None:
        self.max_tokens = batcher.engine.max_tokens
        self._batcher = batcher
        self.failed: BaseException | None = None
        self.results: list[list[Hypothesis]] = []
        self.unfinished = 0
        self.done = threading.Event()

    def search(self, requests: Sequence[Request], search: SearchSettings) -> list[list[Hypothesis]]:
        """Search a request's sentences, after waiting in the queue; returns the hypotheses of each, best first."""
        return self._batcher.search(self, requests, search)

    def cancel(self, why: BaseException) -> None:
        """Drop the request's waiting sentences, and raise `why` in the thread that waits for them."""
        self._batcher.cancel(self, why)


@dataclass(eq=False)
class Group:
    """A batch of searches with the same key, run by one worker thread."""

    key: GroupKey
    batch_search: BatchSearch | None = None
    jobs: dict[int, Job] = field(default_factory=dict)


class Batcher:
    """Continuous batching over requests: an engine that many threads may call at once, each through a `Ticket`."""

    def __init__(self, engine: Engine, eos: int, max_waiting: int, metrics: Metrics) -> None:
        self.engine, self.eos, self.max_waiting, self.metrics = engine, eos, max_waiting, metrics
        self.batch_limits = (
            engine.limits if isinstance(engine, SearchBackend) else BatchLimits(sentences=64, workers=cores())
        )
        self._queues: dict[GroupKey, FairQueue[Job]] = {}
        self._changed = threading.Condition()
        self._arrivals = itertools.count()
        self._idle = 0
        self._under_way = 0
        self._stopped = False
        self._tickets: set[Ticket] = set()
        self._workers = [
            threading.Thread(target=self._work, name=f"search-{i}", daemon=True)
            for i in range(self.batch_limits.workers)
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
        jobs = [self._job(ticket, index, request, search) for index, request in enumerate(requests)]
        jobs.sort(key=lambda job: -job.task.cost)  # so that no long sentence is left for the end
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

    def _job(self, ticket: Ticket, index: int, request: Request, search: SearchSettings) -> Job:
        arrival = next(self._arrivals)
        number = arrival % MAX_TASK_NUMBERS
        if isinstance(self.engine, SearchBackend):
            suppressed(self.engine.step_model, search)  # raises its errors here, in the thread of the request
            task = task_for(self.engine.step_model, number, request, search)
        else:
            rules = rules_for(request, self.eos, search, self.engine.max_tokens)
            task = SearchTask(number, request, rules, cost=search.width * (len(request.source) + rules.limit))
        return Job(arrival, task, GroupKey(search, task.rules.reads_tokens), ticket, index)

    @torch.no_grad()
    def _work(self) -> None:
        """A worker thread's loop. Groups advance in turns, so that a short search does not wait for a long one."""
        lower_thread_priority()  # so that the thread that answers or refuses requests does not wait for a core
        groups: dict[GroupKey, Group] = {}
        while self._fill(groups):
            for key, group in list(groups.items()):
                self._advance(group)
                if all(job.ticket.failed for job in group.jobs.values()):  # no jobs, or none that a client waits for
                    self._discard(group)
                    del groups[key]

    def _fill(self, groups: dict[GroupKey, "Group"]) -> bool:
        """Let waiting sentences join the groups, longest waiting first; False when the server stops."""
        with self._changed:
            if not groups:
                self._idle += 1
                self._changed.wait_for(lambda: self._queues or self._stopped)
                self._idle -= 1
            if self._stopped:
                return False
            joining: dict[GroupKey, list[Job]] = {}
            for key in sorted(self._queues, key=lambda key: self._queues[key].first().arrival):
                if key not in groups:
                    if len(groups) >= MAX_GROUPS_PER_WORKER:
                        break  # so that later arrivals do not overtake it forever
                    groups[key] = Group(key)
                joining[key] = self._joining_jobs(groups[key])
        for key, jobs in joining.items():
            if jobs:
                self._join(groups[key], jobs)
        return True

    def _joining_jobs(self, group: "Group") -> list[Job]:
        """The sentences that join a group now: as many as fit, and no more than this worker's share."""
        refills = isinstance(self.engine, SearchBackend) and self.engine.step_model.refills
        capacity = BatchCapacity(self.batch_limits, refills, group.key.search.width)
        costs = [job.task.cost for job in group.jobs.values()]
        if not capacity.is_open(costs):
            return []
        queue, joining = self._queues[group.key], list[Job]()
        share = -(-len(queue) // (1 + self._idle))  # the idle workers take the rest
        while queue and len(joining) < share and capacity.fits(costs, queue.first().task.cost):
            costs.append(queue.first().task.cost)
            joining.append(queue.take())
        self._remove_if_empty(group.key)
        group.jobs |= {job.task.number: job for job in joining}
        self._under_way += len(joining)
        return joining

    def _join(self, group: "Group", jobs: list[Job]) -> None:
        try:
            if group.batch_search is None:
                group.batch_search = self._open_batch_search(group.key)
            group.batch_search.join([job.task for job in jobs])
        except Exception as error:  # the worker must go on, whatever it was
            self._fail_group(group, error)

    def _advance(self, group: "Group") -> None:
        if group.batch_search is None or not group.jobs:
            return
        self.metrics.batch.observe(len(group.jobs))
        try:
            for number, hypotheses in group.batch_search.advance():
                self._deliver(group.jobs.pop(number), hypotheses)
        except Exception as error:
            self._fail_group(group, error)

    def _fail_group(self, group: "Group", error: Exception) -> None:
        """Report the error to all requests of this group; the next one starts with a new batch search."""
        is_internal = not isinstance(error, GlassformerError)
        if is_internal:
            logger.exception("The search failed")
        with self._changed:
            group.batch_search = None
            for job in group.jobs.values():
                self._fail(job.ticket, HTTPError(500, SEARCH_FAILED) if is_internal else error)

    def _discard(self, group: "Group") -> None:
        with self._changed:
            self._under_way -= len(group.jobs)

    def _open_batch_search(self, key: GroupKey) -> BatchSearch:
        if not isinstance(self.engine, SearchBackend):
            return UnbatchedSearch(self.engine, key.search)
        step_model = self.engine.step_model
        return open_batch_search(step_model, key.search, suppressed(step_model, key.search), key.reads_tokens)

    def _remove_if_empty(self, key: GroupKey) -> None:
        if not self._queues[key]:
            del self._queues[key]

    def _deliver(self, job: Job, hypotheses: list[Hypothesis]) -> None:
        ticket = job.ticket
        self.metrics.tokens.add(len(job.task.request.source), side="source")
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


class UnbatchedSearch:
    """Adapter that makes a `BatchSearch` of an engine that takes sentences only all at once, such as CTranslate2."""

    def __init__(self, engine: Engine, search: SearchSettings) -> None:
        self._engine, self._settings = engine, search
        self._tasks: list[SearchTask] = []

    def join(self, tasks: Sequence[SearchTask]) -> None:
        self._tasks += tasks

    def advance(self) -> list[SearchResult]:
        tasks, self._tasks = self._tasks, []
        results = self._engine.search([task.request for task in tasks], self._settings)
        return [(task.number, hypotheses) for task, hypotheses in zip(tasks, results, strict=True)]
