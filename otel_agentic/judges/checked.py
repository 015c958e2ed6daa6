"""Checks of the answers of third-party judges: every outcome becomes one verdict or failure per question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.judges.base import Judge, JudgeFailure, Question, Verdict
from otel_agentic.judges.forms import form_of
from otel_agentic.judges.troubles import problem_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.judges.base import ReplyForm


def ask(judge: Judge, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
    """Return one verdict or failure per question, in order, even if the judge raises."""
    if not questions:
        return []
    try:
        answers = list(judge.judge(questions))
    except Exception as error:  # noqa: BLE001 — a third-party judge may raise anything; the error goes to every question
        return [raised(judge, error)] * len(questions)
    if len(answers) != len(questions):
        message = f"judge {judge.name} gave {len(answers)} verdicts for {len(questions)} questions"
        return [JudgeFailure(reason="judge_error", message=message, kind="prompt", tries=1)] * len(questions)
    return [checked(judge, answer, question) for answer, question in zip(answers, questions, strict=True)]


def checked(judge: Judge, answer: object, question: Question) -> Verdict | JudgeFailure:
    """Return the answer of a judge, or a failure if it has the wrong type or form for the question.

    >>> from otel_agentic.judges.exact import ExactJudge
    >>> question = Question(query="2+2?", expected="4", answer="four", threshold=0.7)
    >>> checked(ExactJudge(), Verdict(score=float("nan"), reasoning=""), question).message
    'judge exact gave score nan; allowed: 0 to 1'
    """
    if isinstance(answer, JudgeFailure):
        return answer
    if not isinstance(answer, Verdict):
        message = f"judge {judge.name} gave {type(answer).__name__}; allowed: Verdict, JudgeFailure"
        return JudgeFailure(reason="judge_error", message=message, kind="prompt", tries=1)
    flaw = flaw_of(answer, form_of(question))
    if flaw is None:
        return answer
    return JudgeFailure(
        reason="judge_error",
        message=f"judge {judge.name} gave {flaw}",
        kind="prompt",
        model=answer.model,
        tries=answer.tries,
        latency_s=answer.latency_s,
        input_tokens=answer.input_tokens,
        output_tokens=answer.output_tokens,
        cost_usd=answer.cost_usd,
    )


def flaw_of(verdict: Verdict, form: ReplyForm | None) -> str | None:
    """Return the part of a verdict that does not have the requested form, with the allowed values, or None.

    >>> from otel_agentic.judges.base import ReplyForm
    >>> flaw_of(Verdict(score=1.0, reasoning=""), ReplyForm(kind="label", labels=("good", "bad")))
    'label None; allowed: good, bad'
    """
    if form is not None and form.kind == "label":
        return None if verdict.label in form.labels else f"label {verdict.label!r}; allowed: {', '.join(form.labels)}"
    if form is not None and form.kind == "texts":
        texts: object = verdict.texts
        right = isinstance(texts, tuple) and len(texts) <= form.most and all(isinstance(text, str) for text in texts)
        return None if right else f"invalid texts; allowed: a tuple of at most {form.most} texts"
    score: object = verdict.score
    low, high = (0.0, 1.0) if form is None else (form.low, form.high)
    right = isinstance(score, int | float) and not isinstance(score, bool) and low <= score <= high
    return None if right else f"score {score!r}; allowed: {low:g} to {high:g}"


def raised(judge: Judge, error: Exception) -> JudgeFailure:
    """Return the failure for an exception of a judge."""
    message = f"judge {judge.name} raised {type(error).__name__}: {error}"
    return JudgeFailure(reason="judge_error", message=message, kind=problem_of(error).failure, tries=1)
