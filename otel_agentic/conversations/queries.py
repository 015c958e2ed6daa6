"""The new messages in a model's input: the user's query, and the messages after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.conversations.answers import answer_in
from otel_agentic.dialects.events import Redacted, Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.dialects.events import Message


def last_query(messages: Sequence[Message]) -> tuple[str | None, bool]:
    """Return the user's newest text in a list of messages, and whether it was captured.

    Only the messages after the last answer are new; a user message with nothing but tool results is not a query.
    """
    fresh = after_last_assistant(messages)
    for message in reversed(fresh):
        if message.role == "user" and any(isinstance(part, Text) for part in message.parts):
            return message.text, True
        if message.role == "user" and message.redacted:
            return None, False
    before = len(messages) - len(fresh)
    return None, not any(_is_wordless(messages, before + index) for index in range(len(fresh)))


def answered_query(messages: Sequence[Message]) -> str | None:
    """Return the user's last text that was answered before the newest one; None if nothing was answered before it."""
    fresh = after_last_assistant(messages)
    before = len(messages) - len(fresh) - 1
    if before < 1 or answer_in(messages[before]) is None:
        return None
    for message in reversed(messages[:before]):
        if message.role == "user" and message.text and not message.results:
            return message.text
    return None


def after_last_assistant(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages after the last assistant message."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "assistant":
            return messages[index + 1 :]
    return messages


def after_last_query(messages: Sequence[Message]) -> Sequence[Message] | None:
    """Return the messages after the user's last text; None if there is no text of a user."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        is_query = (
            message.role == "user" and any(isinstance(part, Text) for part in message.parts) and not message.results
        )
        if is_query or (index and _is_wordless(messages, index)):
            return messages[index + 1 :]
    return None


def _is_wordless(messages: Sequence[Message], index: int) -> bool:
    """Return whether a message is a query without any known text: an image, or a redacted text.

    After calls, such a message contains their results, in a part of unknown type.
    """
    message = messages[index]
    if message.role != "user" or any(not isinstance(part, Redacted) for part in message.parts):
        return False
    return not index or not messages[index - 1].requests


def without_history(query: str, model_input: Sequence[Message]) -> str:
    """Return the user's last text if a run's input is a transcript of its model's complete input (agno), else the query."""
    last, _ = last_query(model_input)
    if last is None or last == query.strip() or last not in query:
        return query
    before = [message.text for message in model_input if message.role in {"user", "assistant"} and message.text]
    return last if len(before) > 1 and all(text in query for text in before) else query


def is_old(query: str | None, model_input: Sequence[Message]) -> bool:
    """Return whether the model's input contains the query with its answer: a run's recorded input may be cut (OpenLIT)."""
    indices = [index for index, message in enumerate(model_input) if message.role == "user" and message.text == query]
    if query is None or not indices:
        return False
    after = model_input[indices[-1] + 1 :]
    return any(message.role == "user" and message.text for message in after) and any(
        message.role == "assistant" and message.text and not message.requests for message in after
    )
