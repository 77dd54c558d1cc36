"""Sentences of many clients, searched for together: they join while others are under way, and leave as they end.

Only searches that are told the same take steps together. No answer depends on who else asks.
"""

import itertools
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from glassformer.decoding import BatchLimits, BatchSearch, Beam, Found, Hypothesis, Request, SearchSettings, SearchTask
from glassformer.decoding.continuous_batching import suppressed, task_for
from glassformer.decoding.rules import rules_for
from glassformer.decoding.stepwise_search import HasNativeSearch, StepwiseBatchSearch
from glassformer.engine import Engine, SearchBackend
from glassformer.errors import GlassformerError
from glassformer.hardware import cores, step_back
from glassformer.server.fair_queue import FairQueue
from glassformer.server.http_errors import HTTPError, busy
from glassformer.server.metrics import Metrics

logger = logging.getLogger("glassformer.server")
STOPPING = "The server is stopping: ask again in a moment."
KINDS = 4
"""Groups of searches that a lane has under way: each takes the memory that a worker may take."""
NUMBERS = 2**31
"""Numbers of tasks are 32 bits wide in C."""


class GroupKey(NamedTuple):
    """What searches must have in common to take steps together."""

    search: SearchSettings
    reads_tokens: bool
    """Whether their rules look at tokens, which the compiled search does not."""


@dataclass(eq=False)
class Job:
    """One sentence of a client."""

    arrival: int
    task: SearchTask
    kind: GroupKey
    ticket: "Ticket"
    place: int
    """Which of the client's sentences."""


class Ticket:
    """A client's place in the queue: an engine for its `Translator`, which can be given up."""

    def __init__(self, batcher: "Batcher") -> None:
        self.max_tokens = batcher.engine.max_tokens
        self._batcher = batcher
        self.failed: BaseException | None = None
        self.found: list[list[Hypothesis]] = []
        self.missing = 0
        self.done = threading.Event()

    def search(self, requests: Sequence[Request], search: SearchSettings) -> list[list[Hypothesis]]:
        """For each request its hypotheses, best first; waits its turn."""
        return self._batcher.search(self, requests, search)

    def give_up(self, why: BaseException) -> None:
        """Nobody waits for this any more: what is in the queue goes out of it."""
        self._batcher.give_up(self, why)


@dataclass(eq=False)
class Group:
    """Searches of one kind that a lane has under way."""

    kind: GroupKey
    batch_search: BatchSearch | None = None
    jobs: dict[int, Job] = field(default_factory=dict)


class Batcher:
    """An engine that many threads may ask at once, each through a `Ticket`."""

    def __init__(self, engine: Engine, eos: int, most_waiting: int, metrics: Metrics) -> None:
        self.engine, self.eos, self.most_waiting, self.metrics = engine, eos, most_waiting, metrics
        self.batch_limits = (
            engine.limits if isinstance(engine, SearchBackend) else BatchLimits(sentences=64, workers=cores())
        )
        self._waiting: dict[GroupKey, FairQueue[Job]] = {}
        self._changed = threading.Condition()
        self._arrivals = itertools.count()
        self._idle = 0
        self._under_way = 0
        self._stopped = False
        self._tickets: set[Ticket] = set()
        self._lanes = [
            threading.Thread(target=self._lane, name=f"lane-{i}", daemon=True) for i in range(self.batch_limits.workers)
        ]
        for lane in self._lanes:
            lane.start()

    @property
    def waiting(self) -> int:
        """Sentences in the queue."""
        return sum(map(len, list(self._waiting.values())))

    @property
    def under_way(self) -> int:
        """Sentences that the model is at."""
        return self._under_way

    def search(self, ticket: Ticket, requests: Sequence[Request], search: SearchSettings) -> list[list[Hypothesis]]:
        """Queue a client's sentences, and wait until all are found."""
        jobs = [self._job(ticket, place, request, search) for place, request in enumerate(requests)]
        jobs.sort(key=lambda job: -job.task.cost)  # no long one is left for the end
        with self._changed:
            if ticket.failed is None:
                self._admit(ticket, jobs)
        ticket.done.wait()
        with self._changed:
            self._tickets.discard(ticket)
        if ticket.failed is not None:
            raise ticket.failed
        return ticket.found

    def give_up(self, ticket: Ticket, why: BaseException) -> None:
        with self._changed:
            self._fail(ticket, why)
            for kind, line in list(self._waiting.items()):
                line.drop(ticket)
                self._close_if_empty(kind)

    def stop(self) -> None:
        """Everybody who waits is refused; the lanes end after their step."""
        with self._changed:
            self._stopped = True
            self._waiting.clear()
            for ticket in list(self._tickets):
                self._fail(ticket, busy(STOPPING))
            self._changed.notify_all()
        for lane in self._lanes:
            lane.join(timeout=2)

    def _admit(self, ticket: Ticket, jobs: list[Job]) -> None:
        if self._stopped:
            raise busy(STOPPING)
        if len(jobs) > self.most_waiting:
            raise HTTPError(413, f"These are {len(jobs):,} sentences, and {self.most_waiting:,} fit: ask for fewer.")
        if self.waiting + len(jobs) > self.most_waiting:
            raise busy(f"{self.waiting:,} sentences are waiting already: ask again in a moment.")
        ticket.found, ticket.missing = [[] for _ in jobs], len(jobs)
        ticket.done.clear()
        if not jobs:
            ticket.done.set()
            return
        self._tickets.add(ticket)
        for kind in dict.fromkeys(job.kind for job in jobs):
            line = self._waiting.setdefault(kind, FairQueue())
            line.add(ticket, [job for job in jobs if job.kind == kind])
        self._changed.notify_all()

    def _job(self, ticket: Ticket, place: int, request: Request, search: SearchSettings) -> Job:
        arrival = next(self._arrivals)
        number = arrival % NUMBERS
        if isinstance(self.engine, SearchBackend):
            suppressed(self.engine.step_model, search)  # complains here, to whom it belongs
            task = task_for(self.engine.step_model, number, request, search)
        else:
            rules = rules_for(request, self.eos, search, self.engine.max_tokens)
            task = SearchTask(number, request, rules, cost=search.width * (len(request.source) + rules.limit))
        return Job(arrival, task, GroupKey(search, task.rules.reads_tokens), ticket, place)

    @torch.no_grad()
    def _lane(self) -> None:
        """One thread's work: groups of searches take turns, so that a short one does not wait for a long one's end."""
        step_back()  # who answers requests, or refuses them, does not wait for a core
        groups: dict[GroupKey, Group] = {}
        while self._take_in(groups):
            for kind, group in list(groups.items()):
                self._advance(group)
                if all(job.ticket.failed for job in group.jobs.values()):  # none, or nobody who waits for them
                    self._forget(group)
                    del groups[kind]

    def _take_in(self, groups: dict[GroupKey, "Group"]) -> bool:
        """Let sentences join, those first that wait longest; False when the server stops."""
        with self._changed:
            if not groups:
                self._idle += 1
                self._changed.wait_for(lambda: self._waiting or self._stopped)
                self._idle -= 1
            if self._stopped:
                return False
            joining: dict[GroupKey, list[Job]] = {}
            for kind in sorted(self._waiting, key=lambda kind: self._waiting[kind].first().arrival):
                if kind not in groups:
                    if len(groups) >= KINDS:
                        break  # those that came later do not overtake it for ever
                    groups[kind] = Group(kind)
                joining[kind] = self._joining(groups[kind])
        for kind, jobs in joining.items():
            if jobs:
                self._join(groups[kind], jobs)
        return True

    def _joining(self, group: "Group") -> list[Job]:
        """The sentences to take in now: as many as there is room for, and no more than this lane's share."""
        batch_limits, most = self.batch_limits, self.batch_limits.most(group.kind.search.width)
        refills = isinstance(self.engine, SearchBackend) and self.engine.step_model.refills
        costs = [job.task.cost for job in group.jobs.values()]
        # A group fills up when a quarter of its room is free: reading a few sources at a time wastes the matrices.
        if costs and not (refills and sum(costs) <= batch_limits.positions * 3 // 4 and len(costs) <= most * 3 / 4):
            return []
        line, joining = self._waiting[group.kind], list[Job]()
        share = -(-len(line) // (1 + self._idle))  # lanes that have nothing to do take theirs
        while line and len(joining) < share:
            cost = line.first().task.cost
            used = sum(costs) + cost if refills else (len(costs) + 1) * max([*costs, cost])
            if costs and (len(costs) >= most or used > batch_limits.positions):
                break
            costs.append(cost)
            joining.append(line.take())
        self._close_if_empty(group.kind)
        group.jobs |= {job.task.number: job for job in joining}
        self._under_way += len(joining)
        return joining

    def _join(self, group: "Group", jobs: list[Job]) -> None:
        try:
            if group.batch_search is None:
                group.batch_search = self._open_batch_search(group.kind)
            group.batch_search.join([job.task for job in jobs])
        except Exception as error:  # the lane goes on, whatever it was
            self._broken(group, error)

    def _advance(self, group: "Group") -> None:
        if group.batch_search is None or not group.jobs:
            return
        self.metrics.batch.observe(len(group.jobs))
        try:
            for number, hypotheses in group.batch_search.advance():
                self._deliver(group.jobs.pop(number), hypotheses)
        except Exception as error:
            self._broken(group, error)

    def _broken(self, group: "Group", error: Exception) -> None:
        """Whoever waits for this group is told; another is begun for the next."""
        ours = not isinstance(error, GlassformerError)
        if ours:
            logger.exception("The search broke off.")
        with self._changed:
            group.batch_search = None
            for job in group.jobs.values():
                self._fail(job.ticket, HTTPError(500, "The search broke off.") if ours else error)

    def _forget(self, group: "Group") -> None:
        with self._changed:
            self._under_way -= len(group.jobs)

    def _open_batch_search(self, kind: GroupKey) -> BatchSearch:
        if not isinstance(self.engine, SearchBackend):
            return UnbatchedSearch(self.engine, kind.search)
        step_model, search = self.engine.step_model, kind.search
        never = suppressed(step_model, search)
        if (
            isinstance(step_model, HasNativeSearch)
            and isinstance(search, Beam)
            and not search.diversity
            and not kind.reads_tokens
        ):
            return step_model.batch_search(search, never)
        return StepwiseBatchSearch(step_model, search, never)

    def _close_if_empty(self, kind: GroupKey) -> None:
        if not self._waiting[kind]:
            del self._waiting[kind]

    def _deliver(self, job: Job, hypotheses: list[Hypothesis]) -> None:
        ticket = job.ticket
        self.metrics.tokens.add(len(job.task.request.source), side="source")
        self.metrics.tokens.add(sum(len(one.tokens) for one in hypotheses[:1]), side="target")
        with self._changed:
            self._under_way -= 1
            ticket.found[job.place] = hypotheses
            ticket.missing -= 1
            if not ticket.missing:
                ticket.done.set()

    def _fail(self, ticket: Ticket, why: BaseException) -> None:
        ticket.failed = ticket.failed or why
        ticket.done.set()


class UnbatchedSearch:
    """An engine that takes sentences only all together, as a `BatchSearch`."""

    def __init__(self, engine: Engine, search: SearchSettings) -> None:
        self._engine, self._settings = engine, search
        self._tasks: list[SearchTask] = []

    def join(self, tasks: Sequence[SearchTask]) -> None:
        self._tasks += tasks

    def advance(self) -> list[Found]:
        tasks, self._tasks = self._tasks, []
        found = self._engine.search([task.request for task in tasks], self._settings)
        return [(task.number, own) for task, own in zip(tasks, found, strict=True)]
