"""A list of messages is read as if no other list had been read before, although only its new messages are parsed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from otel_agentic.dialects import messages
from otel_agentic.dialects.messages import read_messages

if TYPE_CHECKING:
    import pytest

#: Messages, reasoning that belongs to the message after it, and items that are not messages.
ITEMS = [
    {"role": "user", "parts": [{"type": "text", "content": "Where?"}]},
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "find", "arguments": {"n": [1]}}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "ok"}], "name": "find"},
    {"role": "assistant", "content": "There.", "reasoning": "It is known."},
    {"role": "TOOL-CALL", "parts": "text"},
    {"type": "reasoning", "summary": [{"text": "First, look."}]},
    {"type": "web_search_call", "id": "2"},
    ["user", "Hi"],
    [{"role": "user", "content": "nested"}],
    "plain",
    7,
]


def content(text: Any) -> list[tuple[Any, ...]] | None:
    read = read_messages(text)
    return None if read is None else [(message.role, message.parts, message.reasoning) for message in read]


@given(
    histories=st.lists(st.lists(st.sampled_from(ITEMS), max_size=4), min_size=1, max_size=4),
    steps=st.lists(st.tuples(st.integers(0, 3), st.integers(0, len(ITEMS)), st.sampled_from([None, 1])), max_size=12),
)
def test_a_list_is_read_like_its_values(histories: list[list[Any]], steps: list[tuple[int, int, int | None]]) -> None:
    for number, more, indent in steps:
        history = histories[number % len(histories)]
        history += ITEMS[more : more + 2]
        assert content(history) == content(json.dumps(history, indent=indent))


def test_only_new_messages_of_a_history_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    history = [{"role": "user", "parts": [{"type": "text", "content": f"Question {number}"}]} for number in range(50)]
    before = read_messages(json.dumps(history))
    assert before is not None
    parsed_texts = []

    def parsed(text: str) -> Any:
        parsed_texts.append(json.loads(text))
        return parsed_texts[-1]

    monkeypatch.setattr(messages, "parsed", parsed)
    after = read_messages(json.dumps([*history, ITEMS[0]]))
    assert after is not None
    assert [[ITEMS[0]]] == parsed_texts
    assert all(first is second for first, second in zip(before, after, strict=False))
