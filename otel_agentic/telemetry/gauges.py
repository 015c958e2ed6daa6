"""Gauges of windows, and the text of `/metrics` for Prometheus and as OpenMetrics with exemplars."""

from __future__ import annotations

import logging
import math
import threading
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, runtime_checkable

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider, ObservableGauge, ObservableUpDownCounter
from opentelemetry.sdk.metrics import Exemplar as SdkExemplar
from opentelemetry.sdk.metrics.export import CardinalityLimits, HistogramDataPoint, InMemoryMetricReader, MetricsData
from opentelemetry.trace import format_span_id, format_trace_id
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.samples import Exemplar, Sample

from otel_agentic.scoring.criteria import CORRECT
from otel_agentic.stats.model import TIERS, Estimate, Estimates
from otel_agentic.telemetry import names
from otel_agentic.telemetry.delivery import MetricsSource, joined
from otel_agentic.telemetry.events import group_attributes, label, own_version
from otel_agentic.telemetry.names import Instrument, family_name, label_name
from otel_agentic.windows.model import GroupKey, GroupSummary, WindowPoint

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource

    from otel_agentic.windows.objectives import ObjectivePoint

#: Family and labels of a series, without the bucket.
_Series: TypeAlias = "tuple[str, frozenset[tuple[str, str]]]"
_FAMILIES: Final = {instrument.name: family_name(instrument) for instrument in names.INSTRUMENTS}
_NS_PER_S: Final = 1_000_000_000
_BUCKET: Final = "le"
_TOTAL: Final = "_total"


class Exemplars:
    """The newest exemplar of each series and bucket.

    The SDK returns each exemplar only once, so they are stored here for later scrapes and other scrapers. Memory is
    bounded, since the SDK limits the number of series of counters and histograms.
    """

    def __init__(self) -> None:
        self._newest: dict[_Series, dict[int, SdkExemplar]] = {}

    def note(self, collected: MetricsData) -> None:
        """Store the exemplars of a collection."""
        for series, bucket, exemplar in _exemplars(collected):
            series_exemplars = self._newest.setdefault(series, {})
            previous = series_exemplars.get(bucket)
            if previous is None or previous.time_unix_nano <= exemplar.time_unix_nano:
                series_exemplars[bucket] = exemplar

    def put_on(self, family: Metric) -> Metric:
        """Return a family with the stored exemplars on its counters and buckets."""
        if self._newest and family.type in {"counter", "histogram"}:
            buckets: Counter[_Series] = Counter()
            family.samples = [self._with_exemplar(family, sample, buckets) for sample in family.samples]
        return family

    def _with_exemplar(self, family: Metric, sample: Sample, buckets: Counter[_Series]) -> Sample:
        """Return a sample with its exemplar; `buckets` counts the preceding samples of each series."""
        labels = {name: value for name, value in sample.labels.items() if value}  # the exporter fills gaps with ""
        bound = labels.pop(_BUCKET, None)
        if bound is None and not sample.name.endswith(_TOTAL):
            return sample
        series = (family.name, frozenset(labels.items()))
        exemplar = self._newest.get(series, {}).get(buckets[series])
        buckets[series] += 1
        return sample if exemplar is None else sample._replace(exemplar=_openmetrics(exemplar))


def _exemplars(collected: MetricsData) -> Iterator[tuple[_Series, int, SdkExemplar]]:
    """Yield exemplars with their series and the index of their bucket, 0 for a counter."""
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
    """Renders `/metrics` from a registry of its own; the global registry of an embedding process is never used.

    `lock` is held while a scrape runs: the exporter's collector would mix the points of two concurrent scrapes, and readers
    must not be replaced during a scrape.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._registry = CollectorRegistry()
        self._exemplars = Exemplars()

    def reader(
        self, further: MetricsSource | None = None, *, cardinality_limits: CardinalityLimits | None = None
    ) -> PrometheusMetricReader:
        """Return a new metric reader whose points appear in the text until it is shut down.

        Only one reader may have `further` metrics, which are added to its own; it also has the resource as a series, and exemplars. Scope labels are omitted, so
        that series from a scrape and from OTLP have the same labels, and a new version of this project starts no new
        series.
        """
        return _Reader(
            self._exemplars if further else Exemplars(),
            further,
            disable_target_info=further is None,
            scope_info_enabled=False,
            registry=self._registry,
            cardinality_limits=cardinality_limits,
        )

    def render(self, accept: str = "") -> tuple[str, bytes]:
        """Return content type and body of one scrape; exemplars need OpenMetrics, requested by the header `accept`."""
        encode, content_type = choose_encoder(accept)
        with self.lock:
            return content_type, encode(self)

    def collect(self) -> Iterator[Metric]:
        """Return the families of one scrape, with exemplars on counters and buckets."""
        return map(self._exemplars.put_on, self._registry.collect())


class _Reader(PrometheusMetricReader):
    """The exporter's reader, which drops exemplars, extended to store them first, and to add further metrics."""

    def __init__(self, exemplars: Exemplars, further: MetricsSource | None, **options: Any) -> None:
        self._exemplars = exemplars
        self._further = further
        super().__init__(**options)

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object) -> None:
        collected = joined(metrics_data, self._further()) if self._further else metrics_data
        self._exemplars.note(collected)
        super()._receive_metrics(collected, timeout_millis, **kwargs)


Attributes: TypeAlias = "dict[str, str | int]"
#: Point, lower bound, upper bound of one ratio.
_Family: TypeAlias = "tuple[Instrument, Instrument, Instrument]"
_Sample: TypeAlias = "tuple[Instrument, Observation]"

_SUCCESS: _Family = (names.SUCCESS, names.SUCCESS_LOWER, names.SUCCESS_UPPER)
_PASS_AT_K: _Family = (names.PASS_AT_K, names.PASS_AT_K_LOWER, names.PASS_AT_K_UPPER)
_PASS_POW_K: _Family = (names.PASS_POW_K, names.PASS_POW_K_LOWER, names.PASS_POW_K_UPPER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The points with gauges, and the groups that exceed the cap."""

    points: tuple[WindowPoint, ...]
    dropped: frozenset[GroupKey]

    @property
    def groups(self) -> frozenset[GroupKey]:
        """The groups with gauges."""
        return frozenset(point.summary.key for point in self.points)


def select(points: Iterable[WindowPoint], max_groups: int) -> Selection:
    """Return the newest point of each group and window; only the `max_groups` most recent groups are selected.

    Groups by case or by tool are omitted: ids are never metric attributes, and groups that differ only in them would
    collide.
    """
    newest: dict[tuple[GroupKey, str], WindowPoint] = {}
    for point in points:
        key = point.summary.key
        if key.case is not None or key.tool is not None:
            continue
        previous = newest.get((key, point.window))
        if previous is None or _newness(point) > _newness(previous):
            newest[key, point.window] = point
    groups: dict[GroupKey, list[WindowPoint]] = defaultdict(list)
    for (key, _), point in newest.items():
        groups[key].append(point)
    ordered = sorted(groups, key=lambda key: _recency(key, groups[key]))
    return Selection(
        points=tuple(point for key in ordered[:max_groups] for point in groups[key]),
        dropped=frozenset(ordered[max_groups:]),
    )


def observe(points: Iterable[WindowPoint], estimators: Sequence[str] = ()) -> dict[str, list[Observation]]:
    """Return the observations of the points by instrument name; undefined estimates are omitted.

    Args:
        points: one point of each group and window.
        estimators: names of the estimators to emit; empty means the headline estimator.
    """
    observations: dict[str, list[Observation]] = defaultdict(list)
    for instrument, observation in samples_of_all(points, estimators):
        observations[instrument.name].append(observation)
    return observations


def observe_objectives(
    points: Iterable[ObjectivePoint], preferred: frozenset[GroupKey], max_groups: int
) -> list[Observation]:
    """Return the e-values of objectives for at most `max_groups` groups, groups with window gauges first."""
    candidates = [point for point in points if point.key.case is None and point.key.tool is None]
    ordered = sorted(dict.fromkeys(point.key for point in candidates), key=lambda key: key not in preferred)
    selected = frozenset(ordered[:max_groups])
    return [_evidence(point) for point in candidates if point.key in selected]


def _evidence(point: ObjectivePoint) -> Observation:
    attributes: Attributes = {**group_attributes(point.key), names.OBJECTIVE: label(point.objective), names.K: point.k}
    return Observation(point.e_value, attributes)


def samples_of_all(points: Iterable[WindowPoint], estimators: Sequence[str] = ()) -> Iterator[_Sample]:
    """Yield the observations of the points of one collection: those of each point, and the tier of each group once.

    A tier is derived from all conversations since an agent version's first one, so it does not belong to a window.
    """
    tiers: dict[GroupKey, WindowPoint] = {}
    for point in points:
        yield from samples_of(point, estimators)
        latest = tiers.setdefault(point.summary.key, point)
        if _newness(point) > _newness(latest):
            tiers[point.summary.key] = point
    for key, point in tiers.items():
        if key.criterion not in {None, CORRECT}:
            continue  # other criteria claim no tier
        attributes: Attributes = {**group_attributes(key)}
        for tier in TIERS:
            yield from _sample(names.TIER_STATUS, int(tier == point.summary.tier), {**attributes, names.TIER: tier})


def samples_of(point: WindowPoint, estimators: Sequence[str] = ()) -> Iterator[_Sample]:
    """Yield the observations of one point except its group's tier, as (instrument, observation); see `observe`."""
    summary = point.summary
    attributes: Attributes = {**group_attributes(summary.key), names.WINDOW: point.window}
    for name in dict.fromkeys(estimators or (summary.default_estimator,)):
        yield from _rates(summary.estimates.get(name), attributes)
    yield from _counts(summary, attributes)
    for dimension, mean in summary.tool_dimensions.items():
        if mean.n:
            yield from _sample(names.TOOL_CORRECTNESS, mean.mean, {**attributes, names.TOOL_DIMENSION: dimension})


def _newness(point: WindowPoint) -> tuple[int, int]:
    """Return the sort key of a group's points, newest last; of two with the same end, the larger one last."""
    return (point.end_ns, _conversations(point.summary))


def _recency(key: GroupKey, points: Sequence[WindowPoint]) -> tuple[int, int, tuple[tuple[str, str | int], ...]]:
    """Return the sort key of a group, most recent group first.

    All windows of one evaluation have the same end, so the start of the narrowest window that contains a conversation decides:
    the group was active after it. A window of the last n conversations has no start. Of groups with the same start, the
    busier one comes first, then the order is by name.
    """
    active = [point for point in points if _conversations(point.summary)]
    last = max((point.end_ns - point.width_ns for point in active if point.width_ns is not None), default=0)
    busiest = max((_conversations(point.summary) for point in active), default=0)
    return (-last, -busiest, tuple(group_attributes(key).items()))


def _conversations(summary: GroupSummary) -> int:
    return summary.n + sum(summary.not_evaluated.values())


def _rates(estimates: Estimates | None, attributes: Attributes) -> Iterator[_Sample]:
    if estimates is None:
        return
    estimator_attributes: Attributes = {**attributes, names.ESTIMATOR: estimates.estimator}
    success = _success(estimates)
    if success is not None:
        yield from _estimate(_SUCCESS, success, estimator_attributes)
    for k, estimate in estimates.pass_at_k.items():
        yield from _estimate(_PASS_AT_K, estimate, {**estimator_attributes, names.K: k})
    for k, estimate in estimates.pass_pow_k.items():
        yield from _estimate(_PASS_POW_K, estimate, {**estimator_attributes, names.K: k})


def _success(estimates: Estimates) -> Estimate | None:
    """Return pass@1, which equals pass^1; None if k = 1 was not requested."""
    return estimates.pass_at_k.get(1) or estimates.pass_pow_k.get(1)


def _counts(summary: GroupSummary, attributes: Attributes) -> Iterator[_Sample]:
    yield from _sample(names.COVERAGE, summary.coverage, attributes)
    by_outcome = {
        "pass": summary.c,
        "fail": summary.n - summary.c,
        "not_evaluated": sum(summary.not_evaluated.values()),
    }
    for outcome, count in by_outcome.items():
        yield from _sample(names.WINDOW_CONVERSATIONS, count, {**attributes, names.OUTCOME: outcome})


def _estimate(family: _Family, estimate: Estimate, attributes: Attributes) -> Iterator[_Sample]:
    if estimate.value is None:
        return  # a bound without a point estimate would look like a result
    for instrument, value in zip(family, (estimate.value, estimate.lower, estimate.upper), strict=True):
        yield from _sample(instrument, value, attributes)


def _sample(instrument: Instrument, value: float | None, attributes: Attributes) -> Iterator[_Sample]:
    if value is not None and math.isfinite(value):
        yield instrument, Observation(value, attributes)


_logger = logging.getLogger(__name__)
#: The cap on groups bounds the points. The SDK's own limit of 2,000 would merge live gauges into one overflow point.
_LIMITS: Final[CardinalityLimits] = {ObservableGauge: 1_000_000, ObservableUpDownCounter: 1_000_000}


@runtime_checkable
class PointTable(Protocol):
    """A table of window points that are created on demand."""

    def points(self) -> Iterable[WindowPoint]:
        """Return the points."""
        ...


WindowPoints: TypeAlias = Iterable[WindowPoint] | PointTable


def points_of(source: WindowPoints) -> Iterable[WindowPoint]:
    """Return the points of an iterable or a table."""
    return source.points() if isinstance(source, PointTable) else source


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    """The newest points of windows and of objectives."""

    windows: WindowPoints = ()
    objectives: Sequence[ObjectivePoint] = ()


class WindowGauges:
    """Keeps the newest points and reports them at each collection. Thread-safe.

    Setting points is cheap: they are converted to observations at the next collection, once per snapshot.

    The SDK keeps the state of every attribute set it has ever seen, so that changing agents and versions would take unbounded
    memory. Gauges have no state: their provider is replaced by a new one once it has seen twice the cap on groups. That
    is why they do not share the provider of counters and histograms.
    """

    def __init__(self, *, resource: Resource, scrape: Scrape, max_groups: int, estimators: Sequence[str] = ()) -> None:
        """Create the gauges, without points.

        Args:
            resource: the resource of this process.
            scrape: the `/metrics` endpoint that renders the gauges.
            max_groups: the largest number of groups with gauges.
            estimators: names of the estimators to emit; empty means the headline estimator.
        """
        self._resource = resource
        self._scrape = scrape
        self._max_groups = max_groups
        self._estimators = tuple(estimators)
        self._lock = threading.Lock()
        self._newest_lock = threading.Lock()
        self._newest = self._current = _Snapshot()
        self._observations: Mapping[str, Sequence[Observation]] = {}
        self._dropped: frozenset[GroupKey] = frozenset()
        self._ever_dropped = 0
        self._known_groups: set[GroupKey] = set()
        self._provider, self._reader = self._build()

    def set_windows(self, points: WindowPoints) -> None:
        """Replace the points of windows."""
        table = points if isinstance(points, PointTable) else tuple(points)
        with self._newest_lock:
            self._newest = _Snapshot(windows=table, objectives=self._newest.objectives)

    def set_objectives(self, points: Iterable[ObjectivePoint]) -> None:
        """Replace the points of objectives."""
        table = tuple(points)
        with self._newest_lock:
            self._newest = _Snapshot(windows=self._newest.windows, objectives=table)

    def prepare(self) -> None:
        """Convert the newest points to observations; must be called before each scrape."""
        with self._lock:
            newest = self._pending()
            if newest is not None:
                with self._scrape.lock:  # a collection must not mix two snapshots
                    self._apply(newest)

    def collect(self) -> MetricsData | None:
        """Return the current points for an exporter; None if there are no points."""
        self.prepare()
        with self._lock:
            return self._reader.get_metrics_data()

    def groups_dropped(self) -> int:
        """Return how many times a group newly exceeded the cap, up to the newest points."""
        self._prepare_unless_busy()
        return self._ever_dropped

    def shutdown(self) -> None:
        """Remove the gauges from the scrape."""
        with self._lock, self._scrape.lock:
            self._provider.shutdown()

    def _prepare_unless_busy(self) -> None:
        """Prepare the newest points, unless that would block.

        A collection calls this while it holds a lock of the SDK for which a running scrape waits: waiting for that scrape would
        be a deadlock. The scrape prepared the points itself, so at worst a count is reported with the next export.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            newest = self._pending()
            if newest is not None and self._scrape.lock.acquire(blocking=False):
                try:
                    self._apply(newest)
                finally:
                    self._scrape.lock.release()
        finally:
            self._lock.release()

    def _pending(self) -> _Snapshot | None:
        with self._newest_lock:
            return None if self._newest is self._current else self._newest

    def _apply(self, newest: _Snapshot) -> None:
        self._current = newest
        try:
            selection = select(points_of(newest.windows), self._max_groups)
            evidence = observe_objectives(newest.objectives, selection.groups, self._max_groups)
            observations = {**observe(selection.points, self._estimators), names.SLO_E_VALUE.name: evidence}
        except Exception:
            # A failure here must not stop the counters or remove the previous gauges.
            _logger.exception("window points could not be shown; gauges keep their last values")
            return
        self._ever_dropped += len(selection.dropped - self._dropped)
        self._dropped = selection.dropped
        self._known_groups |= selection.groups.union(point.key for point in newest.objectives)
        if len(self._known_groups) > 2 * self._max_groups:
            self._provider.shutdown()
            self._provider, self._reader = self._build()
            self._known_groups = set(selection.groups)
        self._observations = observations

    def _build(self) -> tuple[MeterProvider, InMemoryMetricReader]:
        reader = InMemoryMetricReader(cardinality_limits=_LIMITS)
        provider = MeterProvider(
            metric_readers=[reader, self._scrape.reader(cardinality_limits=_LIMITS)],
            resource=self._resource,
            exemplar_filter=AlwaysOffExemplarFilter(),
            shutdown_on_exit=False,
        )
        meter = provider.get_meter(names.SCOPE, own_version(), names.SCHEMA_URL)
        for instrument in (*names.WINDOW_INSTRUMENTS, names.SLO_E_VALUE):
            create(meter, instrument, partial(self._observed, instrument.name))
        return provider, reader

    def _observed(self, name: str) -> Sequence[Observation]:
        return self._observations.get(name, ())


def create(meter: Meter, instrument: Instrument, read: Callable[[], Iterable[Observation]] | None = None) -> Any:
    """Create an instrument on a meter and return it; `read` returns the observations of an observable one."""

    def callback(_options: CallbackOptions) -> Iterable[Observation]:
        return () if read is None else read()

    options: dict[str, Any] = {"unit": instrument.unit, "description": instrument.description}
    if read is not None:
        options["callbacks"] = [callback]
    if instrument.bounds is not None:
        options["explicit_bucket_boundaries_advisory"] = instrument.bounds
    return getattr(meter, f"create_{instrument.kind}")(instrument.name, **options)
