"""Builders of spans, log records and conversations, with defaults that a test overrides where it matters."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.conversations.model import Conversation, ConversationId, ToolCall, Turn
from otel_agentic.spans.model import (
    LogRecord,
    Resource,
    Scope,
    Span,
    SpanBatch,
    SpanEvent,
    SpanKind,
    SpanLink,
    StatusCode,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECOND_NS: Final = 1_000_000_000
#: Noon (UTC) of a day in 2026, the default start of everything.
NOON_NS: Final = 1_780_056_000 * SECOND_NS

_TRACE_BYTES: Final = 16
_SPAN_BYTES: Final = 8


def span(
    name: str = "span",
    *,
    parent: Span | str | None = None,
    trace: str = "trace",
    span_id: str | None = None,
    start_ns: int = NOON_NS,
    end_ns: int | None = None,
    kind: int = SpanKind.INTERNAL,
    status: int = StatusCode.UNSET,
    status_message: str = "",
    attributes: Mapping[str, Any] | None = None,
    events: Sequence[SpanEvent] = (),
    links: Sequence[SpanLink] = (),
    resource: Mapping[str, Any] | None = None,
    service: str = "concierge",
    environment: str | None = None,
    scope: str = "",
) -> Span:
    """Return a span.

    Args:
        name: its name.
        parent: a span (whose trace and resource are used) or the id of one that may never have arrived.
        trace: 32 hex digits, or any text from which an id is derived.
        span_id: 16 hex digits, or any text; by default derived from trace, parent, name, time and attributes.
        start_ns: start, ns since the epoch.
        end_ns: end, ns since the epoch; by default one second after the start.
        kind: OTLP span kind.
        status: OTLP status code.
        status_message: the error message.
        attributes: its attributes.
        events: its events, see `event`.
        links: its links, see `link_to`.
        resource: resource attributes in addition to service and environment.
        service: `service.name`.
        environment: `deployment.environment.name`, absent by default.
        scope: name of the instrumentation scope.
    """
    trace_id = parent.trace_id if isinstance(parent, Span) else _hex(trace, _TRACE_BYTES)
    parent_id = parent.span_id if isinstance(parent, Span) else parent and _hex(parent, _SPAN_BYTES)
    seed = span_id or repr((trace_id, parent_id, name, start_ns, sorted((attributes or {}).items(), key=repr)))
    described: dict[str, Any] = {"service.name": service, **(resource or {})}
    if environment is not None:
        described["deployment.environment.name"] = environment
    return Span(
        trace_id=trace_id,
        span_id=_hex(seed, _SPAN_BYTES),
        parent_span_id=parent_id,
        name=name,
        kind=kind,
        start_ns=start_ns,
        end_ns=start_ns + SECOND_NS if end_ns is None else end_ns,
        status=status,
        status_message=status_message,
        attributes=dict(attributes or {}),
        events=tuple(events),
        links=tuple(links),
        resource=parent.resource if isinstance(parent, Span) and resource is None else Resource(attributes=described),
        scope=Scope(name=scope),
    )


def event(name: str, attributes: Mapping[str, Any] | None = None, *, time_ns: int = NOON_NS) -> SpanEvent:
    """Return a span event; `time_ns` is ns since the epoch."""
    return SpanEvent(name=name, time_ns=time_ns, attributes=dict(attributes or {}))


def link_to(target: Span) -> SpanLink:
    """Return a link to a span."""
    return SpanLink(trace_id=target.trace_id, span_id=target.span_id)


def log_record(
    of: Span,
    event_name: str = "",
    body: Any = None,
    *,
    attributes: Mapping[str, Any] | None = None,
    time_ns: int | None = None,
) -> LogRecord:
    """Return a log record of a span, with the end of the span as its time by default."""
    return LogRecord(
        trace_id=of.trace_id,
        span_id=of.span_id,
        time_ns=of.end_ns if time_ns is None else time_ns,
        event_name=event_name,
        body=body,
        attributes=dict(attributes or {}),
        resource=of.resource,
        scope=of.scope,
    )


def batch(*items: Span | LogRecord | SpanBatch) -> SpanBatch:
    """Return spans, log records and other batches as one batch."""
    spans: list[Span] = []
    logs: list[LogRecord] = []
    for item in items:
        if isinstance(item, SpanBatch):
            spans += item.spans
            logs += item.logs
        elif isinstance(item, Span):
            spans.append(item)
        else:
            logs.append(item)
    return SpanBatch(spans=tuple(spans), logs=tuple(logs))


def tool_call(name: str = "search", arguments: Mapping[str, Any] | None = None, **changes: Any) -> ToolCall:
    """Return a call that worked; `changes` are other fields of `ToolCall`.

    Its `step` and `position` are 0, which `turn` replaces by the next free ones.
    """
    values: dict[str, Any] = {
        "name": name,
        "kind": "tool",
        "step": 0,
        "position": 0,
        "arguments": {"q": "hotels"} if arguments is None else arguments,
        "result": ["Ritz"],
        "result_captured": True,
        "error": None,
        "call_id": None,
        "trace_id": _hex("trace", _TRACE_BYTES),
        "span_id": None,
        "parent_span_id": None,
        "agent_name": None,
        "source": "span",
    }
    return ToolCall(**{**values, **changes})


def turn(
    query: str | None = "Which hotel?", answer: str | None = "The Ritz.", *calls: ToolCall, **changes: Any
) -> Turn:
    """Return a turn; calls without a step are steps of their own. `changes` are other fields of `Turn`."""
    placed: list[ToolCall] = []
    for position, call in enumerate(calls):
        last = placed[-1].step if placed else 0
        placed.append(replace(call, step=call.step or last + 1, position=position))
    values: dict[str, Any] = {
        "index": 0,
        "query": query,
        "query_captured": True,
        "answer": answer,
        "answer_captured": True,
        "error": None,
        "calls": tuple(placed),
        "trace_id": _hex("trace", _TRACE_BYTES),
        "span_id": _hex("span", _SPAN_BYTES),
        "started_ns": NOON_NS,
        "ended_ns": NOON_NS + SECOND_NS,
    }
    return Turn(**{**values, **changes})


def conversation(*turns: Turn, **changes: Any) -> Conversation:
    """Return a conversation of the turns in that order, one `turn()` when none is given.

    `changes` are other fields of `Conversation`.
    """
    numbered = tuple(replace(item, index=index) for index, item in enumerate(turns or (turn(),)))
    values: dict[str, Any] = {
        "environment": "production",
        "conversation_id": ConversationId("conversation-1"),
        "revision": 1,
        "agent_name": "travel",
        "agent_version": None,
        "service": "concierge",
        "started_ns": min(item.started_ns for item in numbered),
        "ended_ns": max(item.ended_ns for item in numbered),
        "closed_by": "idle",
        "link_method": "explicit",
        "case_id": None,
        "verdict": None,
        "turns": numbered,
    }
    return Conversation(**{**values, **changes})


def _hex(seed: str, size: int) -> str:
    """Return an id of `size` bytes: the seed itself where it is one, else its digest."""
    if len(seed) == 2 * size and all(letter in "0123456789abcdef" for letter in seed):
        return seed
    return hashlib.blake2b(seed.encode(), digest_size=size).hexdigest()
