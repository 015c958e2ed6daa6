"""The answer of a turn: what can be settled at once, what a judge is asked, and what its verdict means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.judges.base import JudgeFailure, Question, Verdict
from otel_agentic.scoring.asked import ROUNDING
from otel_agentic.scoring.outputs import says
from otel_agentic.scoring.parts import Part, failed, not_evaluated, passed
from otel_agentic.truth.text import Bag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.conversations.model import Turn
    from otel_agentic.truth.model import CaseTurn


def question_of(expected: CaseTurn, turn: Turn, threshold: float) -> Question | Part | None:
    """Return the question for the judge, the outcome where none is needed, None where no answer is annotated."""
    accepted = expected.accepted_answers
    if not accepted and expected.not_answer is None:
        return None
    if turn.answer is None:
        return _without_answer(expected, turn)
    if expected.not_answer is not None and says(turn.answer, expected.not_answer):
        return failed("forbidden_answer", f"turn {turn.index + 1} says {expected.not_answer!r}, which must not be said")
    if not accepted:
        return passed(f"turn {turn.index + 1} does not say {expected.not_answer!r}")
    return Question(
        query=turn.query or expected.query or "",
        expected=accepted[0],
        answer=turn.answer,
        threshold=threshold,
        not_answer=expected.not_answer,
        also_accepted=accepted[1:],
    )


def closest_accepted(answer: str, accepted: Sequence[str]) -> str:
    """Return the accepted answer most of whose words an answer says, the first among equals; for metrics that take one.

    >>> closest_accepted("That is New York City.", ("NYC", "New York", "New York City"))
    'New York City'
    """
    said = Bag.of(answer)

    def likeness(text: str) -> tuple[float, float]:
        wanted = Bag.of(text)
        shared = sum(min(count, said.counts.get(word, 0)) for word, count in wanted.counts.items())
        return shared / max(wanted.size, 1), wanted.similarity(said)

    return max(accepted, key=likeness)


def _without_answer(expected: CaseTurn, turn: Turn) -> Part:
    if not turn.answer_captured:
        return not_evaluated("content_not_captured", f"the answer of turn {turn.index + 1} was not captured")
    if expected.answer is None:
        return passed(f"turn {turn.index + 1} says nothing")
    why = f" ({turn.error})" if turn.error else ""
    return failed("wrong_answer", f"turn {turn.index + 1} has no answer{why}", score=0.0)


def answer_part(turn: Turn, verdict: Verdict | JudgeFailure, threshold: float) -> Part:
    """Return the outcome that a verdict means; a score at the threshold passes, one that the judge is unsure of decides nothing."""
    place = f"answer of turn {turn.index + 1}"
    if isinstance(verdict, JudgeFailure):
        return not_evaluated(verdict.reason, f"{place}: {verdict.message}")
    if verdict.unsure:
        told = f"{place} scores {verdict.score:.2f}, of which the judge is unsure: {verdict.reasoning}"
        return not_evaluated("judge_unsure", told, verdict.score)
    told = f"{place} scores {verdict.score:.2f}, threshold {threshold:g}: {verdict.reasoning}"
    if verdict.score >= threshold - ROUNDING:
        return passed(told, verdict.score)
    return failed("wrong_answer", told, verdict.score)
