"""Creation of judges from names, objects, chat models and Python functions."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from types import CellType, CodeType
from typing import TYPE_CHECKING, Any, Final, Self, SupportsFloat, cast

from otel_agentic import plugins
from otel_agentic.config import JudgeSettings
from otel_agentic.errors import UsageError
from otel_agentic.judges.base import Judge, JudgeFailure, Question, Verdict
from otel_agentic.judges.chat_models import MISSING
from otel_agentic.judges.llm import LangChainJudge

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    #: From a question to a score in [0, 1], to true or false, or to a verdict.
    JudgingFunction = Callable[[Question], float | bool | Verdict | JudgeFailure]
    JudgeLike = str | Judge | BaseChatModel | JudgingFunction

_Enclosing = tuple[object, ...]


def code_version(function: Any) -> str:
    """Return a hash of the code of a function and of the plain values bound in it.

    Functions bound in it, for example by a decorator, are included by their code. Functions that it only refers to by
    name are not.

    >>> code_version(lambda text: text in {"yes", "no"}) == code_version(lambda text: text in {"yes", "never"})
    False
    """
    content = repr(_function(function, ()))
    return f"function-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def _function(function: Any, enclosing: _Enclosing) -> object:
    """Return the behaviour of a function as a comparable value; `enclosing` functions are used to detect recursion."""
    if any(function is outer for outer in enclosing):  # recursion
        return "itself"
    with_function = (*enclosing, function)
    if isinstance(function, partial):
        return "partial", *(_stable(part, with_function) for part in (function.func, function.args, function.keywords))
    code = getattr(function, "__code__", None)
    if code is None:
        return _object(function, with_function)
    defaults = (getattr(function, name, None) for name in ("__defaults__", "__kwdefaults__"))
    cells = [_cell(cell, with_function) for cell in getattr(function, "__closure__", None) or ()]
    return _content(code), (*(_stable(part, with_function) for part in defaults), cells)


def _object(function: Any, enclosing: _Enclosing) -> object:
    """Return the code of an object's `__call__` and its attributes; a built-in function is represented by its name."""
    kind = type(function)
    code = getattr(kind.__call__, "__code__", None)
    if code is None:
        return getattr(function, "__qualname__", kind.__qualname__)
    attributes = {name: _immutable(value, enclosing) for name, value in getattr(function, "__dict__", {}).items()}
    return kind.__qualname__, _content(code), attributes


def _cell(cell: CellType, enclosing: _Enclosing) -> object:
    try:
        return _immutable(cell.cell_contents, enclosing)
    except ValueError:  # not set yet
        return "nothing"


def _immutable(value: object, enclosing: _Enclosing) -> object:
    """Return an immutable value, or the type of a mutable one: data that a function collects is not its code."""
    return type(value).__qualname__ if isinstance(value, list | dict | set) else _stable(value, enclosing)


def _stable(value: object, enclosing: _Enclosing) -> object:
    """Return a value with the same `repr` in every process: sets are sorted, objects are replaced by their type."""
    if value is None or isinstance(value, str | bytes | int | float):
        return value
    if isinstance(value, CodeType):
        return _content(value)
    if inspect.isroutine(value) or isinstance(value, partial):
        return _function(value, enclosing)
    if isinstance(value, dict):
        return {key: _stable(item, enclosing) for key, item in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        items = [_stable(item, enclosing) for item in value]
        return (
            tuple(items)
            if isinstance(value, tuple)
            else sorted(items, key=repr)
            if isinstance(value, set | frozenset)
            else items
        )
    return type(value).__qualname__


def _content(code: CodeType) -> tuple[object, ...]:
    return code.co_code, tuple(_stable(item, ()) for item in code.co_consts), code.co_names


def judge_named(name: str, settings: JudgeSettings) -> Judge:
    """Return the judge for `--judge NAME` or `--judge NAME:ARGUMENT`.

    Raises:
        PluginError: the judge is unknown, or does not load.
        UsageError: the judge does not accept the argument.
    """
    plugin, colon, argument = name.partition(":")
    judge: Judge = plugins.get("judges", plugin).load().from_settings(settings, argument if colon else None)
    return judge


def require_packages(name: str) -> None:
    """Check that the package that `--judge langchain:…` needs is installed, without loading it.

    Raises:
        UsageError: it is missing; the message names the command that installs it.
    """
    if name.partition(":")[0] == LangChainJudge.name and find_spec("langchain") is None:
        raise UsageError(MISSING.format(judge=f"judge {name}"))


def as_judge(judge: Judge | BaseChatModel | str, settings: JudgeSettings | None = None) -> Judge:
    """Return a judge from any of its forms.

    Args:
        judge: a judge; a name as in `--judge`; or a chat model of LangChain.
        settings: limits and timeouts of a judge created here; None uses the defaults.

    Raises:
        PluginError: the judge is unknown, or does not load.
        UsageError: the argument has another form; the message lists the allowed ones.
    """
    if isinstance(judge, str):
        return judge_named(judge, settings or JudgeSettings())
    if _is_chat_model(judge):
        return LangChainJudge(cast("BaseChatModel", judge), settings)
    missing = [name for name in ("name", "version", "judge") if not hasattr(judge, name)]
    if isinstance(judge, type) or missing:
        actual = repr(judge) if isinstance(judge, type) else f"a {type(judge).__name__} without {', '.join(missing)}"
        raise UsageError(
            f"judge: {actual}; allowed: a name such as 'exact' or 'langchain:openai:gpt-5-mini', a chat model of LangChain, "
            "an object with name, version and judge(questions); otel_agentic.evaluate also takes a function of a Question"
        )
    return cast("Judge", judge)


def _is_chat_model(judge: object) -> bool:
    """Return whether an object is a chat model, without loading LangChain: no chat model exists before it is loaded."""
    models = sys.modules.get("langchain_core.language_models.chat_models")
    return models is not None and isinstance(judge, models.BaseChatModel)


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
        """Raise an error, because this judge is created from a function and is not a plug-in.

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
    except (TypeError, ValueError, OverflowError):  # such as an array with several elements
        return None
    return score if 0.0 <= score <= 1.0 else None


def judge_of(judge: JudgeLike, settings: JudgeSettings) -> Judge:
    """Return a judge from any of its forms: a name, an object, a chat model of LangChain, or a function.

    Raises:
        PluginError: the judge is unknown, or does not load.
        UsageError: the argument has another form, or is an async function.
    """
    if inspect.isroutine(judge) or isinstance(judge, partial) or _is_plain_callable(judge):
        return FunctionJudge(cast("JudgingFunction", judge))
    return as_judge(cast("str | Judge | BaseChatModel", judge), settings)


def _is_plain_callable(judge: object) -> bool:
    """Return whether an object is a plain callable; a judge, model or class is used through its own interface."""
    return (
        callable(judge) and not isinstance(judge, type) and not hasattr(judge, "judge") and not hasattr(judge, "invoke")
    )
