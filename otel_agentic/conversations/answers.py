"""The assistant's answer to the user, as text or as the argument of an answer tool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.conversations.duplicates import folded

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
