"""A conversation as the JSON object of the contract; `records` reads it back."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation, ToolCall, Turn

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FRACTION: Final = re.compile(r"[.,](?P<digits>\d{1,30})")


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
        "environment": conversation.environment,
        "revision": conversation.revision,
        "agent_name": conversation.agent_name,
        "agent_version": conversation.agent_version,
        "service": conversation.service,
        "started_at": iso(conversation.started_ns),
        "ended_at": iso(conversation.ended_ns),
        "closed_by": conversation.closed_by,
        "verdict": conversation.verdict,
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


def ns_of_iso(text: str) -> int:
    """Return the nanoseconds since the epoch of an ISO 8601 text; without an offset it is UTC.

    Raises:
        ValueError: it is no such text.

    >>> ns_of_iso("2023-11-14T22:13:20.123456789Z")
    1700000000123456789
    """
    fraction = _FRACTION.search(text)
    whole = text if fraction is None else text[: fraction.start()] + text[fraction.end() :]
    moment = datetime.fromisoformat(whole)
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    part_ns = int(fraction["digits"].ljust(9, "0")[:9]) if fraction else 0
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + part_ns


def _turn(turn: Turn) -> dict[str, Any]:
    return {
        "index": turn.index,
        "query": turn.query,
        "query_captured": turn.query_captured,
        "answer": turn.answer,
        "answer_captured": turn.answer_captured,
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
        "result_captured": call.result_captured,
        "step": call.step,
        "error": call.error,
        "call_id": call.call_id,
        "span_id": call.span_id,
        "parent_span_id": call.parent_span_id,
        "agent_name": call.agent_name,
        "used": call.used_flag,
    }
