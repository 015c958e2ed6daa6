"""What the trajectory metrics mean, and whose they are."""

from __future__ import annotations

from typing import Final

from otel_agentic.evaluators.base import Metric

EXACT: Final = "agentic.trajectory.exact"
IN_ORDER: Final = "agentic.trajectory.in_order"
ANY_ORDER: Final = "agentic.trajectory.any_order"
CONTAINS: Final = "agentic.trajectory.contains"
WITHIN: Final = "agentic.trajectory.within"
PRECISION: Final = "agentic.trajectory.precision"
RECALL: Final = "agentic.trajectory.recall"
F1: Final = "agentic.trajectory.f1"

_GOOGLE: Final = "Vertex AI Gen AI evaluation service, trajectory metrics"
_ADK: Final = f"{_GOOGLE}; google-adk, `tool_trajectory_avg_score`"
_AGENTEST: Final = "Agentest, trajectory assertions"
_LIMITS: Final = (
    "A made call is as expected when its name is the same and every parameter compares as the case's `match` says; one that "
    "answered with an error was not made. Calls of one model response have no order among themselves, nor have expected "
    "calls of one `step`. Extra calls that the case allows (`extra_calls`) are looked over, optional calls may be there or "
    "not, and a forbidden call is a match of nothing. Turns are compared one by one, and all have to match. Of "
    "alternatives a match takes any one; shares are those of the one that fits best."
)

METRICS: Final = (
    Metric(
        name=EXACT,
        title="exact trajectory",
        definition="1 when the expected calls were made, in their order, and no others; else 0.",
        source=f"{_ADK} (EXACT); {_AGENTEST} (`strict`)",
        target="conversation",
        needs=frozenset({"arguments"}),
        limits=_LIMITS,
    ),
    Metric(
        name=IN_ORDER,
        title="trajectory in order",
        definition="1 when the expected calls were made in their order, whatever else was called in between; else 0.",
        source=f"{_ADK} (IN_ORDER)",
        target="conversation",
        needs=frozenset({"arguments"}),
        limits=_LIMITS,
    ),
    Metric(
        name=ANY_ORDER,
        title="trajectory in any order",
        definition="1 when each expected call has a made call of its own, in any order, whatever else was called; else 0.",
        source=f"{_ADK} (ANY_ORDER)",
        target="conversation",
        needs=frozenset({"arguments"}),
        limits=_LIMITS,
    ),
    Metric(
        name=CONTAINS,
        title="trajectory contains",
        definition="1 when nothing expected is missing: each expected call was made at least once; else 0. Calls are a set: "
        "one made call answers for two expected ones that are alike.",
        source=f"{_AGENTEST} (`contains`)",
        target="conversation",
        needs=frozenset({"arguments"}),
        limits=f"{_LIMITS} Agentest counts calls, each as often as it is expected: that is `any_order` here.",
    ),
    Metric(
        name=WITHIN,
        title="trajectory within",
        definition="1 when nothing was called that is not expected: each made call is like an expected one; else 0. Calls "
        "are a set: one may be made again, or be left out.",
        source=f"{_AGENTEST} (`within`)",
        target="conversation",
        needs=frozenset({"arguments"}),
        limits=f"{_LIMITS} 1 where no call was made at all.",
    ),
    Metric(
        name=PRECISION,
        title="trajectory precision",
        definition="Share of the made calls that are as expected, each expected call counted once. Where no call was made: 0, "
        "or 1 where none is required.",
        source=f"{_GOOGLE} (precision)",
        target="conversation",
        needs=frozenset({"arguments"}),
        limits=f"{_LIMITS} Google's counts every made call that is found among the expected ones, also one made again.",
    ),
    Metric(
        name=RECALL,
        title="trajectory recall",
        definition="Share of the required calls that were made as expected. No data where the case requires none.",
        source=f"{_GOOGLE} (recall)",
        target="conversation",
        needs=frozenset({"arguments"}),
        limits=f"{_LIMITS} Google's lets one made call answer for several expected ones that are alike.",
    ),
    Metric(
        name=F1,
        title="trajectory F1",
        definition="Harmonic mean of precision and recall: 2 x calls as expected / (made calls + required calls). 1 where no "
        "call is required and none was made.",
        source=f"{_GOOGLE} (precision and recall)",
        target="conversation",
        needs=frozenset({"arguments"}),
        limits=_LIMITS,
    ),
)
