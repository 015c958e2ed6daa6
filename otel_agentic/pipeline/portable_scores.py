"""Serialization of scores sent by a worker: calls and expectations, which both sides hold, are sent as indices.

The regular pickle of a score omits the objects it was computed from (`ToolScore.raw`), but faults and counts are stored
from them.
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
    """Return scores of conversations as bytes that `unpacked` reads with the same conversations."""
    file = BytesIO()
    _Packer(file, part).dump(list(scores))
    return file.getvalue()


def unpacked(content: bytes, part: Part) -> list[ConversationScore]:
    """Return the scores of conversations from bytes that a process started by this one sent."""
    token = _in_view.set(_View(part))
    try:
        scores: list[ConversationScore] = pickle.loads(content)  # noqa: S301 — from a worker that this process started
    finally:
        _in_view.reset(token)
    return scores


class _View:
    """Calls and expectations of conversations, by index."""

    def __init__(self, part: Part) -> None:
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
        view = _View(part)
        self._calls = {id(call): index for index, call in enumerate(view.calls)}
        self._expectations = {id(expectation): index for index, expectation in enumerate(view.expectations)}
        self._expected: dict[int, tuple[int, ToolRules, int]] = {}

    def reducer_override(self, value: Any) -> Any:
        """Return how to rebuild a value that is not pickled in the regular way."""
        match value:
            case ToolScore():
                return ToolScore, tuple(value)
            case ToolCall():
                return (_call, (self._calls[id(value)],)) if id(value) in self._calls else NotImplemented
            case CompiledExpectation():
                return self._compiled(value)
            case CompiledCall():
                position = self._expected.get(id(value))
                return (_expected, position) if position is not None else NotImplemented
            case _:
                return NotImplemented

    def _compiled(self, value: CompiledExpectation) -> Any:
        index = self._expectations.get(id(value.expectation))
        if index is None:
            return compiled, (value.expectation, value.rules)
        self._expected |= {id(call): (index, value.rules, number) for number, call in enumerate(value.calls)}
        return _expectation, (index, value.rules)


#: The conversations for which `unpacked` runs: the functions that rebuild a value receive only its index.
_in_view: ContextVar[_View] = ContextVar("conversations whose scores are unpacked")


def _call(index: int) -> ToolCall:
    return _in_view.get().calls[index]


def _expectation(index: int, rules: ToolRules) -> CompiledExpectation:
    return compiled(_in_view.get().expectations[index], rules)


def _expected(index: int, rules: ToolRules, number: int) -> CompiledCall:
    return _expectation(index, rules).calls[number]
