"""The spans of one trace as a forest, each with its event."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.duplicates import merge_duplicates
from otel_agentic.conversations.node import Node
from otel_agentic.conversations.repetitions import drop_repetitions
from otel_agentic.conversations.sessions import find_sessions
from otel_agentic.dialects.events import AgentRun, ModelCall, ToolCall

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_agentic.dialects.detect import Reading


#: The history length of a tool call without a request: it is ordered after the model calls that start at the same time.
_UNKNOWN: Final = 1 << 31


def build_tree(readings: Sequence[Reading]) -> list[Node]:
    """Return all nodes of one trace in depth-first order.

    Orphans become roots; a parent cycle is cut at its earliest span. The result does not depend on the order of the readings.
    """
    nodes = [Node(reading=reading) for reading in readings]
    nodes.sort(key=_in_time)
    by_id = {node.span.span_id: node for node in nodes}
    for node in nodes:
        parent = by_id.get(node.span.parent_span_id or "")
        node.parent = parent if parent is not node else None
    _cut_cycles(nodes)
    for node in nodes:
        if node.parent is not None:
            node.parent.children.append(node)
    roots = [node for node in nodes if node.parent is None]
    _settle_ties([below for root in roots for below in root.subtree()])
    ordered = [below for root in roots for below in root.subtree()]
    for order, node in enumerate(ordered):
        node.order = order
    merge_duplicates(ordered)
    drop_repetitions(ordered)
    mark_runs(ordered)
    return ordered


def _in_time(node: Node) -> tuple[int, int, int, str]:
    """Return the sort key of siblings.

    With a clock of milliseconds, a tool may start at the same time as the model call that requested it, and as the next model
    call: then model calls come first, and the one with the longer history later.
    """
    span, event = node.span, node.event
    asks = isinstance(event, ModelCall)
    history = len(event.messages_in or ()) if isinstance(event, ModelCall) else sys.maxsize
    return (span.start_ns, history, span.end_ns if asks else -span.end_ns, span.span_id)


def _settle_ties(ordered: Sequence[Node]) -> None:
    """Order siblings that start at the same tick of a coarse clock by their inputs.

    Of two model calls the one with the shorter history is the earlier; a tool call follows the model call that requested it.
    """
    histories: dict[int, int] = {}
    for node in reversed(ordered):  # from the leaves up, so that deep traces cost no more than wide ones
        if isinstance(node.event, ModelCall):
            histories[id(node)] = len(node.event.messages_in or ())
        starts = {child.span.start_ns for child in node.children}
        if len(starts) < len(node.children):
            _settle(node.children, histories)
        known = [histories[id(child)] for child in node.children if id(child) in histories]
        if known:
            histories.setdefault(id(node), min(known))


def _settle(siblings: list[Node], histories: Mapping[int, int]) -> None:
    histories_by_call = {
        request.call_id: histories[id(node)]
        for node in siblings
        if isinstance(node.event, ModelCall)
        for message in node.event.messages_out or ()
        for request in message.requests
        if request.call_id is not None
    }

    def start_and_history(node: Node) -> tuple[int, int, bool]:
        if isinstance(node.event, ToolCall):
            return (node.span.start_ns, histories_by_call.get(node.event.call_id or "", _UNKNOWN), True)
        return (node.span.start_ns, histories.get(id(node), 0), False)

    siblings.sort(key=start_and_history)


def mark_runs(ordered: Sequence[Node]) -> None:
    """Decide which `AgentRun` events count as runs.

    A certain one does. An uncertain one does if it is the topmost, or was started by a tool call, and if it either has content
    of its own or no certain run below it. One that contains a whole conversation does not (see `find_sessions`).
    """
    below = _contents(ordered)
    sessions = find_sessions(ordered)
    starts: dict[int, bool] = {}  # whether a run may begin right below the node: nothing above it is one already
    for node in ordered:  # depth first: the nodes above are decided already
        parent = node.parent
        holder = parent.same_as or parent if parent is not None else None
        in_call = holder is not None and isinstance(holder.event, ToolCall)
        free = parent is None or in_call or (starts[id(parent)] and not parent.is_run)
        starts[id(node)] = free
        if parent is not None:
            node.run = parent if parent.is_run else parent.run
            node.holding_call = holder if in_call else parent.holding_call
        event = node.event
        if isinstance(event, AgentRun) and not (id(node) in sessions and node.run is None):
            node.is_run = event.certain or (free and _may_be_run(event, below[id(node)]))
    for node in reversed(ordered):
        for above in filter(None, (node.parent, node.same_as)):
            above.holds_run = above.holds_run or node.holds_run or (node.is_run and above is node.parent)


@dataclass(slots=True, kw_only=True)
class _Contents:
    """Whether there are any nodes below a node, model or tool calls, certain runs."""

    some: bool = False
    works: bool = False
    runs: bool = False


def _contents(ordered: Sequence[Node]) -> dict[int, _Contents]:
    contents = {id(node): _Contents() for node in ordered}
    for node in reversed(ordered):  # from the leaves up, so that deep traces cost no more than wide ones
        if node.parent is None:
            continue
        own, up, event = contents[id(node)], contents[id(node.parent)], node.event
        up.some = True
        up.works = up.works or own.works or isinstance(event, (ModelCall, ToolCall))
        up.runs = up.runs or own.runs or (isinstance(event, AgentRun) and event.certain)
    return contents


def _may_be_run(event: AgentRun, below: _Contents) -> bool:
    has_content = bool(event.query or event.messages_in)
    return (has_content and (below.works or below.runs or not below.some)) or (below.works and not below.runs)


def _cut_cycles(nodes: Sequence[Node]) -> None:
    safe: set[int] = set()
    for node in nodes:  # in time order, so that a cycle is cut at its earliest span
        path: dict[int, Node] = {}
        at: Node | None = node
        while at is not None and id(at) not in safe and id(at) not in path:
            path[id(at)] = at
            at = at.parent
        if at is not None and id(at) in path:
            first = min(_cycle(at), key=lambda member: (member.span.start_ns, member.span.span_id))
            first.parent = None
        safe.update(path)


def _cycle(node: Node) -> list[Node]:
    members = [node]
    at = node.parent
    while at is not None and at is not node:
        members.append(at)
        at = at.parent
    return members
