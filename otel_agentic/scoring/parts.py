"""The parts of an outcome, and how they add up: one failing part settles a fail, a pass needs them all.

A part on which the judge is unsure leaves the whole open, even where another one failed. An unsure judge abstains more often
the more turns there are; if failures counted all the same, while passes need every turn, rates of long conversations would be
biased downwards. The failure that is known is kept in `known_failure`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.scoring.model import FailReason, NotEvaluatedReason, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of an outcome; `reason` is None for a pass, `score` (in [0, 1]) None where there is none.

    `known_failure` is why a whole that is `not_evaluated: judge_unsure` fails however the judge would have decided.
    """

    outcome: Outcome
    reason: FailReason | NotEvaluatedReason | None = None
    explanation: str = ""
    score: float | None = None
    known_failure: FailReason | None = None


def passed(explanation: str, score: float | None = None) -> Part:
    """Return a part that passed."""
    return Part(outcome="pass", explanation=explanation, score=score)


def failed(reason: FailReason, explanation: str, score: float | None = None) -> Part:
    """Return a part that failed."""
    return Part(outcome="fail", reason=reason, explanation=explanation, score=score)


def not_evaluated(reason: NotEvaluatedReason, explanation: str, score: float | None = None) -> Part:
    """Return a part that could not be evaluated; it has a score only where the judge is unsure."""
    return Part(outcome="not_evaluated", reason=reason, explanation=explanation, score=score)


def combine(parts: Sequence[Part]) -> Part:
    """Return the sum of the needed parts; the first failing one names the reason, the explanation tells all of them.

    >>> combine([passed("a"), not_evaluated("judge_error", "b"), failed("tool_fault", "c")]).reason
    'tool_fault'
    >>> open_ = combine([passed("a"), not_evaluated("judge_unsure", "b"), failed("tool_fault", "c")])
    >>> open_.reason, open_.known_failure
    ('judge_unsure', 'tool_fault')
    >>> combine([]).reason
    'no_data'
    """
    if not parts:
        return not_evaluated("no_data", "the case expects nothing that can be scored")
    if any(part.reason == "judge_unsure" for part in parts):
        return _unsure(parts)
    for outcome in ("fail", "not_evaluated"):
        those = [part for part in parts if part.outcome == outcome]
        if those:
            told = "; ".join(dict.fromkeys(part.explanation for part in those))
            return Part(outcome=those[0].outcome, reason=those[0].reason, explanation=told)
    return passed("every needed part passed" if len(parts) > 1 else parts[0].explanation)


def _unsure(parts: Sequence[Part]) -> Part:
    """Return the sum of parts of which the judge is unsure about one or more; other parts without a result are not told."""
    found = [part for part in parts if part.outcome == "fail" or part.reason == "judge_unsure"]
    reasons = [part.reason if part.outcome == "fail" else part.known_failure for part in found]
    known = next((reason for reason in reasons if reason is not None), None)
    return Part(
        outcome="not_evaluated",
        reason="judge_unsure",
        explanation="; ".join(dict.fromkeys(part.explanation for part in found)),
        known_failure=cast("FailReason | None", known),
    )
