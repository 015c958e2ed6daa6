"""Tool faults of scored conversations in memory: one row per fault, and one per kind of fault and tool.

The rows are equal to those of `v_tool_faults` and `tools failing` for a store; a test compares them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.scoring.counts import tool_counts
from otel_agentic.scoring.impact import impacts_of
from otel_agentic.store.tool_rows import FAULT_DIMENSION  # one table for all; it opens no store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluators.base import MetricScore
    from otel_agentic.scoring import ConversationScore, ToolFault
    from otel_agentic.scoring.impact import Impact
    from otel_agentic.truth.match import Match

#: Sorts faults without a turn or call before the others.
_NONE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredAttempt:
    """A conversation with its match and score; `evaluator_scores` are the metric scores by name of the evaluator."""

    conversation: Conversation
    match: Match
    score: ConversationScore
    evaluator_scores: Mapping[str, tuple[MetricScore, ...]] = field(default_factory=dict)

    @property
    def metrics(self) -> tuple[MetricScore, ...]:
        """The scores of all metrics, abstentions included."""
        return tuple(score for scores in self.evaluator_scores.values() for score in scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingTool:
    """One way in which a tool fails: how often, since when, and an example.

    In `failed` of the `conversations` the tools failed and the agent did not recover. `tried` counts missing calls next to
    an error of the same tool: the agent may have tried to call it. `share` is the share of all faults of the agent, version
    and environment. `rate` is faults per call that can have the fault (`calls`), or None if calls are not counted. Times
    are nanoseconds since the epoch. `example_conversation` is the newest conversation with the fault; `expected` and
    `actual` are its values, for wrong parameters.
    """

    agent: str | None
    agent_version: str | None
    environment: str
    tool: str
    dimension: str | None
    fault: str
    parameter: str | None
    faults: int
    conversations: int
    failed: int
    tried: int | None
    share: float
    calls: int | None
    rate: float | None
    first_seen_ns: int
    last_seen_ns: int
    example_conversation: str
    example: str
    expected: Any
    actual: Any
    trace_id: str | None
    span_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _FaultInConversation:
    """A fault with its conversation."""

    conversation: Conversation
    fault: ToolFault
    impact: Impact

    @property
    def subject(self) -> tuple[str | None, str | None, str]:
        return (self.conversation.agent_name, self.conversation.agent_version, self.conversation.environment)

    @property
    def kind(self) -> tuple[str, str, str | None]:
        return (self.fault.tool_name, self.fault.kind, self.fault.parameter)

    @property
    def newness(self) -> tuple[Any, ...]:
        """The sort key of the example: the latest conversation, then the latest call."""
        turn, step = self.fault.turn_index, self.fault.step
        last = (_NONE if turn is None else turn, _NONE if step is None else step)
        return (self.conversation.ended_ns, str(self.conversation.conversation_id), *last)


def fault_rows(conversation: Conversation, score: ConversationScore) -> Iterator[dict[str, Any]]:
    """Yield the faults of a conversation, with expected and actual values, trace and span."""
    for tools in score.tools:
        for fault in tools.faults:
            yield {
                "turn_index": fault.turn_index,
                "tool": fault.tool_name,
                "dimension": FAULT_DIMENSION[fault.kind],
                "fault": fault.kind,
                "parameter": fault.parameter,
                "explanation": fault.explanation,
                **_values(fault),
                **_location(conversation, fault),
            }


def failing_tools(attempts: Iterable[ScoredAttempt]) -> list[FailingTool]:
    """Return the kinds of faults of each tool, those that failed most conversations first."""
    attempts = list(attempts)
    groups: dict[tuple[Any, ...], list[_FaultInConversation]] = defaultdict(list)
    for attempt in attempts:
        for tools in attempt.score.tools:
            for fault, impact in zip(tools.faults, impacts_of(tools), strict=True):
                member = _FaultInConversation(conversation=attempt.conversation, fault=fault, impact=impact)
                groups[member.subject, member.kind].append(member)
    totals: Counter[Any] = Counter()
    for (subject, _), members in groups.items():
        totals[subject] += len(members)
    counts = _counts(attempts)
    rows = [_row(members, totals[subject], counts) for (subject, _), members in groups.items()]
    return sorted(rows, key=_rank)


def _row(members: list[_FaultInConversation], total: int, counts: Mapping[Any, Counter[str]]) -> FailingTool:
    agent, version, environment = members[0].subject
    tool, fault, parameter = members[0].kind
    # Sorted by explanation first, so that equally new faults give the same example in every run.
    newest = max(sorted(members, key=lambda member: member.fault.explanation), key=lambda member: member.newness)
    ended = [member.conversation.ended_ns for member in members]
    calls = _calls(fault, counts.get((members[0].subject, tool), Counter()))
    return FailingTool(
        agent=agent,
        agent_version=version,
        environment=environment,
        tool=tool,
        dimension=FAULT_DIMENSION[members[0].fault.kind],
        fault=fault,
        parameter=parameter,
        faults=len(members),
        conversations=len({member.conversation.key for member in members}),
        failed=len({member.conversation.key for member in members if member.impact.failed}),
        tried=sum(bool(member.impact.tried) for member in members) if fault == "missing" else None,
        share=len(members) / total,
        calls=calls,
        rate=len(members) / calls if calls else None,
        first_seen_ns=min(ended),
        last_seen_ns=max(ended),
        example_conversation=str(newest.conversation.conversation_id),
        example=newest.fault.explanation,
        **_values(newest.fault),
        **_location(newest.conversation, newest.fault),
    )


def _counts(attempts: Iterable[ScoredAttempt]) -> dict[tuple[Any, str], Counter[str]]:
    """Return how often each tool of each agent, version and environment was expected, called and paired."""
    counts: dict[tuple[Any, str], Counter[str]] = defaultdict(Counter)
    for attempt in attempts:
        conversation = attempt.conversation
        subject = (conversation.agent_name, conversation.agent_version, conversation.environment)
        for count in (count for tools in attempt.score.tools for count in tool_counts(tools)):
            sums = counts[subject, count.tool_name]
            sums.update(expected=count.expected, actual=count.made, errored=count.errored, paired=count.paired)
    return counts


def _calls(fault: str, counts: Counter[str]) -> int | None:
    """Return how many calls can have a fault, or None if calls were not counted."""
    if not counts:
        return None
    match fault:
        case "missing":
            return counts["expected"]
        case "errored":
            return counts["actual"] + counts["errored"]
        case "spurious" | "forbidden":
            return counts["actual"]
        case _:
            return counts["paired"]


def _values(fault: ToolFault) -> dict[str, Any]:
    """Return the expected and the actual value of a parameter; None for other faults."""
    return {
        "expected": fault.expected if fault.parameter is not None and fault.mode is not None else None,
        "actual": fault.made if fault.parameter is not None and fault.given else None,
    }


def _location(conversation: Conversation, fault: ToolFault) -> dict[str, str | None]:
    """Return trace and span of the actual call, or of its turn if no call is recorded."""
    turn = next((turn for turn in conversation.turns if turn.index == (fault.turn_index or 0)), None)
    if turn is None:
        return {"trace_id": None, "span_id": fault.span_id}
    traces = (call.trace_id for call in turn.calls if fault.span_id is not None and call.span_id == fault.span_id)
    return {"trace_id": next(traces, turn.trace_id) or None, "span_id": fault.span_id or turn.span_id or None}


def _rank(row: FailingTool) -> tuple[Any, ...]:
    """Return the sort key: most failed conversations first, then most faults, then names; missing names last."""
    names = (row.agent, row.agent_version, row.environment, row.tool, row.fault, row.parameter)
    return (-row.failed, -row.faults, *((name is None, name or "") for name in names))
