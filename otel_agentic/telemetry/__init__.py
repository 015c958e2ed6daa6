"""Telemetry that the project emits: window gauges, counters, histograms and evaluation events.

Importing `names` needs no SDK; all other modules are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from otel_agentic.telemetry.events import Evaluator as Evaluator
    from otel_agentic.telemetry.events import MetricResult as MetricResult
    from otel_agentic.telemetry.events import results_of as results_of
    from otel_agentic.telemetry.facade import Agreement as Agreement
    from otel_agentic.telemetry.facade import Telemetry as Telemetry
    from otel_agentic.telemetry.facade import Vitals as Vitals
    from otel_agentic.telemetry.history import EventHistory as EventHistory
    from otel_agentic.telemetry.history import OpenMetricsHistory as OpenMetricsHistory
    from otel_agentic.telemetry.history import OtlpHistory as OtlpHistory
    from otel_agentic.telemetry.history import SentEvents as SentEvents
    from otel_agentic.telemetry.observer import Observer as Observer
    from otel_agentic.telemetry.observer import Trigger as Trigger

__all__, __getattr__ = lazy_imports(
    __name__,
    {
        "events": "Evaluator MetricResult results_of",
        "facade": "Agreement Telemetry Vitals",
        "history": "EventHistory OpenMetricsHistory OtlpHistory SentEvents",
        "observer": "Observer Trigger",
    },
)
