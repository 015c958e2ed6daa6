"""The tool calls that the models of a turn requested, from responses, a run's own messages, and inputs of later model calls."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.queries import after_last_query
from otel_agentic.conversations.seen import KnownRequests
from otel_agentic.dialects import events

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.conversations.node import Node
    from otel_agentic.conversations.turns import TurnSpans

#: The model response that requested a call, as a sort key: time, trace, depth-first order, message.
Requester = tuple[int, str, int, int]

_RESPONSE: Final = 0


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """One call while its records are joined: the request, the tool span, and the result reported to the model.

    `position` is its order among the calls of one requester. `run` is the agent that it started, if it has no tool span.
    `unrecorded` is a call that is known only from a finish reason, `from_history` one that is known only from the input of a
    later model call.
    """

    requester: Requester
    position: tuple[int, int]
    request: events.CallRequest | None
    requested_by: Node | None
    node: Node | None = None
    run: Node | None = None
    reported: events.CallResult | None = None
    unrecorded: bool = False
    from_history: bool = False

    @property
    def event(self) -> events.ToolCall | None:
        """The event of the tool span."""
        event = self.node.event if self.node is not None else None
        return event if isinstance(event, events.ToolCall) else None

    @property
    def name(self) -> str:
        """The tool's name, in the model's spelling if that is known."""
        if self.request is not None:
            return self.request.name
        return self.event.name if self.event is not None else ""

    @property
    def call_id(self) -> str | None:
        """The call id of the request or the span."""
        requested_id = self.request.call_id if self.request is not None else None
        return requested_id or (self.event.call_id if self.event is not None else None)


def requested(turn: TurnSpans) -> list[Call]:
    """Return a call for each request of the turn, in no particular order.

    Captured model responses come first. If no response of a run's model calls was captured, the run's own output messages are
    used. Calls that only a later call's input shows (their response was lost, or overwritten) are added.
    """
    calls: list[Call] = []
    speaking: set[int] = set()
    for node in turn.nodes:
        if isinstance(node.event, events.ModelCall) and node.event.messages_out is not None:
            _mark_runs_around(node, speaking)
            calls += _requests_in(node, node.event.messages_out, one_response=True)
    ids = {call.call_id for call in calls if call.call_id is not None}
    for node in turn.nodes:
        if node.is_run and isinstance(node.event, events.AgentRun) and id(node) not in speaking:
            listed = list(_requests_in(node, own_output(node.event), one_response=False))
            # Another run of the turn may list the requests of this run's model.
            calls += [call for call in listed if call.call_id not in ids]
            ids.update(call.call_id for call in listed if call.call_id is not None)
    return [*calls, *_history_calls(turn, calls)]


def own_output(event: events.AgentRun) -> Sequence[events.Message]:
    """Return the messages of the run itself, without the history that some frameworks put in front."""
    messages = event.messages_out or ()
    before = event.messages_in
    if before and len(messages) > len(before) and tuple(messages[: len(before)]) == tuple(before):
        return messages[len(before) :]
    fresh = after_last_query(messages)
    return messages if fresh is None else fresh


def _mark_runs_around(node: Node, speaking: set[int]) -> None:
    """Add the runs around a model call, by `id()`: all runs above it, up to the tool call that contains it."""
    run = node.run
    while run is not None and run.holding_call is node.holding_call and id(run) not in speaking:
        speaking.add(id(run))
        run = run.run


def _requests_in(node: Node, messages: Sequence[events.Message], *, one_response: bool) -> Iterator[Call]:
    for index, message in enumerate(messages):
        for position, request in enumerate(message.requests):
            yield Call(
                requester=(*node.at, _RESPONSE if one_response else index),
                position=(index, position),
                request=request,
                requested_by=node,
            )


def _history_calls(turn: TurnSpans, known: Sequence[Call]) -> Iterator[Call]:
    """Yield the calls that are only in the input of a later model call, after the query that it answers."""
    pending = deque(sorted((call for call in known if call.request is not None), key=lambda call: call.requester))
    by_id: dict[str, list[Call]] = defaultdict(list)
    for call in pending:
        if call.call_id is not None:
            by_id[call.call_id].append(call)
    known_requests = KnownRequests()
    speakers = [node for node in turn.nodes if isinstance(node.event, events.ModelCall) and node.event.messages_in]
    for node in sorted(speakers, key=lambda node: node.at):
        assert isinstance(node.event, events.ModelCall)  # noqa: S101 — selected above
        while pending and pending[0].requester < (*node.at, _RESPONSE):
            known_requests.add(pending.popleft().request)
        fresh = after_last_query(node.event.messages_in or ()) or ()
        for index, position, request in known_requests.unknown_of(fresh):
            twin = _damaged_call(fresh[index], by_id, (*node.at, _RESPONSE))
            if twin is not None:
                twin_position = (twin.position[0], position)
                yield Call(
                    requester=twin.requester, position=twin_position, request=request, requested_by=twin.requested_by
                )
                continue
            # Before the response of this very call, in the order of the messages.
            yield Call(
                requester=(*node.at, index - len(fresh)),
                position=(index, position),
                request=request,
                requested_by=node,
                from_history=True,
            )


def _damaged_call(message: events.Message, by_id: Mapping[str, Sequence[Call]], before: Requester) -> Call | None:
    """Return a known call whose request was recorded without the arguments that a message of a history contains.

    Then the record of the response is damaged (BeeAI joins parallel calls), and all requests of the message belong to it.
    """
    for request in message.requests:
        for call in reversed(by_id.get(request.call_id or "", ())):
            damaged = call.request is not None and call.request.arguments is None and request.arguments is not None
            if damaged and call.requester < before:
                return call
    return None


def anchor_history_calls(calls: Sequence[Call], silent: Mapping[Node | None, Sequence[Node]]) -> None:
    """Set the requester of calls from a history, which shows only that they were requested before.

    The requester is the model call without a captured response before their first span, else that span itself. For calls
    without spans, it is the nearest unused model call without a captured response before the one whose input shows them.

    Args:
        calls: the calls, joined with their spans.
        silent: the model calls whose response was not captured, in time order, by the run that made them.
    """
    used = {call.requester[:3] for call in calls if not call.from_history}
    groups: dict[Requester, list[Call]] = defaultdict(list)
    for call in calls:
        if call.from_history:
            groups[call.requester].append(call)
    later: dict[
        tuple[int, str, int], Requester
    ] = {}  # by the model call that shows a group: requester of its next group
    free = {run: [(*node.at, _RESPONSE) for node in nodes if node.at not in used] for run, nodes in silent.items()}
    for shown_by, group in sorted(groups.items(), reverse=True):  # the latest group belongs to the nearest silent call
        spans = [call.node for call in group if call.node is not None]
        limit = later.get(shown_by[:3], shown_by)
        if spans:
            requester = requester_of(min(spans, key=lambda node: node.at), silent)
        else:
            run = group[0].requested_by.run if group[0].requested_by else None
            # Without a possible requester: just before the next group.
            fallback = (*limit[:3], limit[3] - 1) if limit is not shown_by else shown_by
            requester = _last_before(limit, free.get(run, [])) or fallback
        later[shown_by[:3]] = requester
        for call in group:
            call.requester = requester


def _last_before(limit: Requester, free: list[Requester]) -> Requester | None:
    """Remove and return the last requester before a limit; later ones are removed, too, since they are assigned already."""
    while free and free[-1] >= limit:
        free.pop()
    return free.pop() if free else None


def requester_of(node: Node, silent: Mapping[Node | None, Sequence[Node]]) -> Requester:
    """Return the requester of a span that no response requests: the silent model call before it in its run, else itself.

    On a coarse clock the next model call begins at the same time as the tool: it is the requester only if none began before.
    """
    around = silent.get(node.run, [])
    before = bisect_left(around, node.span.start_ns, key=lambda other: other.span.start_ns)
    if not before:
        before = bisect_right(around, node.span.start_ns, key=lambda other: other.span.start_ns)
    return (*(around[before - 1] if before else node).at, _RESPONSE)


def add_unrecorded(calls: list[Call], silent: Mapping[Node | None, Sequence[Node]]) -> None:
    """Add the calls of which only the model's finish reason was recorded.

    A call that never ran because its arguments were invalid has no span, and without captured content no request either. The
    model then requests it again: if its next response has a single call and that one ran, that call has the same name. Any
    other call stays unknown.

    Args:
        calls: the calls known so far; the new ones are appended.
        silent: the model calls whose response was not captured, in time order, by the run that made them.
    """
    by_requester: dict[tuple[int, str, int], list[Call]] = defaultdict(list)
    for call in calls:
        by_requester[call.requester[:3]].append(call)
    for nodes in silent.values():
        for node, following in pairwise(nodes):
            event, retried = node.event, by_requester.get(following.at, [])
            missing = isinstance(event, events.ModelCall) and event.asks_for_tools and node.at not in by_requester
            if not missing or len(retried) != 1 or retried[0].node is None:
                continue
            calls.append(
                Call(
                    requester=(*node.at, _RESPONSE),
                    position=(0, 0),
                    request=events.CallRequest(call_id=None, name=retried[0].name, arguments=None),
                    requested_by=node,
                    unrecorded=True,
                )
            )
