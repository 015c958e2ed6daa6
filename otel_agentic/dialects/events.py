"""The typed events between dialects and conversations.

Content that the instrumentation did not record is None, never an empty value: `messages_in is None` means *not captured*, `()`
means that there were no messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.dialects.definitions import Definitions
    from otel_agentic.spans.model import Span

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Text of a message."""

    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """Text that was removed before it was received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """A request of the model to call a tool. `arguments` is None if they were not captured or cannot be read."""

    call_id: str | None
    name: str
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The result of a tool as reported to the model. `captured` distinguishes a null result from a missing one."""

    call_id: str | None
    name: str | None
    result: Any
    captured: bool
    is_error: bool


Part = Text | Redacted | CallRequest | CallResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message to or from a model, without parts of other kinds (images, reasoning)."""

    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str | None:
        """The message's text parts, joined by line breaks; None without text parts."""
        texts = [part.content for part in self.parts if isinstance(part, Text)]
        return "\n".join(texts) if texts else None

    @property
    def redacted(self) -> bool:
        """Whether some text was removed."""
        return any(isinstance(part, Redacted) for part in self.parts)

    @property
    def requests(self) -> tuple[CallRequest, ...]:
        """The tool calls that this message requests."""
        return tuple(part for part in self.parts if isinstance(part, CallRequest))

    @property
    def results(self) -> tuple[CallResult, ...]:
        """The tool results in this message."""
        return tuple(part for part in self.parts if isinstance(part, CallResult))


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The common fields of every event.

    `conversation_id`, `case_id` and `verdict` are those on this span itself. `error` is the error of a failed span, None if it
    did not fail.
    """

    span: Span
    dialect: str
    conversation_id: str | None
    agent_name: str | None
    agent_version: str | None
    case_id: str | None
    verdict: bool | None
    ends_conversation: bool
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRun:
    """One run of an agent, from its input to its answer.

    `certain` is False for a span that may be a run (a chain, a workflow node, an unknown root): it counts as a run only if no
    span above it is one. `query` and `answer` are set if the span has them apart from messages. `goes_on` is a run without
    a query of its own, which continues the turn before it. `definitions` are the tools available to the agent, None if not
    recorded.
    """

    header: Header
    certain: bool
    query: str | None
    answer: str | None
    messages_in: tuple[Message, ...] | None
    messages_out: tuple[Message, ...] | None
    goes_on: bool = False
    definitions: Definitions | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One request to a model and its response.

    `asks_for_tools` is whether the finish reason is a tool request, None without a finish reason: it is known even without
    content. Tokens and the `definitions` of tools are None if not recorded. `failed_tries` is the number of earlier tries
    recorded by spans inside it.
    """

    header: Header
    messages_in: tuple[Message, ...] | None
    messages_out: tuple[Message, ...] | None
    model: str | None
    response_id: str | None
    asks_for_tools: bool | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    definitions: Definitions | None = None
    failed_tries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One execution of a tool.

    `handoff_to` is the agent that a handoff span passes control to; `schema` is the JSON schema of the tool's parameters, if
    recorded. `is_named` is False if the name is only that of the span.
    """

    header: Header
    name: str
    call_id: str | None
    arguments: Mapping[str, Any] | None
    result: Any
    result_captured: bool
    is_error: bool
    handoff_to: str | None = None
    schema: Mapping[str, Any] | None = None
    is_named: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan that the agent recorded."""

    header: Header
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A span without information about the conversation, and the reason."""

    header: Header
    reason: str


AgentEvent = AgentRun | ModelCall | ToolCall | Plan | Ignored
