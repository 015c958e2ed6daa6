"""Conversations -> the content of expected.json."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tools.capture_generators.tools import AGENT

if TYPE_CHECKING:
    from tools.capture_generators.shapes import Call, Conversation, Turn


def expected(
    conversations: Iterable[Conversation],
    *,
    agent_name: str = AGENT,
    aka: Callable[[str], str] | None = None,
    **notes: Any,
) -> dict[str, Any]:
    """Return the content of expected.json: the notes, then the conversations.

    `aka` gives the name under which the telemetry may show a tool. Notes are `framework`, and where they matter
    `id_in_telemetry`, `content_in_telemetry` (True, False, "partial") and `not_in_data` (a list of field names).
    """
    known = notes.get("id_in_telemetry", True)
    entries = [
        {
            "conversation_id": conversation.id if known else None,
            "agent_name": agent_name,
            "turns": [_expected_turn(turn, aka) for turn in conversation.turns],
        }
        for conversation in conversations
    ]
    return {**notes, "conversations": entries}


def _expected_turn(turn: Turn, aka: Callable[[str], str] | None) -> dict[str, Any]:
    calls = list(_expected_calls(turn, aka, 1))
    return {"query": turn.query, "answer": turn.answer, "tools": calls}


def _expected_calls(turn: Turn, aka: Callable[[str], str] | None, number: int) -> Iterator[dict[str, Any]]:
    """Yield calls in order, steps counted from `number`; a sub-agent's steps follow the call that reaches it."""
    for step in turn.steps:
        for call in step:
            yield _expected_call(call, number, parallel=len(step) > 1, aka=aka)
        for call in step:
            for nested in _expected_calls(call.inner, aka, number + 1) if call.inner else ():
                number = max(number, nested["step"])
                yield {**nested, "nested_in": call.name}
        number += 1


def _expected_call(call: Call, step: int, *, parallel: bool, aka: Callable[[str], str] | None) -> dict[str, Any]:
    optional = {"agent_name": call.agent, "kind": call.kind, "aka": aka(call.name) if aka else None}
    return {
        "name": call.name,
        "arguments": call.arguments,
        "result": call.result,
        "step": step,
        "error": call.error,
        **({"parallel": True} if parallel else {}),
        **{key: value for key, value in optional.items() if value is not None},
    }
