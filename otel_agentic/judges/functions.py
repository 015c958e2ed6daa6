"""Judges from Python functions."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Self, SupportsFloat, cast

from otel_agentic.errors import UsageError
from otel_agentic.judges.base import JudgeFailure, Question, Verdict
from otel_agentic.judges.choose import as_judge
from otel_agentic.judges.versions import code_version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.language_models import BaseChatModel

    from otel_agentic.config import JudgeSettings
    from otel_agentic.judges.base import Judge

    #: From a question to a score in [0, 1], to true or false, or to a verdict.
    JudgingFunction = Callable[[Question], float | bool | Verdict | JudgeFailure]
    JudgeLike = str | Judge | BaseChatModel | JudgingFunction

_RETURNS: Final = "a number from 0 to 1, true or false, or a Verdict"


class FunctionJudge:
    """Judges by a function of one question. An exception of the function is a failure of the judge, never of the agent.

    Its version is a hash of its code: with a changed function, all answers are judged again.

    >>> judge = FunctionJudge(lambda question: question.answer == question.expected)
    >>> judge.judge([Question(query="2+2?", expected="4", answer="4", threshold=0.7)])[0].score
    1.0
    """

    def __init__(self, function: JudgingFunction) -> None:
        """Create a judge from a function or a callable object.

        Raises:
            UsageError: it is a coroutine function, which would never be awaited.
        """
        self._function = function
        self.name: str = getattr(function, "__name__", type(function).__name__)
        if any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None)))):  # noqa: B004 — inspected, not called
            raise UsageError(
                f"judge {self.name}: an async function; give an ordinary one, or an object with judge(questions)"
            )
        self.version: str = code_version(function)

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:  # noqa: ARG003 — the plug-in point
        """Raise: it is created from a function and is no plug-in.

        Raises:
            UsageError: always.
        """
        raise UsageError("FunctionJudge is created from a function: FunctionJudge(function)")

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        """Return one verdict or failure per question, in order."""
        return [self._answer(question) for question in questions]

    def _answer(self, question: Question) -> Verdict | JudgeFailure:
        if question.rubric is not None:
            return replace(self._failure(f"takes no rubric ({question.rubric.name})"), tries=0)
        try:
            result = self._function(question)
        except Exception as error:  # noqa: BLE001 — a user's function may raise anything
            return self._failure(f"raised {type(error).__name__}: {error}")
        if isinstance(result, Verdict | JudgeFailure):
            return result
        score = _score(result)
        if score is None:
            return self._failure(f"returned {result!r}; it must return {_RETURNS}")
        return Verdict(score=score, reasoning=f"{self.name} returns {score:g}")

    def _failure(self, message: str) -> JudgeFailure:
        return JudgeFailure(reason="judge_error", message=f"judge {self.name} {message}", tries=1)


def _score(result: object) -> float | None:
    """Return a result as a score, or None. Numbers of numpy and torch are accepted."""
    try:
        score = float(result) if isinstance(result, SupportsFloat) else -1.0
    except (TypeError, ValueError, OverflowError):  # such as an array of several
        return None
    return score if 0.0 <= score <= 1.0 else None


def judge_of(judge: JudgeLike, settings: JudgeSettings) -> Judge:
    """Return a judge from any of its forms: a name, an object, a chat model of LangChain, or a function.

    Raises:
        PluginError: the judge is unknown, or does not load.
        UsageError: the argument has another form, or is an async function.
    """
    if inspect.isroutine(judge) or isinstance(judge, partial) or _is_called(judge):
        return FunctionJudge(cast("JudgingFunction", judge))
    return as_judge(cast("str | Judge | BaseChatModel", judge), settings)


def _is_called(judge: object) -> bool:
    """Return whether an object judges by being called. A callable judge, model or class is used through its own interface."""
    return (
        callable(judge) and not isinstance(judge, type) and not hasattr(judge, "judge") and not hasattr(judge, "invoke")
    )
