"""What success costs, and how long turns take, over many conversations."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from otel_agentic.evaluators.base import Metric, MetricScore, WithoutSettings
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.operations.names import (
    COST,
    COST_PER_SUCCESS,
    INPUT_TOKENS,
    LATENCY,
    LATENCY_P50,
    LATENCY_P95,
    OUTPUT_TOKENS,
    TOKENS_PER_SUCCESS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from otel_agentic.evaluators.base import Member


class Totals(WithoutSettings):
    """What success costs, and how long turns take, in a group of conversations."""

    name: str = "operations.totals"
    version: str = "1"
    metrics: tuple[Metric, ...] = metrics_of("operations.totals")
    reads: tuple[str, ...] = (COST, INPUT_TOKENS, OUTPUT_TOKENS, LATENCY)
    default: bool = True

    def evaluate_group(self, members: Sequence[Member]) -> Iterable[MetricScore]:
        """Return the four scores of a group."""
        latencies = [value for member in members for value in _values(member, LATENCY)]
        return [
            _per_success(COST_PER_SUCCESS, members, lambda member: _sum(member, COST), "cost"),
            _per_success(
                TOKENS_PER_SUCCESS, members, lambda member: _sum(member, INPUT_TOKENS, OUTPUT_TOKENS), "tokens"
            ),
            _percentile(LATENCY_P50, latencies, 50),
            _percentile(LATENCY_P95, latencies, 95),
        ]


def _values(member: Member, name: str) -> list[float]:
    return [score.value for score in member.scores.get(name, ()) if score.value is not None]


def _sum(member: Member, *names: str) -> float | None:
    """Return the sum of a member's scores, None where one of them is not there."""
    found = [_values(member, name) for name in names]
    return math.fsum(value for values in found for value in values) if all(found) else None


def _per_success(
    name: str, members: Sequence[Member], amount: Callable[[Member], float | None], what: str
) -> MetricScore:
    decided = [(member.outcome == "pass", amount(member)) for member in members if member.outcome in {"pass", "fail"}]
    known = [(passed, value) for passed, value in decided if value is not None]
    passed = sum(each for each, _ in known)
    left_out = {"not evaluated": len(members) - len(decided), f"without {what}": len(decided) - len(known)}
    told = "".join(f"; {count} {why} left out" for why, count in left_out.items() if count)
    details = {"conversations": len(known), "passed": passed, "left_out": left_out}
    if not passed:
        why = f"none of {len(known)} conversations passed" if known else f"{what} known of no evaluated conversation"
        return MetricScore(name=name, reason="no_data", explanation=why + told, details=details)
    total = math.fsum(value for _, value in known)
    explanation = f"{total:,.6g} over {len(known)} conversations, {passed} of which passed{told}"
    return MetricScore(name=name, value=total / passed, explanation=explanation, details=details)


def _percentile(name: str, values: Sequence[float], percent: int) -> MetricScore:
    if not values:
        return MetricScore(name=name, reason="no_data", explanation="no turn has a latency")
    several = len(values) > 1
    value = statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if several else values[0]
    return MetricScore(name=name, value=value, explanation=f"of {len(values)} turns", details={"turns": len(values)})
