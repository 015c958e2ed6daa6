from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collectors.otlp_grpc import OtlpGrpcCollector
from collectors.otlp_http import OtlpHttpCollector
from otel_agentic.config import ReceiveSettings
from otel_agentic.spans import Limits, Receipt, SpanBatch


class RecordingSink:
    """A sink in memory; `error` is raised and `delay_s` waited before anything is accepted. `requested` is set by the first request."""

    def __init__(self) -> None:
        self.batches: list[SpanBatch] = []
        self.error: Exception | None = None
        self.delay_s = 0.0
        self.requested = threading.Event()
        self._lock = threading.Lock()

    def accept(self, batch: SpanBatch) -> Receipt:
        self.requested.set()
        time.sleep(self.delay_s)
        if self.error is not None:
            raise self.error
        with self._lock:
            self.batches.append(batch)
        return Receipt(
            accepted=len(batch.spans) + len(batch.logs),
            rejected=sum(batch.rejected.values()),
            ignored=sum(batch.ignored.values()),
            reasons={**batch.rejected, **batch.ignored},
        )

    @property
    def names(self) -> list[str]:
        return [span.name for batch in self.batches for span in batch.spans]

    @property
    def events(self) -> list[str]:
        return [record.event_name for batch in self.batches for record in batch.logs]


@pytest.fixture
def sink() -> RecordingSink:
    return RecordingSink()


@pytest.fixture
def serve_http(sink: RecordingSink) -> Iterator[Callable[..., OtlpHttpCollector]]:
    """Start an HTTP collector on a free port with the given settings; stopped at the end of the test."""
    started: list[OtlpHttpCollector] = []

    def start(**settings: object) -> OtlpHttpCollector:
        given = {"http": "127.0.0.1:0", **settings}
        collector = OtlpHttpCollector(ReceiveSettings.model_validate(given))
        collector.start(sink)
        started.append(collector)
        return collector

    yield start
    for collector in started:
        collector.stop(5)


@pytest.fixture
def serve_grpc(sink: RecordingSink) -> Iterator[Callable[..., OtlpGrpcCollector]]:
    """Start a gRPC collector on a free port with the given settings; stopped at the end of the test."""
    started: list[OtlpGrpcCollector] = []

    def start(**settings: object) -> OtlpGrpcCollector:
        given = {"grpc": "127.0.0.1:0", **settings}
        collector = OtlpGrpcCollector(ReceiveSettings.model_validate(given))
        collector.start(sink)
        started.append(collector)
        return collector

    yield start
    for collector in started:
        collector.stop(5)


@pytest.fixture
def limits() -> Limits:
    return Limits.from_settings(ReceiveSettings())


@pytest.fixture
def captures(shared_dir: Path) -> Path:
    return shared_dir / "captures"
