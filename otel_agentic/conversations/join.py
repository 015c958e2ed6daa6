"""Joining what a model asked for with the spans of the tools that ran, and with what the model was told in the end."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.duplicates import folded
from otel_agentic.conversations.queries import after_last_assistant, after_last_query
from otel_agentic.conversations.requests import own_output
from otel_agentic.dialects import events
from otel_agentic.dialects.values import has_named_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from otel_agentic.conversations.requests import Call
    from otel_agentic.conversations.tree import Node
    from otel_agentic.conversations.turns import TurnSpans

_TRANSFER: Final = re.compile(r"^(?:transfer|hand_?off|delegate)_(?:to_)?(.+)$")
#: Tools whose argument names the agent (google-adk, LlamaIndex, …).
_BARE_TRANSFERS: Final = frozenset({"transfer_to_agent", "handoff", "agent_handoff"})
_AGENT_ARGUMENTS: Final = ("agent_name", "to_agent", "agent", "target")


def join(calls: Sequence[Call], spans: Sequence[Node]) -> list[Node]:
    """Give each request its tool span, in time order, the surest witness first; return the spans that nothing asked for.

    Call ids come first, though they are unique within a turn at best. A name decides only where a side has no id.
    """
    waiting = sorted(calls, key=lambda call: (call.asker, call.place))
    left = dict.fromkeys(spans)  # an ordered set
    for key_of_call, key_of_event, fits in _TESTS:
        candidates: dict[Hashable, list[Node]] = defaultdict(list)
        for node in left:
            if isinstance(node.event, events.ToolCall) and (key := key_of_event(node.event)) is not None:
                candidates[key].append(node)
        for call in waiting:
            if call.node is not None or (key := key_of_call(call)) is None:
                continue
            found = next((node for node in candidates.get(key, ()) if node in left and fits(call, node)), None)
            if found is not None:
                call.node = found
                del left[found]
    return list(left)


def join_runs(calls: Sequence[Call], turn: TurnSpans) -> None:
    """Give each request without a tool span the run that it started: one of an agent with the tool's name.

    Frameworks that call an agent like a function need no tool for it (managed agents of smolagents).
    """
    lead = set(turn.runs)
    runs: dict[str, list[Node]] = defaultdict(list)
    for node in sorted(turn.nodes, key=lambda node: node.at):
        if node.is_run and node not in lead and node.holding_call is None and node.agent_name:
            runs[folded(node.agent_name)].append(node)
    for call in sorted(calls, key=lambda call: (call.asker, call.place)) if runs else ():
        candidates = runs.get(folded(call.name), [])
        if call.node is None and candidates and call.asker < (*candidates[0].at, 0):
            call.run = candidates.pop(0)


def tell(calls: Sequence[Call], turn: TurnSpans) -> None:
    """Give calls the results that later model calls were told, by call id, else in the order they were asked."""
    by_id: dict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.call_id is not None:
            by_id[call.call_id].append(call)
    listeners = [node for node in turn.nodes if isinstance(node.event, (events.ModelCall, events.AgentRun))]
    for node in sorted(listeners, key=lambda node: node.at):
        for result in _told(node):
            among = by_id.get(result.call_id, ()) if result.call_id is not None else calls
            match = next((call for call in among if call.told is None and _asked_before(call, node)), None)
            if match is not None:
                match.told = result


def transfer_target(call: Call) -> str | None:
    """Return the folded name of the agent that a call hands over to; None when it does not look like a transfer."""
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


def _id_unknown(call: Call, node: Node) -> bool:
    event = node.event
    return isinstance(event, events.ToolCall) and (_id(call) is None or event.call_id is None)


def _same_place(call: Call, node: Node) -> bool:
    """Return whether the tool ran where it was asked for: agents inside one turn may use tools of one name."""
    asked_by = call.asked_by
    return asked_by is not None and node.run is asked_by.run and node.holding_call is asked_by.holding_call


def _same_arguments(call: Call, node: Node) -> bool:
    return _id_unknown(call, node) and _same_content(call, node)


def _same_content(call: Call, node: Node) -> bool:
    event = node.event
    made = event.arguments if isinstance(event, events.ToolCall) else None
    asked = call.request.arguments if call.request is not None else None
    if made is None or asked is None:
        return False
    return made == asked or (not has_named_arguments(made) and list(made.values()) == list(asked.values()))


def _event_target(event: events.ToolCall) -> Hashable | None:
    return folded(event.handoff_to) if event.handoff_to is not None else _target(event.name, event.arguments)


#: (key of a request, key of a tool span, further condition), the surest first. A key of None takes no part.
_TESTS: Final[
    tuple[
        tuple[
            Callable[[Call], Hashable | None],
            Callable[[events.ToolCall], Hashable | None],
            Callable[[Call, Node], bool],
        ],
        ...,
    ]
] = (
    (_id_and_name, lambda event: (event.call_id, folded(event.name)) if event.call_id else None, lambda _, __: True),
    (_id, lambda event: event.call_id, lambda _, __: True),
    (
        _name,
        lambda event: folded(event.name),
        lambda call, node: _same_place(call, node) and _same_arguments(call, node),
    ),
    (_name, lambda event: folded(event.name), lambda call, node: _same_place(call, node) and _id_unknown(call, node)),
    (_name, lambda event: folded(event.name), _same_arguments),
    (_name, lambda event: folded(event.name), _id_unknown),
    (transfer_target, _event_target, _id_unknown),
    # Both have an id that nobody else has: one of them is the recorder's own (OpenLIT).
    (_name, lambda event: folded(event.name), _same_content),
)


def _told(node: Node) -> Iterator[events.CallResult]:
    """Yield the results that a model call was told, or that a run lists; those without an id only where they are new."""
    event = node.event
    if isinstance(event, events.ModelCall):
        messages = event.messages_in or ()
        yield from _results(after_last_query(messages) or (), named=True)
        yield from _results(after_last_assistant(messages), named=None)
    elif isinstance(event, events.AgentRun) and node.is_run:
        yield from _results(own_output(event), named=None)


def _results(messages: Iterable[events.Message], *, named: bool | None) -> Iterator[events.CallResult]:
    for message in messages:
        for result in message.results:
            if named is None or (result.call_id is not None) == named:
                yield result


def _asked_before(call: Call, node: Node) -> bool:
    return call.asker < (*node.at, 0) or isinstance(node.event, events.AgentRun)
