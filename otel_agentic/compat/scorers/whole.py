"""The calls of a whole conversation against all that its case expects, for systems that know no turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_agentic.compat.scorers.common import (
    NOT_CAPTURED,
    NOTHING_TO_SCORE,
    Numbers,
    Prepared,
    all_captured,
    counted,
    tool_part,
    tool_score,
)
from otel_agentic.scoring.parts import combine
from otel_agentic.scoring.turns import decide_turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from otel_agentic.conversations.model import ToolCall
    from otel_agentic.scoring.model import ToolScore
    from otel_agentic.scoring.parts import Part
    from otel_agentic.scoring.turns import TurnRule
    from otel_agentic.truth.model import ExpectedCall, ToolExpectation


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeConversation:
    """All calls made, in order, and all calls expected: turn by turn by their steps, then those of the conversation.

    `ordered`: some expectation has an order. `extras_allowed`: every expectation allows extra calls.
    """

    made: tuple[ToolCall, ...]
    expected: tuple[ExpectedCall, ...]
    forbidden: tuple[str, ...]
    ordered: bool
    extras_allowed: bool

    @property
    def required(self) -> tuple[ExpectedCall, ...]:
        """The calls that must be made."""
        return tuple(call for call in self.expected if call.required)


def whole_conversation(prepared: Prepared) -> WholeConversation | ToolScore | None:
    """Return both sides, the score where arguments were not captured, None where nothing is expected of tools."""
    expectations = [*_expectations(prepared)]
    if not expectations:
        return None
    turns = prepared.matched.conversation.turns
    joined = [call for expectation in expectations for call in _in_steps(expectation)]
    made = counted([call for turn in turns for call in turn.calls], {call.tool_name for call in joined})
    if not all_captured(turns, made):
        return tool_score(NOT_CAPTURED)
    return WholeConversation(
        made=tuple(made),
        expected=tuple(joined),
        forbidden=tuple(name for expectation in expectations for name in expectation.forbidden),
        ordered=any(expectation.order != "any" for expectation in expectations),
        extras_allowed=all(expectation.extra_calls == "allow" for expectation in expectations),
    )


def whole_numbers(
    prepared: Prepared, answers: Mapping[int, Part], score: Callable[[WholeConversation], ToolScore]
) -> Numbers:
    """Return the numbers of a system that scores answers turn by turn (where it does) and tools over the conversation."""
    whole = whole_conversation(prepared)
    tools = score(whole) if isinstance(whole, WholeConversation) else whole
    of_answers = combine([*answers.values()]) if answers else None
    of_tools = None if tools is None else tool_part(tools)
    rule = prepared.settings.turn_rule
    return Numbers(
        decided=decide_turn(rule, of_answers, of_tools) if answers or tools else NOTHING_TO_SCORE,
        needed=_needed(rule, [*answers.values()], [] if of_tools is None else [of_tools]),
        answers=answers,
        tools=() if tools is None else (tools,),
        by_tools=decide_turn("tools", None, of_tools),
        by_both=decide_turn("both", of_answers, of_tools),
    )


def _needed(rule: TurnRule, answers: list[Part], tools: list[Part]) -> tuple[Part, ...]:
    if rule == "both":
        return (*answers, *tools)
    return tuple(answers or tools) if rule == "answer" else tuple(tools or answers)


def _expectations(prepared: Prepared) -> Iterator[ToolExpectation]:
    for turn in prepared.case.turns:
        if turn.tools is not None:
            yield turn.tools
    if prepared.case.tools is not None:
        yield prepared.case.tools


def _in_steps(expectation: ToolExpectation) -> list[ExpectedCall]:
    placed = enumerate(expectation.calls, start=1)
    return [call for _, call in sorted(placed, key=lambda one: one[0] if one[1].step is None else one[1].step)]
