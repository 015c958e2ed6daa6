"""A judge made of a Python function."""

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

_GIVES: Final = "a number from 0 to 1, true or false, or a Verdict"


class FunctionJudge:
    """Judges by a function of one question. What it raises is a failure of the judge, never of the agent.

    Its version is a hash of its code: whoever changes the function judges anew.

    >>> judge = FunctionJudge(lambda question: question.answer == question.expected)
    >>> judge.judge([Question(query="2+2?", expected="4", answer="4", threshold=0.7)])[0].score
    1.0
    """

    def __init__(self, function: JudgingFunction) -> None:
        """Take a function, or an object that is called like one.

        Raises:
            UsageError: it is a coroutine function, which nobody would await.
        """
        self._function = function
        self.name: str = getattr(function, "__name__", type(function).__name__)
        if any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None)))):  # noqa: B004 — it is looked at
            raise UsageError(
                f"judge {self.name}: an async function; give an ordinary one, or an object with judge(questions)"
            )
        self.version: str = code_version(function)

    @classmethod
    def from_settings(cls, settings: JudgeSettings, argument: str | None = None) -> Self:  # noqa: ARG003 — the plug-in point
        """Raise: it is made of a function and is no plug-in.

        Raises:
            UsageError: always.
        """
        raise UsageError("FunctionJudge is made with a function: FunctionJudge(function)")

    def judge(self, questions: Sequence[Question]) -> list[Verdict | JudgeFailure]:
        """Return one verdict or failure a question, in their order."""
        return [self._answer(question) for question in questions]

    def _answer(self, question: Question) -> Verdict | JudgeFailure:
        if question.rubric is not None:
            return replace(self._failure(f"takes no rubric ({question.rubric.name})"), tries=0)
        try:
            said = self._function(question)
        except Exception as error:  # noqa: BLE001 — a stranger's function may raise anything
            return self._failure(f"raised {type(error).__name__}: {error}")
        if isinstance(said, Verdict | JudgeFailure):
            return said
        score = _score(said)
        if score is None:
            return self._failure(f"gave {said!r}; it gives {_GIVES}")
        return Verdict(score=score, reasoning=f"{self.name} gives {score:g}")

    def _failure(self, told: str) -> JudgeFailure:
        return JudgeFailure(reason="judge_error", message=f"judge {self.name} {told}", tries=1)


def _score(said: object) -> float | None:
    """Return what was said as a score, None where it is none. A number of numpy or torch is a number too."""
    try:
        score = float(said) if isinstance(said, SupportsFloat) else -1.0
    except (TypeError, ValueError, OverflowError):  # such as an array of several
        return None
    return score if 0.0 <= score <= 1.0 else None


def judge_of(given: JudgeLike, settings: JudgeSettings) -> Judge:
    """Return a judge, whatever it is given as: by name, as an object, as a chat model of LangChain, or as a function.

    Raises:
        PluginError: there is no judge of that name, or it does not load.
        UsageError: it is none of these, or an async function.
    """
    if inspect.isroutine(given) or isinstance(given, partial) or _is_called(given):
        return FunctionJudge(cast("JudgingFunction", given))
    return as_judge(cast("str | Judge | BaseChatModel", given), settings)


def _is_called(given: object) -> bool:
    """Return whether an object judges by being called. A judge, a model or a class may be callable, and means another thing."""
    return (
        callable(given) and not isinstance(given, type) and not hasattr(given, "judge") and not hasattr(given, "invoke")
    )
