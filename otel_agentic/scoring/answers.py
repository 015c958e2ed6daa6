"""The answer of a turn: what can be settled at once, what a judge is asked, and what its verdict means."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from otel_agentic.judges.base import Judge, JudgeFailure, Question, Verdict
from otel_agentic.scoring.outputs import says
from otel_agentic.scoring.parts import Part, failed, not_evaluated, passed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.conversations.model import Turn
    from otel_agentic.truth.model import CaseTurn


def question_of(expected: CaseTurn, turn: Turn, threshold: float) -> Question | Part | None:
    """Return the question for the judge, the outcome where none is needed, None where no answer is annotated."""
    if expected.answer is None and expected.not_answer is None:
        return None
    if turn.answer is None:
        return _without_answer(expected, turn)
    if expected.not_answer is not None and says(turn.answer, expected.not_answer):
        return failed("forbidden_answer", f"turn {turn.index + 1} says {expected.not_answer!r}, which must not be said")
    if expected.answer is None:
        return passed(f"turn {turn.index + 1} does not say {expected.not_answer!r}")
    return Question(
        query=turn.query or expected.query or "",
        expected=expected.answer,
        answer=turn.answer,
        threshold=threshold,
        not_answer=expected.not_answer,
    )


def _without_answer(expected: CaseTurn, turn: Turn) -> Part:
    if not turn.answer_captured:
        return not_evaluated("content_not_captured", f"the answer of turn {turn.index + 1} was not captured")
    if expected.answer is None:
        return passed(f"turn {turn.index + 1} says nothing")
    why = f" ({turn.error})" if turn.error else ""
    return failed("wrong_answer", f"turn {turn.index + 1} has no answer{why}", score=0.0)


def ask(judge: Judge, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
    """Return a verdict or failure a question, whatever the judge does: its failures are never the agent's."""
    if not questions:
        return []
    try:
        verdicts = judge.judge(questions)
    except Exception as error:  # noqa: BLE001 — a stranger's judge may raise anything; every answer is told so
        return [_failure(f"judge {judge.name} raised {type(error).__name__}: {error}") for _ in questions]
    if len(verdicts) != len(questions):
        return [_failure(f"judge {judge.name} gave {len(verdicts)} verdicts for {len(questions)} questions")] * len(
            questions
        )
    return [_checked(judge, verdict) for verdict in verdicts]


def answer_part(turn: Turn, verdict: Verdict | JudgeFailure, threshold: float) -> Part:
    """Return the outcome that a verdict means; a score at the threshold passes."""
    place = f"answer of turn {turn.index + 1}"
    if isinstance(verdict, JudgeFailure):
        return not_evaluated(verdict.reason, f"{place}: {verdict.message}")
    told = f"{place} scores {verdict.score:.2f}, threshold {threshold:g}: {verdict.reasoning}"
    if verdict.score >= threshold:
        return passed(told, verdict.score)
    return failed("wrong_answer", told, verdict.score)


def _checked(judge: Judge, verdict: Verdict | JudgeFailure) -> Verdict | JudgeFailure:
    if isinstance(verdict, JudgeFailure) or (math.isfinite(verdict.score) and 0.0 <= verdict.score <= 1.0):
        return verdict
    return _failure(f"judge {judge.name} gave score {verdict.score}; allowed: 0 to 1", tries=verdict.tries)


def _failure(message: str, tries: int = 1) -> JudgeFailure:
    return JudgeFailure(reason="judge_error", message=message, tries=tries)
