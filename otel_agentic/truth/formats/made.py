"""Conversations that a foreign file tells of: no spans, no times, only what was said and called."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from otel_agentic.config import ConversationSettings
from otel_agentic.config.own_patterns import OwnPattern, own_pattern
from otel_agentic.conversations.model import Conversation, ConversationId, ToolCall, Turn
from otel_agentic.conversations.results import error_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def made_call(
    name: str,
    arguments: Mapping[str, Any],
    *,
    step: int,
    position: int,
    call_id: str | None = None,
    used: bool | None = None,
    **result: Any,
) -> ToolCall:
    """Return a call of a file; give `result` only where the file holds one. `used` says whether the answer used it.

    A result that looks like an error is one, as in spans.
    """
    return ToolCall(
        name=name,
        kind="tool",
        step=step,
        position=position,
        arguments=dict(arguments),
        result=result.get("result"),
        result_captured="result" in result,
        error=error_in(result["result"], _error_patterns()) if "result" in result else None,
        call_id=call_id,
        trace_id="",
        span_id=None,
        parent_span_id=None,
        agent_name=None,
        source="message",
        used_flag=used,
    )


@cache
def _error_patterns() -> list[OwnPattern]:
    return [own_pattern(pattern, ignore_case=True) for pattern in ConversationSettings().error_patterns]


def made_turn(index: int, query: str | None, answer: str | None, calls: Sequence[ToolCall]) -> Turn:
    """Return a turn of a file; an answer or query of None was not given."""
    return Turn(
        index=index,
        query=query,
        query_captured=True,
        answer=answer,
        answer_captured=True,
        error=None,
        calls=tuple(calls),
        trace_id="",
        span_id="",
        started_ns=0,
        ended_ns=0,
    )


def made_conversation(name: str, turns: Sequence[Turn], *, agent_name: str | None = None) -> Conversation:
    """Return a conversation of a file: complete, of no service, at no time (0)."""
    return Conversation(
        environment="",
        conversation_id=ConversationId(name),
        revision=1,
        agent_name=agent_name,
        agent_version=None,
        service=None,
        started_ns=0,
        ended_ns=0,
        closed_by="end_of_input",
        link_method="explicit",
        case_id=None,
        verdict=None,
        turns=tuple(turns),
    )
