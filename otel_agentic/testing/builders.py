"""Builders of spans, log records and conversations, with defaults that a test overrides where they matter.

A scripted conversation is converted to spans, times and messages, independent of any convention.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from otel_agentic.conversations.model import CallKind, Conversation, ConversationId, ToolCall, Turn
from otel_agentic.dialects.events import CallRequest, CallResult, Message, Text
from otel_agentic.spans.model import (
    LogRecord,
    Resource,
    Scope,
    Span,
    SpanBatch,
    SpanEvent,
    SpanKind,
    SpanLink,
    StatusCode,
)

SECOND_NS: Final = 1_000_000_000
#: Noon (UTC) of a day in 2026, the default start of everything.
NOON_NS: Final = 1_780_056_000 * SECOND_NS

_TRACE_BYTES: Final = 16
_SPAN_BYTES: Final = 8


def span(
    name: str = "span",
    *,
    parent: Span | str | None = None,
    trace: str = "trace",
    span_id: str | None = None,
    start_ns: int = NOON_NS,
    end_ns: int | None = None,
    kind: int = SpanKind.INTERNAL,
    status: int = StatusCode.UNSET,
    status_message: str = "",
    attributes: Mapping[str, Any] | None = None,
    events: Sequence[SpanEvent] = (),
    links: Sequence[SpanLink] = (),
    resource: Mapping[str, Any] | None = None,
    service: str = "concierge",
    environment: str | None = None,
    scope: str = "",
) -> Span:
    """Return a span.

    Args:
        name: its name.
        parent: a span (whose trace and resource are used) or the id of one that may never have arrived.
        trace: 32 hex digits, or any text from which an id is derived.
        span_id: 16 hex digits, or any text; by default derived from trace, parent, name, time and attributes.
        start_ns: start, ns since the epoch.
        end_ns: end, ns since the epoch; by default one second after the start.
        kind: OTLP span kind.
        status: OTLP status code.
        status_message: the error message.
        attributes: its attributes.
        events: its events, see `event`.
        links: its links, see `link_to`.
        resource: resource attributes in addition to service and environment.
        service: `service.name`.
        environment: `deployment.environment.name`, absent by default.
        scope: name of the instrumentation scope.
    """
    trace_id = parent.trace_id if isinstance(parent, Span) else _hex(trace, _TRACE_BYTES)
    parent_id = parent.span_id if isinstance(parent, Span) else parent and _hex(parent, _SPAN_BYTES)
    seed = span_id or repr((trace_id, parent_id, name, start_ns, sorted((attributes or {}).items(), key=repr)))
    resource_attributes: dict[str, Any] = {"service.name": service, **(resource or {})}
    if environment is not None:
        resource_attributes["deployment.environment.name"] = environment
    return Span(
        trace_id=trace_id,
        span_id=_hex(seed, _SPAN_BYTES),
        parent_span_id=parent_id,
        name=name,
        kind=kind,
        start_ns=start_ns,
        end_ns=start_ns + SECOND_NS if end_ns is None else end_ns,
        status=status,
        status_message=status_message,
        attributes=dict(attributes or {}),
        events=tuple(events),
        links=tuple(links),
        resource=parent.resource
        if isinstance(parent, Span) and resource is None
        else Resource(attributes=resource_attributes),
        scope=Scope(name=scope),
    )


def event(name: str, attributes: Mapping[str, Any] | None = None, *, time_ns: int = NOON_NS) -> SpanEvent:
    """Return a span event; `time_ns` is ns since the epoch."""
    return SpanEvent(name=name, time_ns=time_ns, attributes=dict(attributes or {}))


def link_to(target: Span) -> SpanLink:
    """Return a link to a span."""
    return SpanLink(trace_id=target.trace_id, span_id=target.span_id)


def log_record(
    of: Span,
    event_name: str = "",
    body: Any = None,
    *,
    attributes: Mapping[str, Any] | None = None,
    time_ns: int | None = None,
) -> LogRecord:
    """Return a log record of a span, with the end of the span as its time by default."""
    return LogRecord(
        trace_id=of.trace_id,
        span_id=of.span_id,
        time_ns=of.end_ns if time_ns is None else time_ns,
        event_name=event_name,
        body=body,
        attributes=dict(attributes or {}),
        resource=of.resource,
        scope=of.scope,
    )


def batch(*items: Span | LogRecord | SpanBatch) -> SpanBatch:
    """Return spans, log records and other batches as one batch."""
    spans: list[Span] = []
    logs: list[LogRecord] = []
    for item in items:
        if isinstance(item, SpanBatch):
            spans += item.spans
            logs += item.logs
        elif isinstance(item, Span):
            spans.append(item)
        else:
            logs.append(item)
    return SpanBatch(spans=tuple(spans), logs=tuple(logs))


def tool_call(name: str = "search", arguments: Mapping[str, Any] | None = None, **changes: Any) -> ToolCall:
    """Return a successful call; `changes` are other fields of `ToolCall`.

    Its `step` and `position` are 0, which `turn` replaces by the next free ones.
    """
    values: dict[str, Any] = {
        "name": name,
        "kind": "tool",
        "step": 0,
        "position": 0,
        "arguments": {"q": "hotels"} if arguments is None else arguments,
        "result": ["Ritz"],
        "result_captured": True,
        "error": None,
        "call_id": None,
        "trace_id": _hex("trace", _TRACE_BYTES),
        "span_id": None,
        "parent_span_id": None,
        "agent_name": None,
        "source": "span",
    }
    return ToolCall(**{**values, **changes})


def turn(
    query: str | None = "Which hotel?", answer: str | None = "The Ritz.", *calls: ToolCall, **changes: Any
) -> Turn:
    """Return a turn; calls without a step are steps of their own. `changes` are other fields of `Turn`."""
    placed_calls: list[ToolCall] = []
    for position, call in enumerate(calls):
        last = placed_calls[-1].step if placed_calls else 0
        placed_calls.append(replace(call, step=call.step or last + 1, position=position))
    values: dict[str, Any] = {
        "index": 0,
        "query": query,
        "query_captured": True,
        "answer": answer,
        "answer_captured": True,
        "error": None,
        "calls": tuple(placed_calls),
        "trace_id": _hex("trace", _TRACE_BYTES),
        "span_id": _hex("span", _SPAN_BYTES),
        "started_ns": NOON_NS,
        "ended_ns": NOON_NS + SECOND_NS,
    }
    return Turn(**{**values, **changes})


def conversation(*turns: Turn, **changes: Any) -> Conversation:
    """Return a conversation of the turns in that order; without turns, of one `turn()`.

    `changes` are other fields of `Conversation`.
    """
    numbered_turns = tuple(replace(each_turn, index=index) for index, each_turn in enumerate(turns or (turn(),)))
    values: dict[str, Any] = {
        "environment": "production",
        "conversation_id": ConversationId("conversation-1"),
        "revision": 1,
        "agent_name": "travel",
        "agent_version": None,
        "service": "concierge",
        "started_ns": min(each_turn.started_ns for each_turn in numbered_turns),
        "ended_ns": max(each_turn.ended_ns for each_turn in numbered_turns),
        "closed_by": "idle",
        "link_method": "explicit",
        "case_id": None,
        "verdict": None,
        "turns": numbered_turns,
    }
    return Conversation(**{**values, **changes})


def _hex(seed: str, size: int) -> str:
    """Return an id of `size` bytes: the seed itself if it is such an id, else its digest."""
    if len(seed) == 2 * size and all(letter in "0123456789abcdef" for letter in seed):
        return seed
    return hashlib.blake2b(seed.encode(), digest_size=size).hexdigest()


MODEL_FAILURE: Final = "TimeoutError: the model did not answer"

#: A frame contains other acts and does nothing itself.
Doing = Literal["frame", "run", "model", "tool"]


@dataclass(slots=True, kw_only=True)
class Act:
    """A span to be created. Mutable, because it ends after the acts inside it.

    `parent` is an index into the acts of the same turn. `error` is None if it succeeded; `call_id` is that of a tool call.
    `history` are the messages before a run's query, `worked` those between its query and answer. `inside` are the names of the
    tools around it, outermost first. `number` counts the steps of a run, from 1.
    """

    does: Doing
    turn: int
    parent: int | None
    script: AgentRunScript
    start_ns: int
    end_ns: int = 0
    error: str | None = None
    messages_in: tuple[Message, ...] = ()
    messages_out: tuple[Message, ...] | None = None
    history: tuple[Message, ...] = ()
    worked: tuple[Message, ...] = ()
    call: ScriptedCall | None = None
    call_id: str | None = None
    inside: tuple[str, ...] = ()
    number: int = 0


@dataclass(slots=True, kw_only=True)
class Scene:
    """The acts of a turn while they are played, with their clock."""

    turn: int
    now_ns: int
    acts: list[Act] = field(default_factory=list)

    def begin(self, does: Doing, script: AgentRunScript, parent: int | None) -> tuple[int, Act]:
        """Return the index of a new act, and the act."""
        self.now_ns += SECOND_NS // 100
        act = Act(does=does, turn=self.turn, parent=parent, script=script, start_ns=self.now_ns)
        enclosing_act = None if parent is None else self.acts[parent]
        if enclosing_act is not None:
            act.inside = (
                enclosing_act.inside if enclosing_act.call is None else (*enclosing_act.inside, enclosing_act.call.name)
            )
        self.acts.append(act)
        return len(self.acts) - 1, act

    def end(self, act: Act) -> None:
        """End the act now."""
        self.now_ns += SECOND_NS // 100
        act.end_ns = self.now_ns


def play(script: AgentRunScript, *, start_ns: int = NOON_NS, pause_ns: int = 20 * SECOND_NS) -> list[list[Act]]:
    """Return the acts of each turn of a script.

    Args:
        script: the agent's actions.
        start_ns: its start, ns since the epoch.
        pause_ns: the time between the end of a turn and the start of the next one.
    """
    history: list[Message] = []
    turns: list[list[Act]] = []
    now_ns = start_ns
    for number, exchange in enumerate(script.exchanges):
        scene = Scene(turn=number, now_ns=now_ns)
        history = _run(scene, script, exchange, history, parent=None)
        turns.append(scene.acts)
        now_ns = scene.now_ns + pause_ns
    return turns


def _run(
    scene: Scene, script: AgentRunScript, exchange: Exchange, history: Sequence[Message], parent: int | None
) -> list[Message]:
    """Play one run and return the history after it, without that of a failed run."""
    index, run = scene.begin("run", script, parent)
    query = Message(role="user", parts=(Text(content=exchange.query),))
    messages = [*history, query]
    run.messages_in, run.history = (query,), tuple(history)
    for step in exchange.steps:
        response = _ask(scene, script, messages, step, index)
        messages.append(response)
        for call, request in zip(step.calls, response.requests, strict=True):
            messages.append(_run_tool(scene, script, call, request, index))
    run.worked = tuple(messages[len(history) + 1 :])
    _, last = scene.begin("model", script, index)
    last.messages_in = tuple(messages)
    if exchange.answer is None:
        last.error = run.error = MODEL_FAILURE
    else:
        last.messages_out = run.messages_out = (Message(role="assistant", parts=(Text(content=exchange.answer),)),)
    scene.end(last)
    scene.end(run)
    return [*messages, *last.messages_out] if last.messages_out is not None else list(history)


def _ask(scene: Scene, script: AgentRunScript, messages: Sequence[Message], step: Step, run: int) -> Message:
    index, model = scene.begin("model", script, run)
    requests = tuple(
        CallRequest(
            call_id=call.call_id or f"call_{scene.turn}_{index}_{number}", name=call.name, arguments=call.arguments
        )
        for number, call in enumerate(step.calls)
    )
    texts = () if step.text is None else (Text(content=step.text),)
    response = Message(role="assistant", parts=(*texts, *requests))
    model.messages_in, model.messages_out = tuple(messages), (response,)
    scene.end(model)
    return response


def _run_tool(scene: Scene, script: AgentRunScript, call: ScriptedCall, request: CallRequest, run: int) -> Message:
    index, tool = scene.begin("tool", script, run)
    tool.call, tool.call_id, tool.error = call, request.call_id, call.error
    for exchange in call.agent.exchanges if call.agent is not None else ():
        assert call.agent is not None  # noqa: S101 — the loop above is empty otherwise
        _run(scene, call.agent, exchange, (), parent=index)
    scene.end(tool)
    content = call.result if call.error is None else f"Error: {call.error}"
    result = CallResult(
        call_id=request.call_id, name=call.name, result=content, captured=True, is_error=call.error is not None
    )
    return Message(role="tool", parts=(result,))


#: The time by which a frame exceeds its content.
_MARGIN_NS: Final = 1000


def in_workflow(acts: list[Act]) -> list[Act]:
    """Return the acts of a turn below a frame with the run's messages."""
    root = acts[0]
    frame = replace(root, does="frame", start_ns=root.start_ns - _MARGIN_NS, end_ns=root.end_ns + _MARGIN_NS)
    return [frame, *(replace(act, parent=0 if act.parent is None else act.parent + 1) for act in acts)]


def in_steps(acts: list[Act]) -> list[Act]:
    """Return the acts of a turn with a numbered frame around each model call and its tool calls."""
    framed_acts: list[Act] = []
    indices: list[int] = []
    steps: dict[int | None, int] = {}  # by run: the index of its latest step
    for act in acts:
        parent = None if act.parent is None else indices[act.parent]
        if act.does == "model":
            number = framed_acts[steps[act.parent]].number + 1 if act.parent in steps else 1
            steps[act.parent] = len(framed_acts)
            framed_acts.append(replace(act, does="frame", parent=parent, number=number, error=None))
        if act.does != "run":
            parent = steps[act.parent]
            framed_acts[parent].end_ns = act.end_ns
        indices.append(len(framed_acts))
        framed_acts.append(replace(act, parent=parent))
    return framed_acts


def below_the_model(acts: list[Act]) -> list[Act]:
    """Return the acts of a turn with each tool call below its model call, which is extended to the same end."""
    nested_acts: list[Act] = []
    model_calls: dict[int | None, int] = {}  # by run: the index of its latest model call
    for index, act in enumerate(acts):
        if act.does == "model":
            model_calls[act.parent] = index
        parent = act.parent
        if act.does == "tool":
            parent = model_calls[act.parent]
            nested_acts[parent].end_ns = act.end_ns
        nested_acts.append(replace(act, parent=parent))
    return nested_acts


def on_a_coarse_clock(acts: list[Act], *, speed: int, tick_ns: int) -> list[Act]:
    """Return the acts of a turn, played faster and started at clock ticks, so that many start at the same time.

    As in OpenTelemetry for JavaScript, the end of a span is its tick plus its duration, so that ends do not reveal the
    order.
    """
    began_ns = acts[0].start_ns
    acts_on_ticks = []
    for act in acts:
        start_ns = began_ns + (act.start_ns - began_ns) // speed
        on_tick_ns = start_ns - start_ns % tick_ns
        acts_on_ticks.append(
            replace(act, start_ns=on_tick_ns, end_ns=on_tick_ns + (act.end_ns - act.start_ns) // speed)
        )
    return acts_on_ticks


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutline:
    """A call. `result` is None for a failed call, because its replacement differs between conventions."""

    name: str
    kind: CallKind
    step: int
    arguments: Mapping[str, Any] | None
    result: Any
    failed: bool
    agent_name: str | None
    nested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOutline:
    """A turn."""

    query: str | None
    answer: str | None
    calls: tuple[CallOutline, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A conversation. `conversation_id` is None if it was derived from a trace."""

    conversation_id: str | None
    agent_name: str | None
    turns: tuple[TurnOutline, ...]


def outline(conversation: Conversation) -> Outline:
    """Return the outline of a conversation, without ids and times."""
    return Outline(
        conversation_id=str(conversation.conversation_id) if conversation.link_method == "explicit" else None,
        agent_name=conversation.agent_name,
        turns=tuple(
            TurnOutline(query=turn.query, answer=turn.answer, calls=tuple(_call(call) for call in turn.calls))
            for turn in conversation.turns
        ),
    )


def plain(result: Any) -> Any:
    """Return a result with numbers as text, because text attributes do not distinguish 5 from "5"."""
    if isinstance(result, bool) or not isinstance(result, (int, float)):
        return result
    return str(result)


def _call(call: ToolCall) -> CallOutline:
    return CallOutline(
        name=call.name,
        kind=call.kind,
        step=call.step,
        arguments=None if call.arguments is None else dict(call.arguments),
        result=None if call.error is not None else plain(call.result),
        failed=call.error is not None,
        agent_name=call.agent_name,
        nested=call.parent_span_id is not None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedCall:
    """A tool call by the agent. `agent` is the script of the agent inside it, if the tool was an agent."""

    name: str
    arguments: Mapping[str, Any]
    result: Any = None
    error: str | None = None
    call_id: str | None = None
    agent: AgentRunScript | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One model response that requests calls; `text` is next to them and never reaches the user."""

    calls: tuple[ScriptedCall, ...]
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One turn: a query, its steps, and the answer, None if the run failed before it."""

    query: str
    steps: tuple[Step, ...] = ()
    answer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRunScript:
    """A conversation with an agent. Each method returns a longer script.

    `conversation_id` is None for an agent without a conversation id.
    """

    agent_name: str = "travel"
    conversation_id: str | None = "conversation-1"
    service: str = "concierge"
    environment: str | None = None
    exchanges: tuple[Exchange, ...] = ()

    def ask(self, query: str) -> AgentRunScript:
        """Return the script with one more turn."""
        return replace(self, exchanges=(*self.exchanges, Exchange(query=query)))

    def calls(self, *calls: ScriptedCall, text: str | None = None) -> AgentRunScript:
        """Return the script with one more step in its last turn: one response that requests all these calls."""
        last = self.exchanges[-1]
        return self._with_last(replace(last, steps=(*last.steps, Step(calls=calls, text=text))))

    def answers(self, answer: str) -> AgentRunScript:
        """Return the script with an answer to its last turn."""
        return self._with_last(replace(self.exchanges[-1], answer=answer))

    def outline(self) -> Outline:
        """Return the outline that a reader must derive from the script."""
        return Outline(
            conversation_id=self.conversation_id,
            agent_name=self.agent_name,
            turns=tuple(
                TurnOutline(query=item.query, answer=item.answer, calls=tuple(_calls(item, self.agent_name)))
                for item in self.exchanges
            ),
        )

    def _with_last(self, exchange: Exchange) -> AgentRunScript:
        return replace(self, exchanges=(*self.exchanges[:-1], exchange))


def scripted_call(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    result: Any = None,
    error: str | None = None,
    call_id: str | None = None,
    agent: AgentRunScript | None = None,
) -> ScriptedCall:
    """Return a tool call; `agent` is the script of one turn inside it."""
    return ScriptedCall(name=name, arguments=arguments or {}, result=result, error=error, call_id=call_id, agent=agent)


def _calls(exchange: Exchange, agent_name: str) -> Iterator[CallOutline]:
    for step, (caller, nested, step_of_caller) in enumerate(_steps(exchange, agent_name, nested=False), start=1):
        for call in step_of_caller.calls:
            yield CallOutline(
                name=call.name,
                kind="agent" if call.agent is not None else "tool",
                step=step,
                arguments=dict(call.arguments),
                result=None if call.error is not None else plain(call.result),
                failed=call.error is not None,
                agent_name=caller,
                nested=nested,
            )


def _steps(exchange: Exchange, agent_name: str, *, nested: bool) -> Iterator[tuple[str, bool, Step]]:
    for step in exchange.steps:
        yield agent_name, nested, step
        for call in step.calls:
            for inner in call.agent.exchanges if call.agent is not None else ():
                yield from _steps(inner, call.agent.agent_name if call.agent else agent_name, nested=True)
