"""The user's query and the assistant's answer in a list of messages, and which messages of a model's input are new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.conversations.merge import folded
from otel_agentic.dialects.events import Redacted, Text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.dialects.events import CallRequest, Message

#: Tools that give the answer: their call ends a run and is not an action of the agent (smolagents, pydantic-ai).
_ANSWER_TOOLS: Final = frozenset({"final_answer", "final_result"})
#: Tools with these names give the answer if it is their only argument (DSPy); otherwise they may do anything.
_POSSIBLE_ANSWER_TOOLS: Final = frozenset({"answer", "attempt_completion", "finish", "respond", "submit"})


def gives_answer(name: str, arguments: Mapping[str, Any] | None, answer: str | None) -> bool:
    """Return whether a call gives the answer instead of performing an action.

    >>> gives_answer("final_answer", None, None), gives_answer("submit", {"form": "A38"}, "Done.")
    (True, False)
    """
    if is_answer_tool(name):
        return True
    return (
        folded(name) in _POSSIBLE_ANSWER_TOOLS and answer is not None and list((arguments or {}).values()) == [answer]
    )


def is_answer_tool(name: str) -> bool:
    """Return whether a tool gives the answer, by its name.

    >>> is_answer_tool("final_answer"), is_answer_tool("answer_phone")
    (True, False)
    """
    return folded(name) in _ANSWER_TOOLS


def answer_in(message: Message) -> str | None:
    """Return the text for the user in an assistant message: text next to a tool call never reaches the user."""
    if message.requests:
        answers = [_answer_argument(request) for request in message.requests if is_answer_tool(request.name)]
        return answers[0] if len(answers) == len(message.requests) else None
    return message.text or None


def _answer_argument(request: CallRequest) -> str | None:
    texts = [value for value in (request.arguments or {}).values() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else None


def last_answer(messages: Sequence[Message] | None) -> tuple[str | None, bool] | None:
    """Return (text, captured) of the last assistant message if it is an answer, else None."""
    for message in reversed(messages or ()):
        if message.role != "assistant":
            continue
        if message.redacted:
            return None, False
        answer = answer_in(message)
        return (answer, True) if answer is not None else None
    return None


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
