"""Results of `doctor`: the reading of spans, the state of a running collector, and the installation.

Times are ISO 8601 text in UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from otel_agentic.results.codec import JsonObject, optional
from otel_agentic.results.conversations import ShownTurn
from otel_agentic.results.reports import IdReuse, WrongClock
from otel_agentic.results.store import Coverage, SpanCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanReading:
    """A span and the event that a dialect reads from it."""

    span_id: str
    parent_span_id: str | None
    name: str
    scope: str
    dialect: str
    because_of: str
    event: str
    #: The span of another instrumentation that describes the same work.
    same_as: str | None
    conversation_id: str | None
    agent: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunReading(SpanReading):
    """A run of an agent; only one of nested runs counts. Numbers of messages are None if they were not captured."""

    counts: bool
    query: str | None
    answer: str | None
    messages_in: int | None
    messages_out: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCallReading(SpanReading):
    """A call to a model. Numbers of messages are None if they were not captured."""

    model: str | None
    messages_in: int | None
    messages_out: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallReading(SpanReading):
    """A tool call; the arguments are None if they were not captured."""

    tool: str
    call_id: str | None
    arguments: JsonObject | None
    result: Any
    result_captured: bool
    handoff_to: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReading(SpanReading):
    """A plan of an agent; None if it was not captured."""

    plan: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredReading(SpanReading):
    """A span that describes no work of an agent, and the reason."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationReading:
    """A conversation that a trace is a part of, with the turns that begin in this trace.

    `goes_on_with` is the index of the turn that the trace belongs to if none begins in it, None if the conversation has no
    turn; `repeats` is the trace that this one duplicates.
    """

    conversation_id: str
    environment: str
    agent_name: str | None
    id_from: str
    turns: list[ShownTurn]
    goes_on_with: int | None
    repeats: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReading:
    """A trace: its spans depth first, and its conversations."""

    trace_id: str
    service: str | None
    frameworks: list[str]
    spans: list[SpanReading]
    conversations: list[ConversationReading]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeReading:
    """The number of events by kind of one instrumentation scope and dialect, and the reasons for the dialect."""

    scope: str
    dialect: str
    because_of: str
    events: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesReading:
    """The reading of the spans of files."""

    traces: list[TraceReading]
    scopes: list[ScopeReading]
    coverage: list[Coverage]
    wrong_clocks: list[WrongClock]
    id_reuse: IdReuse | None = optional()
    problems: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationCheck:
    """The check of one property of this installation."""

    what: str
    ok: bool
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedScope:
    """The stored spans of one instrumentation scope."""

    service: str | None
    scope: str | None
    dialect: str | None
    spans: int
    last_received: str
    framework: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedCounts(SpanCounts):
    """Received spans and log records; `late` ones arrived after their conversation closed."""

    late: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerState:
    """The circuit breaker of the judge."""

    state: str
    failures: int
    retry_in_s: float
    opened: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Due items that are not processed yet, by stage."""

    read: int
    rebuild: int
    score: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorState:
    """The state of a running collector."""

    ready: bool
    db: str
    open_conversations: int
    telemetry: list[str]
    judge: BreakerState
    why_not: str | None
    queued_requests: int
    queued_spans: int
    store_open: bool
    store_reopened: int
    store_bytes: int | None
    log_bytes: int
    backlog: Backlog
    background_share: float
    breaker_open: bool
    breaker_opened: int
    queries: int
    retention_problem: str | None
    retention: bool
    pid: int | None = optional()
    admin: str | None = optional()
    http: str | None = optional()
    grpc: str | None = optional()
    started_at: str | None = optional()
    process: str | None = optional()
    received: ReceivedCounts
    reasons: dict[str, int]
    altered: dict[str, int]
    problems: list[str]
    not_rebuilt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStore:
    """The received spans and the content of a store; `collector` is absent if no collector holds it."""

    spans: list[ReceivedScope]
    conversations: int
    turns: int
    tool_calls: int
    open: int
    ambiguous_links: int
    coverage: list[Coverage]
    wrong_clocks: list[WrongClock]
    id_reuse: IdReuse | None = optional()
    collector: CollectorState | None = optional()


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableStore:
    """A running collector whose store cannot be read."""

    store_error: str
    collector: CollectorState
