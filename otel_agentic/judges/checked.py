"""What a stranger's judge says, checked: whatever it does becomes a verdict or a failure, one a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.judges.base import Judge, JudgeFailure, Question, Verdict
from otel_agentic.judges.forms import form_of
from otel_agentic.judges.troubles import trouble_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.judges.base import ReplyForm


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
        return [JudgeFailure(reason="judge_error", message=told, kind="prompt", tries=1)] * len(questions)
    return [checked(judge, answer, question) for answer, question in zip(answers, questions, strict=True)]


def checked(judge: Judge, answer: object, question: Question) -> Verdict | JudgeFailure:
    """Return the answer of a judge; a failure where it is none, or not of the form that the question asks for.

    >>> from otel_agentic.judges.exact import ExactJudge
    >>> question = Question(query="2+2?", expected="4", answer="four", threshold=0.7)
    >>> checked(ExactJudge(), Verdict(score=float("nan"), reasoning=""), question).message
    'judge exact gave score nan; allowed: 0 to 1'
    """
    if isinstance(answer, JudgeFailure):
        return answer
    if not isinstance(answer, Verdict):
        told = f"judge {judge.name} gave {type(answer).__name__}; allowed: Verdict, JudgeFailure"
        return JudgeFailure(reason="judge_error", message=told, kind="prompt", tries=1)
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
    """Return what of a verdict is not of the form that was asked for, with what is allowed; None where nothing is.

    >>> from otel_agentic.judges.base import ReplyForm
    >>> flaw_of(Verdict(score=1.0, reasoning=""), ReplyForm(kind="label", labels=("good", "bad")))
    'label None; allowed: good, bad'
    """
    if form is not None and form.kind == "label":
        return None if verdict.label in form.labels else f"label {verdict.label!r}; allowed: {', '.join(form.labels)}"
    if form is not None and form.kind == "texts":
        texts: object = verdict.texts
        right = isinstance(texts, tuple) and len(texts) <= form.most and all(isinstance(each, str) for each in texts)
        return None if right else f"texts that are none; allowed: a tuple of at most {form.most} texts"
    score: object = verdict.score
    low, high = (0.0, 1.0) if form is None else (form.low, form.high)
    right = isinstance(score, int | float) and not isinstance(score, bool) and low <= score <= high
    return None if right else f"score {score!r}; allowed: {low:g} to {high:g}"


def raised(judge: Judge, error: Exception) -> JudgeFailure:
    """Return the failure that an exception of a judge is."""
    told = f"judge {judge.name} raised {type(error).__name__}: {error}"
    return JudgeFailure(reason="judge_error", message=told, kind=trouble_of(error).failure, tries=1)
