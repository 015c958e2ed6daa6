"""The parts of an outcome, and how they add up: one failing part settles a fail, a pass needs them all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.scoring.model import FailReason, NotEvaluatedReason, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of an outcome; `reason` is None for a pass, `score` (in [0, 1]) None where there is none."""

    outcome: Outcome
    reason: FailReason | NotEvaluatedReason | None = None
    explanation: str = ""
    score: float | None = None


def passed(explanation: str, score: float | None = None) -> Part:
    """Return a part that passed."""
    return Part(outcome="pass", explanation=explanation, score=score)


def failed(reason: FailReason, explanation: str, score: float | None = None) -> Part:
    """Return a part that failed."""
    return Part(outcome="fail", reason=reason, explanation=explanation, score=score)


def not_evaluated(reason: NotEvaluatedReason, explanation: str) -> Part:
    """Return a part that could not be evaluated."""
    return Part(outcome="not_evaluated", reason=reason, explanation=explanation)


def combine(parts: Sequence[Part]) -> Part:
    """Return the sum of the needed parts; the first failing one names the reason, the explanation tells all of them.

    >>> combine([passed("a"), not_evaluated("judge_error", "b"), failed("tool_fault", "c")]).reason
    'tool_fault'
    >>> combine([]).reason
    'no_data'
    """
    if not parts:
        return not_evaluated("no_data", "the case expects nothing that can be scored")
    for outcome in ("fail", "not_evaluated"):
        those = [part for part in parts if part.outcome == outcome]
        if those:
            told = "; ".join(dict.fromkeys(part.explanation for part in those))
            return Part(outcome=those[0].outcome, reason=those[0].reason, explanation=told)
    return passed("every needed part passed" if len(parts) > 1 else parts[0].explanation)
