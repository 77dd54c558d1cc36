"""Requests a second and their latency, with sentences of all clients together and one by one, in one interleaved run.

    python benchmarks/serving.py [MODEL] [CLIENTS] [SECONDS] [ROUNDS]

Clients ask for one sentence each, again and again, over connections that stay open; each in a thread of one process
apart, so that they share no interpreter with the server. Everything stays on this machine.
"""

import http.client
import json
import multiprocessing
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from glassformer.benchmark.throughput import machine
from glassformer.builtin import street
from glassformer.engine import EngineOptions
from glassformer.server.limits import Limits
from glassformer.server.state import ServerState
from glassformer.server.translation_service import open_served_model
from glassformer.server.uvicorn_server import TranslationServer, bind, run

WAYS = {"together": None, "one by one": 1}
"""Sentences that a worker has under way, at most."""


def main(model: str = "street", clients: str = "16", seconds: str = "3", rounds: str = "3") -> None:
    print(f"{machine()}; {model}, {clients} clients, {rounds} rounds of {seconds} s each, beam 4")
    took: dict[str, list[float]] = {name: [] for name in WAYS}
    with serving(model, None) as together, serving(model, 1) as alone:
        ports = dict(zip(WAYS, (together, alone), strict=True))
        for port in ports.values():
            asked(port, int(clients), 0.5)  # warm up
        for _ in range(int(rounds)):
            for name, port in ports.items():
                took[name] += asked(port, int(clients), float(seconds))
    whole = float(seconds) * int(rounds)
    for name, times in took.items():
        times.sort()
        low, middle, high = (1000 * times[int(share * (len(times) - 1))] for share in (0.5, 0.95, 0.99))
        print(
            f"{name:10}  {len(times) / whole:7.1f} requests/s   p50 {low:6.1f}  p95 {middle:6.1f}  p99 {high:6.1f} ms"
        )


@contextmanager
def serving(model: str, sentences: int | None) -> Iterator[int]:
    """The port of a server in a thread of this process."""
    served = open_served_model(model, engine=EngineOptions(sentences=sentences))
    bound, started = bind("127.0.0.1", 0), threading.Event()
    server = TranslationServer(ServerState(served, Limits(requests=256)), tell=started.set)
    thread = threading.Thread(target=run, args=(server, bound), daemon=True)
    thread.start()
    started.wait()
    try:
        yield bound.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


def asked(port: int, clients: int, seconds: float) -> list[float]:
    """Seconds of every request of so many clients, in a process apart."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(several, (port, clients, seconds))


def several(port: int, clients: int, seconds: float) -> list[float]:
    found: list[float] = []
    end = time.perf_counter() + seconds
    threads = [threading.Thread(target=_client, args=(port, number, end, found)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def _client(port: int, number: int, end: float, found: list[float]) -> None:
    sources = [one.source for one in street.sentences("test", 50)]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    turn = number
    while (began := time.perf_counter()) < end:
        body = json.dumps({"text": sources[turn % len(sources)]})
        connection.request("POST", "/api/translate", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        if answer.status == 200:
            found.append(time.perf_counter() - began)
        turn += 1
    connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
