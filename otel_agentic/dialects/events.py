"""What a span means: the typed events between dialects and conversations.

Content that the instrumentation did not record is None, never an empty value: `messages_in is None` says *not captured*,
`()` says that there was nothing.
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
    """Text that was there and was taken out before it reached us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """The model asks for a tool. `arguments` is None when they were not captured or cannot be read."""

    call_id: str | None
    name: str
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What a tool answered, as the model was told. `captured` tells a result of null from one that was left out."""

    call_id: str | None
    name: str | None
    result: Any
    captured: bool
    is_error: bool


Part = Text | Redacted | CallRequest | CallResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message to or from a model. Parts of other kinds (images, reasoning) are left out."""

    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str | None:
        """The message's text parts, joined by line breaks; None when it has none."""
        texts = [part.content for part in self.parts if isinstance(part, Text)]
        return "\n".join(texts) if texts else None

    @property
    def redacted(self) -> bool:
        """Whether some text was taken out."""
        return any(isinstance(part, Redacted) for part in self.parts)

    @property
    def requests(self) -> tuple[CallRequest, ...]:
        """The tool calls that this message asks for."""
        return tuple(part for part in self.parts if isinstance(part, CallRequest))

    @property
    def results(self) -> tuple[CallResult, ...]:
        """The tool results that this message carries."""
        return tuple(part for part in self.parts if isinstance(part, CallResult))


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What every event carries.

    `conversation_id`, `case_id` and `verdict` are those written on this very span. `error` is the reason of a failed
    span, None when it did not fail.
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

    `certain` is False for a span that merely may be a run (a chain, a workflow node, an unknown root): it counts only
    when nothing above it is one. `query` and `answer` are set where the span names them apart from messages.
    `goes_on` is a run that brings no query of its own: the turn before it goes on. `definitions` are the tools that the
    agent was given, None when not told.
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

    `asks_for_tools` is what the finish reason says, None when there is none: it is known even without content. Tokens are
    None, and so are the `definitions` of tools, when not told. `failed_tries` are the tries before the last that spans
    inside it tell of.
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

    `handoff_to` names the agent that a handoff span passes control to; `schema` is the JSON schema of the tool's parameters,
    where its span tells it. `is_named` is False where the name is only that of the span.
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
    """A plan that the agent wrote down."""

    header: Header
    text: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A span that says nothing about the conversation, and why."""

    header: Header
    reason: str


AgentEvent = AgentRun | ModelCall | ToolCall | Plan | Ignored
