"""Which of the messages that a model was sent are new: the user's query, and what follows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.conversations.answers import answer_in
from otel_agentic.dialects.events import Redacted, Text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.dialects.events import Message


def last_query(messages: Sequence[Message]) -> tuple[str | None, bool]:
    """Return the user's newest text in a list of messages, and whether it was captured.

    Only what follows the last answer is new; a user message that holds nothing but tool results is no query.
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
    """Return the user's text before the newest one that was answered; None where nothing was answered before it."""
    fresh = after_last_assistant(messages)
    before = len(messages) - len(fresh) - 1
    if before < 1 or answer_in(messages[before]) is None:
        return None
    for message in reversed(messages[:before]):
        if message.role == "user" and message.text and not message.results:
            return message.text
    return None


def after_last_assistant(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages that follow the last one of the assistant."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "assistant":
            return messages[index + 1 :]
    return messages


def after_last_query(messages: Sequence[Message]) -> Sequence[Message] | None:
    """Return the messages that follow the user's last text; None when there is no text of a user."""
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        asks = message.role == "user" and any(isinstance(part, Text) for part in message.parts) and not message.results
        if asks or (index and _is_wordless(messages, index)):
            return messages[index + 1 :]
    return None


def _is_wordless(messages: Sequence[Message], index: int) -> bool:
    """Return whether a message is a query of which no word is known: an image, a text that was taken out.

    After calls it rather holds their results, in a part of unknown type.
    """
    message = messages[index]
    if message.role != "user" or any(not isinstance(part, Redacted) for part in message.parts):
        return False
    return not index or not messages[index - 1].requests


def without_history(query: str, heard: Sequence[Message]) -> str:
    """Return the user's last text where a run's input is the transcript of all that its model was sent (agno)."""
    last, _ = last_query(heard)
    if last is None or last == query.strip() or last not in query:
        return query
    before = [message.text for message in heard if message.role in {"user", "assistant"} and message.text]
    return last if len(before) > 1 and all(text in query for text in before) else query


def is_old(query: str | None, heard: Sequence[Message]) -> bool:
    """Return whether the model was sent the query with its answer: a run's record of its input may be cut (OpenLIT)."""
    places = [index for index, message in enumerate(heard) if message.role == "user" and message.text == query]
    if query is None or not places:
        return False
    after = heard[places[-1] + 1 :]
    return any(message.role == "user" and message.text for message in after) and any(
        message.role == "assistant" and message.text and not message.requests for message in after
    )
