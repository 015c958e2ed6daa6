"""The tool calls of a turn: the union of tool spans and of what model responses asked for, in step order."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.conversations.model import CallKind, ToolCall
from otel_agentic.conversations.results import with_result
from otel_agentic.conversations.turns import after_last_assistant
from otel_agentic.dialects import events
from otel_agentic.dialects.values import has_named_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from otel_agentic.conversations.tree import Node
    from otel_agentic.conversations.turns import TurnSpans

_NOT_WORD: Final = re.compile(r"[^0-9a-z]+")
_TRANSFER: Final = re.compile(r"^(?:transfer|hand_?off|delegate)_(?:to_)?(.+)$")
#: A tool of google-adk and others whose argument names the agent.
_BARE_TRANSFER: Final = frozenset({"transfer_to_agent", "handoff"})

#: (time, trace, depth-first order, message): which model response asked, in an order that sorts.
_Asker = tuple[int, str, int, int]


@dataclass(slots=True, kw_only=True, eq=False)
class _Call:
    """One call while its two witnesses are being joined."""

    asker: _Asker
    place: tuple[int, int]
    request: events.CallRequest | None
    asked_by: Node | None
    node: Node | None = None
    told: events.CallResult | None = None

    @property
    def event(self) -> events.ToolCall | None:
        event = self.node.event if self.node is not None else None
        return event if isinstance(event, events.ToolCall) else None


def calls_of(
    turn: TurnSpans, *, agent: str | None, agents: Iterable[str], error_patterns: Sequence[re.Pattern[str]]
) -> tuple[ToolCall, ...]:
    """Return the calls of a turn in step order, those of sub-agents after the call that holds them.

    Args:
        turn: the spans of the turn.
        agent: the conversation's agent: it made the calls whose spans name none.
        agents: names of the agents seen in the conversation; a call that hands over to one of them is a transfer.
        error_patterns: patterns of results that are errors although the span does not say so.
    """
    calls = _requested(turn)
    spans = sorted((node for node in turn.nodes if isinstance(node.event, events.ToolCall)), key=lambda node: node.at)
    unclaimed = _join(calls, spans)
    silent = _silent_calls(turn)
    calls += [_from_span(node, silent) for node in unclaimed]
    calls.sort(key=lambda call: (call.asker, call.place))
    _tell(calls, turn)
    steps = {asker: step for step, asker in enumerate(dict.fromkeys(call.asker for call in calls), start=1)}
    known = frozenset(_folded(name) for name in agents)
    finished = [
        _finished(call, step=steps[call.asker], position=position, agent=agent, agents=known)
        for position, call in enumerate(calls)
    ]
    return tuple(
        with_result(made, call.event, call.told, error_patterns) for made, call in zip(finished, calls, strict=True)
    )


def _requested(turn: TurnSpans) -> list[_Call]:
    """Return a call for each request in a captured model response.

    Where no model call of a run shows its response, the run's own output messages stand in.
    """
    found: list[_Call] = []
    speaking: set[int] = set()
    for node in turn.nodes:
        if isinstance(node.event, events.ModelCall) and node.event.messages_out is not None:
            speaking |= _runs_around(node)
            found += _requests_in(node, node.event.messages_out, one_response=True)
    for node in turn.nodes:
        if node.is_run and isinstance(node.event, events.AgentRun) and id(node) not in speaking:
            found += _requests_in(node, node.event.messages_out or (), one_response=False)
    return found


def _runs_around(node: Node) -> set[int]:
    """Return the runs that a model call speaks for, by `id()`: all above it, up to the tool call that holds it."""
    found: set[int] = set()
    run = node.run
    while run is not None and run.holding_call is node.holding_call:
        found.add(id(run))
        run = run.run
    return found


def _requests_in(node: Node, messages: Sequence[events.Message], *, one_response: bool) -> list[_Call]:
    fresh = messages if one_response else _own_output(node, messages)
    return [
        _Call(
            asker=(*node.at, 0 if one_response else index),
            place=(index, position),
            request=request,
            asked_by=node,
        )
        for index, message in enumerate(fresh)
        for position, request in enumerate(message.requests)
    ]


def _own_output(node: Node, messages: Sequence[events.Message]) -> Sequence[events.Message]:
    """Return what the run itself said: some frameworks put the history in front of it."""
    event = node.event
    before = event.messages_in if isinstance(event, events.AgentRun) else None
    if before and len(messages) > len(before) and tuple(messages[: len(before)]) == tuple(before):
        return messages[len(before) :]
    return messages


def _join(calls: Sequence[_Call], spans: Sequence[Node]) -> list[Node]:
    """Give each request its tool span, in time order, the surest witness first; return the spans that nothing asked for.

    Call ids come first, though they are unique within a turn at best. A name decides only where a side has no id.
    """
    waiting = sorted(calls, key=lambda call: (call.asker, call.place))
    left = list(spans)
    tests: tuple[Callable[[_Call, events.ToolCall], bool], ...] = (
        lambda call, event: _same_id(call, event) and _same_name(call, event),
        _same_id,
        lambda call, event: _id_unknown(call, event) and _same_name(call, event) and _same_arguments(call, event),
        lambda call, event: _id_unknown(call, event) and _same_name(call, event),
    )
    for test in tests:
        for call in waiting:
            if call.node is None:
                call.node = next(
                    (node for node in left if isinstance(node.event, events.ToolCall) and test(call, node.event)), None
                )
                if call.node is not None:
                    left.remove(call.node)
    return left


def _same_id(call: _Call, event: events.ToolCall) -> bool:
    return call.request is not None and call.request.call_id is not None and call.request.call_id == event.call_id


def _id_unknown(call: _Call, event: events.ToolCall) -> bool:
    return call.request is not None and (call.request.call_id is None or event.call_id is None)


def _same_name(call: _Call, event: events.ToolCall) -> bool:
    return call.request is not None and _folded(call.request.name) == _folded(event.name)


def _same_arguments(call: _Call, event: events.ToolCall) -> bool:
    made, asked = event.arguments, call.request.arguments if call.request else None
    if made is None or asked is None:
        return False
    return made == asked or (not has_named_arguments(made) and list(made.values()) == list(asked.values()))


def _folded(name: str) -> str:
    return _NOT_WORD.sub("_", name.lower()).strip("_")


def _silent_calls(turn: TurnSpans) -> Mapping[Node | None, list[Node]]:
    """Return the model calls whose response was not captured, in time order, by the run that made them."""
    found: dict[Node | None, list[Node]] = defaultdict(list)
    for node in sorted(turn.nodes, key=lambda node: node.at):
        if isinstance(node.event, events.ModelCall) and node.event.messages_out is None:
            found[node.run].append(node)
    return found


def _from_span(node: Node, silent: Mapping[Node | None, list[Node]]) -> _Call:
    """Return a call that only its span tells of; the silent model call before it in the same run asked for it."""
    around = silent.get(node.run, [])
    before = bisect_right(around, node.span.start_ns, key=lambda other: other.span.start_ns)
    asker = around[before - 1] if before else node
    return _Call(asker=(*asker.at, 0), place=(node.span.start_ns, node.order), request=None, asked_by=None, node=node)


def _tell(calls: Sequence[_Call], turn: TurnSpans) -> None:
    """Give calls the results that later model calls were told, by call id, else in the order they were asked."""
    listeners = [node for node in turn.nodes if isinstance(node.event, (events.ModelCall, events.AgentRun))]
    for node in sorted(listeners, key=lambda node: node.at):
        for result in _fresh_results(node):
            waiting = [call for call in calls if call.told is None and _asked_before(call, node)]
            match = next((call for call in waiting if result.call_id and _call_id(call) == result.call_id), None)
            if match is None and result.call_id is None:
                match = next(iter(waiting), None)
            if match is not None:
                match.told = result


def _fresh_results(node: Node) -> Iterable[events.CallResult]:
    event = node.event
    if isinstance(event, events.ModelCall):
        return [result for message in after_last_assistant(event.messages_in or ()) for result in message.results]
    if isinstance(event, events.AgentRun) and node.is_run:
        return [result for message in _own_output(node, event.messages_out or ()) for result in message.results]
    return []


def _asked_before(call: _Call, node: Node) -> bool:
    return call.asker[:3] < node.at or isinstance(node.event, events.AgentRun)


def _call_id(call: _Call) -> str | None:
    asked = call.request.call_id if call.request is not None else None
    return asked or (call.event.call_id if call.event is not None else None)


def _finished(call: _Call, *, step: int, position: int, agent: str | None, agents: frozenset[str]) -> ToolCall:
    event, request, witness = call.event, call.request, call.node or call.asked_by
    assert witness is not None  # noqa: S101 — every call has a span, a request, or both
    name = request.name if request is not None else event.name if event is not None else ""
    return ToolCall(
        name=name,
        kind=_kind(call, name, agents),
        step=step,
        position=position,
        arguments=_arguments(call),
        result=None,
        result_captured=False,
        error=None,
        call_id=_call_id(call),
        trace_id=witness.span.trace_id,
        span_id=call.node.span.span_id if call.node is not None else None,
        parent_span_id=witness.holding_call.span.span_id if witness.holding_call is not None else None,
        agent_name=witness.agent_name or agent,
        source="both" if event is not None and request is not None else "span" if event is not None else "message",
    )


def _arguments(call: _Call) -> Mapping[str, Any] | None:
    """Return the arguments; the model's own win, for a span's may be cut, renamed or without parameter names."""
    asked = call.request.arguments if call.request is not None else None
    made = call.event.arguments if call.event is not None else None
    if asked is None or (made is not None and not has_named_arguments(asked) and has_named_arguments(made)):
        return made
    return asked


def _kind(call: _Call, name: str, agents: frozenset[str]) -> CallKind:
    if call.event is not None and call.event.handoff_to is not None:
        return "transfer"
    folded = _folded(name)
    target = _TRANSFER.match(folded)
    if folded in _BARE_TRANSFER or (target is not None and target.group(1) in agents):
        return "transfer"
    if call.node is not None and call.node.holds_run:
        return "agent"
    return "tool"
