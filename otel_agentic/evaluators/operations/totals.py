"""What success costs, and how long turns take, over many conversations."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.base import Metric, MetricScore
from otel_agentic.evaluators.operations.names import (
    COST,
    COST_PER_SUCCESS,
    INPUT_TOKENS,
    LATENCY,
    LATENCY_P50,
    LATENCY_P95,
    OUTPUT_TOKENS,
    OWN,
    TOKENS,
    TOKENS_PER_SUCCESS,
    USD,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from otel_agentic.config import EvaluatorSettings
    from otel_agentic.evaluators.base import Member, Need

_PER_SUCCESS: Final = (
    "Failed conversations cost, too, and count above the line only. Left out are conversations that were not evaluated, and "
    "those of which the cost is not known; their number is told. No data where none is left that succeeded."
)
_PERCENTILE: Final = "Interpolated between the two nearest turns, as numpy and spreadsheets do."


def _metric(name: str, title: str, definition: str, limits: str, unit: str, *needs: Need) -> Metric:
    return Metric(
        name=name,
        title=title,
        definition=definition,
        source=OWN,
        target="group",
        limits=limits,
        high=None,
        unit=unit,
        higher_is_better=False,
        needs=frozenset(needs),
    )


_METRICS: Final = (
    _metric(
        COST_PER_SUCCESS,
        "cost per successful conversation",
        "What all conversations cost together / conversations that passed, US dollars.",
        _PER_SUCCESS,
        USD,
        "score",
        "usage",
        "prices",
    ),
    _metric(
        TOKENS_PER_SUCCESS,
        "tokens per successful conversation",
        "Input and output tokens of all conversations together / conversations that passed.",
        _PER_SUCCESS,
        TOKENS,
        "score",
        "usage",
    ),
    _metric(
        LATENCY_P50,
        "median latency of a turn",
        "Seconds within which half of all turns end.",
        _PERCENTILE,
        "s",
        "turns",
    ),
    _metric(
        LATENCY_P95,
        "95th percentile of the latency of a turn",
        "Seconds within which 95 of 100 turns end.",
        _PERCENTILE,
        "s",
        "turns",
    ),
)


class Totals:
    """What success costs, and how long turns take, in a group of conversations."""

    name: str = "operations.totals"
    version: str = "1"
    metrics: tuple[Metric, ...] = _METRICS
    reads: tuple[str, ...] = (COST, INPUT_TOKENS, OUTPUT_TOKENS, LATENCY)
    default: bool = True

    @classmethod
    def from_settings(cls, settings: EvaluatorSettings) -> Totals:
        """Return the evaluator; nothing of it can be set."""
        del settings
        return cls()

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
