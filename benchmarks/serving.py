"""Requests per second and latency of the server, with and without batching across clients, in one interleaved run.

    python benchmarks/serving.py [MODEL] [CLIENTS] [SECONDS] [ROUNDS]

Each client sends one sentence at a time, repeatedly, over a persistent connection. Clients are threads of a separate
process, so that they do not share an interpreter with the server. Everything runs on this machine.
"""

import http.client
import json
import multiprocessing
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from glassformer.benchmark.throughput import machine_description
from glassformer.builtin import street
from glassformer.engine import EngineOptions
from glassformer.server.limits import Limits
from glassformer.server.state import ServerState
from glassformer.server.translation_service import open_served_model
from glassformer.server.uvicorn_server import TranslationServer, bind, run

MODES = {"batched": None, "unbatched": 1}
"""Sentences per batch of a worker, at most."""


def main(model: str = "street", clients: str = "16", seconds: str = "3", rounds: str = "3") -> None:
    print(f"{machine_description()}; {model}, {clients} clients, {rounds} rounds of {seconds} s each, beam 4")
    latencies: dict[str, list[float]] = {name: [] for name in MODES}
    with serving(model, None) as batched, serving(model, 1) as unbatched:
        ports = dict(zip(MODES, (batched, unbatched), strict=True))
        for port in ports.values():
            measure(port, int(clients), 0.5)  # warm-up
        for _ in range(int(rounds)):
            for name, port in ports.items():
                latencies[name] += measure(port, int(clients), float(seconds))
    total_seconds = float(seconds) * int(rounds)
    for name, times in latencies.items():
        times.sort()
        p50, p95, p99 = (1000 * times[int(share * (len(times) - 1))] for share in (0.5, 0.95, 0.99))
        print(
            f"{name:10}  {len(times) / total_seconds:7.1f} requests/s   "
            f"p50 {p50:6.1f}  p95 {p95:6.1f}  p99 {p99:6.1f} ms"
        )


@contextmanager
def serving(model: str, sentences: int | None) -> Iterator[int]:
    """Run a server in a thread of this process; yields its port."""
    served = open_served_model(model, engine=EngineOptions(sentences=sentences))
    bound, started = bind("127.0.0.1", 0), threading.Event()
    server = TranslationServer(ServerState(served, Limits(requests=256)), on_started=started.set)
    thread = threading.Thread(target=run, args=(server, bound), daemon=True)
    thread.start()
    started.wait()
    try:
        yield bound.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        bound.close()


def measure(port: int, clients: int, seconds: float) -> list[float]:
    """The latency of every request, with the clients in a separate process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(run_clients, (port, clients, seconds))


def run_clients(port: int, clients: int, seconds: float) -> list[float]:
    latencies: list[float] = []
    end = time.perf_counter() + seconds
    threads = [threading.Thread(target=_client, args=(port, number, end, latencies)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return latencies


def _client(port: int, number: int, end: float, latencies: list[float]) -> None:
    sources = [sentence.source for sentence in street.sentences("test", 50)]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    turn = number
    while (began := time.perf_counter()) < end:
        body = json.dumps({"text": sources[turn % len(sources)]})
        connection.request("POST", "/api/translate", body, {"content-type": "application/json"})
        response = connection.getresponse()
        response.read()
        if response.status == 200:
            latencies.append(time.perf_counter() - began)
        turn += 1
    connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
