"""Conversations: turns with a query, tool calls and an answer; and the idle limits after which they close."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NewType

if TYPE_CHECKING:
    from otel_agentic.config import ConversationSettings

ConversationId = NewType("ConversationId", str)
CallKind = Literal["tool", "transfer", "agent"]
CallSource = Literal["span", "message", "both"]
#: `agent_error` is an end mark on a span that failed: the agent's program ended with an error.
ClosedBy = Literal["end_mark", "agent_error", "end_of_input", "idle"]
Captured = Literal["full", "partial", "none"]
LinkMethod = Literal["explicit", "span_link", "history", "trace"]
#: Tolerance in nanoseconds: the sender's clock counts as wrong if a span ends more than this after it was received.
CLOCK_TOLERANCE_NS: Final = 300_000_000_000
#: Limit in characters of the recorded input of an agent that receives a hand-off.
LONGEST_RECEIVED: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call by the agent.

    `step` (1-based) is the number of the model response that requested it: calls of one response share a step.
    `position` (0-based) is its index in the turn. `arguments` is None if not captured; a call without parameters has `{}`.
    `result_captured` distinguishes a null result from one that was not captured. `error` is None if the call succeeded.
    `parent_span_id` is the span of the call of kind `agent` that contains it, None at the top. `started_ns` and `ended_ns`
    are the times of its span, None without a span. A hand-off (kind `transfer` or `agent`) has the agent that receives
    it as `target_agent`, None if unknown, and the text of the first model input of that agent as `received`, None if not
    captured; text longer than `LONGEST_RECEIVED` is cut and ends with `…`.
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
    target_agent: str | None = None
    received: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """The use of one model in one turn: `calls`, of which `failed` ended in an error, and their tokens.

    `model` is None if the spans do not name it. Tokens are sums over the calls that recorded them, None if no call did;
    `priced_calls` counts the calls with complete token counts: they recorded both, or failed and recorded neither.
    """

    model: str | None
    calls: int
    failed: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    priced_calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One user query, the tool calls for it, and the answer.

    `index` is 0-based. `query` and `answer` are None if absent or not captured: `query_captured` and
    `answer_captured` distinguish the two. `dialect` is the dialect that read the turn's main span, `scope` that span's
    instrumentation scope; both None if no span is known. `models` is the use of each model, by name; `plans` are the texts of
    the plans that the agent recorded, and `reasoning` those of model responses that are not the answer: reasoning, text next
    to tool calls, the output of planners and other steps; both in order. `agent_name` is the agent that gave the answer, None
    if unknown.
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
    agent_name: str | None = None
    reasoning: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One revision of one conversation. Identity is `(environment, conversation_id)`.

    `case_id` is the case named on a span or resource; `verdict` a verdict in the spans (True = pass), both None if absent.
    `closed_by` is None while the conversation is open. `revision` is 1-based. `tool_definitions` are the tools available to
    the agent: name -> JSON schema of the parameters (None if only the name was recorded); None if they were not captured.
    `final_state` is the last state on a span, None if there is no state. `user_hash` and `session_hash` are hashes of the
    user and of the session (which may span several conversations), `slices` the slices that it is in, as `name=value`.
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
    slices: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ConversationId]:
        """The identity: environment and conversation id."""
        return (self.environment, self.conversation_id)

    @property
    def ended(self) -> bool:
        """Whether an end mark proves that the conversation ended; idleness and the end of a file prove nothing."""
        return self.closed_by in {"end_mark", "agent_error"}

    @property
    def content_captured(self) -> Captured:
        """How much of queries, answers, arguments and results the instrumentation recorded."""
        flags = [flag for turn in self.turns for flag in _captured_flags(turn)]
        if not flags or all(flags):
            return "full" if flags else "none"
        return "partial" if any(flags) else "none"


def _captured_flags(turn: Turn) -> list[bool]:
    flags = [turn.query_captured, turn.answer_captured]
    for call in turn.calls:
        flags.append(call.arguments is not None)
        if call.error is None:
            flags.append(call.result_captured)
    return flags


NS_PER_S: Final = 1_000_000_000


def idle_limit_ns(settings: ConversationSettings, *, has_id: bool) -> int:
    """Return how long, in nanoseconds, a conversation may be idle before it closes.

    People think between turns, so a conversation with an id may be idle longer.
    """
    return int((settings.idle_s if has_id else settings.idle_without_id_s) * NS_PER_S)


def turn_limit_ns(settings: ConversationSettings) -> int:
    """Return how long, in nanoseconds, a turn may be idle before it closes."""
    return int(settings.turn_idle_s * NS_PER_S)
