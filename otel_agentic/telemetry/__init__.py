"""What we emit back into a telemetry backend: window gauges, counters, histograms and evaluation events.

The names in `names` need no SDK; everything else is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_agentic.telemetry.events import EvaluationEvents, EventOptions, Trigger
    from otel_agentic.telemetry.facade import Part, Telemetry
    from otel_agentic.telemetry.gauges import WindowGauges, WindowPoints
    from otel_agentic.telemetry.history import EventHistory, OpenMetricsHistory, OtlpHistory, SentEvents
    from otel_agentic.telemetry.instruments import Agreement, RunningMetrics, Vitals
    from otel_agentic.telemetry.results import Evaluator, MetricResult, Result, results_of
    from otel_agentic.telemetry.scrape import Scrape

__all__ = [
    "Agreement",
    "EvaluationEvents",
    "Evaluator",
    "EventHistory",
    "EventOptions",
    "MetricResult",
    "OpenMetricsHistory",
    "OtlpHistory",
    "Part",
    "Result",
    "RunningMetrics",
    "Scrape",
    "SentEvents",
    "Telemetry",
    "Trigger",
    "Vitals",
    "WindowGauges",
    "WindowPoints",
    "results_of",
]

_HOMES = {
    "Agreement": "instruments",
    "EvaluationEvents": "events",
    "Evaluator": "results",
    "EventHistory": "history",
    "EventOptions": "events",
    "MetricResult": "results",
    "OpenMetricsHistory": "history",
    "OtlpHistory": "history",
    "Part": "facade",
    "Result": "results",
    "RunningMetrics": "instruments",
    "Scrape": "scrape",
    "SentEvents": "history",
    "Telemetry": "facade",
    "Trigger": "events",
    "Vitals": "instruments",
    "WindowGauges": "gauges",
    "WindowPoints": "gauges",
    "results_of": "results",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
