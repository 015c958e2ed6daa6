"""What a loopback OTLP receiver got, decoded."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, ScopeMetrics


@dataclass(slots=True)
class Received:
    """Requests in order of arrival; `headers` are those of the last one, lower case."""

    metrics: list[ExportMetricsServiceRequest] = field(default_factory=list)
    logs: list[ExportLogsServiceRequest] = field(default_factory=list)
    headers: Mapping[str, str] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def scopes(self) -> list[ScopeMetrics]:
        """Return the metric scopes of the last request."""
        return [scope for resource in self.metrics[-1].resource_metrics for scope in resource.scope_metrics]

    def by_name(self) -> dict[str, Metric]:
        """Return the metrics of the last request."""
        return {metric.name: metric for scope in self.scopes() for metric in scope.metrics}

    def points(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        """Return attributes and point of each point of a metric of the last request."""
        metric = self.by_name().get(name)
        if metric is None:
            return []
        data = getattr(metric, str(metric.WhichOneof("data")))
        return [(attributes(point.attributes), point) for point in data.data_points]

    def values(self, name: str, *keys: str) -> dict[Any, float]:
        """Return values of a metric by the values of the named attributes."""
        return {
            tuple(point_attributes.get(key) for key in keys): point.as_int
            if point.HasField("as_int")
            else point.as_double
            for point_attributes, point in self.points(name)
        }

    def events(self) -> list[tuple[dict[str, Any], LogRecord]]:
        """Return attributes and record of each event of all requests."""
        return [
            (attributes(record.attributes), record)
            for request in self.logs
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]


def attributes(pairs: Any) -> dict[str, Any]:
    """Return OTLP attributes as a dict."""
    return {pair.key: _plain(pair.value) for pair in _typed(pairs)}


def wait_until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Return when the condition holds; fail after `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


def _typed(pairs: Any) -> list[KeyValue]:
    return list(pairs)


def _plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None
