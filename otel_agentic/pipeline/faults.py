"""Tool faults of scored conversations in memory: one row a fault, and one for each kind of fault of each tool.

The rows say what `v_tool_faults` and `tools failing` say of a store; a test holds them against each other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.scoring.counts import tool_counts
from otel_agentic.scoring.impact import impacts_of
from otel_agentic.store.tool_rows import FAULT_DIMENSION  # one table for all; it opens no store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.pipeline.evaluation import ScoredAttempt
    from otel_agentic.scoring import ConversationScore, ToolFault
    from otel_agentic.scoring.impact import Impact

#: A fault of no turn, or of no call, comes before those that have one.
_NONE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingTool:
    """One way in which a tool fails: how often, since when, and one to look at.

    In `failed` of the `conversations` the tools failed and it was not made good. Of missing calls, `tried` stand beside
    errors of the tool: it may have been tried.
    `share` is of all faults of the agent, version and environment. `rate` is faults a call, of those calls that can have
    the fault (`calls`); None where they are not counted. Times are nanoseconds since the epoch. `example_conversation` is
    the newest with it; `expected` and `actual` are the values there, for wrong parameters.
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
class _Found:
    """A fault with the conversation that it is in."""

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
        """What the example is chosen by: the latest conversation, then the latest call."""
        turn, step = self.fault.turn_index, self.fault.step
        last = (_NONE if turn is None else turn, _NONE if step is None else step)
        return (self.conversation.ended_ns, str(self.conversation.conversation_id), *last)


def fault_rows(conversation: Conversation, score: ConversationScore) -> Iterator[dict[str, Any]]:
    """Yield the faults of a conversation, with the values and the place that they are about."""
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
                **_place(conversation, fault),
            }


def failing_tools(attempts: Iterable[ScoredAttempt]) -> list[FailingTool]:
    """Return what is wrong with which tool: first what most conversations failed by."""
    kept = list(attempts)
    groups: dict[tuple[Any, ...], list[_Found]] = defaultdict(list)
    for one in kept:
        for tools in one.score.tools:
            for fault, impact in zip(tools.faults, impacts_of(tools), strict=True):
                found = _Found(conversation=one.conversation, fault=fault, impact=impact)
                groups[found.subject, found.kind].append(found)
    whole: Counter[Any] = Counter()
    for (subject, _), members in groups.items():
        whole[subject] += len(members)
    counts = _counts(kept)
    rows = [_row(members, whole[subject], counts) for (subject, _), members in groups.items()]
    return sorted(rows, key=_rank)


def _row(members: list[_Found], whole: int, counts: Mapping[Any, Counter[str]]) -> FailingTool:
    agent, version, environment = members[0].subject
    tool, fault, parameter = members[0].kind
    # Of equals the first, in the order of what is said of them.
    newest = max(sorted(members, key=lambda one: one.fault.explanation), key=lambda one: one.newness)
    ended = [one.conversation.ended_ns for one in members]
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
        conversations=len({one.conversation.key for one in members}),
        failed=len({one.conversation.key for one in members if one.impact.failed}),
        tried=sum(bool(one.impact.tried) for one in members) if fault == "missing" else None,
        share=len(members) / whole,
        calls=calls,
        rate=len(members) / calls if calls else None,
        first_seen_ns=min(ended),
        last_seen_ns=max(ended),
        example_conversation=str(newest.conversation.conversation_id),
        example=newest.fault.explanation,
        **_values(newest.fault),
        **_place(newest.conversation, newest.fault),
    )


def _counts(attempts: Iterable[ScoredAttempt]) -> dict[tuple[Any, str], Counter[str]]:
    """Return how often each tool of each agent, version and environment was expected, made and paired."""
    found: dict[tuple[Any, str], Counter[str]] = defaultdict(Counter)
    for one in attempts:
        subject = (one.conversation.agent_name, one.conversation.agent_version, one.conversation.environment)
        for count in (count for tools in one.score.tools for count in tool_counts(tools)):
            sums = found[subject, count.tool_name]
            sums.update(expected=count.expected, actual=count.made, errored=count.errored, paired=count.paired)
    return found


def _calls(fault: str, counts: Counter[str]) -> int | None:
    """Return how many calls could have a fault, None where calls were not counted."""
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


def _place(conversation: Conversation, fault: ToolFault) -> dict[str, str | None]:
    """Return trace and span of the made call, of its turn where there is none."""
    turn = next((turn for turn in conversation.turns if turn.index == (fault.turn_index or 0)), None)
    if turn is None:
        return {"trace_id": None, "span_id": fault.span_id}
    traces = (call.trace_id for call in turn.calls if fault.span_id is not None and call.span_id == fault.span_id)
    return {"trace_id": next(traces, turn.trace_id) or None, "span_id": fault.span_id or turn.span_id or None}


def _rank(row: FailingTool) -> tuple[Any, ...]:
    """Return the sort key: what most conversations failed by first, then the most frequent, then by name, none last."""
    names = (row.agent, row.agent_version, row.environment, row.tool, row.fault, row.parameter)
    return (-row.failed, -row.faults, *((name is None, name or "") for name in names))
