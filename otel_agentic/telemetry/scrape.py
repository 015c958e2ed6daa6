"""The text of `/metrics`, for Prometheus and as OpenMetrics, on a registry of our own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from otel_agentic.telemetry.exemplars import Exemplars

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.metrics.export import CardinalityLimits, MetricsData
    from prometheus_client import Metric


class Scrape:
    """Renders `/metrics`. Never touches the global registry of the process that embeds us.

    `lock` is held while a scrape runs: the exporter's collector mixes the points of two scrapes at once, and readers
    must not be swapped under it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._registry = CollectorRegistry()
        self._exemplars = Exemplars()

    def reader(
        self, *, target_info: bool = False, cardinality_limits: CardinalityLimits | None = None
    ) -> PrometheusMetricReader:
        """Return a new metric reader whose points appear in the text until it is shut down.

        Only one reader may carry `target_info` (the resource as a series), and exemplars. Scope labels are left out:
        the series of a scrape and of OTLP ingestion then have the same labels, and a new version of ours starts no new
        series.
        """
        return _Reader(
            self._exemplars if target_info else Exemplars(),
            disable_target_info=not target_info,
            scope_info_enabled=False,
            registry=self._registry,
            cardinality_limits=cardinality_limits,
        )

    def render(self, accept: str = "") -> tuple[str, bytes]:
        """Return content type and text of one scrape; `accept` is the request's header, exemplars need OpenMetrics."""
        encode, content_type = choose_encoder(accept)
        with self.lock:
            return content_type, encode(self)

    def collect(self) -> Iterator[Metric]:
        """Return the families of one scrape; counters and buckets with their exemplars."""
        return map(self._exemplars.put_on, self._registry.collect())


class _Reader(PrometheusMetricReader):
    """The exporter's reader, which lets go of exemplars; here they are noted on the way."""

    def __init__(self, exemplars: Exemplars, **options: Any) -> None:
        self._exemplars = exemplars
        super().__init__(**options)

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object) -> None:
        self._exemplars.note(metrics_data)
        super()._receive_metrics(metrics_data, timeout_millis, **kwargs)
