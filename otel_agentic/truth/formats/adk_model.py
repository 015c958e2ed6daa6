"""The records of ADK eval sets: the present form, and the two older ones. Names come as `eval_id` or as `evalId`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator
from pydantic.alias_generators import to_camel

from otel_agentic.truth.formats.foreign import Arguments, Id, Listed, Record, Silent
from otel_agentic.truth.model import Name  # noqa: TC001 — pydantic reads it at run time


class _Adk(Record):
    """A record whose fields may be written in camel case."""

    @model_validator(mode="before")
    @classmethod
    def _snake_case(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        own = {to_camel(name): name for name in cls.model_fields}
        return {own.get(key, key): held for key, held in value.items()}


class ToolUse(_Adk):
    """A call that should be made."""

    name: Name
    args: Arguments = Field(default_factory=dict)
    ignored: ClassVar[frozenset[str]] = frozenset({"id"})


class Part(_Adk, Silent):
    """A part of a message: text, or a call."""

    text: str | None = None
    function_call: ToolUse | None = None


class Content(_Adk, Silent):
    """A message."""

    parts: Annotated[list[Part], Listed] = Field(default_factory=list)

    @property
    def text(self) -> str | None:
        """The text of all parts, None where none has any."""
        texts = [part.text for part in self.parts if part.text is not None]
        return "\n".join(filter(None, texts)) if texts else None


class Event(_Adk, Silent):
    """A step of the agent."""

    content: Content | None = None


class Intermediate(_Adk):
    """What the agent should do before it answers: calls in their order, or the events that hold them."""

    tool_uses: list[ToolUse] | None = None
    invocation_events: list[Event] | None = None
    ignored: ClassVar[frozenset[str]] = frozenset({"tool_responses"})

    @property
    def calls(self) -> list[ToolUse] | None:
        """The calls, None where the data do not say."""
        if self.tool_uses is not None or self.invocation_events is None:
            return self.tool_uses
        contents = [event.content for event in self.invocation_events if event.content is not None]
        return [part.function_call for content in contents for part in content.parts if part.function_call is not None]


class Invocation(_Adk):
    """A turn."""

    user_content: Content
    final_response: Content | None = None
    intermediate_data: Intermediate | None = None
    ignored: ClassVar[frozenset[str]] = frozenset({"invocation_id", "creation_timestamp", "creationTimestamp"})


class Scenario(_Adk):
    """A conversation that a simulated user plays."""

    starting_prompt: str
    conversation_plan: str


class SessionInput(_Adk):
    """The session that the agent starts from."""

    state: dict[str, Any] | None = None
    ignored: ClassVar[frozenset[str]] = frozenset(
        {"app_name", "appName", "user_id", "userId", "session_id", "sessionId"}
    )
    no_place: ClassVar[frozenset[str]] = frozenset({"state"})


class EvalCase(_Adk):
    """A case of the present form; `dataset` is ours."""

    eval_id: Id
    conversation: list[Invocation] | None = None
    conversation_scenario: Scenario | None = None
    session_input: SessionInput | None = None
    final_session_state: dict[str, Any] | None = None
    dataset: Name | None = None
    ignored: ClassVar[frozenset[str]] = frozenset({"creation_timestamp", "creationTimestamp"})

    @model_validator(mode="after")
    def _one_of_both(self) -> EvalCase:
        if (self.conversation is None) == (self.conversation_scenario is None):
            raise ValueError("an eval case has either `conversation` or `conversation_scenario`")
        return self


class OldToolUse(_Adk):
    """A call of the older forms."""

    tool_name: Name
    tool_input: Arguments = Field(default_factory=dict)


class OldTurn(_Adk):
    """A turn of the older forms."""

    query: str
    expected_tool_use: list[OldToolUse] | None = None
    reference: str | None = None


class OldCase(_Adk):
    """A case of the older form: a name, and its turns as `data`."""

    name: Id
    data: Annotated[list[OldTurn], Field()]
    initial_session: SessionInput | None = None
