"""Our names in Prometheus: what every way from OpenTelemetry into it makes of them. Needs no SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from otel_agentic.telemetry.names import Instrument

#: What Prometheus appends to a name for its unit; units in braces are remarks, and those of ratios stand in the name.
_UNITS: Final = {"s": "_seconds", "By": "_bytes"}
_COUNTERS: Final = frozenset({"counter", "observable_counter"})
_TYPES: Final = {"histogram": "histogram", "counter": "counter", "observable_counter": "counter"}
_HISTOGRAM_SERIES: Final = ("_bucket", "_sum", "_count")


def label_name(attribute: str) -> str:
    """Return the label that an attribute becomes.

    >>> label_name("gen_ai.agent.name")
    'gen_ai_agent_name'
    """
    return attribute.replace(".", "_")


def family_name(instrument: Instrument) -> str:
    """Return the name of a metric's family, as in `# TYPE`.

    >>> from otel_agentic.telemetry import names
    >>> family_name(names.DELAY), family_name(names.EVALUATED_TURNS)
    ('agentic_evaluation_delay_seconds', 'agentic_evaluation_turns')
    """
    return label_name(instrument.name) + _UNITS.get(instrument.unit, "")


def series_names(instrument: Instrument) -> tuple[str, ...]:
    """Return the names of a metric's series, as in a query.

    >>> from otel_agentic.telemetry import names
    >>> series_names(names.EVALUATED_TURNS), series_names(names.COVERAGE)
    (('agentic_evaluation_turns_total',), ('agentic_coverage_ratio',))
    """
    family = family_name(instrument)
    if instrument.kind == "histogram":
        return tuple(family + suffix for suffix in _HISTOGRAM_SERIES)
    return (f"{family}_total",) if instrument.kind in _COUNTERS else (family,)


def family_type(instrument: Instrument) -> str:
    """Return the type of a metric's family.

    >>> from otel_agentic.telemetry import names
    >>> family_type(names.TIER_STATUS), family_type(names.DELAY)
    ('gauge', 'histogram')
    """
    return _TYPES.get(instrument.kind, "gauge")
