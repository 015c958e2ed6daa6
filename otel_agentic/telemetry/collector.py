"""How a running collector does, as metrics: what its operator is to be told of, or woken up for."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from opentelemetry.metrics import Observation

from otel_agentic.telemetry import names
from otel_agentic.telemetry.attributes import label
from otel_agentic.telemetry.metrics import counter, histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.metrics import CallbackOptions, Meter

    from otel_agentic.telemetry.names import Instrument

#: What waits: traces to be read, conversations to be rebuilt, conversations to be scored.
Stage: TypeAlias = Literal["read", "rebuild", "score"]
#: All instruments of one collection, and of those that come close together, show the same moment.
_SAME_MOMENT_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """How a collector does at one moment. Counts begin with the process.

    Attributes:
        ready: whether spans are taken.
        why_not: why not, in words; None where they are.
        queued_requests: requests that wait to be written.
        queued_spans: spans and log records in them.
        store_open: whether the store can be written.
        store_reopened: how often it was opened again after a failure.
        store_bytes: size of its file; None where that is gone.
        log_bytes: size of its write-ahead log.
        backlog: how much is due and waits, by stage.
        background_share: share of the time that rebuilding and scoring may take now.
        breaker_open: whether the judge is left alone, or tried with a single question.
        breaker_opened: how often it was left alone.
        queries: queries of people that run now.
        retention_problem: what keeps exports and removals from their end; None where nothing does.
        retention: whether anything is exported or removed at all.
    """

    ready: bool
    why_not: str | None
    queued_requests: int
    queued_spans: int
    store_open: bool
    store_reopened: int
    store_bytes: int | None
    log_bytes: int
    backlog: Mapping[Stage, int]
    background_share: float
    breaker_open: bool
    breaker_opened: int
    queries: int
    retention_problem: str | None
    retention: bool


class CollectorMetrics:
    """The metrics of one collector on a meter. Thread-safe."""

    def __init__(self, meter: Meter, vitals: Callable[[], Vitals]) -> None:
        self._vitals = _Fresh(vitals)
        self._refused = counter(meter, names.INGEST_REFUSED)
        self._commits = histogram(meter, names.COMMIT_DURATION)
        for transport in ("otlp_grpc", "otlp_http"):  # a rate needs the zero to see the first increase
            self.record_refusal(transport, "unavailable", 0)
        creators = {
            "observable_gauge": meter.create_observable_gauge,
            "observable_counter": meter.create_observable_counter,
            "observable_up_down_counter": meter.create_observable_up_down_counter,
        }
        for instrument, read in _READ.items():
            creators[instrument.kind](
                instrument.name,
                callbacks=[self._reader(read)],
                unit=instrument.unit,
                description=instrument.description,
            )

    def record_refusal(self, transport: str, status: str, count: int = 1) -> None:
        """Count a request that was refused as a whole."""
        self._refused.add(count, {names.TRANSPORT: label(transport), names.REASON: label(status)})

    def record_commit(self, seconds: float) -> None:
        """Measure how long a commit of spans took."""
        self._commits.record(seconds)

    def _reader(self, read: _Read) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            return read(self._vitals.get())

        return observe


class _Fresh:
    """What a function returned a moment ago, or returns now: each collection reads every instrument apart."""

    def __init__(self, read: Callable[[], Vitals]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._kept: tuple[float, Vitals] | None = None

    def get(self) -> Vitals:
        with self._lock:
            if self._kept is None or time.monotonic() - self._kept[0] > _SAME_MOMENT_S:
                self._kept = time.monotonic(), self._read()
            return self._kept[1]


_Read: TypeAlias = "Callable[[Vitals], list[Observation]]"


def _one(value: Callable[[Vitals], float]) -> _Read:
    return lambda vitals: [Observation(value(vitals))]


def _sizes(vitals: Vitals) -> list[Observation]:
    sizes = {"data": vitals.store_bytes, "log": vitals.log_bytes}
    return [Observation(size, {names.STORE_PART: part}) for part, size in sizes.items() if size is not None]


def _backlog(vitals: Vitals) -> list[Observation]:
    return [Observation(count, {names.STAGE: stage}) for stage, count in vitals.backlog.items()]


def _failing(vitals: Vitals) -> list[Observation]:
    return [Observation(int(vitals.retention_problem is not None))] if vitals.retention else []


_READ: Final[Mapping[Instrument, _Read]] = {
    names.COLLECTOR_READY: _one(lambda vitals: int(vitals.ready)),
    names.QUEUE_REQUESTS: _one(lambda vitals: vitals.queued_requests),
    names.QUEUE_SPANS: _one(lambda vitals: vitals.queued_spans),
    names.STORE_OPEN: _one(lambda vitals: int(vitals.store_open)),
    names.STORE_REOPENED: _one(lambda vitals: vitals.store_reopened),
    names.STORE_SIZE: _sizes,
    names.BACKLOG: _backlog,
    names.BACKGROUND_SHARE: _one(lambda vitals: vitals.background_share),
    names.BREAKER_OPEN: _one(lambda vitals: int(vitals.breaker_open)),
    names.BREAKER_OPENED: _one(lambda vitals: vitals.breaker_opened),
    names.QUERIES_RUNNING: _one(lambda vitals: vitals.queries),
    names.RETENTION_FAILING: _failing,
}
