"""What the assistant says to the user, in whichever way its framework lets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from otel_agentic.conversations.duplicates import folded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.dialects.events import CallRequest, Message

#: Tools that give the answer: their call is how a run ends, not something that the agent did (smolagents, pydantic-ai).
_ANSWER_TOOLS: Final = frozenset({"final_answer", "final_result"})
#: Tools of these names may do anything; they give the answer when that is what they were called with (DSPy).
_PERHAPS: Final = frozenset({"answer", "attempt_completion", "finish", "respond", "submit"})


def gives_answer(name: str, arguments: Mapping[str, Any] | None, answer: str | None) -> bool:
    """Return whether a call gives the answer rather than does something.

    >>> gives_answer("final_answer", None, None), gives_answer("submit", {"form": "A38"}, "Done.")
    (True, False)
    """
    if is_answer_tool(name):
        return True
    return folded(name) in _PERHAPS and answer is not None and list((arguments or {}).values()) == [answer]


def is_answer_tool(name: str) -> bool:
    """Return whether a tool by its name gives the answer.

    >>> is_answer_tool("final_answer"), is_answer_tool("answer_phone")
    (True, False)
    """
    return folded(name) in _ANSWER_TOOLS


def answer_in(message: Message) -> str | None:
    """Return what a message of the assistant tells the user: text beside a tool call never reaches the user."""
    if message.requests:
        given = [_given(request) for request in message.requests if is_answer_tool(request.name)]
        return given[0] if len(given) == len(message.requests) else None
    return message.text or None


def _given(request: CallRequest) -> str | None:
    texts = [value for value in (request.arguments or {}).values() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else None


def last_words(messages: Sequence[Message] | None) -> tuple[str | None, bool] | None:
    """Return (text, captured) of the last assistant message when it is an answer, None when it is not."""
    for message in reversed(messages or ()):
        if message.role != "assistant":
            continue
        if message.redacted:
            return None, False
        said = answer_in(message)
        return (said, True) if said is not None else None
    return None
