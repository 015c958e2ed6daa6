"""The names that Prometheus gives to what it gets over OTLP are those of `/metrics`."""

from __future__ import annotations

import re

import pytest

from otel_agentic.telemetry import names
from otel_agentic.telemetry.names import Instrument, series_names

#: Of the units that Prometheus spells out, those that a metric of ours might have.
UNITS = {"s": "seconds", "ms": "milliseconds", "By": "bytes", "%": "percent", "1": ""}


def translated(instrument: Instrument) -> str:
    """Return the name that the OTLP endpoint of Prometheus gives a metric, its rules written down once more."""
    words = re.findall(r"[A-Za-z0-9:]+", instrument.name)
    unit = "" if "{" in instrument.unit else UNITS[instrument.unit]
    if unit and unit not in words:
        words.append(unit)
    if instrument.kind in {"counter", "observable_counter"}:
        words = [*(term for term in words if term != "total"), "total"]
    if instrument.unit == "1" and instrument.kind == "observable_gauge":
        words = [*(term for term in words if term != "ratio"), "ratio"]
    return "_".join(words)


@pytest.mark.parametrize("instrument", names.INSTRUMENTS, ids=lambda instrument: instrument.name)
def test_a_metric_has_the_same_name_by_both_ways(instrument: Instrument) -> None:
    suffixes = ("_bucket", "_sum", "_count") if instrument.kind == "histogram" else ("",)
    assert tuple(translated(instrument) + suffix for suffix in suffixes) == series_names(instrument)
