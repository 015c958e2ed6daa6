"""Counters and histograms of metrics: how often they said what, and the values that they gave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.telemetry import names
from otel_agentic.telemetry.attributes import group_attributes, group_of, label
from otel_agentic.telemetry.metric_results import reading_of, spots_of
from otel_agentic.telemetry.metrics import counter, histogram

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, Meter

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.telemetry.metric_results import MetricResult


class MetricMetrics:
    """Counts and measures on a meter what metrics say. Thread-safe.

    Series are bounded: by the metrics that are installed, and by the labels that each of them declares.
    """

    def __init__(self, meter: Meter, score: Histogram) -> None:
        """Make the instruments; `score` is the histogram of scores, which the outcome's own scores are in, too."""
        self._results = counter(meter, names.METRIC_RESULTS)
        measured = (names.METRIC_DURATION, names.METRIC_TOKENS, names.METRIC_COST, names.METRIC_AMOUNT)
        self._histograms = {names.SCORE.name: score} | {each.name: histogram(meter, each) for each in measured}

    def record(self, conversation: Conversation, results: Iterable[MetricResult], *, restated: bool) -> None:
        """Count the scores and abstentions of one conversation; measure values only when they are first results."""
        group = group_attributes(group_of(conversation))
        revision = "restated" if restated else "first"
        spot_of = spots_of(conversation)
        for result in results:
            context = spot_of(result.score).context
            named = {**group, names.GEN_AI_EVALUATION_NAME: label(result.metric.name)}
            self._results.add(1, {**named, **_said(result), names.REVISION: revision}, context=context)
            if not restated:
                self._measure(result, named, context)

    def _measure(self, result: MetricResult, named: dict[str, str], context: Context) -> None:
        value = result.score.value
        reading = None if value is None else reading_of(result.metric, value)
        if reading is not None:
            between = {} if reading.range is None else {names.EVALUATION_RANGE: reading.range}
            self._histograms[reading.instrument.name].record(reading.value, {**named, **between}, context=context)


def _said(result: MetricResult) -> dict[str, str]:
    """Return what tells results apart; a label that the metric does not declare is `other`."""
    score = result.score
    declared = None if score.label is None or score.label in result.metric.labels else names.OTHER
    values = {
        names.OUTCOME: "not_evaluated" if score.abstained else result.outcome,
        names.GEN_AI_EVALUATION_SCORE_LABEL: None if score.label is None else declared or label(score.label),
        names.SEVERITY: result.severity,
        names.REASON: score.reason if score.abstained else None,
    }
    return {name: value for name, value in values.items() if value is not None}
