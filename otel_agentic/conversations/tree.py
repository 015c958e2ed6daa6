"""The spans of one trace as a forest, with the event each of them became."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.duplicates import merge_duplicates
from otel_agentic.conversations.naming import short
from otel_agentic.conversations.repetitions import drop_repetitions
from otel_agentic.conversations.sessions import find_sessions
from otel_agentic.dialects.events import AgentRun, Ignored, ModelCall, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.dialects.detect import Reading
    from otel_agentic.dialects.events import AgentEvent
    from otel_agentic.spans.model import Span

#: What frameworks put around an agent's name to make a span name.
_NAME_DRESS: Final = re.compile(r"^(?:invoke_agent|invoke_workflow|agent run|Agent run:)\s*|\.(?:agent|workflow|run)$")

#: The history of a tool call that nobody asked for: it comes after the model calls of its tick.
_UNKNOWN: Final = 1 << 31


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One span in its trace. Built in place: the tree needs to be linked both ways.

    `order` numbers the nodes of a trace depth first, siblings by start time. `is_run` says whether an `AgentRun` event
    counts as one (see `mark_runs`), `run` is the nearest run above, `holding_call` the nearest tool call above,
    `holds_run` says whether a run is below, and `same_as` is the node that tells of the same call (`duplicates`).
    """

    reading: Reading
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    order: int = 0
    is_run: bool = False
    run: Node | None = None
    holding_call: Node | None = None
    holds_run: bool = False
    same_as: Node | None = None

    @property
    def event(self) -> AgentEvent:
        """The event that the span became."""
        return self.reading.event

    @property
    def span(self) -> Span:
        """The span itself."""
        return self.reading.event.header.span

    @property
    def at(self) -> tuple[int, str, int]:
        """The sort key in time; the trace and depth-first order settle equal clocks."""
        return (self.span.start_ns, self.span.trace_id, self.order)

    def ignore(self, reason: str, *, same_as: Node | None = None) -> None:
        """Let the node say nothing, for a reason; it may name the node that says it all."""
        self.reading = replace(self.reading, event=Ignored(header=self.event.header, reason=reason))
        self.same_as = same_as

    def retell(self, event: AgentEvent) -> None:
        """Let the node tell what several spans know together."""
        self.reading = replace(self.reading, event=event)

    def ancestors(self) -> Iterator[Node]:
        """Yield the nodes above, nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def subtree(self) -> Iterator[Node]:
        """Yield the node and all below it, depth first."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))

    @property
    def agent_name(self) -> str | None:
        """The name of the agent that this node is a run of, or is part of."""
        run = self if self.is_run else self.run
        if run is None:
            return _short(self.event.header.agent_name)
        return _short(run.event.header.agent_name or _NAME_DRESS.sub("", run.span.name).strip())


def _short(name: str | None) -> str | None:
    return short(name) if name else None


def build(readings: Sequence[Reading]) -> list[Node]:
    """Return all nodes of one trace in depth-first order.

    Orphans are adopted as roots; a parent cycle is cut at its earliest span. The result does not depend on the order
    of the readings.
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

    A clock of milliseconds lets a tool start when the response that asked for it did, and the next request with it: then
    requests come first, and the one with more history later.
    """
    span, event = node.span, node.event
    asks = isinstance(event, ModelCall)
    history = len(event.messages_in or ()) if isinstance(event, ModelCall) else sys.maxsize
    return (span.start_ns, history, span.end_ns if asks else -span.end_ns, span.span_id)


def _settle_ties(ordered: Sequence[Node]) -> None:
    """Order siblings that start at the same tick of a coarse clock by what they were told.

    Of two model calls the one with the shorter history is the earlier; a tool call follows the model call that asked
    for it.
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
    asked = {
        request.call_id: histories[id(node)]
        for node in siblings
        if isinstance(node.event, ModelCall)
        for message in node.event.messages_out or ()
        for request in message.requests
        if request.call_id is not None
    }

    def told(node: Node) -> tuple[int, int, bool]:
        if isinstance(node.event, ToolCall):
            return (node.span.start_ns, asked.get(node.event.call_id or "", _UNKNOWN), True)
        return (node.span.start_ns, histories.get(id(node), 0), False)

    siblings.sort(key=told)


def mark_runs(ordered: Sequence[Node]) -> None:
    """Decide which `AgentRun` events count as runs.

    A certain one does. One that merely may be a run does when it is the topmost, or is what a tool call started, and
    it either holds content of its own or has nothing below it that is a run for certain. One that holds a whole
    conversation does not (`sessions`).
    """
    below = _contents(ordered)
    sessions = find_sessions(ordered)
    starts: dict[int, bool] = {}  # whether a run may begin right below the node: nothing above it is one already
    for node in ordered:  # depth first: what is above is decided already
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
    """What is below a node: anything, model or tool calls, runs for certain."""

    some: bool = False
    works: bool = False
    runs: bool = False


def _contents(ordered: Sequence[Node]) -> dict[int, _Contents]:
    found = {id(node): _Contents() for node in ordered}
    for node in reversed(ordered):  # from the leaves up, so that deep traces cost no more than wide ones
        if node.parent is None:
            continue
        own, up, event = found[id(node)], found[id(node.parent)], node.event
        up.some = True
        up.works = up.works or own.works or isinstance(event, (ModelCall, ToolCall))
        up.runs = up.runs or own.runs or (isinstance(event, AgentRun) and event.certain)
    return found


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
