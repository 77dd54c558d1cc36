"""Numbers about a server, in Prometheus's text format. Knows nothing of what is counted."""

import threading
from collections.abc import Callable, Sequence

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128)
Labels = tuple[tuple[str, str], ...]


class MetricCounter:
    """A number that grows, one for each set of labels."""

    kind = "counter"

    def __init__(self, name: str, meaning: str, lock: threading.Lock) -> None:
        self.name, self.meaning, self._lock = name, meaning, lock
        self._values: dict[Labels, float] = {}

    def add(self, amount: float = 1, **labels: str) -> None:
        key = tuple(labels.items())
        with self._lock:
            self._values[key] = self._values.get(key, 0) + amount

    def value(self, **labels: str) -> float:
        return self._values.get(tuple(labels.items()), 0)

    def lines(self) -> list[str]:
        return [f"{self.name}{written(labels)} {number(value)}" for labels, value in sorted(self._values.items())]


class MetricGauge:
    """A number as it stands, asked for when it is read."""

    kind = "gauge"

    def __init__(self, name: str, meaning: str, ask: Callable[[], float]) -> None:
        self.name, self.meaning, self._ask = name, meaning, ask

    def lines(self) -> list[str]:
        return [f"{self.name} {number(self._ask())}"]


class MetricHistogram:
    """How often values were at most so large, for each set of labels."""

    kind = "histogram"

    def __init__(self, name: str, meaning: str, bounds: Sequence[float], lock: threading.Lock) -> None:
        self.name, self.meaning, self.bounds, self._lock = name, meaning, bounds, lock
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, **labels: str) -> None:
        key = tuple(labels.items())
        place = next((i for i, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))
        with self._lock:
            self._counts.setdefault(key, [0] * (len(self.bounds) + 1))[place] += 1
            self._sums[key] = self._sums.get(key, 0.0) + value

    def lines(self) -> list[str]:
        found = []
        for labels, counts in sorted(self._counts.items()):
            total = 0
            for bound, count in zip([*map(number, self.bounds), "+Inf"], counts, strict=True):
                total += count
                found.append(f"{self.name}_bucket{written((*labels, ('le', bound)))} {total}")
            found.append(f"{self.name}_sum{written(labels)} {number(self._sums[labels])}")
            found.append(f"{self.name}_count{written(labels)} {total}")
        return found


class Metrics:
    """All that a server counts."""

    def __init__(self) -> None:
        lock = threading.Lock()  # one for all: they are held for a few additions
        self.requests = MetricCounter("glassformer_requests_total", "Requests answered, by route and status.", lock)
        self.latency = MetricHistogram(
            "glassformer_request_seconds", "From a request's headers to the end of its answer.", SECONDS, lock
        )
        self.refused = MetricCounter("glassformer_refused_total", "Requests that were refused, by reason.", lock)
        self.given_up = MetricCounter(
            "glassformer_given_up_total",
            "Requests whose work was given up: the client left, or it took too long.",
            lock,
        )
        self.cut = MetricCounter("glassformer_connections_cut_total", "Connections that were cut, by reason.", lock)
        self.errors = MetricCounter("glassformer_errors_total", "Errors that are ours: status 500.", lock)
        self.batch = MetricHistogram(
            "glassformer_batch_sentences", "Sentences that took steps together, each time.", SENTENCES, lock
        )
        self.tokens = MetricCounter("glassformer_tokens_total", "Tokens read and written, by side.", lock)
        self.gauges: list[MetricGauge] = []

    def gauge(self, name: str, meaning: str, ask: Callable[[], float]) -> None:
        self.gauges.append(MetricGauge(f"glassformer_{name}", meaning, ask))

    def text(self) -> str:
        """Everything, as Prometheus reads it."""
        every: list[MetricCounter | MetricGauge | MetricHistogram] = [
            *(one for one in vars(self).values() if isinstance(one, (MetricCounter, MetricHistogram))),
            *self.gauges,
        ]
        lines = []
        for one in every:
            lines += [f"# HELP {one.name} {one.meaning}", f"# TYPE {one.name} {one.kind}", *one.lines()]
        return "\n".join(lines) + "\n"


def written(labels: Labels) -> str:
    """{route="/health",status="200"}"""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
