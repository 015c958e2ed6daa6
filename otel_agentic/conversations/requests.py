"""The tool calls that the models of a turn requested, and the results that were reported back to them.

Requests come from responses, a run's own messages, and inputs of later model calls; results from the inputs of later calls.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from otel_agentic.conversations.merge import Node, by_time, content_of, folded
from otel_agentic.conversations.tree import after_last_assistant, after_last_query
from otel_agentic.dialects import events
from otel_agentic.dialects.events import ModelCall, ToolCall


@dataclass(slots=True, kw_only=True, eq=False)
class TurnSpans:
    """The spans of one turn while it is assembled.

    `runs` are its topmost agent runs (several if an interrupted run was resumed), `nodes` every node of the turn,
    `lead` the main node of the turn: its run, else the root of its trace. `left_open` is whether its run has no result
    within its own spans, `answered` whether one of its model calls gave an answer. `waiting` counts how many more times
    each tool was requested than called.
    """

    lead: Node
    runs: list[Node] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    query: str | None = None
    query_captured: bool = False
    left_open: bool = False
    answered: bool = False
    waiting: dict[str, int] = field(default_factory=dict)

    def copy(self) -> TurnSpans:
        """Return a turn with the same spans, to which others may be added."""
        return TurnSpans(
            lead=self.lead,
            runs=[*self.runs],
            nodes=[*self.nodes],
            query=self.query,
            query_captured=self.query_captured,
            left_open=self.left_open,
            answered=self.answered,
            waiting={**self.waiting},
        )

    def add(self, nodes: Sequence[Node]) -> None:
        """Add nodes to the turn; update `answered` and `waiting`."""
        self.nodes += nodes
        for node in nodes:
            if isinstance(node.event, ToolCall):
                self.waiting[node.event.name] = self.waiting.get(node.event.name, 0) - 1
            for message in (node.event.messages_out or ()) if isinstance(node.event, ModelCall) else ():
                self.answered = self.answered or bool(message.text and not message.requests)
                for request in message.requests:
                    self.waiting[request.name] = self.waiting.get(request.name, 0) + 1

    @property
    def top_calls(self) -> list[Node]:
        """The model calls of the turn's own agent, in time order, without those of agents below it.

        A workflow calls no model itself: the calls of its agents are used, except agents that a tool call started.
        """
        free = [node for node in self.nodes if isinstance(node.event, ModelCall) and not node.holding_call]
        own = [node for node in free if node.run in self.runs] if self.runs else free
        return sorted(own or free, key=by_time)


class KnownRequests:
    """The requests that are known so far.

    A history may represent a request differently: with another id, or without arguments. Until a known request is
    matched exactly in a history (`_vague` counts those that were not, by tool), any request of its tool may be the same
    one.
    """

    def __init__(self) -> None:
        self._known: Counter[Hashable] = Counter()
        self._matched: Counter[Hashable] = Counter()
        self._vague: Counter[str] = Counter()
        #: Requests from responses whose contents have not been added to the known ones yet, because ids usually suffice.
        self._without_content: list[events.CallRequest] = []
        #: The last history if all its requests were known by their ids, and how often each id occurs in it.
        self._checked: Sequence[events.Message] = ()
        self._occurrences: Counter[Hashable] = Counter()

    def add(self, request: events.CallRequest | None) -> None:
        """Add a request from a response."""
        if request is not None:
            if request.call_id is not None:
                self._known[request.call_id,] += 1
            self._without_content.append(request)
            self._vague[folded(request.name)] += 1

    def unknown_of(self, messages: Sequence[events.Message]) -> Iterator[tuple[int, int, events.CallRequest]]:
        """Yield the unknown requests of a history with their message index and position; from then on they are known."""
        if self._has_known_ids(messages):
            return
        self._known.update(map(content_of, self._without_content))
        self._without_content.clear()
        requests = _located_requests(messages)
        if missing := self._missing(requests, [_keys(item[2]) for item in requests], Counter()):
            vague = +self._vague
            for index, position, request in missing:
                name = folded(request.name)
                vague[name] -= 1
                if vague[name] < 0:
                    self._known.update(_keys(request))
                    self._matched.update(_keys(request))
                    yield index, position, request

    def _has_known_ids(self, messages: Sequence[events.Message]) -> bool:
        """Return whether the ids of all requests of a history are known; a history mostly extends the one checked before."""
        checked = len(self._checked)
        if not checked or self._checked != messages[:checked]:
            checked, self._occurrences = 0, Counter()
        requests = _located_requests(messages[checked:])
        by_id: list[list[Hashable]] = [
            [(request.call_id,)] if request.call_id is not None else [] for _, _, request in requests
        ]
        all_known = not self._missing(requests, by_id, self._occurrences)
        self._checked = messages if all_known else ()
        return all_known

    def _missing(
        self,
        requests: Sequence[tuple[int, int, events.CallRequest]],
        keys: Sequence[Sequence[Hashable]],
        occurrences: Counter[Hashable],
    ) -> list[tuple[int, int, events.CallRequest]]:
        missing = []
        for located_request, request_keys in zip(requests, keys, strict=True):
            for key in request_keys:
                occurrences[key] += 1
            known_key = next((key for key in request_keys if occurrences[key] <= self._known[key]), None)
            if known_key is None:
                missing.append(located_request)
            elif occurrences[known_key] > self._matched[known_key]:
                self._matched[known_key] = occurrences[known_key]
                self._vague[folded(located_request[2].name)] -= 1
        return missing


def _located_requests(messages: Sequence[events.Message]) -> list[tuple[int, int, events.CallRequest]]:
    return [
        (index, position, request)
        for index, message in enumerate(messages)
        for position, request in enumerate(message.requests)
    ]


def _keys(request: events.CallRequest) -> list[Hashable]:
    """Return the keys that identify a request: its id if it has one, and its content."""
    content = content_of(request)
    return [content] if request.call_id is None else [(request.call_id,), content]


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
    runs_with_responses: set[int] = set()
    for node in turn.nodes:
        if isinstance(node.event, events.ModelCall) and node.event.messages_out is not None:
            _mark_runs_around(node, runs_with_responses)
            calls += _requests_in(node, node.event.messages_out, one_response=True)
    ids = {call.call_id for call in calls if call.call_id is not None}
    for node in turn.nodes:
        if node.is_run and isinstance(node.event, events.AgentRun) and id(node) not in runs_with_responses:
            run_calls = list(_requests_in(node, own_output(node.event), one_response=False))
            # Another run of the turn may list the requests of this run's model.
            calls += [call for call in run_calls if call.call_id not in ids]
            ids.update(call.call_id for call in run_calls if call.call_id is not None)
    return [*calls, *_history_calls(turn, calls)]


def own_output(event: events.AgentRun) -> Sequence[events.Message]:
    """Return the messages of the run itself, without the history that some frameworks put before them."""
    messages = event.messages_out or ()
    history = event.messages_in
    if history and len(messages) > len(history) and tuple(messages[: len(history)]) == tuple(history):
        return messages[len(history) :]
    new_messages = after_last_query(messages)
    return messages if new_messages is None else new_messages


def _mark_runs_around(node: Node, runs_with_responses: set[int]) -> None:
    """Add the runs around a model call, by `id()`: all runs above it, up to the tool call that contains it."""
    run = node.run
    while run is not None and run.holding_call is node.holding_call and id(run) not in runs_with_responses:
        runs_with_responses.add(id(run))
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


def _history_calls(turn: TurnSpans, response_calls: Sequence[Call]) -> Iterator[Call]:
    """Yield the calls that are only in the input of a later model call, after the query that it answers."""
    pending = deque(
        sorted((call for call in response_calls if call.request is not None), key=lambda call: call.requester)
    )
    by_id: dict[str, list[Call]] = defaultdict(list)
    for call in pending:
        if call.call_id is not None:
            by_id[call.call_id].append(call)
    known_requests = KnownRequests()
    model_calls = [node for node in turn.nodes if isinstance(node.event, events.ModelCall) and node.event.messages_in]
    for node in sorted(model_calls, key=by_time):
        assert isinstance(node.event, events.ModelCall)  # noqa: S101 — selected above
        while pending and pending[0].requester < (*node.at, _RESPONSE):
            known_requests.add(pending.popleft().request)
        new_messages = after_last_query(node.event.messages_in or ()) or ()
        for index, position, request in known_requests.unknown_of(new_messages):
            damaged_call = _damaged_call(new_messages[index], by_id, (*node.at, _RESPONSE))
            if damaged_call is not None:
                position_in_response = (damaged_call.position[0], position)
                yield Call(
                    requester=damaged_call.requester,
                    position=position_in_response,
                    request=request,
                    requested_by=damaged_call.requested_by,
                )
                continue
            # Ordered before the response of this model call, in the order of the messages.
            yield Call(
                requester=(*node.at, index - len(new_messages)),
                position=(index, position),
                request=request,
                requested_by=node,
                from_history=True,
            )


def _damaged_call(message: events.Message, by_id: Mapping[str, Sequence[Call]], before: Requester) -> Call | None:
    """Return a known call whose request was recorded without the arguments that a message of a history contains.

    The record of that response is damaged (BeeAI joins parallel calls), so all requests of the message belong to it.
    """
    for request in message.requests:
        for call in reversed(by_id.get(request.call_id or "", ())):
            is_damaged = call.request is not None and call.request.arguments is None and request.arguments is not None
            if is_damaged and call.requester < before:
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
    used_keys = {call.requester[:3] for call in calls if not call.from_history}
    groups: dict[Requester, list[Call]] = defaultdict(list)
    for call in calls:
        if call.from_history:
            groups[call.requester].append(call)
    # By the model call that shows a group: the requester of its next group.
    next_requesters: dict[tuple[int, str, int], Requester] = {}
    unused = {
        run: [(*node.at, _RESPONSE) for node in nodes if node.at not in used_keys] for run, nodes in silent.items()
    }
    for shown_by, group in sorted(groups.items(), reverse=True):  # the latest group belongs to the nearest silent call
        spans = [call.node for call in group if call.node is not None]
        limit = next_requesters.get(shown_by[:3], shown_by)
        if spans:
            requester = requester_of(min(spans, key=by_time), silent)
        else:
            run = group[0].requested_by.run if group[0].requested_by else None
            # Without a possible requester: just before the next group.
            fallback = (*limit[:3], limit[3] - 1) if limit is not shown_by else shown_by
            requester = _last_before(limit, unused.get(run, [])) or fallback
        next_requesters[shown_by[:3]] = requester
        for call in group:
            call.requester = requester


def _last_before(limit: Requester, unused: list[Requester]) -> Requester | None:
    """Remove and return the last requester before a limit; also remove later ones, which are already assigned."""
    while unused and unused[-1] >= limit:
        unused.pop()
    return unused.pop() if unused else None


def requester_of(node: Node, silent: Mapping[Node | None, Sequence[Node]]) -> Requester:
    """Return the requester of a span without a request: the silent model call before it in its run, else the span.

    On a coarse clock the next model call may begin at the same time as the tool: it is the requester only if none began
    before.
    """
    silent_calls = silent.get(node.run, [])
    before = bisect_left(silent_calls, node.span.start_ns, key=lambda other: other.span.start_ns)
    if not before:
        before = bisect_right(silent_calls, node.span.start_ns, key=lambda other: other.span.start_ns)
    return (*(silent_calls[before - 1] if before else node).at, _RESPONSE)


def add_unrecorded(calls: list[Call], silent: Mapping[Node | None, Sequence[Node]]) -> None:
    """Add the calls that are known only from the model's finish reason.

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
            event, next_calls = node.event, by_requester.get(following.at, [])
            is_unrecorded = isinstance(event, events.ModelCall) and event.asks_for_tools and node.at not in by_requester
            if not is_unrecorded or len(next_calls) != 1 or next_calls[0].node is None:
                continue
            calls.append(
                Call(
                    requester=(*node.at, _RESPONSE),
                    position=(0, 0),
                    request=events.CallRequest(call_id=None, name=next_calls[0].name, arguments=None),
                    requested_by=node,
                    unrecorded=True,
                )
            )


def assign_results(calls: Sequence[Call], turn: TurnSpans) -> None:
    """Assign calls the results in the inputs of later model calls, by call id, else in the order of the requests.

    The results of the calls of an agent that a tool call started are in that agent's own model inputs only.

    Args:
        calls: the calls of the turn in step order.
        turn: the spans of the turn.
    """
    by_id: dict[tuple[Node | None, str], list[Call]] = defaultdict(list)
    by_holder: dict[Node | None, list[Call]] = defaultdict(list)
    for call in calls:
        witness = call.requested_by or call.node
        holder = witness.holding_call if witness is not None else None
        by_holder[holder].append(call)
        if call.call_id is not None:
            by_id[holder, call.call_id].append(call)
    unassigned: dict[Node | None, _Unassigned] = {
        holder: _Unassigned(agent_calls) for holder, agent_calls in by_holder.items()
    }
    readers = [node for node in turn.nodes if isinstance(node.event, (events.ModelCall, events.AgentRun))]
    # The ids of which all calls have a result: later inputs repeat it.
    complete: dict[Node | None, set[str]] = defaultdict(set)
    for node in sorted(readers, key=by_time):
        holder = node.holding_call
        with_id, without_id = _results_in(node, complete[holder])
        for call_id, results in with_id.items():
            candidates = by_id.get((holder, call_id), [])
            _assign_in_order(_requested_before(candidates, node), results)
            if all(call.reported is not None for call in candidates):
                complete[holder].add(call_id)
        if without_id and holder in unassigned:
            unassigned[holder].assign(without_id, node)


def _assign_in_order(calls: Sequence[Call], results: Sequence[events.CallResult]) -> None:
    """Assign results to calls with the same id, starting from the last, since a history may have lost its beginning."""
    for call, result in zip(reversed(calls), reversed(results), strict=False):
        if call.reported is None:
            call.reported = result


def _requested_before(calls: Sequence[Call], node: Node) -> Sequence[Call]:
    """Return the calls that were requested before a model call; for a run, all calls, since its output lists all of them."""
    if isinstance(node.event, events.AgentRun):
        return calls
    return calls[: bisect_left(calls, (*node.at, 0), key=lambda call: call.requester)]


class _Unassigned:
    """The calls of one agent without a reported result, for results without an id."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._later = list(reversed(calls))
        self._pending: list[Call] = []

    def assign(self, results: Sequence[events.CallResult], node: Node) -> None:
        """Assign results to the calls of the latest response that waits for some, by name if they have one, else in order."""
        if isinstance(node.event, events.AgentRun):
            _match([call for call in [*self._pending, *reversed(self._later)] if call.reported is None], results)
            return
        while self._later and self._later[-1].requester < (*node.at, 0):
            self._pending.append(self._later.pop())
        while results and self._pending:
            step: list[Call] = []
            while self._pending and (not step or self._pending[-1].requester == step[-1].requester):
                step.append(self._pending.pop())
            waiting = [call for call in reversed(step) if call.reported is None]
            results = _match(waiting, results)
            self._pending += [call for call in waiting if call.reported is None] if not results else []


def _match(calls: Sequence[Call], results: Sequence[events.CallResult]) -> list[events.CallResult]:
    """Assign each result to the first call with its name, else to the first call; return the remaining results."""
    by_name: dict[str, list[Call]] = defaultdict(list)
    for call in reversed(calls):
        by_name[folded(call.name)].append(call)
    nameless = []
    for result in results:
        candidates = by_name.get(folded(result.name)) if result.name else None
        if candidates:
            candidates.pop().reported = result
        else:
            nameless.append(result)
    waiting = [call for call in reversed(calls) if call.reported is None]
    unmatched = []
    for result in nameless:
        if waiting:
            waiting.pop().reported = result
        else:
            unmatched.append(result)
    return unmatched


def _results_in(
    node: Node, complete: Container[str]
) -> tuple[dict[str, list[events.CallResult]], list[events.CallResult]]:
    """Return the results in a model call's input or a run's output: those with an id by id, and new ones without an id.

    Results with one of the `complete` ids are left out.
    """
    event = node.event
    if isinstance(event, events.ModelCall):
        messages = event.messages_in or ()
        new_messages, newest = after_last_query(messages), after_last_assistant(messages)
        if new_messages is None or len(new_messages) < len(newest):
            new_messages = newest
    else:
        new_messages = newest = own_output(event) if isinstance(event, events.AgentRun) and node.is_run else ()
    with_id: dict[str, list[events.CallResult]] = defaultdict(list)
    for message in new_messages:
        for result in message.results:
            if result.call_id is not None and result.call_id not in complete:
                with_id[result.call_id].append(result)
    return with_id, [result for message in newest for result in message.results if result.call_id is None]
