"""Scored conversations as tables of plain values, with tool faults; as pandas and Arrow tables if these are installed.

Tool faults have the same rows and columns as `v_tool_faults` and `tools failing` of a store; a test compares them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import orjson

from otel_agentic.errors import UsageError
from otel_agentic.evaluators.score_ids import target_of
from otel_agentic.scoring.model import Impact, impacts_of
from otel_agentic.scoring.pairs import tool_counts
from otel_agentic.scoring.scope import DIMENSIONS, Dimension
from otel_agentic.store.score_rows import FAULT_DIMENSION  # one table for all; it opens no store
from otel_agentic.windows import scored_conversation

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no stubs

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluators.base import MetricScore
    from otel_agentic.scoring import ConversationScore, ToolFault
    from otel_agentic.truth.match import Match

#: The sort key of a missing turn or call, which comes before all others.
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

    `failed` counts the `conversations` in which the tools failed and the agent did not recover. `tried` counts missing
    calls next to an error of the same tool: the agent may have tried to call it. `share` is the share of all faults of
    the agent, version and environment. `rate` is faults per call that can have the fault (`calls`), or None if calls
    are not counted. Times are nanoseconds since the epoch. `example_conversation` is the newest conversation with the
    fault; `expected` and `actual` are its values, for wrong parameters.
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
    """Return the kinds of faults of each tool; those that failed most conversations come first."""
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
    # Sort by explanation first, so that of equally new faults every run returns the same example.
    newest = max(sorted(members, key=lambda member: member.fault.explanation), key=lambda member: member.newness)
    end_times = [member.conversation.ended_ns for member in members]
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
        first_seen_ns=min(end_times),
        last_seen_ns=max(end_times),
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
            sums.update(expected=count.expected, actual=count.actual, errored=count.errored, paired=count.paired)
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
        "actual": fault.actual if fault.parameter is not None and fault.provided else None,
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


TableName = Literal["conversations", "turns", "tools", "faults", "metrics"]
TABLES: Final[tuple[TableName, ...]] = get_args(TableName)
#: The type of a column: `time` is nanoseconds since the epoch, `json` any JSON value.
ColumnKind = Literal["text", "int", "float", "bool", "time", "json"]
Row = dict[str, Any]

_KEY: Final[Mapping[str, ColumnKind]] = {"environment": "text", "conversation_id": "text"}
_SCORES: Final[Mapping[str, ColumnKind]] = dict.fromkeys(DIMENSIONS, "float")
_CONVERSATIONS: Final[Mapping[str, ColumnKind]] = {
    **_KEY,
    **dict.fromkeys(("agent", "agent_version", "service"), "text"),
    **dict.fromkeys(("started_at", "ended_at"), "time"),
    **dict.fromkeys(("turn_count", "call_count"), "int"),
    **dict.fromkeys(("dataset", "case_id", "match_method"), "text"),
    "match_confidence": "float",
    **dict.fromkeys(("outcome", "reason", "outcome_source", "computed_outcome", "computed_reason"), "text"),
    **dict.fromkeys(("answer_outcome", "tool_outcome", "both_outcome"), "text"),
    **_SCORES,
    "missing_outputs": "json",
    "warning": "text",
    "explanation": "text",
}
_TURNS: Final[Mapping[str, ColumnKind]] = {
    **_KEY,
    "turn_index": "int",
    "case_turn_index": "int",
    **dict.fromkeys(("query", "answer", "expected_answer"), "text"),
    "also_accepted": "json",
    **dict.fromkeys(("outcome", "reason"), "text"),
    "answer_score": "float",
    **dict.fromkeys(("answer_outcome", "tool_outcome", "explanation"), "text"),
}
_TOOLS: Final[Mapping[str, ColumnKind]] = {
    **_KEY,
    "turn_index": "int",
    **dict.fromkeys(("outcome", "reason"), "text"),
    "overall": "float",
    **_SCORES,
    "evidence": "json",
    "explanation": "text",
}
_FAULTS: Final[Mapping[str, ColumnKind]] = {
    **_KEY,
    **dict.fromkeys(("agent", "agent_version"), "text"),
    "ended_at": "time",
    "turn_index": "int",
    **dict.fromkeys(("tool", "dimension", "fault", "parameter"), "text"),
    **dict.fromkeys(("expected", "actual"), "json"),
    **dict.fromkeys(("trace_id", "span_id", "explanation"), "text"),
}
_METRICS: Final[Mapping[str, ColumnKind]] = {
    **_KEY,
    **dict.fromkeys(("evaluator", "metric", "target"), "text"),
    **dict.fromkeys(("turn_index", "position"), "int"),
    "value": "float",
    **dict.fromkeys(("label", "reason", "explanation", "tool_name", "parameter"), "text"),
    "details": "json",
}
COLUMNS: Final[Mapping[TableName, Mapping[str, ColumnKind]]] = {
    "conversations": _CONVERSATIONS,
    "turns": _TURNS,
    "tools": _TOOLS,
    "faults": _FAULTS,
    "metrics": _METRICS,
}


def rows_of(table: TableName, attempts: Iterable[ScoredAttempt]) -> list[Row]:
    """Return the rows of a table, each with all columns; a missing value is None.

    Raises:
        UsageError: the table is unknown; the message lists the tables.
    """
    if table not in COLUMNS:
        raise UsageError(f"unknown table {table!r}; allowed: {', '.join(TABLES)}")
    return [{name: row.get(name) for name in COLUMNS[table]} for attempt in attempts for row in _ROWS[table](attempt)]


def _conversation_key(attempt: ScoredAttempt) -> Row:
    return {"environment": attempt.conversation.environment, "conversation_id": attempt.score.conversation_id}


def _dimension_values(dimensions: Mapping[Dimension, float | None] | Mapping[Dimension, float]) -> Row:
    return {str(name): value for name, value in dimensions.items()}


def _attributes(row: Any, names: Iterable[str]) -> Row:
    return {name: getattr(row, name) for name in names if hasattr(row, name)}


def _conversation(attempt: ScoredAttempt) -> Iterator[Row]:
    conversation = attempt.conversation
    yield {
        **_attributes(attempt.score, _CONVERSATIONS),
        **_conversation_key(attempt),
        "agent": conversation.agent_name,
        "agent_version": conversation.agent_version,
        "service": conversation.service,
        "started_at": conversation.started_ns or None,
        "ended_at": conversation.ended_ns or None,
        "turn_count": len(conversation.turns),
        "call_count": sum(len(turn.calls) for turn in conversation.turns),
        **_dimension_values(scored_conversation(conversation, attempt.match.case, attempt.score).dimensions),
        "missing_outputs": list(attempt.score.missing_outputs),
    }


def _turns(attempt: ScoredAttempt) -> Iterator[Row]:
    turns = {turn.index: turn for turn in attempt.conversation.turns}
    expected = () if attempt.match.case is None else attempt.match.case.turns
    for score in attempt.score.turns:
        turn, index = turns[score.turn_index], score.case_turn_index
        yield {
            **_attributes(score, _TURNS),
            **_conversation_key(attempt),
            "query": turn.query,
            "answer": turn.answer,
            "expected_answer": None if index is None else expected[index].first_answer,
            "also_accepted": None if index is None else list(expected[index].accepted_answers[1:]) or None,
        }


def _tools(attempt: ScoredAttempt) -> Iterator[Row]:
    for score in attempt.score.tools:
        yield {
            **_attributes(score, _TOOLS),
            **_conversation_key(attempt),
            **_dimension_values(score.dimensions),
            "evidence": dict(score.evidence) or None,
        }


def _faults(attempt: ScoredAttempt) -> Iterator[Row]:
    for fault in fault_rows(attempt.conversation, attempt.score):
        yield {
            **fault,
            **_conversation_key(attempt),
            "agent": attempt.conversation.agent_name,
            "agent_version": attempt.conversation.agent_version,
            "ended_at": attempt.conversation.ended_ns or None,
        }


def _metrics(attempt: ScoredAttempt) -> Iterator[Row]:
    for evaluator, scores in attempt.evaluator_scores.items():
        for score in scores:
            yield {
                **_attributes(score, _METRICS),
                **_conversation_key(attempt),
                "evaluator": evaluator,
                "metric": score.name,
                "target": target_of(score),
                "details": dict(score.details) or None,
            }


_ROWS: Final[Mapping[str, Callable[[ScoredAttempt], Iterator[Row]]]] = {
    "conversations": _conversation,
    "turns": _turns,
    "tools": _tools,
    "faults": _faults,
    "metrics": _metrics,
}


EXTRA: Final = "pip install 'otel-agentic[notebook]'"
#: The pandas type of a column: types that distinguish a missing value from 0, false and "".
_PANDAS: Final[Mapping[ColumnKind, str]] = {
    "text": "string",
    "int": "Int64",
    "float": "Float64",
    "bool": "boolean",
    "json": "object",
}


def to_pandas(columns: Mapping[str, ColumnKind], rows: Sequence[Row]) -> pd.DataFrame:
    """Return rows as a data frame with these columns, even if there are no rows.

    Times are in UTC with nanoseconds; a JSON value stays a Python object.

    Raises:
        UsageError: pandas is not installed; the message names the extra.
    """
    pandas = module("pandas", "to_pandas")
    columns_of_frame = {
        name: pandas.to_datetime([row[name] for row in rows], unit="ns", utc=True)
        if kind == "time"
        else pandas.Series([row[name] for row in rows], dtype=_PANDAS[kind])
        for name, kind in columns.items()
    }
    frame: pd.DataFrame = pandas.DataFrame(columns_of_frame, columns=list(columns))
    return frame


def to_arrow(columns: Mapping[str, ColumnKind], rows: Sequence[Row]) -> pa.Table:
    """Return rows as an Arrow table with these columns, even if there are no rows.

    Times are in UTC with nanoseconds; JSON values are JSON text.

    Raises:
        UsageError: pyarrow is not installed; the message names the extra.
    """
    arrow = module("pyarrow", "to_arrow")
    types = {
        "text": arrow.string(),
        "int": arrow.int64(),
        "float": arrow.float64(),
        "bool": arrow.bool_(),
        "time": arrow.timestamp("ns", tz="UTC"),
        "json": arrow.string(),
    }
    arrays = [
        arrow.array([_json(row[name]) if kind == "json" else row[name] for row in rows], type=types[kind])
        for name, kind in columns.items()
    ]
    table: pa.Table = arrow.table(arrays, names=list(columns))
    return table


def _json(value: Any) -> str | None:
    return None if value is None else orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def module(name: str, method: str) -> Any:
    """Return a module of the extra `notebook`.

    Raises:
        UsageError: it is not installed; the message names the method that needs it, and the extra.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(f"{method} needs {name}: {EXTRA}") from error
