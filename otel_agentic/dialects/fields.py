"""What every dialect reads alike: names of conversation ids, errors, versions, verdicts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.dialects.paths import first
from otel_agentic.dialects.values import parsed, text_of
from otel_agentic.spans.model import StatusCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.spans.model import LogRecord, Span

#: Set by those who know better than any guess: the verdict on a conversation, written by an evaluator into its spans.
VERDICT_EVENT: Final = "gen_ai.evaluation.result"
VERDICT_NAME: Final = "agentic.conversation"

_AGENT_VERSION_KEYS: Final = ("gen_ai.agent.version", "service.version")
#: `tool_calls`, `tool-calls`, `tool_use`, `function_call`: each provider has its own word.
_TOOL_FINISH: Final = re.compile(r"tool|function", re.IGNORECASE)
_EXCEPTION_EVENT: Final = "exception"
#: What applications call a conversation in the metadata that they hand to a framework, the surest first.
_SESSION_NAMES: Final = (
    "conversation_id",
    "conversationId",
    "conversation.id",
    "session_id",
    "sessionId",
    "session.id",
    "thread_id",
    "threadId",
    "thread.id",
    "chat_id",
    "chatId",
)


def session_keys(prefix: str) -> tuple[str, ...]:
    """Return the attribute names or paths under a prefix that may hold a conversation id, the surest first.

    >>> session_keys("app.metadata.")[0]
    'app.metadata.conversation_id'
    """
    return tuple(prefix + name for name in _SESSION_NAMES)


def asks_for_tools(reason: Any) -> bool | None:
    """Return whether a finish reason, or a list of them, says that the model asked for tools; None when not told.

    >>> asks_for_tools('["tool_calls"]'), asks_for_tools(["stop"]), asks_for_tools(None)
    (True, False, None)
    """
    found = parsed(reason)
    reasons = found if isinstance(found, list) else [found]
    texts = [item for item in reasons if isinstance(item, str) and item]
    return any(_TOOL_FINISH.search(text) for text in texts) if texts else None


def agent_version(span: Span) -> str | None:
    """Return `gen_ai.agent.version` of the span, else `service.version` of its resource, else None."""
    agent_key, service_key = _AGENT_VERSION_KEYS
    found = span.attributes.get(agent_key)
    return text_of(found if found is not None else span.resource.attributes.get(service_key))


def span_error(span: Span, keys: Iterable[str]) -> str | None:
    """Return the error text of a failed span: its exception, status message or error type; None when it did not fail.

    An exception event on a span whose status is not an error may be control flow (an interrupt), so it is no failure.
    """
    kind = first(span.attributes, keys)
    if span.status != StatusCode.ERROR and kind is None:
        return None
    if span.status_message:
        # Some write the error type into the message too.
        said = kind is None or span.status_message.startswith(str(kind))
        return span.status_message if said else f"{kind}: {span.status_message}"
    for event in span.events:
        if event.name == _EXCEPTION_EVENT:
            parts = (event.attributes.get("exception.type"), event.attributes.get("exception.message"))
            return ": ".join(str(part) for part in parts if part) or "exception"
    return str(kind) if kind else "error"


def verdict_of(span: Span, logs: Sequence[LogRecord]) -> bool | None:
    """Return the verdict that an evaluation event on the span gives, None when there is none."""
    places = [event.attributes for event in span.events if event.name == VERDICT_EVENT]
    places += [log.attributes for log in logs if log.event_name == VERDICT_EVENT]
    for attributes in places:
        label = attributes.get("gen_ai.evaluation.score.label")
        # Not a set: a hostile label may be a list.
        if attributes.get("gen_ai.evaluation.name") == VERDICT_NAME and label in ("pass", "fail"):
            return bool(label == "pass")
    return None
