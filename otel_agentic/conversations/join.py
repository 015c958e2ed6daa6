"""Joins requested calls with the spans of the tools that ran."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.duplicates import comparable, folded
from otel_agentic.dialects import events
from otel_agentic.dialects.values import has_named_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from otel_agentic.conversations.node import Node
    from otel_agentic.conversations.requests import Call
    from otel_agentic.conversations.turns import TurnSpans

_TRANSFER: Final = re.compile(r"^(?:transfer|hand_?off|delegate)_(?:to_)?(.+)$")
#: Tools whose argument names the agent (google-adk, LlamaIndex, …).
_BARE_TRANSFERS: Final = frozenset({"transfer_to_agent", "handoff", "agent_handoff"})
_AGENT_ARGUMENTS: Final = ("agent_name", "to_agent", "agent", "target")


def join(calls: Sequence[Call], spans: Sequence[Node]) -> list[Node]:
    """Assign each request its tool span, in time order, the most certain match first; return the spans without a request.

    Call ids come first, although they are unique within a turn at best. A name decides only if one side has no id.
    """
    waiting = sorted(calls, key=lambda call: (call.requester, call.position))
    left = dict.fromkeys(spans)  # an ordered set
    for key_of_call, key_of_event, by_id, same_run in _TESTS:
        pools: dict[tuple[Hashable, ...], deque[Node]] = defaultdict(deque)
        for node in left:
            if isinstance(node.event, events.ToolCall) and (key := key_of_event(node.event)) is not None:
                for may_have_id in {True, node.event.call_id is not None}:
                    pools[key, may_have_id, _run_and_holder(node) if same_run else None].append(node)
        for call in waiting:
            if call.node is not None or (key := key_of_call(call)) is None:
                continue
            # Different ids mean different calls, so a request with an id matches only spans without one.
            run = _run_and_holder(call.requested_by) if same_run else None
            pool = pools.get((key, by_id or _id(call) is None, run), deque())
            while pool and pool[0] not in left:
                pool.popleft()
            if pool:
                call.node = pool.popleft()
                del left[call.node]
    return list(left)


def join_runs(calls: Sequence[Call], turn: TurnSpans) -> None:
    """Assign each request without a tool span the run that it started: a run of an agent with the tool's name.

    Frameworks that call an agent like a function need no tool for it (managed agents of smolagents).
    """
    lead = set(turn.runs)
    runs: dict[str, deque[Node]] = defaultdict(deque)
    for node in sorted(turn.nodes, key=lambda node: node.at):
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
    plain = folded(name)
    if plain in _BARE_TRANSFERS:
        named = [arguments.get(key) for key in _AGENT_ARGUMENTS] if isinstance(arguments, dict) else []
        return next((folded(agent) for agent in named if isinstance(agent, str)), "")
    match = _TRANSFER.match(plain)
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
_TESTS: Final[
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
