"""What we emit back into a telemetry backend: window gauges, counters, histograms and evaluation events.

The names in `names` need no SDK; everything else is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_agentic.telemetry.events import EvaluationEvents, EventOptions, Trigger
    from otel_agentic.telemetry.facade import Part, Telemetry
    from otel_agentic.telemetry.gauges import WindowGauges
    from otel_agentic.telemetry.metrics import RunningMetrics
    from otel_agentic.telemetry.results import Evaluator, Result, results_of
    from otel_agentic.telemetry.scrape import Scrape

__all__ = [
    "EvaluationEvents",
    "Evaluator",
    "EventOptions",
    "Part",
    "Result",
    "RunningMetrics",
    "Scrape",
    "Telemetry",
    "Trigger",
    "WindowGauges",
    "results_of",
]

_HOMES = {
    "EvaluationEvents": "events",
    "Evaluator": "results",
    "EventOptions": "events",
    "Part": "facade",
    "Result": "results",
    "RunningMetrics": "metrics",
    "Scrape": "scrape",
    "Telemetry": "facade",
    "Trigger": "events",
    "WindowGauges": "gauges",
    "results_of": "results",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
