"""The tool calls of a turn, in step order: the union of its tool spans and of the calls that model responses requested.

For agents that act by writing code, the interpreter is a wrapper, and the calls inside it are the agent's calls. An interpreter
is a wrapper if other tools ran inside it, or if the model wrote the code into its answer text instead of requesting a tool:
then the framework lets the agent act by running code (CodeAgent of smolagents, CodeAct). An interpreter that the model chose
by a function call and in which no tool ran is a tool like any other (`code_interpreter` of OpenAI).
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.conversations.merge import Node, by_time, comparable, folded
from otel_agentic.conversations.model import LONGEST_RECEIVED, CallKind, ToolCall
from otel_agentic.conversations.requests import (
    Call,
    Requester,
    TurnSpans,
    add_unrecorded,
    anchor_history_calls,
    assign_results,
    requested,
    requester_of,
)
from otel_agentic.conversations.tree import gives_answer
from otel_agentic.dialects import events
from otel_agentic.dialects.events import AgentRun, ModelCall
from otel_agentic.dialects.values import has_named_arguments, parsed, text_of, words_of

if TYPE_CHECKING:
    from otel_agentic.config.patterns import OwnPattern

_TRANSFER: Final = re.compile(r"^(?:transfer|hand_?off|delegate)_(?:to_)?(.+)$")
#: Tools whose argument names the agent (google-adk, LlamaIndex, …).
_BARE_TRANSFERS: Final = frozenset({"transfer_to_agent", "handoff", "agent_handoff"})
_AGENT_ARGUMENTS: Final = ("agent_name", "to_agent", "agent", "target")


def join(calls: Sequence[Call], spans: Sequence[Node]) -> list[Node]:
    """Assign each request its tool span, in time order, the most certain match first; return the spans without a request.

    Call ids come first, although they are unique within a turn at best. A name decides only if one side has no id.
    """
    waiting = sorted(calls, key=lambda call: (call.requester, call.position))
    unassigned = dict.fromkeys(spans)  # an ordered set
    for key_of_call, key_of_event, by_id, same_run in _RULES:
        if not unassigned:
            break
        pools: dict[tuple[Hashable, ...], deque[Node]] = defaultdict(deque)
        for node in unassigned:
            if isinstance(node.event, events.ToolCall) and (key := key_of_event(node.event)) is not None:
                for may_have_id in {True, node.event.call_id is not None}:
                    pools[key, may_have_id, _run_and_holder(node) if same_run else None].append(node)
        for call in waiting:
            if call.node is not None or (key := key_of_call(call)) is None:
                continue
            # Different ids mean different calls, so a request with an id matches only spans without one.
            run = _run_and_holder(call.requested_by) if same_run else None
            pool = pools.get((key, by_id or _id(call) is None, run), deque())
            while pool and pool[0] not in unassigned:
                pool.popleft()
            if pool:
                call.node = pool.popleft()
                del unassigned[call.node]
    return list(unassigned)


def join_runs(calls: Sequence[Call], turn: TurnSpans) -> None:
    """Assign each request without a tool span the run that it started: a run of an agent with the tool's name.

    Frameworks that call an agent like a function need no tool for it (managed agents of smolagents).
    """
    lead = set(turn.runs)
    runs: dict[str, deque[Node]] = defaultdict(deque)
    for node in sorted(turn.nodes, key=by_time):
        if node.is_run and node not in lead and node.holding_call is None and node.agent_name:
            runs[folded(node.agent_name)].append(node)
    for call in sorted(calls, key=lambda call: (call.requester, call.position)) if runs else ():
        candidates = runs.get(folded(call.name))
        if call.node is not None or not candidates:
            continue
        while candidates and (*candidates[0].at, 0) <= call.requester:
            candidates.popleft()  # it began before it was requested
        if candidates:
            call.run = candidates.popleft()


def transfer_target(call: Call) -> str | None:
    """Return the folded name of the agent that a call hands over to, or None if it does not look like a transfer."""
    event = call.event
    if event is not None and event.handoff_to is not None:
        return folded(event.handoff_to)
    if call.request is not None:
        return _target(call.request.name, call.request.arguments)
    return _target(event.name, event.arguments) if event is not None else None


def _target(name: str, arguments: object) -> str | None:
    folded_name = folded(name)
    if folded_name in _BARE_TRANSFERS:
        agents = [arguments.get(key) for key in _AGENT_ARGUMENTS] if isinstance(arguments, dict) else []
        return next((folded(agent) for agent in agents if isinstance(agent, str)), "")
    match = _TRANSFER.match(folded_name)
    return match.group(1) if match is not None else None


def _id_and_name(call: Call) -> Hashable | None:
    request = call.request
    return (request.call_id, folded(request.name)) if request is not None and request.call_id is not None else None


def _id(call: Call) -> Hashable | None:
    return call.request.call_id if call.request is not None else None


def _name(call: Call) -> Hashable | None:
    return folded(call.request.name) if call.request is not None else None


def _run_and_holder(node: Node | None) -> tuple[int, int] | None:
    """Return the run and the call around a node: agents inside one turn may use tools with the same name."""
    return (id(node.run), id(node.holding_call)) if node is not None else None


def _name_and_arguments(call: Call) -> Hashable | None:
    arguments = call.request.arguments if call.request is not None else None
    return (_name(call), comparable(arguments)) if arguments is not None else None


def _name_and_values(call: Call) -> Hashable | None:
    arguments = call.request.arguments if call.request is not None else None
    return (_name(call), comparable(list(arguments.values()))) if arguments is not None else None


def _event_arguments(event: events.ToolCall) -> Hashable | None:
    return (folded(event.name), comparable(event.arguments)) if event.arguments is not None else None


def _event_values(event: events.ToolCall) -> Hashable | None:
    """Return the values of arguments whose names the instrumentation dropped."""
    if event.arguments is None or has_named_arguments(event.arguments):
        return None
    return (folded(event.name), comparable(list(event.arguments.values())))


def _event_target(event: events.ToolCall) -> Hashable | None:
    return folded(event.handoff_to) if event.handoff_to is not None else _target(event.name, event.arguments)


#: Matching rules, the most certain first: (key of a request, key of a tool span, whether their ids may differ, whether both
#: must be in the same run and call). A key of None is not matched.
_RULES: Final[
    tuple[tuple[Callable[[Call], Hashable | None], Callable[[events.ToolCall], Hashable | None], bool, bool], ...]
] = (
    (_id_and_name, lambda event: (event.call_id, folded(event.name)) if event.call_id else None, True, False),
    (_id, lambda event: event.call_id, True, False),
    (_name_and_arguments, _event_arguments, False, True),
    (_name_and_values, _event_values, False, True),
    (_name, lambda event: folded(event.name), False, True),
    (_name_and_arguments, _event_arguments, False, False),
    (_name_and_values, _event_values, False, False),
    (_name, lambda event: folded(event.name), False, False),
    (transfer_target, _event_target, False, False),
    # Both have an id that occurs nowhere else: one of the ids was created by the instrumentation (OpenLIT).
    (_name_and_arguments, _event_arguments, True, False),
    (_name_and_values, _event_values, True, False),
)


#: The error of a call that never ran if the error text was not captured.
_REFUSED: Final = "the call never ran"


def outcome_of(
    event: events.ToolCall | None,
    reported: events.CallResult | None,
    error_patterns: Sequence[OwnPattern],
    *,
    never_ran: bool = False,
) -> tuple[Any, bool, str | None]:
    """Return the result of a call, whether it was captured, and the error of the call.

    Args:
        event: the event of its tool span, None without a span.
        reported: the result in the input of a later model call, None if there is no such result.
        error_patterns: patterns of results that are errors although they are not marked as such.
        never_ran: whether the framework refused to run it; the reported result is then the reason.
    """
    result, captured = _result(event, reported)
    error = (
        _marked_error(event, reported, result)
        or (error_in(result, error_patterns) if captured else None)
        or (_REFUSED if never_ran and not captured else text_of(result) if never_ran else None)
    )
    return result, captured, error


def _result(event: events.ToolCall | None, reported: events.CallResult | None) -> tuple[Any, bool]:
    if event is not None and event.result_captured:
        return event.result, True
    if reported is not None and reported.captured:
        return reported.result, True
    return None, False


def _marked_error(event: events.ToolCall | None, reported: events.CallResult | None, result: Any) -> str | None:
    if event is not None and event.is_error:
        return event.header.error or text_of(result) or "error"
    if reported is not None and reported.is_error:
        return text_of(reported.result) or "error"
    return None


def error_in(result: Any, patterns: Sequence[OwnPattern]) -> str | None:
    """Return the error text of a result that is an error although it is not marked as one; None if it is not an error."""
    if isinstance(result, Mapping):
        error = result.get("error")
        failed = result.get("status") == "error" or result.get("is_error") is True or result.get("isError") is True
        return text_of(error) if error else (text_of(result) if failed else None)
    if isinstance(result, str):
        beginning = result[:500]
        if any(pattern.search(beginning) for pattern in patterns):
            return result
    return None


#: Words in the names of tools that run code, and the names of the parameter that takes it.
_INTERPRETERS: Final = frozenset(
    {"bash", "code", "exec", "interpreter", "ipython", "javascript", "jupyter", "python", "repl", "sandbox", "script"}
)
_CODE_KEYS: Final = frozenset(
    {"code", "program", "python", "python_code", "script", "snippet", "source", "source_code"}
)


def code_runs(calls: Sequence[Call], turn: TurnSpans) -> dict[int, Node | None]:
    """Return the wrapper calls, which only run an agent's code, by `id()`, each with its tool span or None.

    Args:
        calls: the calls of the turn.
        turn: the spans of the turn.
    """
    candidates = [(call, code) for call in calls if (code := _code_of(call)) is not None]
    if not candidates:
        return {}
    inside = {(id(call.node.holding_call), id(call.node.run)) for call in calls if call.node is not None}
    texts = list(dict.fromkeys(_texts(turn)))
    return {
        id(call): call.node
        for call, code in candidates
        if (call.node is not None and (id(call.node), id(call.node.run)) in inside)
        or (not _is_chosen(call) and any(_is_written(code, text) for text in texts))
    }


def _code_of(call: Call) -> str | None:
    """Return the code that a call runs, or None if it does not run code."""
    arguments = _known_arguments(call)
    named = next(
        (value for key, value in arguments.items() if key.lower() in _CODE_KEYS and isinstance(value, str)), None
    )
    if named is not None:
        return named
    if _INTERPRETERS.isdisjoint(words_of(call.name)):
        return None
    texts = [value for value in arguments.values() if isinstance(value, str)]
    return max(texts, key=len, default="")


def _known_arguments(call: Call) -> Mapping[str, Any]:
    requested_arguments = call.request.arguments if call.request is not None else None
    span_arguments = call.event.arguments if call.event is not None else None
    return requested_arguments or span_arguments or {}


def _is_chosen(call: Call) -> bool:
    """Return whether a captured response of the model asked for the call."""
    return call.request is not None and not call.from_history


def _texts(turn: TurnSpans) -> Iterator[str]:
    """Yield the texts of the models and agents of a turn without the requested calls; for JSON also the texts in it."""
    for node in turn.nodes:
        if isinstance(node.event, (AgentRun, ModelCall)):
            for message in (*(node.event.messages_in or ()), *(node.event.messages_out or ())):
                if message.role == "assistant" and message.text and not message.requests:
                    yield message.text
                    content = parsed(message.text)
                    if isinstance(content, Mapping):
                        yield from (value for value in content.values() if isinstance(value, str))


def _is_written(code: str, text: str) -> bool:
    """Return whether a text contains the first and the last line of some code: frameworks join several blocks of code."""
    lines = [line.strip() for line in code.splitlines() if line.strip()]
    return bool(lines) and lines[0] in text and lines[-1] in text


#: Texts with which frameworks report to the model that a call never ran because its arguments were invalid. Words that
#: results use, too (required, unknown, not found), count only near the name of the problem (argument, parameter, tool
#: ...).
_REFUSAL: Final = re.compile(
    r"\b(?:errors?|invalid|validation|malformed|mandatory|failed|failure|retry|try again)\b|[a-z]Error\b"
    r"|\b(?:argument|parameter|field|property|input|tool|function|schema|keyword)s?\b.{0,80}"
    r"\b(?:not found|not exist|unknown|unexpected|missing|required|not allowed|not available)\b"
    r"|\b(?:unknown|unexpected|missing|required|no such)\b.{0,40}\b(?:argument|parameter|field|property|input|tool|function|keyword)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The agents of a conversation, and the patterns of its failures.

    Calls whose spans name no agent belong to `agent`; a call that hands over to one of `agents` is a transfer.
    `error_patterns` match results that are errors although they are not marked as such.
    """

    agent: str | None
    agents: frozenset[str]
    error_patterns: tuple[OwnPattern, ...]


def calls_of(turn: TurnSpans, context: CallContext, *, answer: str | None = None) -> tuple[ToolCall, ...]:
    """Return the calls of a turn in step order, the calls of sub-agents after the call that contains them.

    For an agent that acts by writing code, the calls of its code are the calls; the interpreter is not (see `code_runs`).

    Args:
        turn: the spans of the turn.
        context: the agents and error patterns of the conversation.
        answer: the turn's answer: a call that only gives the answer is left out.
    """
    calls = requested(turn)
    spans = sorted((node for node in turn.nodes if isinstance(node.event, events.ToolCall)), key=by_time)
    silent = _silent_calls(turn)
    unclaimed = join(calls, spans)
    join_runs(calls, turn)
    anchor_history_calls(calls, silent)
    calls += [_from_span(node, silent) for node in unclaimed]
    add_unrecorded(calls, silent)
    calls = [call for call in calls if not gives_answer(call.name, _arguments(call), answer)]
    calls.sort(key=lambda call: (call.requester, call.position))
    assign_results(calls, turn)
    interpreters = code_runs(calls, turn)
    calls = [call for call in calls if id(call) not in interpreters]
    wrappers = frozenset(id(node) for node in interpreters.values() if node is not None)
    requesters = dict.fromkeys(call.requester for call in calls)
    steps = {requester: step for step, requester in enumerate(requesters, start=1)}
    agents = {folded(name): name for name in sorted(context.agents)}
    never_ran = _never_ran(calls)
    started_runs = {id(call.run): call.run for call in calls if call.run is not None}
    return tuple(
        _tool_call_of(
            call,
            step=steps[call.requester],
            position=position,
            agent=context.agent,
            agents=agents,
            holder=_holder(call, started_runs, wrappers),
            turn=turn,
            outcome=outcome_of(
                call.event,
                _answer_of(call.run) or call.reported,
                context.error_patterns,
                never_ran=id(call) in never_ran,
            ),
        )
        for position, call in enumerate(calls)
    )


def _silent_calls(turn: TurnSpans) -> Mapping[Node | None, list[Node]]:
    """Return the model calls whose response was not captured, in time order, by the run that made them."""
    silent: dict[Node | None, list[Node]] = defaultdict(list)
    for node in sorted(turn.nodes, key=by_time):
        if isinstance(node.event, events.ModelCall) and node.event.messages_out is None:
            silent[node.run].append(node)
    return silent


def _from_span(node: Node, silent: Mapping[Node | None, list[Node]]) -> Call:
    """Return a call that was recorded only by its span."""
    position = (node.span.start_ns, node.order)
    return Call(requester=requester_of(node, silent), position=position, request=None, requested_by=None, node=node)


def _never_ran(calls: Sequence[Call]) -> frozenset[int]:
    """Return the calls, by `id()`, that a framework refused to run; it ran the next call of the same tool.

    A call with invalid arguments has no span; the model receives an error, and requests the tool again in its next
    response.
    """
    refused: set[int] = set()
    # By tool: the requesters of the calls that ran, the earliest last.
    ran_by_tool: dict[str, list[Requester]] = defaultdict(list)
    following: dict[Requester, Requester | None] = _following(calls)
    for call in reversed(calls):
        if call.node is not None:
            ran_by_tool[folded(call.name)].append(call.requester)
    for call in calls:
        later = ran_by_tool[folded(call.name)]
        while later and later[-1] <= call.requester:
            later.pop()
        is_repeated = bool(later) and later[-1] == following[call.requester]
        if call.unrecorded or (call.node is None and is_repeated and _is_refusal(call.reported)):
            refused.add(id(call))
    return frozenset(refused)


def _following(calls: Sequence[Call]) -> dict[Requester, Requester | None]:
    requesters = list(dict.fromkeys(call.requester for call in calls))
    return dict(zip_longest(requesters, requesters[1:]))


def _is_refusal(reported: events.CallResult | None) -> bool:
    if reported is None or not isinstance(reported.result, str):
        return False
    return _REFUSAL.search(reported.result[:2000]) is not None


def _tool_call_of(
    call: Call,
    *,
    step: int,
    position: int,
    agent: str | None,
    agents: Mapping[str, str],
    holder: Node | None,
    turn: TurnSpans,
    outcome: tuple[Any, bool, str | None],
) -> ToolCall:
    event, request, witness = call.event, call.request, _witness(call)
    own_node = call.node or call.run
    kind = _kind(call, agents)
    target_agent, received = _receiver(call, kind, agents, turn)
    result, result_captured, error = outcome
    return ToolCall(
        name=call.name,
        kind=kind,
        step=step,
        position=position,
        arguments=_arguments(call),
        result=result,
        result_captured=result_captured,
        error=error,
        call_id=call.call_id,
        trace_id=witness.span.trace_id,
        span_id=own_node.span.span_id if own_node is not None else None,
        parent_span_id=holder.span.span_id if holder is not None else None,
        agent_name=witness.agent_name or agent,
        source="both" if event is not None and request is not None else "span" if event is not None else "message",
        started_ns=own_node.span.start_ns if own_node is not None else None,
        ended_ns=own_node.span.end_ns if own_node is not None else None,
        target_agent=target_agent,
        received=received,
    )


def _receiver(call: Call, kind: CallKind, agents: Mapping[str, str], turn: TurnSpans) -> tuple[str | None, str | None]:
    """Return the agent that receives a hand-off, and the text of its first model input; each None if unknown."""
    if kind == "tool":
        return None, None
    ordered, caller = sorted(turn.nodes, key=by_time), _witness(call)
    if kind == "agent":
        inside = [
            node
            for node in ordered
            if (node.holding_call is not None and node.holding_call is call.node)
            or (call.run is not None and call.run in {node, node.run})
        ]
        # A run around the agent's own run (an invocation, a task) may be named after neither.
        thinking = [node for node in inside if isinstance(node.event, ModelCall)]
        names = (node.agent_name for node in (*thinking, *inside))
        return next((name for name in names if name not in {None, caller.agent_name}), None), _first_input(inside)
    target = transfer_target(call)
    later = [node for node in ordered if node.at > call.requester[:3] and node.holding_call is caller.holding_call]
    if not target:
        later = [node for node in later if node.agent_name not in {None, caller.agent_name}]
        return next((node.agent_name for node in later), None), _first_input(later)
    if target in agents:
        later = [node for node in later if node.agent_name is not None and folded(node.agent_name) == target]
    return agents.get(target, target), _first_input(later)


def _first_input(nodes: Sequence[Node]) -> str | None:
    """Return the text of the first model input in the nodes, which are in time order; None if it was not captured."""
    inputs = (node.event.messages_in for node in nodes if isinstance(node.event, ModelCall))
    messages = next(inputs, None)
    if not messages or any(message.redacted for message in messages):
        return None
    text = "\n".join(_part_text(part) for message in messages for part in message.parts)
    return text if len(text) <= LONGEST_RECEIVED else f"{text[: LONGEST_RECEIVED - 1]}…"


def _part_text(part: events.Part) -> str:
    if isinstance(part, events.Text):
        return part.content
    if isinstance(part, events.CallRequest):
        return f"{part.name} {text_of(part.arguments) or ''}"
    return (text_of(part.result) or "") if isinstance(part, events.CallResult) else ""


def _witness(call: Call) -> Node:
    witness = call.node or call.requested_by
    assert witness is not None  # noqa: S101 — every call has a span, a request, or both
    return witness


def _holder(call: Call, started_runs: Mapping[int, Node], wrappers: Container[int]) -> Node | None:
    """Return the call that contains another: the tool span above it, or the run that a call without a span started.

    A wrapper is not a call: a call inside it has the holder of the wrapper.
    """
    witness = _witness(call)
    run = witness.run
    while run is not None and started_runs:
        if id(run) in started_runs:
            return run
        run = run.run
    holder = witness.holding_call
    while holder is not None and id(holder) in wrappers:
        holder = holder.holding_call
    return holder


def _answer_of(run: Node | None) -> events.CallResult | None:
    """Return the answer of the agent that a call started, as the call's result."""
    event = run.event if run is not None else None
    if not isinstance(event, events.AgentRun):
        return None
    answer = event.answer or next(
        (message.text for message in reversed(event.messages_out or ()) if message.text), None
    )
    if answer is None and event.header.error is None:
        return None
    failed = event.header.error is not None
    result = event.header.error if failed else answer
    return events.CallResult(call_id=None, name=None, result=result, captured=True, is_error=failed)


def _arguments(call: Call) -> Mapping[str, Any] | None:
    """Return the arguments; the model's own take precedence, since a span's may be cut, renamed or without names."""
    requested_arguments = call.request.arguments if call.request is not None else None
    span_arguments = call.event.arguments if call.event is not None else None
    if (
        call.request is not None
        and span_arguments is not None
        and not has_named_arguments(span_arguments)
        and transfer_target(call)
    ):
        return requested_arguments  # the span of a handoff contains the previous speaker
    if requested_arguments is None or (
        span_arguments is not None
        and not has_named_arguments(requested_arguments)
        and has_named_arguments(span_arguments)
    ):
        return span_arguments
    return requested_arguments


def _kind(call: Call, agents: Container[str]) -> CallKind:
    if call.event is not None and call.event.handoff_to is not None:
        return "transfer"
    target = transfer_target(call)
    # Spans that name no agents (LlamaIndex) cannot confirm the agent that a transfer tool names in its arguments.
    if target is not None and (target in agents or folded(call.name) in _BARE_TRANSFERS):
        return "transfer"
    if call.run is not None or (call.node is not None and call.node.holds_run):
        return "agent"
    return "tool"
