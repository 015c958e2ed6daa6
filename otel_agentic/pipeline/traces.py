"""One trace as JSON can say it: what each span became and why, and the turns that it came to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.events import AgentRun, Ignored, Message, ModelCall, Plan, ToolCall
from otel_agentic.dialects.frameworks import framework_of
from otel_agentic.dialects.values import parsed, text_of
from otel_agentic.pipeline.export import conversation_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.conversations.model import Turn
    from otel_agentic.conversations.node import Node
    from otel_agentic.conversations.segments import Segment
    from otel_agentic.dialects.events import AgentEvent
    from otel_agentic.pipeline.inspect import Inspected, Rebuilt

#: How each kind of event is called.
_KINDS: Final = {
    AgentRun: "agent_run",
    ModelCall: "model_call",
    ToolCall: "tool_call",
    Plan: "plan",
    Ignored: "ignored",
}


def trace_json(inspected: Inspected, trace_id: str) -> dict[str, Any]:
    """Return one trace: `spans` depth first with the event each became, `conversations` with their turns.

    A conversation here holds the turns that begin in this trace; where none does, `goes_on_with` is the index of the turn
    that the trace is a part of (null where the conversation has no turn), and `repeats` the trace that it only tells again.
    """
    nodes = inspected.traces[trace_id]
    return {
        "trace_id": trace_id,
        "service": next((text_of(node.span.resource.attributes.get("service.name")) for node in nodes), None),
        "frameworks": sorted({_framework(node) for node in nodes if not isinstance(node.event, Ignored)}),
        "spans": [_span(node) for node in nodes],
        "conversations": [_conversation(each, trace_id) for each in inspected.held_by.get(trace_id, ())],
    }


def _framework(node: Node) -> str:
    return framework_of(node.span.scope.name, node.event.header.dialect).title


def _span(node: Node) -> dict[str, Any]:
    header, event = node.event.header, node.event
    return {
        "span_id": node.span.span_id,
        "parent_span_id": node.parent.span.span_id if node.parent is not None else None,
        "name": node.span.name,
        "scope": node.span.scope.name,
        "dialect": header.dialect,
        "because_of": node.reading.why,
        "event": _KINDS[type(event)],
        "same_as": node.same_as.span.span_id if node.same_as is not None else None,
        "conversation_id": header.conversation_id,
        "agent": node.agent_name,
        "error": header.error,
        **_particulars(node, event),
    }


def _particulars(node: Node, event: AgentEvent) -> dict[str, Any]:
    """Return what only this kind of event has; a value of null was not captured."""
    match event:
        case AgentRun():
            return {"counts": node.is_run, "query": event.query, "answer": event.answer, **_messages(event)}
        case ModelCall():
            return {"model": event.model, **_messages(event)}
        case ToolCall():
            arguments = dict(event.arguments) if event.arguments is not None else None
            told = {"tool": event.name, "call_id": event.call_id, "arguments": arguments, "result": event.result}
            return {**told, "result_captured": event.result_captured, "handoff_to": event.handoff_to}
        case Plan():
            return {"plan": event.text}
        case Ignored():
            return {"reason": event.reason}


def _messages(event: AgentRun | ModelCall) -> dict[str, int | None]:
    return {"messages_in": _count(event.messages_in), "messages_out": _count(event.messages_out)}


def _count(messages: Sequence[Message] | None) -> int | None:
    return None if messages is None else len(messages)


def _conversation(rebuilt: Rebuilt, trace_id: str) -> dict[str, Any]:
    told = conversation_json(rebuilt.conversation)
    segment = next(each for each in rebuilt.segments if each.trace_id == trace_id)
    turns = rebuilt.conversation.turns
    begun = [turn.index for turn in turns if turn.started_ns <= segment.start_ns]
    return {
        "conversation_id": told["conversation_id"],
        "environment": told["environment"],
        "agent_name": told["agent_name"],
        "id_from": _id_source(rebuilt, segment),
        "turns": [
            _turn(turn, made) for turn, made in zip(told["turns"], turns, strict=True) if made.trace_id == trace_id
        ],
        "goes_on_with": max(begun, default=0) if turns else None,
        "repeats": _twin(rebuilt, segment),
    }


def _turn(told: dict[str, Any], made: Turn) -> dict[str, Any]:
    """Return a turn as an export tells it, and which of it was captured."""
    calls = [
        {**tool, "result_captured": call.result_captured, "source": call.source}
        for tool, call in zip(told["tools"], made.calls, strict=True)
    ]
    captured = {"query_captured": made.query_captured, "answer_captured": made.answer_captured}
    return {**told, **captured, "tools": calls}


def _twin(rebuilt: Rebuilt, segment: Segment) -> str | None:
    """Return the trace that a trace tells again, as another instrumentation saw it; None where it tells news."""
    if all(segment is not echo for echo in rebuilt.linked.echoes):
        return None
    return min(rebuilt.linked.segments, key=lambda each: abs(each.start_ns - segment.start_ns)).trace_id


def _id_source(rebuilt: Rebuilt, segment: Segment) -> str:
    """Return in words where the id of a conversation comes from, as this trace tells it."""
    linked, trace_id = rebuilt.linked, segment.trace_id
    twin = _twin(rebuilt, segment)
    if twin is not None:
        return f"trace {twin}, which this one tells again as another instrumentation saw it"
    if segment.explicit_id is not None:
        return _written(segment.explicit_id, segment.nodes)
    first = linked.segments[0].trace_id
    if first != trace_id or linked.method == "explicit":
        linking = (segment.linked_traces - {trace_id}) & rebuilt.traces
        return f"trace {first}, joined by {'a span link' if linking else 'its message history'}"
    ambiguous = "; its history fits two conversations equally, so that it stands alone" if linked.ambiguous else ""
    return f"the trace itself, for no span names a conversation{ambiguous}"


def _written(name: str, nodes: Sequence[Node]) -> str:
    for node in nodes:
        if node.event.header.conversation_id == name:
            key = _attribute(node.span.attributes, name)
            return f"{key} of span {node.span.name}" if key else f"span {node.span.name}"
    return "the spans around it"


def _attribute(attributes: Mapping[str, Any], name: str) -> str | None:
    """Return the attribute that holds an id, by itself or inside its JSON; None when a log record or a merge gave it."""
    for key, value in attributes.items():
        if text_of(value) == name:
            return key
    for key, value in attributes.items():
        inner = parsed(value)
        found = [field for field, held in inner.items() if text_of(held) == name] if isinstance(inner, dict) else []
        if found:
            return f"{key}~.{found[0]}"
    return None
