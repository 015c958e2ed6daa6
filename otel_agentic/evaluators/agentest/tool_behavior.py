"""Which of Agentest's failures of tool use a call shows, and whether a turn lacks a call: also a turn without any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.evaluators.agentest.behavior import NO_FAILURE
from otel_agentic.evaluators.agentest.judging import Judging, asked, rubric, silent
from otel_agentic.evaluators.agentest.showing import Material, expected_here, later_calls, tools_shown
from otel_agentic.evaluators.base import Metric, MetricScore
from otel_agentic.evaluators.catalog import metrics_of
from otel_agentic.evaluators.needs import turn_missing
from otel_agentic.evaluators.transcript import call_line
from otel_agentic.judges.base import ReplyForm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.conversations.model import ToolCall, Turn
    from otel_agentic.evaluators.agentest.judging import Item
    from otel_agentic.evaluators.base import Need, Subject
    from otel_agentic.judges.base import Rubric
    from otel_agentic.scoring.model import NotEvaluatedReason

NAME: Final = "agentic.agentest.tool_call_behavior_failure"
MISSING: Final = "missing_tool_call"
_METRICS: Final = metrics_of("agentest.tool_call_behavior_failure")
_RECORD: Final = "have the instrumentation record content"

_CALL: Final = rubric(
    "tool_call", ReplyForm(kind="label", labels=tuple(label for label in _METRICS[0].labels if label != MISSING))
)
_MISSING: Final = rubric("missing_tool_call", ReplyForm(kind="label", labels=(NO_FAILURE, MISSING)))


class ToolCallBehaviorFailure(Judging):
    """A label for each call, and one for each turn that may lack a call.

    A turn without calls is looked at, too, where the case expects a call in it or in the conversation, where the tools that
    the agent was given are recorded, or where it calls tools in other turns.
    """

    name: str = "agentest.tool_call_behavior_failure"
    metrics: tuple[Metric, ...] = _METRICS
    needs: frozenset[Need] = frozenset({"turns", "judge"})
    rubrics: tuple[Rubric, ...] = (_CALL, _MISSING)

    def items(self, subject: Subject) -> Iterator[Item]:
        """Yield one score for each call, and after those of a turn one for the turn."""
        tools = tools_shown(subject)
        with_calls = any(turn.calls for turn in subject.conversation.turns)
        for turn in subject.conversation.turns:
            shown = Material(subject, turn)
            expected, later = expected_here(subject, turn), later_calls(subject, turn)
            shown.add(tools=tools, expected=expected)
            for call in turn.calls:
                yield _of_call(turn, call, shown)
            lacking = _lacking(turn, with_tools=bool(with_calls or tools or expected))
            score = MetricScore(name=NAME, turn_index=turn.index)
            if lacking is None:
                shown.add(called_later=later)
                yield asked(score, _MISSING, shown.texts, shown.note)
            else:
                yield silent(score, *lacking)


def _of_call(turn: Turn, call: ToolCall, shown: Material) -> Item:
    ordered = sorted(turn.calls, key=lambda one: (one.step, one.position))
    number = 1 + next(place for place, one in enumerate(ordered) if one is call)
    score = MetricScore(name=NAME, turn_index=turn.index, position=call.position, tool_name=call.name)
    lacking = _unknown(turn, call, number)
    if lacking is not None:
        return silent(score, *lacking)
    texts = {"call": f"{number} of {len(ordered)}: {call.name}", **shown.texts}
    if not shown.whole:  # it may be among the lines that were left out
        texts["call_line"] = call_line(turn, call)
    return asked(score, _CALL, texts, shown.note)


def _unknown(turn: Turn, call: ToolCall, number: int) -> tuple[NotEvaluatedReason, str] | None:
    """Return why nobody can tell whether a call was right, None where somebody can."""
    if not turn.query_captured and not turn.answer_captured:
        return turn_missing(turn, "queries")
    if call.arguments is None:
        told = f"turn {turn.index + 1}, call {number} ({call.name}): its arguments were not recorded; {_RECORD}"
        return "content_not_captured", told
    return None


def _lacking(turn: Turn, *, with_tools: bool) -> tuple[NotEvaluatedReason, str] | None:
    """Return why it is not asked whether a turn lacks a call, None where it is."""
    place = f"turn {turn.index + 1}"
    if not with_tools:
        return "no_data", f"{place}: neither the case nor any span shows that there is a tool to call"
    # What was wanted and what was said about it: without either nobody can tell what was due.
    return turn_missing(turn, "queries") if turn.answer is None else None
