"""Counters, gauges and histograms in Prometheus's text format. Knows nothing about what is counted."""

import threading
from collections.abc import Callable, Mapping, Sequence

LATENCY_BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
BATCH_SIZE_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)
Labels = tuple[tuple[str, str], ...]


class MetricCounter:
    """Prometheus counter: a number that only grows, one per set of labels."""

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
        values = sorted(self._values.items())
        return [f"{self.name}{format_labels(labels)} {format_number(value)}" for labels, value in values]


class MetricGauge:
    """Prometheus gauge: a current value, read whenever the metrics are requested; also a counter kept elsewhere."""

    def __init__(self, name: str, meaning: str, read: Callable[[], float], kind: str = "gauge") -> None:
        self.name, self.meaning, self.kind, self._read = name, meaning, kind, read

    def lines(self) -> list[str]:
        return [f"{self.name} {format_number(self._read())}"]


class MetricInfo:
    """Prometheus info metric: the value 1, whose labels say what does not change."""

    kind = "gauge"

    def __init__(self, name: str, meaning: str, labels: Mapping[str, str | None]) -> None:
        self.name, self.meaning = name, meaning
        self._labels = tuple((label, value) for label, value in labels.items() if value is not None)

    def lines(self) -> list[str]:
        return [f"{self.name}{format_labels(self._labels)} 1"]


class MetricHistogram:
    """Prometheus histogram: counts of observed values by upper bound, one histogram per set of labels."""

    kind = "histogram"

    def __init__(self, name: str, meaning: str, bounds: Sequence[float], lock: threading.Lock) -> None:
        self.name, self.meaning, self.bounds, self._lock = name, meaning, bounds, lock
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, **labels: str) -> None:
        key = tuple(labels.items())
        bucket = next((i for i, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))
        with self._lock:
            self._counts.setdefault(key, [0] * (len(self.bounds) + 1))[bucket] += 1
            self._sums[key] = self._sums.get(key, 0.0) + value

    def lines(self) -> list[str]:
        lines = []
        for labels, counts in sorted(self._counts.items()):
            total = 0
            for bound, count in zip([*map(format_number, self.bounds), "+Inf"], counts, strict=True):
                total += count
                lines.append(f"{self.name}_bucket{format_labels((*labels, ('le', bound)))} {total}")
            lines.append(f"{self.name}_sum{format_labels(labels)} {format_number(self._sums[labels])}")
            lines.append(f"{self.name}_count{format_labels(labels)} {total}")
        return lines


class Metrics:
    """All metrics of a server."""

    def __init__(self) -> None:
        lock = threading.Lock()  # shared by all metrics: each holds it for a few additions
        self.requests = MetricCounter("glassformer_requests_total", "Requests answered, by route and status.", lock)
        self.latency = MetricHistogram(
            "glassformer_request_seconds",
            "Seconds from a request's headers to the end of its response.",
            LATENCY_BUCKETS_SECONDS,
            lock,
        )
        self.refused = MetricCounter("glassformer_refused_total", "Requests that were refused, by status.", lock)
        self.given_up = MetricCounter(
            "glassformer_given_up_total",
            "Requests whose work was cancelled: the client left, the time limit passed, or the server stopped.",
            lock,
        )
        self.cut = MetricCounter(
            "glassformer_connections_cut_total", "Connections closed by the server, by reason.", lock
        )
        self.errors = MetricCounter("glassformer_errors_total", "Internal server errors (status 500).", lock)
        self.batch = MetricHistogram(
            "glassformer_batch_sentences", "Sentences per batched search step.", BATCH_SIZE_BUCKETS, lock
        )
        self.tokens = MetricCounter("glassformer_tokens_total", "Source tokens read and target tokens written.", lock)
        self.gauges: list[MetricGauge | MetricInfo] = []

    def gauge(self, name: str, meaning: str, read: Callable[[], float]) -> None:
        self.gauges.append(MetricGauge(f"glassformer_{name}", meaning, read))

    def info(self, name: str, meaning: str, labels: Mapping[str, str | None]) -> None:
        self.gauges.append(MetricInfo(f"glassformer_{name}_info", meaning, labels))

    def text(self) -> str:
        """All metrics in Prometheus's text format."""
        metrics: list[MetricCounter | MetricGauge | MetricHistogram | MetricInfo] = [
            *(metric for metric in vars(self).values() if isinstance(metric, (MetricCounter, MetricHistogram))),
            *self.gauges,
        ]
        lines = []
        for metric in metrics:
            lines += [f"# HELP {metric.name} {metric.meaning}", f"# TYPE {metric.name} {metric.kind}", *metric.lines()]
        return "\n".join(lines) + "\n"


def format_labels(labels: Labels) -> str:
    """Labels in Prometheus's text format: {route="/health",status="200"}."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(value)}"' for name, value in labels) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def format_number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
