"""Which tool calls the model of a turn asked for, by its responses, by a run's own messages, by what later calls were told."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict, deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.queries import after_last_query
from otel_agentic.conversations.seen import Seen
from otel_agentic.dialects import events

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_agentic.conversations.tree import Node
    from otel_agentic.conversations.turns import TurnSpans

#: (time, trace, depth-first order, message): which model response asked, in an order that sorts.
Asker = tuple[int, str, int, int]

_RESPONSE: Final = 0


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """One call while its witnesses are being joined: the request, the tool span, and what the model was told of it.

    `place` is its order among the calls of one asker. `run` is the agent that it started, where no tool span holds it. `unseen` is a call that nothing but a finish reason tells of,
    `remembered` one that only the input of a later model call shows.
    """

    asker: Asker
    place: tuple[int, int]
    request: events.CallRequest | None
    asked_by: Node | None
    node: Node | None = None
    run: Node | None = None
    told: events.CallResult | None = None
    unseen: bool = False
    remembered: bool = False

    @property
    def event(self) -> events.ToolCall | None:
        """What the tool span says."""
        event = self.node.event if self.node is not None else None
        return event if isinstance(event, events.ToolCall) else None

    @property
    def name(self) -> str:
        """The tool's name, in the model's spelling where that is known."""
        if self.request is not None:
            return self.request.name
        return self.event.name if self.event is not None else ""

    @property
    def call_id(self) -> str | None:
        """The call id, by the request or the span."""
        asked = self.request.call_id if self.request is not None else None
        return asked or (self.event.call_id if self.event is not None else None)


def requested(turn: TurnSpans) -> list[Call]:
    """Return a call for each request of the turn, in no particular order.

    Captured model responses come first; where no model call of a run shows its response, the run's own output messages
    stand in; what only a later call's input shows (its response was lost, or overwritten) is added.
    """
    found: list[Call] = []
    speaking: set[int] = set()
    for node in turn.nodes:
        if isinstance(node.event, events.ModelCall) and node.event.messages_out is not None:
            _mark_runs_around(node, speaking)
            found += _requests_in(node, node.event.messages_out, one_response=True)
    ids = {call.call_id for call in found if call.call_id is not None}
    for node in turn.nodes:
        if node.is_run and isinstance(node.event, events.AgentRun) and id(node) not in speaking:
            told = list(_requests_in(node, own_output(node.event), one_response=False))
            # Another run of the turn may list what this one's model asked.
            found += [call for call in told if call.call_id not in ids]
            ids.update(call.call_id for call in told if call.call_id is not None)
    return [*found, *_remembered(turn, found)]


def own_output(event: events.AgentRun) -> Sequence[events.Message]:
    """Return what the run itself said: some frameworks put the history in front of it."""
    messages = event.messages_out or ()
    before = event.messages_in
    if before and len(messages) > len(before) and tuple(messages[: len(before)]) == tuple(before):
        return messages[len(before) :]
    fresh = after_last_query(messages)
    return messages if fresh is None else fresh


def _mark_runs_around(node: Node, speaking: set[int]) -> None:
    """Add the runs that a model call speaks for, by `id()`: all above it, up to the tool call that holds it."""
    run = node.run
    while run is not None and run.holding_call is node.holding_call and id(run) not in speaking:
        speaking.add(id(run))
        run = run.run


def _requests_in(node: Node, messages: Sequence[events.Message], *, one_response: bool) -> Iterator[Call]:
    for index, message in enumerate(messages):
        for position, request in enumerate(message.requests):
            yield Call(
                asker=(*node.at, _RESPONSE if one_response else index),
                place=(index, position),
                request=request,
                asked_by=node,
            )


def _remembered(turn: TurnSpans, known: Sequence[Call]) -> Iterator[Call]:
    """Yield the calls that no response shows but the input of a later model call, after the query that it answers."""
    asked = deque(sorted((call for call in known if call.request is not None), key=lambda call: call.asker))
    by_id: dict[str, list[Call]] = defaultdict(list)
    for call in asked:
        if call.call_id is not None:
            by_id[call.call_id].append(call)
    seen = Seen()
    speakers = [node for node in turn.nodes if isinstance(node.event, events.ModelCall) and node.event.messages_in]
    for node in sorted(speakers, key=lambda node: node.at):
        assert isinstance(node.event, events.ModelCall)  # noqa: S101 — chosen so above
        while asked and asked[0].asker < (*node.at, _RESPONSE):
            seen.add(asked.popleft().request)
        fresh = after_last_query(node.event.messages_in or ()) or ()
        for index, position, request in seen.unknown_of(fresh):
            twin = _beside(fresh[index], by_id, (*node.at, _RESPONSE))
            if twin is not None:
                place = (twin.place[0], position)
                yield Call(asker=twin.asker, place=place, request=request, asked_by=twin.asked_by)
                continue
            # Before the response of this very call, in the order of the messages.
            asker = (*node.at, index - len(fresh))
            yield Call(asker=asker, place=(index, position), request=request, asked_by=node, remembered=True)


def _beside(message: events.Message, by_id: Mapping[str, Sequence[Call]], before: Asker) -> Call | None:
    """Return a known call whose request was recorded without its arguments, and which a message of a history shows with them.

    Then the record of the response is damaged (BeeAI joins parallel calls), and what else the message asks was asked with it.
    """
    for request in message.requests:
        for call in reversed(by_id.get(request.call_id or "", ())):
            damaged = call.request is not None and call.request.arguments is None and request.arguments is not None
            if damaged and call.asker < before:
                return call
    return None


def anchor_remembered(calls: Sequence[Call], silent: Mapping[Node | None, Sequence[Node]]) -> None:
    """Let remembered calls begin where they were asked: what shows them tells only that they came before.

    That is the model call before their first span whose response was not captured, else that span; for calls without
    spans, the silent model calls before the one that shows them, each in turn.

    Args:
        calls: the calls, joined with their spans.
        silent: the model calls whose response was not captured, in time order, by the run that made them.
    """
    taken = {call.asker[:3] for call in calls if not call.remembered}
    groups: dict[Asker, list[Call]] = defaultdict(list)
    for call in calls:
        if call.remembered:
            groups[call.asker].append(call)
    later: dict[tuple[int, str, int], Asker] = {}  # by the call that shows them: who asked for what it shows next
    free = {run: [(*node.at, _RESPONSE) for node in nodes if node.at not in taken] for run, nodes in silent.items()}
    for shown, group in sorted(groups.items(), reverse=True):  # the latest first: it belongs to the nearest silent call
        spans = [call.node for call in group if call.node is not None]
        limit = later.get(shown[:3], shown)
        if spans:
            asker = asker_of(min(spans, key=lambda node: node.at), silent)
        else:
            # Where nobody is left who may have asked: just before what is shown next.
            nobody = (*limit[:3], limit[3] - 1) if limit is not shown else shown
            asker = _last_before(limit, free.get(group[0].asked_by.run if group[0].asked_by else None, [])) or nobody
        later[shown[:3]] = asker
        for call in group:
            call.asker = asker


def _last_before(limit: Asker, free: list[Asker]) -> Asker | None:
    """Take the last asker before a limit out of a list in time order, with all after it: later ones are served already."""
    while free and free[-1] >= limit:
        free.pop()
    return free.pop() if free else None


def asker_of(node: Node, silent: Mapping[Node | None, Sequence[Node]]) -> Asker:
    """Return who asked for a span that no response names: the silent model call before it in the same run, else itself.

    On a coarse clock the next model call begins when the tool did: it asked only where none began before.
    """
    around = silent.get(node.run, [])
    before = bisect_left(around, node.span.start_ns, key=lambda other: other.span.start_ns)
    if not before:
        before = bisect_right(around, node.span.start_ns, key=lambda other: other.span.start_ns)
    return (*(around[before - 1] if before else node).at, _RESPONSE)


def add_unseen(calls: list[Call], silent: Mapping[Node | None, Sequence[Node]]) -> None:
    """Add the calls of which nothing was recorded but that the model asked for some.

    A call that never ran (its arguments did not fit) has no span, and without content no request either. The model then
    asks for it again: where its next response has one call and that one ran, it tells the name. Anything else stays unknown.

    Args:
        calls: the calls known so far; the new ones are appended.
        silent: the model calls whose response was not captured, in time order, by the run that made them.
    """
    by_asker: dict[tuple[int, str, int], list[Call]] = defaultdict(list)
    for call in calls:
        by_asker[call.asker[:3]].append(call)
    for nodes in silent.values():
        for node, following in pairwise(nodes):
            event, retried = node.event, by_asker.get(following.at, [])
            asked = isinstance(event, events.ModelCall) and event.asks_for_tools and node.at not in by_asker
            if not asked or len(retried) != 1 or retried[0].node is None:
                continue
            name = retried[0].name
            request = events.CallRequest(call_id=None, name=name, arguments=None)
            calls.append(Call(asker=(*node.at, _RESPONSE), place=(0, 0), request=request, asked_by=node, unseen=True))
