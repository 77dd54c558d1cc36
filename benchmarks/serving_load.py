"""Overload test of the server: five times its capacity is requested. Checks how fast excess requests are refused, and
that accepted ones are answered correctly.

    python benchmarks/serving_load.py [SECONDS] [CLIENTS] [TIMES]

`glassformer serve street` runs in its own process with its default limits. Its capacity is measured; then CLIENTS
connections together send TIMES that rate for SECONDS, while another process polls /health and as many more clients
begin an upload and stall. All share the machine, so clients run at low priority (`nice`), and latency is measured by
the kernel's timestamps: when a response reached the client's socket, not when a client waiting for a core read it.
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

SO_TIMESTAMPING_NEW = 65  # not defined by Python
RX_SOFTWARE = 1 << 3 | 1 << 4  # software timestamps on reception
HEALTH_INTERVAL_SECONDS = 0.02
DEADLINE_SECONDS = 60.0
"""The server's time limit per request (its limit `seconds`)."""
RECOVERED_SECONDS = 0.1
"""Latency below which the server counts as recovered."""


@dataclass
class ClientResults:
    """Responses received by all clients."""

    accepted: list[float] = field(default_factory=list)
    """Latency of each, in seconds."""
    refused: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    wrong: int = 0
    """Translations that differ from the offline ones, and refusals without Retry-After."""
    lost: int = 0
    """Connections closed without a response."""
    late: int = 0
    """Requests that a client skipped because its previous one was still unanswered."""
    seconds: float = 0.0


def main(seconds: str = "60", clients: str = "200", times: str = "5") -> None:
    from glassformer.benchmark.throughput import machine_description

    texts = offline()
    print(f"{machine_description()}; street, {clients} clients, {times} times the capacity, {seconds} s", flush=True)
    with multiprocessing.get_context("spawn").Pool(3) as pool, Server() as server:
        pool.apply(load, (server.port, texts, 16, 1e9, 1.0))  # warm-up
        base = server.memory()
        alone = pool.apply(load, (server.port, texts, 16, 1e9, 5.0))
        capacity = len(alone.accepted) / alone.seconds
        rate = capacity * float(times)
        print(f"capacity {capacity:,.0f} requests/s; requested {rate:,.0f}; memory {base:,.0f} MB", flush=True)
        results = pool.apply_async(load, (server.port, texts, int(clients), rate, float(seconds)))
        health = pool.apply_async(probe, (server.port, float(seconds)))
        time.sleep(min(5.0, float(seconds) / 4))
        stalled = pool.apply_async(stall, (server.port, int(clients)))
        peak = peak_memory(server, results)
        recovered = recovery(server.port, texts)
        report(results.get(), health.get(), stalled.get(), peak - base, recovered, int(clients))


def offline() -> dict[str, str]:
    """Sentences with their translations, computed without a server."""
    from glassformer import load as load_translator
    from glassformer.builtin import street

    sources = [sentence.source for sentence in street.sentences("test", 50)]
    return dict(zip(sources, load_translator("street").translate(sources), strict=True))


class Server:
    """A server process, started as a user would."""

    def __enter__(self) -> "Server":
        command = [sys.executable, "-m", "glassformer", "serve", "street", "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        match = re.search(r":(\d+);", self.process.stdout.readline())
        assert match, "the server did not start"
        self.port = int(match[1])
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(30)

    def memory(self) -> float:
        """Current resident memory in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) / 1000


def peak_memory(server: Server, load_test: "AsyncResult[ClientResults]") -> float:
    """The largest memory sampled until the load test ended."""
    peak = 0.0
    while not load_test.ready():
        peak = max(peak, server.memory())
        load_test.wait(0.1)
    return peak


def http_request(text: str) -> bytes:
    body = json.dumps({"text": text}).encode()
    head = "POST /api/translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: "
    return f"{head}{len(body)}\r\n\r\n".encode() + body


class Client:
    """One connection that sends a request every `every` seconds, or as soon as the previous one is answered."""

    def __init__(self, port: int, texts: dict[str, str], number: int, every: float, results: ClientResults) -> None:
        self.port, self.every, self.results = port, every, results
        self.requests = [(http_request(source), target) for source, target in texts.items()]
        self.turn, self.sent_at, self.waiting, self.buffer, self.closed = number, 0.0, False, b"", False
        self.loop = asyncio.get_running_loop()
        self.due = self.loop.time() + every * (number % 200) / 200
        self.open()
        self.loop.call_at(self.due, self.send)

    def open(self) -> None:
        self.socket = socket.create_connection(("127.0.0.1", self.port))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING_NEW, RX_SOFTWARE)
        self.socket.setblocking(False)
        self.loop.add_reader(self.socket, self.read)

    def close(self) -> None:
        self.closed = True
        self.loop.remove_reader(self.socket)
        self.socket.close()

    def send(self) -> None:
        if self.closed:
            return
        self.turn += 1
        content, self.expected = self.requests[self.turn % len(self.requests)]
        self.waiting, self.sent_at = True, time.time()
        try:
            self.socket.send(content)
        except OSError:
            self.reconnect()

    def read(self) -> None:
        try:
            data, ancillary, _, _ = self.socket.recvmsg(65536, 256)
        except OSError:
            data, ancillary = b"", []
        if not data:
            return self.reconnect()
        self.buffer += data
        head, blank, body = self.buffer.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if not blank or length is None or len(body) < int(length[1]):
            return None
        arrived = time.time()
        if ancillary:
            seconds, nanoseconds = struct.unpack_from("qq", ancillary[0][2])
            arrived = seconds + nanoseconds / 1e9
        self.buffer, self.waiting = b"", False
        self.record(int(head[9:12]), head, body, arrived - self.sent_at)
        self.due += self.every
        if (missed := self.loop.time() - self.due) > 0:
            self.results.late += int(missed / self.every) if self.every else 0
            self.due += missed
        self.loop.call_at(self.due, self.send)
        return None

    def record(self, status: int, head: bytes, body: bytes, latency: float) -> None:
        results = self.results
        results.statuses[status] = results.statuses.get(status, 0) + 1
        if status == 200:
            results.accepted.append(latency)
            results.wrong += json.loads(body)["translations"][0]["text"] != self.expected
        else:
            results.refused.append(latency)
            results.wrong += b"retry-after: " not in head

    def reconnect(self) -> None:
        self.results.lost += self.waiting
        self.close()
        self.buffer, self.closed = b"", False
        self.open()
        self.loop.call_soon(self.send)


def load(port: int, texts: dict[str, str], clients: int, rate: float, seconds: float) -> ClientResults:
    """Run clients that together send up to `rate` requests per second."""
    lower_priority(5)
    results = ClientResults()

    async def go() -> None:
        start = time.perf_counter()
        connections = [Client(port, texts, number, clients / rate, results) for number in range(clients)]
        await asyncio.sleep(seconds)
        results.seconds = time.perf_counter() - start
        for connection in connections:
            connection.close()

    asyncio.run(go())
    return results


def lower_priority(by: int) -> None:
    import os

    os.nice(by - os.nice(0) if by > os.nice(0) else 0)


def probe(port: int, seconds: float) -> list[float]:
    """Latencies of /health, requested one after another."""
    latencies = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        latencies.append(timed(port, b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")[0])
        time.sleep(max(0.0, HEALTH_INTERVAL_SECONDS - (time.perf_counter() - start)))
    return latencies


def timed(port: int, content: bytes) -> tuple[float, bytes]:
    """Seconds from connecting to the last byte, by the kernel's clock, and the response; the server must close."""
    start = end = time.time()
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING_NEW, RX_SOFTWARE)
        connection.sendall(content)
        response = b""
        while data := (message := connection.recvmsg(65536, 256))[0]:
            ancillary = message[1]
            seconds, nanoseconds = struct.unpack_from("qq", ancillary[0][2]) if ancillary else (time.time(), 0)
            response, end = response + data, seconds + nanoseconds / 1e9
    return end - start, response


def stall(port: int, clients: int) -> list[float]:
    """Start uploads that stall; returns the seconds until the server closed each."""
    lower_priority(5)
    durations, selector = [], selectors.DefaultSelector()
    for _ in range(clients):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(b"POST /api/explore HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{")
        selector.register(connection, selectors.EVENT_READ, time.perf_counter())
    end = time.perf_counter() + 30
    while selector.get_map() and time.perf_counter() < end:
        for key, _ in selector.select(1):
            readable = key.fileobj
            assert isinstance(readable, socket.socket)
            if not _read(readable):
                durations.append(time.perf_counter() - key.data)
                selector.unregister(readable)
                readable.close()
    return durations


def _read(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except ConnectionResetError:
        return b""


def recovery(port: int, texts: dict[str, str]) -> float:
    """Seconds until ten requests in a row were answered quickly and correctly, including those ten."""
    start, good = time.perf_counter(), 0
    [(source, target), *_] = texts.items()
    content = http_request(source).replace(b"host:", b"connection: close\r\nhost:", 1)
    while good < 10 and time.perf_counter() - start < 30:
        latency, response = timed(port, content)
        good = good + 1 if latency < RECOVERED_SECONDS and json.dumps(target)[1:-1] in _as_json(response) else 0
    return time.perf_counter() - start


def _as_json(response: bytes) -> str:
    return json.dumps(response.decode(), ensure_ascii=True)[1:-1]


def report(
    results: ClientResults,
    health: list[float],
    stalled: list[float],
    growth: float,
    recovered: float,
    clients: int,
) -> None:
    answered = len(results.accepted) + len(results.refused)
    statuses = ", ".join(f"{status}: {count:,}" for status, count in sorted(results.statuses.items()))
    print(f"answered {answered / results.seconds:,.0f} requests/s ({statuses}); skipped because late: {results.late:,}")
    rows: list[tuple[str, str, Callable[[], bool]]] = [
        ("refused within 50 ms (p99)", spread(results.refused), lambda: quantile(results.refused, 0.99) <= 0.05),
        ("accepted answered within the deadline", spread(results.accepted),
         lambda: quantile(results.accepted, 1) <= DEADLINE_SECONDS),
        ("/health p99 under 250 ms", spread(health), lambda: quantile(health, 0.99) < 0.25),
        ("memory at most base + 200 MB", f"{growth:+.0f} MB", lambda: growth <= 200),
        ("recovered within 2 s", f"{recovered:.2f} s", lambda: recovered <= 2),
        ("stalled uploads closed within 10 s", f"{len(stalled)} of {clients}, after {max(stalled, default=0):.1f} s",
         lambda: len(stalled) == clients and max(stalled) <= 10),
        ("same text as offline, Retry-After set", f"{results.wrong} wrong", lambda: not results.wrong),
        ("no connection closed without response", f"{results.lost}", lambda: not results.lost),
    ]  # fmt: skip
    for name, measured, holds in rows:
        print(f"{'pass' if holds() else 'FAIL'}  {name:38} {measured}")


def quantile(times: list[float], share: float) -> float:
    """The quantile of the times; 0 if there are none."""
    return sorted(times)[min(len(times) - 1, int(share * len(times)))] if times else 0.0


def spread(times: list[float]) -> str:
    p50, p99, p999, largest = (1000 * quantile(times, share) for share in (0.5, 0.99, 0.999, 1))
    return f"p50 {p50:.1f}  p99 {p99:.1f}  p99.9 {p999:.1f}  max {largest:.1f} ms of {len(times):,}"


if __name__ == "__main__":
    main(*sys.argv[1:])
