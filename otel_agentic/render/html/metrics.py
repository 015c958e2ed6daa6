"""The metrics in addition to the outcome; metrics with the same numbers are one row with several names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.render.html.filters import distinguishing_keys, shared_value
from otel_agentic.render.report_tables import abstained, can_fail, metrics_of, not_computed, shown_name

if TYPE_CHECKING:
    from otel_agentic.results.reports import MetricSummary, ReportGroup

_MAX_ROWS: Final = 500
#: The metric that names the layer that failed first.
_LAYERS: Final = "agentic.layers.verdict"
#: What the page shows of a metric, except its name.
_NUMBERS: Final = ("n", "mean", "low", "median", "high", "labels", "not_evaluated", "failures", "threshold")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """A metric of a group, and the names of other metrics that have the same numbers in every group."""

    group: ReportGroup
    metric: MetricSummary
    same: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsTable:
    """The metrics of each group. Empty columns, and those with one value in all rows, are omitted."""

    rows: Sequence[MetricRow]
    heads: Sequence[str]
    figures: int
    #: The number of scores that every metric has; None if it differs.
    scores: int | None
    with_thresholds: bool
    with_reasons: bool
    with_failures: bool

    @classmethod
    def of(cls, groups: Sequence[ReportGroup], *, every: bool = False) -> MetricsTable:
        """Return the metrics that have a score, or all metrics if `every` is set."""
        rows = _merged({index: metrics_of(group, every=every) for index, group in enumerate(groups)}, groups)
        metrics = [row.metric for row in rows]
        scores = shared_value([metric.n for metric in metrics])
        columns = {
            "metric": True,
            "group": bool(distinguishing_keys(groups)),
            "score": True,
            "good is": any(metric.threshold is not None for metric in metrics),
            "not evaluated": any(metric.not_evaluated for metric in metrics),
            "scores": scores is None,
            "failures": any(metric.failures for metric in metrics if can_fail(metric)),
        }
        return cls(
            rows=rows[:_MAX_ROWS],
            heads=[name for name, present in columns.items() if present],
            figures=columns["scores"] + columns["failures"],
            scores=scores,
            with_thresholds=columns["good is"],
            with_reasons=columns["not evaluated"],
            with_failures=columns["failures"],
        )

    @property
    def names(self) -> int:
        """The number of metrics, those with the same numbers included."""
        return len({name for row in self.rows for name in (shown_name(row.metric), *row.same)})


def _merged(metrics: Mapping[int, Sequence[MetricSummary]], groups: Sequence[ReportGroup]) -> list[MetricRow]:
    """Return one row for all metrics whose numbers are the same in every group; the first one names it."""
    numbers: dict[str, list[object]] = {}
    shown_names: dict[str, str] = {}
    for index, summaries in metrics.items():
        for metric in summaries:
            numbers.setdefault(metric.name, []).append((index, _numbers(metric)))
            shown_names[metric.name] = shown_name(metric)
    equal: dict[str, list[str]] = {}
    for name, values in numbers.items():
        equal.setdefault(repr(values), []).append(name)
    same = {first: [shown_names[name] for name in others] for first, *others in equal.values()}
    return [
        MetricRow(group=groups[index], metric=metric, same=same[metric.name])
        for index, summaries in metrics.items()
        for metric in summaries
        if metric.name in same
    ]


def _numbers(metric: MetricSummary) -> list[object]:
    return [getattr(metric, name) for name in _NUMBERS]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsView:
    """The metrics in addition to the outcome.

    `abstained` maps the sentence about metrics without any score to its groups.
    """

    metrics: MetricsTable
    layers: Sequence[MetricRow]
    keys: Sequence[str]
    not_computed: Sequence[str]
    abstained: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, groups: Sequence[ReportGroup], chosen: Sequence[str] | None) -> MetricsView:
        """Return the metrics of a report; `chosen` metrics, if any, are complete, with reasons for missing ones."""
        return cls(
            metrics=MetricsTable.of(groups, every=bool(chosen)),
            layers=layer_rows(groups[:_MAX_ROWS]),
            keys=distinguishing_keys(groups),
            not_computed=not_computed(groups, chosen) if chosen else [],
            abstained={} if chosen else abstained(groups),
        )


def layer_rows(groups: Sequence[ReportGroup]) -> list[MetricRow]:
    """Return the metric of the layer that failed first, for each group that has this metric."""
    return [
        MetricRow(group=group, metric=metric)
        for group in groups
        for metric in metrics_of(group)
        if metric.name == _LAYERS and metric.labels
    ]
