"""The check of a judge before a run: one question with a known answer, so that a wrong key, address or model costs one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.errors import BackendError, UsageError
from otel_agentic.judges.asking_judge import AskingJudge
from otel_agentic.judges.base import JudgeFailure, Question, kinds_of
from otel_agentic.judges.llm import passes

if TYPE_CHECKING:
    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges.base import Budget, Judge

_QUESTION: Final = Question(query="What is the capital of France?", expected="Paris", answer="Paris", threshold=0.7)
_SKIP: Final = "judge.sanity_check = false skips this check"


def check_judge(judge: Judge, settings: JudgeSettings, budget: Budget | None = None, *, waits: bool = False) -> None:
    """Ask a judge that calls a model whether a right answer is right; any other judge is not asked.

    Does nothing if the settings turn it off, or if the budget allows no call. The call counts against the budget.

    Args:
        judge: the judge of the run.
        settings: its settings.
        budget: the budget of the run.
        waits: the run waits for a judge that does not respond, so an outage is no error.

    Raises:
        BackendError: the model does not answer, or its replies are unreadable.
        UsageError: the verdict is wrong.
    """
    model = getattr(judge, "model", None)
    if not settings.sanity_check or not isinstance(model, str) or "answer" not in kinds_of(judge):
        return
    (answer,) = AskingJudge(judge, budget=budget).judge([_QUESTION])
    if isinstance(answer, JudgeFailure):
        if answer.reason == "budget_exhausted" or (waits and answer.kind == "outage"):
            return
        raise BackendError(
            f"judge {judge.name}, model {model}: no verdict on a test question, so nothing was evaluated: {answer.message}; check "
            f"the model's name, key and address (judge.model_options); {_SKIP}"
        )
    if not passes(answer.score, _QUESTION.threshold):
        raise UsageError(
            f"judge {judge.name}, model {model}: scores the answer {_QUESTION.answer!r} to {_QUESTION.query!r} {answer.score:g}, at "
            f"least {_QUESTION.threshold:g} is right ({answer.reasoning}), so nothing was evaluated; use another model or prompt; "
            f"{_SKIP}"
        )
