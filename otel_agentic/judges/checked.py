"""What a stranger's judge says, checked: whatever it does becomes a verdict or a failure, one a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.judges.base import Judge, JudgeFailure, Question, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence


def ask(judge: Judge, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
    """Return a verdict or failure a question, in their order, whatever the judge does."""
    if not questions:
        return []
    try:
        answers = list(judge.judge(questions))
    except Exception as error:  # noqa: BLE001 — a stranger's judge may raise anything; every question is told so
        return [raised(judge, error)] * len(questions)
    if len(answers) != len(questions):
        told = f"judge {judge.name} gave {len(answers)} verdicts for {len(questions)} questions"
        return [JudgeFailure(reason="judge_error", message=told, tries=1)] * len(questions)
    return [checked(judge, answer) for answer in answers]


def checked(judge: Judge, answer: object) -> Verdict | JudgeFailure:
    """Return the answer of a judge; a failure where it is none, or its score is none.

    >>> from otel_agentic.judges.exact import ExactJudge
    >>> checked(ExactJudge(), Verdict(score=float("nan"), reasoning="")).message
    'judge exact gave score nan; allowed: 0 to 1'
    """
    if isinstance(answer, JudgeFailure):
        return answer
    if not isinstance(answer, Verdict):
        told = f"judge {judge.name} gave {type(answer).__name__}; allowed: Verdict, JudgeFailure"
        return JudgeFailure(reason="judge_error", message=told, tries=1)
    score: object = answer.score
    if isinstance(score, int | float) and not isinstance(score, bool) and 0.0 <= score <= 1.0:
        return answer
    return JudgeFailure(
        reason="judge_error",
        message=f"judge {judge.name} gave score {score!r}; allowed: 0 to 1",
        model=answer.model,
        tries=answer.tries,
        latency_s=answer.latency_s,
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
        cost_usd=answer.cost_usd,
    )


def raised(judge: Judge, error: Exception) -> JudgeFailure:
    """Return the failure that an exception of a judge is."""
    told = f"judge {judge.name} raised {type(error).__name__}: {error}"
    return JudgeFailure(reason="judge_error", message=told, tries=1)
