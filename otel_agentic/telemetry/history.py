"""Window gauges of the past, sent over OTLP with their own timestamps."""

from __future__ import annotations

import logging
import time
from itertools import islice
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from otel_agentic.errors import BackendError
from otel_agentic.telemetry import names
from otel_agentic.telemetry.delivery import calm
from otel_agentic.telemetry.identity import own_resource, own_version
from otel_agentic.telemetry.past import past_samples
from otel_agentic.telemetry.sinks import MAX_POINTS_PER_REQUEST, build_exporters, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from otel_agentic.config import EmitSettings
    from otel_agentic.telemetry.gauges import WindowPoints
    from otel_agentic.telemetry.names import Instrument
    from otel_agentic.telemetry.past import PastSample

#: Sends of one request; the exporter tries for `emit.timeout_s` in each of them.
TRIES: Final = 3
_WAIT_S: Final = 1.0

_logger = logging.getLogger(__name__)


class OtlpHistory:
    """Sends window points to a backend. Values stand at the end of their windows; counters have no past to send.

    The backend must take points that are older than what it has, as Prometheus does within `out_of_order_time_window`.
    """

    def __init__(self, emit: EmitSettings, endpoint: str, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Prepare; nothing is sent yet.

        Args:
            emit: transport, headers, TLS, limits, instance id: that of the collector joins past and present.
            endpoint: the backend, http(s)://host:port.
            sleep: waits some seconds.

        Raises:
            ConfigError: the endpoint is not http(s)://host:port, or a TLS file cannot be used.
        """
        self._emit = emit
        self._endpoint = shown(endpoint)
        self._sleep = sleep
        self._left_out = 0
        self._exporters = build_exporters(emit, endpoint, partly={"metrics": self._partly})
        self._resource = own_resource(emit.instance_id)
        self._scope = InstrumentationScope(names.SCOPE, own_version(), names.SCHEMA_URL)

    def send(self, points: WindowPoints) -> int:
        """Send the points of some window ends; return how many values the backend took.

        Sending again what was sent says the same of the same series at the same times.

        Raises:
            BackendError: the backend did not take it, after some tries.
        """
        sent, before = 0, self._left_out
        for batch in _batched(past_samples(points, self._emit), MAX_POINTS_PER_REQUEST):
            self._send(self._data(batch))
            sent += len(batch)
        return sent - (self._left_out - before)

    def close(self) -> None:
        """Close the connection."""
        with calm():
            self._exporters.metrics.shutdown()
            self._exporters.logs.shutdown()  # type: ignore[no-untyped-call]  # the SDK leaves this one without types

    def _partly(self, rejected: int, why: str) -> None:
        if not self._left_out:
            _logger.warning("telemetry backend %s left %d points of the past out: %s", self._endpoint, rejected, why)
        self._left_out += rejected

    def _send(self, data: MetricsData) -> None:
        reason = self._refusal(data)
        for tried in range(1, TRIES):
            if reason is None:
                return
            self._sleep(_WAIT_S * 2**tried)
            reason = self._refusal(data)
        if reason is not None:
            raise BackendError(
                f"telemetry backend {self._endpoint} does not take window points of the past ({TRIES} tries): {reason}; is "
                "it up, and does it accept points out of order?"
            )

    def _refusal(self, data: MetricsData) -> str | None:
        """Send once; return why the backend did not take it, None when it did."""
        with calm() as heard:
            taken = self._exporters.metrics.export(data) is MetricExportResult.SUCCESS
        if taken:
            return None
        return heard[0] if heard else "no reason given"

    def _data(self, samples: Sequence[PastSample]) -> MetricsData:
        by_instrument: dict[Instrument, list[NumberDataPoint]] = {}
        for sample in samples:
            by_instrument.setdefault(sample.instrument, []).append(_point(sample))
        scope = ScopeMetrics(
            scope=self._scope,
            metrics=[_metric(instrument, found) for instrument, found in by_instrument.items()],
            schema_url=names.SCHEMA_URL,
        )
        resource = ResourceMetrics(resource=self._resource, scope_metrics=[scope], schema_url=names.SCHEMA_URL)
        return MetricsData(resource_metrics=[resource])


def _metric(instrument: Instrument, points: list[NumberDataPoint]) -> Metric:
    data = (
        Gauge(data_points=points)
        if instrument.kind == "observable_gauge"
        else Sum(data_points=points, aggregation_temporality=AggregationTemporality.CUMULATIVE, is_monotonic=False)
    )
    return Metric(name=instrument.name, description=instrument.description, unit=instrument.unit, data=data)


def _point(sample: PastSample) -> NumberDataPoint:
    return NumberDataPoint(
        attributes=sample.attributes,
        start_time_unix_nano=0,  # unknown, as OTLP says it: nobody counted then
        time_unix_nano=sample.time_ns,
        value=sample.value,
    )


def _batched(samples: Iterable[PastSample], size: int) -> Iterator[list[PastSample]]:
    remaining = iter(samples)
    while batch := list(islice(remaining, size)):
        yield batch
