"""A conversation as the JSON object of the contract."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ToolCall, Turn


def conversation_json(
    conversation: Conversation, told: tuple[str | None, str, str | None] | None = None
) -> dict[str, Any]:
    """Return one conversation.

    Args:
        conversation: the conversation.
        told: case id, outcome and reason of its newest score, None when it has none.
    """
    case_id, outcome, reason = told or (conversation.case_id, None, None)
    return {
        "conversation_id": str(conversation.conversation_id),
        "environment": conversation.environment or None,
        "revision": conversation.revision,
        "agent_name": conversation.agent_name,
        "agent_version": conversation.agent_version,
        "service": conversation.service,
        "started_at": iso(conversation.started_ns),
        "ended_at": iso(conversation.ended_ns),
        "closed_by": conversation.closed_by,
        "case_id": case_id,
        "outcome": outcome,
        "reason": reason,
        "turns": [_turn(turn) for turn in conversation.turns],
    }


def iso(time_ns: int) -> str:
    """Return a time as ISO 8601 text in UTC with nine digits of a second.

    >>> iso(1_700_000_000_123_456_789)
    '2023-11-14T22:13:20.123456789Z'
    """
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def _turn(turn: Turn) -> dict[str, Any]:
    return {
        "index": turn.index,
        "query": turn.query,
        "answer": turn.answer,
        "trace_id": turn.trace_id,
        "span_id": turn.span_id,
        "error": turn.error,
        "tools": [_call(call) for call in turn.calls],
    }


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "name": call.name,
        "kind": call.kind,
        "arguments": dict(call.arguments) if call.arguments is not None else None,
        "result": call.result,
        "step": call.step,
        "error": call.error,
        "call_id": call.call_id,
        "span_id": call.span_id,
        "parent_span_id": call.parent_span_id,
        "agent_name": call.agent_name,
    }
