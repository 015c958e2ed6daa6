"""OpenMetrics text, read by the parser of prometheus_client, which is strict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.openmetrics.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from prometheus_client import Metric
    from prometheus_client.samples import Sample


def families(text: str) -> list[Metric]:
    """Return the families of a text; fails where the text is not as the format demands."""
    return list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]  # it has no types


def at_s(sample: Sample) -> float:
    """Return the time of a sample, seconds."""
    return float(str(sample.timestamp))
