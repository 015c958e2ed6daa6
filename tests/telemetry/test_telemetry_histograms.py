"""Histograms that accept many values in one call, with the points that those of the SDK would have."""

from __future__ import annotations

import pickle

import pytest
from opentelemetry.sdk.metrics import MeterProvider, TraceBasedExemplarFilter
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, MetricsData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from otel_agentic.telemetry import names
from otel_agentic.telemetry.gauges import create
from otel_agentic.telemetry.histograms import Histograms
from otel_agentic.telemetry.observations import NO_SPAN, Observations, Series, SpanIds

SPANS = tuple(SpanIds(f"{number:032x}", f"{number:016x}") for number in range(1, 8))
VALUES = (0.0, 0.05, 0.1, 0.35, 0.35, 1.0, 2.5)
AGENT = (("gen_ai.agent.name", "travel"),)


def histograms() -> Histograms:
    return Histograms(Resource({}), InstrumentationScope(names.SCOPE))


def series(*values: tuple[float, SpanIds]) -> Series:
    result = Series.of(names.SCORE)
    for value, span in values:
        result.add(names.SCORE, value, span)
    return result


def points(collected: MetricsData | None) -> list[HistogramDataPoint]:
    assert collected is not None
    (resource,) = collected.resource_metrics
    (scope,) = resource.scope_metrics
    (metric,) = scope.metrics
    return [point for point in metric.data.data_points if isinstance(point, HistogramDataPoint)]


def shape(point: HistogramDataPoint) -> tuple[object, ...]:
    exemplars = sorted((exemplar.value, exemplar.trace_id, exemplar.span_id) for exemplar in point.exemplars)
    return (
        *(dict(point.attributes or {}), point.count, point.sum, point.min, point.max),
        *(tuple(point.bucket_counts), tuple(point.explicit_bounds), exemplars),
    )


def test_points_are_those_of_a_histogram_of_the_sdk() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], exemplar_filter=TraceBasedExemplarFilter(), shutdown_on_exit=False)
    of_sdk = create(provider.get_meter(names.SCOPE), names.SCORE)
    for value, span in zip(VALUES, SPANS, strict=True):
        of_sdk.record(value, dict(AGENT), context=span.context)
    ours = histograms()
    ours.record(names.SCORE, AGENT, series(*zip(VALUES, SPANS, strict=True)))
    assert list(map(shape, points(reader.get_metrics_data()))) == list(map(shape, points(ours.reader()())))
    provider.shutdown()


def test_points_are_cumulative_and_start_with_their_first_value() -> None:
    ours = histograms()
    read = ours.reader()
    assert not read().resource_metrics
    ours.record(names.SCORE, AGENT, series((0.5, NO_SPAN)))
    (first,) = points(read())
    ours.record(names.SCORE, AGENT, series((0.7, NO_SPAN)))
    (second,) = points(read())
    assert (first.count, second.count) == (1, 2)
    assert first.start_time_unix_nano == second.start_time_unix_nano <= first.time_unix_nano


def test_each_reader_gets_an_exemplar_once() -> None:
    ours = histograms()
    first, second = ours.reader(), ours.reader()
    ours.record(names.SCORE, AGENT, series((0.5, SPANS[0])))

    def exemplars_of(collected: MetricsData) -> list[int | None]:
        return [exemplar.trace_id for point in points(collected) for exemplar in point.exemplars]

    assert [exemplars_of(first()), exemplars_of(first()), exemplars_of(second())] == [[1], [], [1]]
    ours.record(names.SCORE, AGENT, series((0.5, SPANS[1]), (0.5, NO_SPAN)))
    assert exemplars_of(first()) == [2]
    ours.record(names.SCORE, AGENT, series((0.5, NO_SPAN), (0.5, SPANS[2])))
    assert exemplars_of(first()) == [3]


def test_series_beyond_the_limit_share_one() -> None:
    ours = histograms()
    for number in range(2_500):
        ours.record(names.SCORE, (("gen_ai.agent.name", f"agent {number}"),), series((0.5, NO_SPAN)))
    collected = points(ours.reader()())
    assert (2_000, 2_500) == (len(collected), sum(point.count for point in collected))
    assert [501] == [point.count for point in collected if point.attributes == {"otel.metric.overflow": True}]


def test_observations_that_were_collected_apart_are_those_that_were_collected_together() -> None:
    together, first, second = Observations(), Observations(), Observations()
    for part, values in ((first, VALUES[:3]), (second, VALUES[3:])):
        for value, span in zip(values, SPANS[: len(values)], strict=True):
            for observations in (part, together):
                observations.measure(names.SCORE, AGENT, value, span)
                observations.count(names.EVALUATED_TURNS, AGENT, span)
    first.merge(pickle.loads(pickle.dumps(second)))  # noqa: S301 — our own bytes
    assert first.counts == together.counts == {(names.EVALUATED_TURNS, AGENT): (len(VALUES), SPANS[0])}
    (joined,), (expected,) = first.values.values(), together.values.values()
    assert (joined.counts, joined.newest) == (expected.counts, expected.newest)
    assert [joined.low, joined.high, joined.total] == pytest.approx([expected.low, expected.high, expected.total])
