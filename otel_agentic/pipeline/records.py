"""Conversations as records in Python or JSON: the lines of `conversations export`, and shorter ones written by hand.

Only `conversation_id` and `turns` are required. Absent fields are unknown: the answer of a turn without one counts as not
recorded, unless `answer_captured` is true, which means that the agent gave no answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from otel_agentic.conversations.model import (
    CallKind,
    ClosedBy,
    Conversation,
    ConversationId,
    ToolCall,
    Turn,
)
from otel_agentic.errors import BadInputError
from otel_agentic.pipeline.export import ns_of_iso

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic_core import ErrorDetails

_MAX_CHARACTERS: Final = 80
#: Allowed values of a field by the type of pydantic's error; other errors keep pydantic's message.
_ALLOWED: Final = {
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "greater_than_equal": "a whole number from 1",
    "tuple_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "value_error": "an ISO 8601 time, such as 2026-05-29T12:00:00Z",
}


def _time(value: Any) -> int:
    return ns_of_iso(value) if isinstance(value, str) else value


#: A time as ISO 8601 text; 0 if it is unknown.
Time = Annotated[int, BeforeValidator(_time)]


class _Record(BaseModel):
    # Strict, without extra fields: a misspelt key would silently lose calls or answers.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class CallRecord(_Record):
    """A tool call; without a `step` it follows the one before it."""

    name: Annotated[str, Field(min_length=1)]
    kind: CallKind = "tool"
    arguments: dict[str, Any] | None = None
    result: Any = None
    result_captured: bool | None = None
    step: Annotated[int, Field(ge=1)] | None = None
    error: str | None = None
    call_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    agent_name: str | None = None
    used: bool | None = None


class TurnRecord(_Record):
    """One query, its tool calls, and the answer; turns are numbered by their position in the list, `index` is ignored."""

    index: int | None = None
    query: str | None = None
    query_captured: bool | None = None
    answer: str | None = None
    answer_captured: bool | None = None
    trace_id: str = ""
    span_id: str = ""
    error: str | None = None
    tools: Annotated[tuple[CallRecord, ...], Field(strict=False)] = ()


class ConversationRecord(_Record):
    """A conversation; `outcome` and `reason` of an export belong to an earlier evaluation and are ignored."""

    conversation_id: Annotated[str, Field(min_length=1)]
    turns: Annotated[tuple[TurnRecord, ...], Field(strict=False)]
    environment: str | None = None
    revision: Annotated[int, Field(ge=1)] = 1
    agent_name: str | None = None
    agent_version: str | None = None
    service: str | None = None
    started_at: Time = 0
    ended_at: Time = 0
    closed_by: ClosedBy | None = "end_of_input"
    verdict: bool | None = None
    case_id: str | None = None
    outcome: str | None = None
    reason: str | None = None


def conversation_of(record: Mapping[str, Any], location: str) -> Conversation:
    """Return the conversation of a record.

    Args:
        record: a record with the shape of a line of `conversations export`.
        location: the file and line, or index, of the record, for messages.

    Raises:
        BadInputError: the record is malformed; the message has location, field and allowed values.

    >>> record = {"conversation_id": "1", "turns": [{"query": "2+2?", "answer": "4"}]}
    >>> turn = conversation_of(record, "conversations:1").turns[0]
    >>> turn.answer, turn.answer_captured
    ('4', True)
    """
    try:
        read = ConversationRecord.model_validate(record)
    except ValidationError as error:
        raise BadInputError("\n".join(f"{location}: {problem}" for problem in _problems(error))) from error
    return Conversation(
        environment=read.environment or "",
        conversation_id=ConversationId(read.conversation_id),
        revision=read.revision,
        agent_name=read.agent_name,
        agent_version=read.agent_version,
        service=read.service,
        started_ns=read.started_at,
        ended_ns=read.ended_at,
        closed_by=read.closed_by,
        link_method="explicit",
        case_id=read.case_id,
        verdict=read.verdict,
        turns=tuple(_turn(turn, index, read) for index, turn in enumerate(read.turns)),
    )


def _turn(turn: TurnRecord, index: int, conversation: ConversationRecord) -> Turn:
    return Turn(
        index=index,
        query=turn.query,
        query_captured=_captured(turn.query, turn.query_captured),
        answer=turn.answer,
        answer_captured=_captured(turn.answer, turn.answer_captured),
        error=turn.error,
        calls=tuple(_calls(turn)),
        trace_id=turn.trace_id,
        span_id=turn.span_id,
        started_ns=conversation.started_at,
        ended_ns=conversation.ended_at,
    )


def _calls(turn: TurnRecord) -> Iterator[ToolCall]:
    step = 0
    for position, call in enumerate(turn.tools):
        step = step + 1 if call.step is None else call.step
        yield ToolCall(
            name=call.name,
            kind=call.kind,
            step=step,
            position=position,
            arguments=call.arguments,
            result=call.result,
            result_captured=_captured(call.result, call.result_captured),
            error=call.error,
            call_id=call.call_id,
            trace_id=turn.trace_id,
            span_id=call.span_id,
            parent_span_id=call.parent_span_id,
            agent_name=call.agent_name,
            source="message",
            used_flag=call.used,
        )


def _captured(value: Any, flag: bool | None) -> bool:  # noqa: FBT001 — a field of the record
    return value is not None or flag is True


def _problems(error: ValidationError) -> Iterator[str]:
    for detail in error.errors(include_url=False):
        path = ".".join(str(part) for part in detail["loc"])
        yield f"{path}: {_sentence(detail)}" if path else _sentence(detail)


def _sentence(detail: ErrorDetails) -> str:
    text = repr(detail["input"])
    value = text if len(text) <= _MAX_CHARACTERS else f"{text[: _MAX_CHARACTERS - 1]}…"
    if detail["type"] == "missing":
        return "missing; it is required here"
    if detail["type"] == "extra_forbidden":
        return f"unknown field, found {value}; allowed: {', '.join(_allowed_at(detail['loc']))}"
    allowed = _ALLOWED.get(detail["type"]) or detail["msg"].removeprefix("Input should be ")
    return f"found {value}; allowed: {allowed}"


def _allowed_at(path: Sequence[str | int]) -> list[str]:
    record = CallRecord if "tools" in path[:-1] else TurnRecord if "turns" in path[:-1] else ConversationRecord
    return sorted(record.model_fields)
