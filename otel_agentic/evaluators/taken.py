"""A function that somebody wants an evaluator to be made of: what it is called, and what it is called with."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from otel_agentic.conversations.model import Conversation, Turn
from otel_agentic.errors import UsageError
from otel_agentic.evaluators.base import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    #: Of a subject, a conversation or a turn; what it returns, see `evaluator`.
    Function = Callable[..., Any]

Takes = Literal["Subject", "Conversation", "Turn"]
_TAKES: Final[Mapping[Takes, type]] = {"Subject": Subject, "Conversation": Conversation, "Turn": Turn}
_VARIABLE: Final = frozenset({inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD})


def name_of(function: Function, name: str | None) -> str:
    """Return the name of the evaluator that is made of a function.

    Raises:
        UsageError: it is none that can be called so, or has no name.
    """
    own = name or getattr(function, "__name__", None)
    if not callable(function):
        raise UsageError(
            f"evaluator {own}: a {type(function).__name__} is not called with one argument; give a function"
        )
    if not own:
        raise UsageError(
            f"an evaluator made of {type(function).__name__} has no name: give one, as in name='house.brief'"
        )
    return str(own)


def whole_name(function: Function) -> str:
    """Return the name of a function with that of what it stands in."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def taken(function: Function, name: str, *, asks: bool) -> Takes:
    """Return what a function is called with, by the annotation of its first parameter.

    Raises:
        UsageError: it has none that is known, takes more, or is none that can be called so.
    """
    calls = (function, getattr(function, "__call__", None))  # noqa: B004 — it is looked at
    if any(inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call) for call in calls):
        raise UsageError(f"evaluator {name}: an async function, which nobody would await; give an ordinary one")
    if asks and not inspect.isgeneratorfunction(function):
        raise UsageError(
            f"evaluator {name}: it has rubrics and yields no questions; a function that asks is a generator function: "
            "`(verdict,) = yield [rubric_question(RUBRIC, ...)]`"
        )
    parameters = list(inspect.signature(function).parameters.values())
    required = [each for each in parameters if each.default is each.empty and each.kind not in _VARIABLE]
    known = next((each for each in get_args(Takes) if parameters and _says(parameters[0].annotation, each)), None)
    if known is None or len(required) > 1:
        raise UsageError(
            f"evaluator {name}: the function has to take one argument, and say which: {', '.join(get_args(Takes))}; as in "
            f"def {getattr(function, '__name__', 'name')}(turn: Turn)"
        )
    return cast("Takes", known)


def _says(annotation: object, name: Takes) -> bool:
    """Return whether an annotation means a type; it may be a text, of a name that is imported for type checkers alone."""
    if isinstance(annotation, str):
        return annotation.strip("'\" ").rpartition(".")[2] == name
    return annotation is _TAKES[name]
