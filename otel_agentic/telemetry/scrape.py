"""The text of `/metrics`, for Prometheus and as OpenMetrics with exemplars, on a registry of our own."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics.export import HistogramDataPoint
from opentelemetry.trace import format_span_id, format_trace_id
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.samples import Exemplar

from otel_agentic.telemetry import names
from otel_agentic.telemetry.names import family_name, label_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.sdk.metrics import Exemplar as SdkExemplar
    from opentelemetry.sdk.metrics.export import CardinalityLimits, MetricsData
    from prometheus_client import Metric
    from prometheus_client.samples import Sample

#: Family and labels of a series, without the bucket.
_Series: TypeAlias = "tuple[str, frozenset[tuple[str, str]]]"
_FAMILIES: Final = {instrument.name: family_name(instrument) for instrument in names.INSTRUMENTS}
_NS_PER_S: Final = 1_000_000_000
_BUCKET: Final = "le"
_TOTAL: Final = "_total"


class Exemplars:
    """The newest exemplar of each series and bucket.

    The SDK returns each exemplar once. They are kept here for later and other scrapes. Counters and histograms of the SDK
    have a bounded number of series.
    """

    def __init__(self) -> None:
        self._newest: dict[_Series, dict[int, SdkExemplar]] = {}

    def note(self, collected: MetricsData) -> None:
        """Store the exemplars of a collection."""
        for series, bucket, exemplar in _exemplars(collected):
            of_series = self._newest.setdefault(series, {})
            known = of_series.get(bucket)
            if known is None or known.time_unix_nano <= exemplar.time_unix_nano:
                of_series[bucket] = exemplar

    def put_on(self, family: Metric) -> Metric:
        """Return a family with the stored exemplars on its counters and buckets."""
        if self._newest and family.type in {"counter", "histogram"}:
            buckets: Counter[_Series] = Counter()
            family.samples = [self._with_exemplar(family, sample, buckets) for sample in family.samples]
        return family

    def _with_exemplar(self, family: Metric, sample: Sample, buckets: Counter[_Series]) -> Sample:
        """Return a sample with its exemplar; `buckets` counts how many of each series came before it."""
        labels = {name: value for name, value in sample.labels.items() if value}  # the exporter fills gaps with ""
        bound = labels.pop(_BUCKET, None)
        if bound is None and not sample.name.endswith(_TOTAL):
            return sample
        series = (family.name, frozenset(labels.items()))
        exemplar = self._newest.get(series, {}).get(buckets[series])
        buckets[series] += 1
        return sample if exemplar is None else sample._replace(exemplar=_openmetrics(exemplar))


def _exemplars(collected: MetricsData) -> Iterator[tuple[_Series, int, SdkExemplar]]:
    """Yield exemplars with their series and the number of their bucket, 0 for a counter."""
    for resource in collected.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.data.data_points:
                    series = (_FAMILIES[metric.name], _labels(point.attributes or {}))
                    bounds = point.explicit_bounds if isinstance(point, HistogramDataPoint) else ()
                    for exemplar in point.exemplars:
                        yield series, bisect_left(bounds, exemplar.value), exemplar


def _labels(attributes: Mapping[str, object]) -> frozenset[tuple[str, str]]:
    return frozenset((label_name(name), str(value)) for name, value in attributes.items() if value != "")


def _openmetrics(exemplar: SdkExemplar) -> Exemplar:
    labels = {
        "trace_id": format_trace_id(exemplar.trace_id or 0),
        "span_id": format_span_id(exemplar.span_id or 0),
    }
    return Exemplar(labels, exemplar.value, exemplar.time_unix_nano / _NS_PER_S)


class Scrape:
    """Renders `/metrics`. Never touches the global registry of the process that embeds us.

    `lock` is held while a scrape runs: the exporter's collector would mix the points of two concurrent scrapes, and readers
    must not be replaced during a scrape.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._registry = CollectorRegistry()
        self._exemplars = Exemplars()

    def reader(
        self, *, target_info: bool = False, cardinality_limits: CardinalityLimits | None = None
    ) -> PrometheusMetricReader:
        """Return a new metric reader whose points appear in the text until it is shut down.

        Only one reader may have `target_info` (the resource as a series) and exemplars. Scope labels are left out: the series
        of a scrape and of OTLP ingestion then have the same labels, and a new version of this project starts no new series.
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
    """The exporter's reader, which drops exemplars; here they are stored first."""

    def __init__(self, exemplars: Exemplars, **options: Any) -> None:
        self._exemplars = exemplars
        super().__init__(**options)

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object) -> None:
        self._exemplars.note(metrics_data)
        super()._receive_metrics(metrics_data, timeout_millis, **kwargs)
