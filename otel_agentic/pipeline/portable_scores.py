"""Scores on their way from a worker: what both sides have, calls and expectations, is named by its place, not sent.

A score that is pickled as usual leaves out what it was made from (`ToolScore.raw`), of which faults and counts are stored.
"""

from __future__ import annotations

import pickle
from contextvars import ContextVar
from io import BytesIO
from typing import TYPE_CHECKING, Any

from otel_agentic.conversations.model import ToolCall
from otel_agentic.scoring.compiled import CompiledCall, CompiledExpectation, compiled
from otel_agentic.scoring.model import ToolScore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.scoring import ConversationScore, MatchedConversation
    from otel_agentic.scoring.sorting import ToolRules
    from otel_agentic.truth.model import ToolExpectation

    Part = Sequence[MatchedConversation]


def packed(scores: Sequence[ConversationScore], part: Part) -> bytes:
    """Return scores of some conversations as bytes that `unpacked` reads where the same conversations are."""
    file = BytesIO()
    _Packer(file, part).dump(list(scores))
    return file.getvalue()


def unpacked(content: bytes, part: Part) -> list[ConversationScore]:
    """Return the scores of some conversations. The bytes come from a process of our own."""
    token = _in_view.set(_View(part))
    try:
        scores: list[ConversationScore] = pickle.loads(content)  # noqa: S301 — from a worker that this process started
    finally:
        _in_view.reset(token)
    return scores


class _View:
    """Calls and expectations of some conversations, by their places."""

    def __init__(self, part: Part) -> None:
        self.calls = [call for one in part for turn in one.conversation.turns for call in turn.calls]
        self.expectations = list(_expectations_of(part))


def _expectations_of(part: Part) -> Iterator[ToolExpectation]:
    """Yield the expectations of the cases, each case once, with their alternatives."""
    cases = {id(one.match.case): one.match.case for one in part if one.match.case is not None}
    for case in cases.values():
        for tools in (case.tools, *(turn.tools for turn in case.turns)):
            if tools is not None:
                yield tools
                yield from tools.alternatives


class _Packer(pickle.Pickler):
    def __init__(self, file: BytesIO, part: Part) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        view = _View(part)
        self._calls = {id(call): place for place, call in enumerate(view.calls)}
        self._expectations = {id(one): place for place, one in enumerate(view.expectations)}
        self._expected: dict[int, tuple[int, ToolRules, int]] = {}

    def reducer_override(self, value: Any) -> Any:
        """Return how a value is rebuilt, where that is not as usual."""
        match value:
            case ToolScore():
                return ToolScore, tuple(value)
            case ToolCall():
                return (_call, (self._calls[id(value)],)) if id(value) in self._calls else NotImplemented
            case CompiledExpectation():
                return self._compiled(value)
            case CompiledCall():
                known = self._expected.get(id(value))
                return (_expected, known) if known is not None else NotImplemented
            case _:
                return NotImplemented

    def _compiled(self, value: CompiledExpectation) -> Any:
        place = self._expectations.get(id(value.expectation))
        if place is None:
            return compiled, (value.expectation, value.rules)
        self._expected |= {id(call): (place, value.rules, number) for number, call in enumerate(value.calls)}
        return _expectation, (place, value.rules)


#: What `unpacked` reads against: how a value is rebuilt takes nothing but its place.
_in_view: ContextVar[_View] = ContextVar("conversations whose scores are unpacked")


def _call(place: int) -> ToolCall:
    return _in_view.get().calls[place]


def _expectation(place: int, rules: ToolRules) -> CompiledExpectation:
    return compiled(_in_view.get().expectations[place], rules)


def _expected(place: int, rules: ToolRules, number: int) -> CompiledCall:
    return _expectation(place, rules).calls[number]
