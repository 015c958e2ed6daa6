"""Were the right tools called: routing accuracy, precision, recall and F1, by name."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import Metric, MetricScore
from otel_agentic.evaluators.layers.abstaining import none_of, none_of_all
from otel_agentic.evaluators.layers.scopes import ExpectedCalls, expected_calls
from otel_agentic.evaluators.layers.sources import AGENT_SURFACE, AGENT_SURFACE_METRICS
from otel_agentic.evaluators.layers.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_agentic.config import EvaluatorSettings
    from otel_agentic.evaluators.base import Need, Subject

ROUTING: Final = "agentic.layers.tool_routing_accuracy"
PRECISION: Final = "agentic.layers.tool_precision"
RECALL: Final = "agentic.layers.tool_recall"
F1: Final = "agentic.layers.tool_f1"

_SHARED_LIMITS: Final = (
    "Names alone count: arguments are `parameter_semantics`, order is `agentic.tool.sequence`. Calls are multisets, each as "
    "often as it was made; those that answered with an error were not made; optional calls are excused, and extra calls that "
    "the case allows (`extra_calls`) left out."
)
_SETS: Final = " The page's function takes tools as sets, in which a call made five times counts once"

_METRICS: Final = (
    Metric(
        name=ROUTING,
        title="tool routing accuracy",
        definition="Right choices of a tool over all that were to be made or were made: required calls that were made / "
        "(required calls + calls beyond them). 1 where no call is expected and none was made.",
        source=AGENT_SURFACE,
        target="conversation",
        limits=f"{_SHARED_LIMITS} The page's function compares place by place, so that one call more at the beginning gives "
        "0, and further calls at the end cost nothing.",
    ),
    Metric(
        name=PRECISION,
        title="tool precision",
        definition="Share of the made calls that were required: required calls that were made / (those + calls beyond them).",
        source=AGENT_SURFACE_METRICS,
        target="conversation",
        limits=f"{_SHARED_LIMITS} No data where no call was made.{_SETS}, and gives 1 without a call.",
    ),
    Metric(
        name=RECALL,
        title="tool recall",
        definition="Share of the required calls that were made.",
        source=AGENT_SURFACE_METRICS,
        target="conversation",
        limits=f"{_SHARED_LIMITS} No data where no call is required.{_SETS}, and gives 1 where none is expected.",
    ),
    Metric(
        name=F1,
        title="tool F1",
        definition="Harmonic mean of precision and recall: 2 x required calls that were made / (required calls + made calls). "
        "1 where no call is expected and none was made.",
        source=AGENT_SURFACE_METRICS,
        target="conversation",
        limits=f"{_SHARED_LIMITS}{_SETS}. `agentic.ragas.tool_call_f1` counts a call with wrong arguments as wrong.",
    ),
)


class Tools:
    """The four metrics of tool names."""

    name: str = "layers.tools"
    version: str = "1"
    metrics: tuple[Metric, ...] = _METRICS
    needs: frozenset[Need] = frozenset({"turns", "case", "expected_tools"})
    default: bool = True

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> Tools:
        """Return the evaluator; nothing of it can be set."""
        del settings
        return cls()

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return the four scores of a conversation."""
        found = expected_calls(subject)
        if not isinstance(found, ExpectedCalls):
            return none_of_all(self.metrics, *found)
        return _scores(found)


def _scores(found: ExpectedCalls) -> list[MetricScore]:
    required, paired, beyond = found.required, len(found.paired), len(found.beyond)
    told = _told(found)
    details = {"required": required, "made": paired, "beyond": beyond}

    def share(name: str, part: int, whole: int, nothing: MetricScore | None = None) -> MetricScore:
        if not whole and nothing is not None:
            return nothing
        return MetricScore(name=name, value=part / whole if whole else 1.0, explanation=told, details=details)

    no_call = none_of(PRECISION, "no_data", "no call was made that could be right or wrong")
    none_required = none_of(RECALL, "no_data", "the case requires no call")
    return [
        share(ROUTING, paired, required + beyond),
        share(PRECISION, paired, paired + beyond, no_call),
        share(RECALL, paired, required, none_required),
        share(F1, 2 * paired, required + paired + beyond),
    ]


def _told(found: ExpectedCalls) -> str:
    """Return which tools were called wrongly, in words."""
    missing = Counter(name for name, _ in found.missing)
    beyond = Counter(made.call.name for made in found.beyond)
    parts = [
        f"{len(found.paired)} of {found.required} required calls made" if found.required else "no call is required",
        f"not called: {listed(missing)}" if missing else "",
        f"not asked for: {listed(beyond)}" if beyond else "",
    ]
    return "; ".join(filter(None, parts))
