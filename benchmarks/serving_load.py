"""A server asked for five times what it can do: who is refused, how fast, and what becomes of the others.

    python benchmarks/serving_load.py [SECONDS] [CLIENTS] [TIMES]

`glassformer serve street` in a process of its own, with all its limits as they are. Its capacity is measured, then
CLIENTS connections together ask TIMES as often for SECONDS; meanwhile another process asks /health, and as many more
clients begin an upload and stall. All share the machine, so clients are `nice`, and the time of an answer is the
kernel's: when it came to the client's socket, not when a client that waits for a core got to read it.
"""

import asyncio
import json
import multiprocessing
import re
import selectors
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.pool import AsyncResult
from pathlib import Path

STAMP = 65  # SO_TIMESTAMPING_NEW, which Python has no name for
RECEIVED = 1 << 3 | 1 << 4  # by software, when it was received
HEALTH_EVERY = 0.02
DEADLINE = 60.0
"""Seconds that the server allows a request: its limit `seconds`."""
QUICK = 0.1
"""Seconds within which a server that has recovered answers one client."""


@dataclass
class Heard:
    """What clients heard."""

    accepted: list[float] = field(default_factory=list)
    """Seconds of each."""
    refused: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    wrong: int = 0
    """Translations that are others than the offline ones, and refusals that do not say when to come back."""
    lost: int = 0
    """Connections that ended without an answer."""
    late: int = 0
    """Requests that a client did not send, because its last one was not yet answered."""
    seconds: float = 0.0


def main(seconds: str = "60", clients: str = "200", times: str = "5") -> None:
    from glassformer.benchmark.throughput import machine

    texts = offline()
    print(f"{machine()}; street, {clients} clients, {times} times the capacity, {seconds} s", flush=True)
    with multiprocessing.get_context("spawn").Pool(3) as pool, Server() as server:
        pool.apply(load, (server.port, texts, 16, 1e9, 1.0))  # warm up
        base = server.memory()
        alone = pool.apply(load, (server.port, texts, 16, 1e9, 5.0))
        capacity = len(alone.accepted) / alone.seconds
        rate = capacity * float(times)
        print(f"capacity {capacity:,.0f} requests/s; asked for {rate:,.0f}; memory {base:,.0f} MB", flush=True)
        heard = pool.apply_async(load, (server.port, texts, int(clients), rate, float(seconds)))
        health = pool.apply_async(probe, (server.port, float(seconds)))
        time.sleep(min(5.0, float(seconds) / 4))
        stalled = pool.apply_async(stall, (server.port, int(clients)))
        highest = watched(server, heard)
        recovered = recovery(server.port, texts)
        report(heard.get(), health.get(), stalled.get(), highest - base, recovered, int(clients))


def offline() -> dict[str, str]:
    """Sentences with their translations, found without a server."""
    from glassformer import load as opened
    from glassformer.builtin import street

    sources = [one.source for one in street.sentences("test", 50)]
    return dict(zip(sources, opened("street").translate(sources), strict=True))


class Server:
    """A real one, as a user starts it."""

    def __enter__(self) -> "Server":
        command = [sys.executable, "-m", "glassformer", "serve", "street", "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        said = re.search(r":(\d+);", self.process.stdout.readline())
        assert said, "it does not serve"
        self.port = int(said[1])
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(30)

    def memory(self) -> float:
        """Megabytes that are resident now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) / 1000


def watched(server: Server, until: "AsyncResult[Heard]") -> float:
    """The most memory that was seen until the load ended."""
    highest = 0.0
    while not until.ready():
        highest = max(highest, server.memory())
        until.wait(0.1)
    return highest


def question(text: str) -> bytes:
    body = json.dumps({"text": text}).encode()
    head = "POST /api/translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: "
    return f"{head}{len(body)}\r\n\r\n".encode() + body


class Client:
    """One connection that asks again and again, `every` so many seconds if its answers come in time."""

    def __init__(self, port: int, texts: dict[str, str], number: int, every: float, heard: Heard) -> None:
        self.port, self.every, self.heard = port, every, heard
        self.asks = [(question(source), target) for source, target in texts.items()]
        self.turn, self.sent_at, self.waiting, self.buffer, self.closed = number, 0.0, False, b"", False
        self.loop = asyncio.get_running_loop()
        self.due = self.loop.time() + every * (number % 200) / 200
        self.open()
        self.loop.call_at(self.due, self.ask)

    def open(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.port))
        self.socket.setsockopt(socket.SOL_SOCKET, STAMP, RECEIVED)
        self.socket.setblocking(False)
        self.loop.add_reader(self.socket, self.read)

    def close(self) -> None:
        self.closed = True
        self.loop.remove_reader(self.socket)
        self.socket.close()

    def ask(self) -> None:
        if self.closed:
            return
        self.turn += 1
        content, self.wanted = self.asks[self.turn % len(self.asks)]
        self.waiting, self.sent_at = True, time.time()
        try:
            self.socket.send(content)
        except OSError:
            self.again()

    def read(self) -> None:
        try:
            data, told, _, _ = self.socket.recvmsg(65536, 256)
        except OSError:
            data, told = b"", []
        if not data:
            return self.again()
        self.buffer += data
        head, blank, body = self.buffer.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if not blank or length is None or len(body) < int(length[1]):
            return None
        arrived = time.time()
        if told:
            whole, part = struct.unpack_from("qq", told[0][2])
            arrived = whole + part / 1e9
        self.buffer, self.waiting = b"", False
        self.judge(int(head[9:12]), head, body, arrived - self.sent_at)
        self.due += self.every
        if (missed := self.loop.time() - self.due) > 0:
            self.heard.late += int(missed / self.every) if self.every else 0
            self.due += missed
        self.loop.call_at(self.due, self.ask)
        return None

    def judge(self, status: int, head: bytes, body: bytes, took: float) -> None:
        heard = self.heard
        heard.statuses[status] = heard.statuses.get(status, 0) + 1
        if status == 200:
            heard.accepted.append(took)
            heard.wrong += json.loads(body)["translations"][0]["text"] != self.wanted
        else:
            heard.refused.append(took)
            heard.wrong += b"retry-after: " not in head

    def again(self) -> None:
        self.heard.lost += self.waiting
        self.close()
        self.buffer, self.closed = b"", False
        self.open()
        self.loop.call_soon(self.ask)


def load(port: int, texts: dict[str, str], clients: int, rate: float, seconds: float) -> Heard:
    """So many clients, who ask together so often a second, if they can."""
    lower_priority(5)
    heard = Heard()

    async def go() -> None:
        began = time.perf_counter()
        several = [Client(port, texts, number, clients / rate, heard) for number in range(clients)]
        await asyncio.sleep(seconds)
        heard.seconds = time.perf_counter() - began
        for one in several:
            one.close()

    asyncio.run(go())
    return heard


def lower_priority(by: int) -> None:
    import os

    os.nice(by - os.nice(0) if by > os.nice(0) else 0)


def probe(port: int, seconds: float) -> list[float]:
    """Seconds of /health, asked by one client after another."""
    took = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        took.append(timed(port, b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")[0])
        time.sleep(max(0.0, HEALTH_EVERY - (time.perf_counter() - began)))
    return took


def timed(port: int, content: bytes) -> tuple[float, bytes]:
    """Seconds from connecting to the last byte, by the kernel's clock, and the answer; the server must close."""
    began = ended = time.time()
    with socket.create_connection(("127.0.0.1", port), 30) as one:
        one.setsockopt(socket.SOL_SOCKET, STAMP, RECEIVED)
        one.sendall(content)
        answer = b""
        while data := (found := one.recvmsg(65536, 256))[0]:
            whole, part = struct.unpack_from("qq", found[1][0][2]) if found[1] else (time.time(), 0)
            answer, ended = answer + data, whole + part / 1e9
    return ended - began, answer


def stall(port: int, clients: int) -> list[float]:
    """Seconds until each of so many uploads that stall was closed."""
    lower_priority(5)
    took, several = [], selectors.DefaultSelector()
    for _ in range(clients):
        one = socket.create_connection(("127.0.0.1", port))
        one.sendall(b"POST /api/explore HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{")
        several.register(one, selectors.EVENT_READ, time.perf_counter())
    end = time.perf_counter() + 30
    while several.get_map() and time.perf_counter() < end:
        for key, _ in several.select(1):
            ending = key.fileobj
            assert isinstance(ending, socket.socket)
            if not _read(ending):
                took.append(time.perf_counter() - key.data)
                several.unregister(ending)
                ending.close()
    return took


def _read(one: socket.socket) -> bytes:
    try:
        return one.recv(65536)
    except ConnectionResetError:
        return b""


def recovery(port: int, texts: dict[str, str]) -> float:
    """Seconds until ten requests in a row were answered quickly and well, the ten of them included."""
    began, good = time.perf_counter(), 0
    [(source, target), *_] = texts.items()
    content = question(source).replace(b"host:", b"connection: close\r\nhost:", 1)
    while good < 10 and time.perf_counter() - began < 30:
        took, answer = timed(port, content)
        good = good + 1 if took < QUICK and json.dumps(target)[1:-1] in _as_json(answer) else 0
    return time.perf_counter() - began


def _as_json(answer: bytes) -> str:
    return json.dumps(answer.decode(), ensure_ascii=True)[1:-1]


def report(
    heard: Heard, health: list[float], stalled: list[float], grown: float, recovered: float, clients: int
) -> None:
    asked = len(heard.accepted) + len(heard.refused)
    statuses = ", ".join(f"{status}: {count:,}" for status, count in sorted(heard.statuses.items()))
    print(f"answered {asked / heard.seconds:,.0f} requests/s ({statuses}); not sent because late: {heard.late:,}")
    rows: list[tuple[str, str, Callable[[], bool]]] = [
        ("refused within 50 ms (p99)", spread(heard.refused), lambda: share(heard.refused, 0.99) <= 0.05),
        ("accepted within the deadline", spread(heard.accepted), lambda: share(heard.accepted, 1) <= DEADLINE),
        ("/health p99 under 250 ms", spread(health), lambda: share(health, 0.99) < 0.25),
        ("memory at most base + 200 MB", f"{grown:+.0f} MB", lambda: grown <= 200),
        ("recovered within 2 s", f"{recovered:.2f} s", lambda: recovered <= 2),
        ("stalled uploads closed within 10 s", f"{len(stalled)} of {clients}, after {max(stalled, default=0):.1f} s",
         lambda: len(stalled) == clients and max(stalled) <= 10),
        ("same text as offline, Retry-After", f"{heard.wrong} others", lambda: not heard.wrong),
        ("no connection without an answer", f"{heard.lost}", lambda: not heard.lost),
    ]  # fmt: skip
    for name, found, holds in rows:
        print(f"{'holds ' if holds() else 'misses'}  {name:36} {found}")


def share(times: list[float], part: float) -> float:
    """The time within which this part of them is; 0 where there are none."""
    return sorted(times)[min(len(times) - 1, int(part * len(times)))] if times else 0.0


def spread(times: list[float]) -> str:
    low, high, higher, most = (1000 * share(times, part) for part in (0.5, 0.99, 0.999, 1))
    return f"p50 {low:.1f}  p99 {high:.1f}  p99.9 {higher:.1f}  max {most:.1f} ms of {len(times):,}"


if __name__ == "__main__":
    main(*sys.argv[1:])
