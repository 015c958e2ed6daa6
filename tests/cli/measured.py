"""Groups of a report with their metrics, as the command `report` returns them."""

from __future__ import annotations

from typing import Any

from otel_agentic.results.reports import MetricSummary, ReportGroup
from tests.cli.partial import partial


def metric(**changes: Any) -> MetricSummary:
    """Return the summary of a metric of 0 to 1: a mean of .5 over four conversations."""
    values: dict[str, Any] = {
        "name": "agentic.layers.routing",
        "title": "tool routing",
        "evaluator": "layers.routing",
        "evaluator_version": "1",
        "target": "conversation",
        "unit": "1",
        "range": [0.0, 1.0],
        "higher_is_better": True,
        "n": 4,
        "conversations": 4,
        "not_evaluated": {},
        "coverage": 1.0,
        "mean": 0.5,
        "low": 0.25,
        "median": 0.5,
        "high": 0.75,
        "labels": {},
        "failing_labels": [],
        "failures": 0,
        "threshold": None,
        "explanation": "",
        "details": {},
    }
    return partial(MetricSummary, values | changes)


def labelled(labels: dict[str, int], *failing: str, **changes: Any) -> MetricSummary:
    """Return the summary of a metric that gives labels only."""
    numbers = dict.fromkeys(("mean", "low", "median", "high"))
    failures = sum(count for label, count in labels.items() if label in failing)
    about = {"n": sum(labels.values()), "labels": labels, "failing_labels": sorted(failing), "failures": failures}
    return metric(**{"name": "agentic.layers.verdict", "title": "first layer to break", **numbers, **about, **changes})


def silent(reason: str, count: int = 4, **changes: Any) -> MetricSummary:
    """Return the summary of a metric that abstained throughout."""
    numbers = dict.fromkeys(("mean", "low", "median", "high"))
    return metric(
        **{
            "name": "agentic.layers.plan",
            "n": 0,
            "not_evaluated": {reason: count},
            "coverage": 0.0,
            **numbers,
            **changes,
        }
    )


def group(*metrics: MetricSummary, **changes: Any) -> ReportGroup:
    """Return a group of a report, as far as metrics go."""
    return partial(ReportGroup, {"agent": "clerk", "metrics": list(metrics), "tool_bands": {}} | changes)
