"""Scores of conversations as bytes between a worker and its parent, without what the parent has."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import fields
from io import BytesIO
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from otel_agentic.conversations.model import ToolCall
from otel_agentic.evaluators.base import MetricScore
from otel_agentic.scoring.compile import CompiledCall, CompiledExpectation, compiled
from otel_agentic.scoring.model import ConversationScore, ToolScore, TurnScore
from otel_agentic.store.table import Measured

if TYPE_CHECKING:
    from otel_agentic.evaluators.base import AnyEvaluator
    from otel_agentic.scoring import MatchedConversation
    from otel_agentic.scoring.scope import ToolRules
    from otel_agentic.truth.model import ToolExpectation

    #: Matched conversations, in order.
    Part = Sequence[MatchedConversation]
    #: The score of a conversation and the scores of evaluators: a `Scored` without what the parent process has.
    Result = tuple[ConversationScore, tuple[Measured, ...]]

R = TypeVar("R")


def packed(results: Sequence[Result], part: Part) -> bytes:
    """Return scores of conversations as bytes that `unpacked` reads with the same conversations."""
    file = BytesIO()
    _Packer(file, part).dump(list(results))
    return file.getvalue()


def unpacked(content: bytes, part: Part, evaluators: Mapping[str, AnyEvaluator]) -> list[Result]:
    """Return the scores of conversations from bytes that a process started by this one sent."""
    token = _in_view.set(_View(part, evaluators))
    try:
        results: list[Result] = pickle.loads(content)  # noqa: S301 — from a worker that this process started
    finally:
        _in_view.reset(token)
    return results


class _View:
    """Conversations, their calls and expectations by index, and evaluators by name."""

    def __init__(self, part: Part, evaluators: Mapping[str, AnyEvaluator]) -> None:
        self.evaluators = evaluators
        self.conversations = [item.conversation for item in part]
        self.calls = [call for item in part for turn in item.conversation.turns for call in turn.calls]
        self.expectations = list(_expectations_of(part))


def _expectations_of(part: Part) -> Iterator[ToolExpectation]:
    """Yield the expectations of the cases with their alternatives, each case once."""
    cases = {id(item.match.case): item.match.case for item in part if item.match.case is not None}
    for case in cases.values():
        for tools in (case.tools, *(turn.tools for turn in case.turns)):
            if tools is not None:
                yield tools
                yield from tools.alternatives


class _Packer(pickle.Pickler):
    def __init__(self, file: BytesIO, part: Part) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        view = _View(part, {})
        self._conversations = {id(conversation): index for index, conversation in enumerate(view.conversations)}
        self._calls = {id(call): index for index, call in enumerate(view.calls)}
        self._expectations = {id(expectation): index for index, expectation in enumerate(view.expectations)}
        self._expected: dict[int, tuple[int, ToolRules, int]] = {}

    def reducer_override(self, value: Any) -> Any:
        """Return how to rebuild a value that is not pickled in the regular way."""
        if type(value) in _VALUES:
            return _restored, (type(value), _VALUES[type(value)](value))
        match value:
            case ToolScore():
                return ToolScore, tuple(value)
            case Measured():
                return self._scores_of(value)
            case CompiledExpectation():
                return self._compiled(value)
            case ToolCall() | CompiledCall():
                return self._place_of(value)
            case _:
                return NotImplemented

    def _scores_of(self, value: Measured) -> Any:
        conversation = self._conversations[id(value.conversation)]
        scores = tuple(map(_VALUES[MetricScore], value.scores))
        return _measured, (value.evaluator.name, conversation, scores, *_MEASURED_VALUES(value))

    def _place_of(self, value: ToolCall | CompiledCall) -> Any:
        if id(value) in self._calls:
            return _call, (self._calls[id(value)],)
        position = self._expected.get(id(value))
        return (_expected, position) if position is not None else NotImplemented

    def _compiled(self, value: CompiledExpectation) -> Any:
        index = self._expectations.get(id(value.expectation))
        if index is None:
            return compiled, (value.expectation, value.rules)
        self._expected |= {id(call): (index, value.rules, number) for number, call in enumerate(value.calls)}
        return _expectation, (index, value.rules)


#: The conversations for which `unpacked` runs: the functions that rebuild a value receive only its index.
_in_view: ContextVar[_View] = ContextVar("conversations whose scores are unpacked")


#: The fields of classes whose objects are packed by value: pickling a dataclass with slots reads them from the class each time.
_FIELDS: Final[Mapping[type, tuple[str, ...]]] = {
    kind: tuple(field.name for field in fields(kind)) for kind in (ConversationScore, TurnScore, MetricScore)
}
_VALUES: Final[Mapping[type, Callable[[Any], tuple[Any, ...]]]] = {
    kind: attrgetter(*names) for kind, names in _FIELDS.items()
}
#: The fields of the scores of an evaluator that are packed as they are.
_MEASURED: Final = tuple(
    field.name for field in fields(Measured) if field.name not in {"evaluator", "conversation", "scores"}
)
_MEASURED_VALUES: Final = attrgetter(*_MEASURED)


def _restored(kind: type[R], values: Sequence[Any], names: Sequence[str] = ()) -> R:
    """Return an object with the values of its fields; its class has checked them in the other process."""
    value = object.__new__(kind)
    for name, member in zip(names or _FIELDS[kind], values, strict=True):
        object.__setattr__(value, name, member)
    return value


def _measured(evaluator: str, conversation: int, scores: Sequence[tuple[Any, ...]], *values: Any) -> Measured:
    view = _in_view.get()
    return _restored(
        Measured,
        (
            view.evaluators[evaluator],
            view.conversations[conversation],
            tuple([_restored(MetricScore, score) for score in scores]),
            *values,
        ),
        ("evaluator", "conversation", "scores", *_MEASURED),
    )


def _call(index: int) -> ToolCall:
    return _in_view.get().calls[index]


def _expectation(index: int, rules: ToolRules) -> CompiledExpectation:
    return compiled(_in_view.get().expectations[index], rules)


def _expected(index: int, rules: ToolRules, number: int) -> CompiledCall:
    return _expectation(index, rules).calls[number]
