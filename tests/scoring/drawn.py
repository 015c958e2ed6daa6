"""Random expectations and calls, read from drawn bytes.

An example is one cheap draw and shrinks well: a byte is a choice, and past the last one the first choice is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from otel_agentic.scoring import ActualCall, Scope, ToolRules, ToolScore, score_tools
from otel_agentic.scoring.scope import DIMENSIONS, Dimension
from otel_agentic.testing import tool_call
from otel_agentic.truth import ExpectedCall, ToolExpectation

if TYPE_CHECKING:
    from otel_agentic.conversations.model import ToolCall

#: Examples of a property in the thorough profile, see `tests/conftest.py`.
THOROUGH: Final = 200
#: As many bytes as most examples have choices.
BYTES: Final = st.binary(min_size=48, max_size=96)
NAMES: Final = ("a", "b", "c")
VALUES: Final = (0, "x", 1, True, "1", None, 2.5, [1, 2], [2, 1], {"k": 1}, {"k": True})
WEIGHTS: Final[dict[Dimension, float]] = dict.fromkeys(DIMENSIONS, 0.25)
RULES: Final = ToolRules(threshold=1.0, weights=WEIGHTS, effects=(), count_errors=False, numbers_as_text=False)

Call = dict[str, Any]
#: Name, arguments, step.
CallSpec = tuple[str, dict[str, Any], int]


class Choices:
    """Decisions, one a byte."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def below(self, limit: int) -> int:
        return next(self._data, 0) % limit

    def of(self, *items: Any) -> Any:
        return items[self.below(len(items))]

    def parameters(self) -> dict[str, Any]:
        return {key: self.of(*VALUES) for key in ("p", "q")[: self.below(3)]}

    def expected(self, most: int = 4) -> list[Call]:
        """Return expected calls: of a few names, some in groups, some optional."""
        stepped = self.below(2)
        return [
            {
                "tool_name": self.of(*NAMES),
                "parameters": self.parameters(),
                "required": self.below(4) > 0,
                "ignore_extra_parameters": self.below(4) == 0,
                **({"step": self.below(3) + 1} if stepped else {}),
            }
            for _ in range(self.below(most + 1))
        ]

    def actual(self, most: int = 5) -> list[CallSpec]:
        """Return actual calls, sometimes several in a step."""
        step, calls = 1, []
        for _ in range(self.below(most + 1)):
            calls.append((self.of(*NAMES), self.parameters(), step))
            step += self.below(3) > 0
        return calls

    def manner(self) -> dict[str, Any]:
        return {
            "order": self.of("any", "relative", "exact"),
            "extra_calls": self.of("penalize", "allow", "forbid", {"read": "allow"}),
        }

    def shuffled(self, items: Sequence[Any]) -> list[Any]:
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in items]


def expectation(calls: Iterable[Call], *alternatives: ToolExpectation, **manner: Any) -> ToolExpectation:
    return ToolExpectation(calls=tuple(ExpectedCall(**call) for call in calls), alternatives=alternatives, **manner)


def actual_calls(calls: Iterable[CallSpec]) -> list[ActualCall]:
    return [
        ActualCall(turn_index=0, call=call_of(name, arguments, step=step, position=position))
        for position, (name, arguments, step) in enumerate(calls)
    ]


def call_of(name: str, arguments: dict[str, Any], **fields: Any) -> ToolCall:
    return replace(_CALL, name=name, arguments=arguments, **fields)


def scored(expected: ToolExpectation, actual: Iterable[ActualCall], rules: ToolRules = RULES) -> ToolScore:
    """Return the score of calls of one turn, whose results contain nothing."""
    calls = tuple(sorted(actual, key=lambda item: item.location))
    scope = Scope(turn_index=0, calls=calls, answers=((0, "done"),), queries=("go",), captured=True)
    return score_tools(expected, scope, rules)


_CALL: Final = tool_call("a", {}, result=None)
