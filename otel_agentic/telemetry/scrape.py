"""The Prometheus text of `/metrics`, on a registry of our own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import CardinalityLimits


class Scrape:
    """Renders `/metrics`. Never touches the global registry of the process that embeds us.

    `lock` is held while a scrape runs: the exporter's collector mixes the points of two scrapes at once, and readers
    must not be swapped under it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._registry = CollectorRegistry()

    def reader(
        self, *, target_info: bool = False, cardinality_limits: CardinalityLimits | None = None
    ) -> PrometheusMetricReader:
        """Return a new metric reader whose points appear in the text until it is shut down.

        Only one reader may carry `target_info` (the resource as a series). Scope labels are left out: the series of a
        scrape and of OTLP ingestion then have the same labels, and a new version of ours starts no new series.
        """
        return PrometheusMetricReader(
            disable_target_info=not target_info,
            scope_info_enabled=False,
            registry=self._registry,
            cardinality_limits=cardinality_limits,
        )

    def render(self) -> tuple[str, bytes]:
        """Return content type and text of one scrape."""
        with self.lock:
            return CONTENT_TYPE_PLAIN_0_0_4, generate_latest(self._registry)
