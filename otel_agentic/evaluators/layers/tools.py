"""Were the right tools called: routing accuracy, precision, recall and F1, by name."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.layers.abstaining import none_of, none_of_all
from otel_agentic.evaluators.layers.scopes import ExpectedCalls, expected_calls
from otel_agentic.evaluators.layers.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_agentic.evaluators.base import Need, Subject

ROUTING: Final = "agentic.layers.tool_routing_accuracy"
PRECISION: Final = "agentic.layers.tool_precision"
RECALL: Final = "agentic.layers.tool_recall"
F1: Final = "agentic.layers.tool_f1"


class Tools(WithoutSettings):
    """The four metrics of tool names."""

    name: str = "layers.tools"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("layers.tools")
    needs: frozenset[Need] = frozenset({"turns", "case", "expected_tools"})
    default: bool = True

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
