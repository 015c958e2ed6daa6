"""Conversations as people mean them: turns of one query, its tool calls and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NewType

if TYPE_CHECKING:
    from collections.abc import Mapping

ConversationId = NewType("ConversationId", str)
CallKind = Literal["tool", "transfer", "agent"]
CallSource = Literal["span", "message", "both"]
ClosedBy = Literal["end_mark", "end_of_input", "idle"]
Captured = Literal["full", "partial", "none"]
LinkMethod = Literal["explicit", "span_link", "history", "trace"]
#: How much later than it was received a span may end before its sender's clock counts as wrong, ns.
CLOCK_TOLERANCE_NS: Final = 300_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that the agent made.

    `step` (1-based) is which model response of the turn asked for it: calls of one response share a step.
    `position` (0-based) is its place in the turn. `arguments` is None when not captured; a call without parameters has
    `{}`. `result_captured` tells a result of null from one that was not captured. `error` is None when the call worked.
    `parent_span_id` is the span of the call of kind `agent` that holds it, None at the top. `started_ns` and `ended_ns`
    are those of its span, None where it has none.
    """

    name: str
    kind: CallKind
    step: int
    position: int
    arguments: Mapping[str, Any] | None
    result: Any
    result_captured: bool
    error: str | None
    call_id: str | None
    trace_id: str
    span_id: str | None
    parent_span_id: str | None
    agent_name: str | None
    source: CallSource
    used_flag: bool | None = None
    started_ns: int | None = None
    ended_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """What one model was asked for in one turn: `calls`, of which `failed` ended in an error, and their tokens.

    `model` is None where the spans do not name it. Tokens are sums of what calls told, None where none did;
    `priced_calls` counts the calls of which nothing is missing: they told both, or failed and told neither.
    """

    model: str | None
    calls: int
    failed: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    priced_calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One user query, the calls made for it, and the answer.

    `index` is 0-based. `query` and `answer` are None when there was none, or when it was not captured:
    `query_captured` and `answer_captured` tell which. `dialect` read the span that stands for the turn, `scope` is its
    instrumentation scope; both None where no span is known. `models` are the models that were asked, by name; `plans` the
    texts of the plans that the agent wrote down, in order.
    """

    index: int
    query: str | None
    query_captured: bool
    answer: str | None
    answer_captured: bool
    error: str | None
    calls: tuple[ToolCall, ...]
    trace_id: str
    span_id: str
    started_ns: int
    ended_ns: int
    response_id: str | None = None
    dialect: str | None = None
    scope: str | None = None
    models: tuple[ModelUse, ...] = ()
    plans: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One revision of one conversation. Identity is `(environment, conversation_id)`.

    `case_id` is the case named on a span or resource; `verdict` a verdict found in the spans (True = pass), both None
    when absent. `closed_by` is None while the conversation is open. `revision` is 1-based. `tool_definitions` are the
    tools that the agent was given: name -> JSON schema of the parameters (None where only the name was recorded); None
    where they were not captured. `final_state` is the last state that a span names, None where none does.
    `user_hash` and `session_hash` are hashes of the user and of the session (of several conversations) that spans name.
    """

    environment: str
    conversation_id: ConversationId
    revision: int
    agent_name: str | None
    agent_version: str | None
    service: str | None
    started_ns: int
    ended_ns: int
    closed_by: ClosedBy | None
    link_method: LinkMethod
    case_id: str | None
    verdict: bool | None
    turns: tuple[Turn, ...]
    tool_definitions: Mapping[str, Any] | None = None
    final_state: Mapping[str, Any] | None = None
    user_hash: int | None = None
    session_hash: int | None = None

    @property
    def key(self) -> tuple[str, ConversationId]:
        """The identity: environment and conversation id."""
        return (self.environment, self.conversation_id)

    @property
    def ended(self) -> bool:
        """Whether an end mark proves that the conversation ended: idleness and the end of a file prove nothing."""
        return self.closed_by == "end_mark"

    @property
    def content_captured(self) -> Captured:
        """How much of queries, answers, arguments and results the instrumentation recorded."""
        seen = [flag for turn in self.turns for flag in _captured_flags(turn)]
        if not seen or all(seen):
            return "full" if seen else "none"
        return "partial" if any(seen) else "none"


def _captured_flags(turn: Turn) -> list[bool]:
    flags = [turn.query_captured, turn.answer_captured]
    for call in turn.calls:
        flags.append(call.arguments is not None)
        if call.error is None:
            flags.append(call.result_captured)
    return flags
