"""What a conversation says, without ids and times: the part that must not depend on who told it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.conversations.model import CallKind, Conversation, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutline:
    """A call. `result` is None for one that failed: what stands in its place differs between conventions."""

    name: str
    kind: CallKind
    step: int
    arguments: Mapping[str, Any] | None
    result: Any
    failed: bool
    agent_name: str | None
    nested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOutline:
    """A turn."""

    query: str | None
    answer: str | None
    calls: tuple[CallOutline, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A conversation. `conversation_id` is None where it was made up from a trace."""

    conversation_id: str | None
    agent_name: str | None
    turns: tuple[TurnOutline, ...]


def outline(conversation: Conversation) -> Outline:
    """Return what a conversation says, without ids and times."""
    return Outline(
        conversation_id=str(conversation.conversation_id) if conversation.link_method == "explicit" else None,
        agent_name=conversation.agent_name,
        turns=tuple(
            TurnOutline(query=turn.query, answer=turn.answer, calls=tuple(_call(call) for call in turn.calls))
            for turn in conversation.turns
        ),
    )


def plain(result: Any) -> Any:
    """Return a result with numbers as text: attributes of text cannot tell 5 from "5"."""
    if isinstance(result, bool) or not isinstance(result, (int, float)):
        return result
    return str(result)


def _call(call: ToolCall) -> CallOutline:
    return CallOutline(
        name=call.name,
        kind=call.kind,
        step=call.step,
        arguments=None if call.arguments is None else dict(call.arguments),
        result=None if call.error is not None else plain(call.result),
        failed=call.error is not None,
        agent_name=call.agent_name,
        nested=call.parent_span_id is not None,
    )
