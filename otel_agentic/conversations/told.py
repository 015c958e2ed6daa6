"""What the model was told of its calls in the end: the results that its later requests carry."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING

from otel_agentic.conversations.duplicates import folded
from otel_agentic.conversations.queries import after_last_assistant, after_last_query
from otel_agentic.conversations.requests import own_output
from otel_agentic.dialects import events

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.conversations.requests import Call
    from otel_agentic.conversations.tree import Node
    from otel_agentic.conversations.turns import TurnSpans


def tell(calls: Sequence[Call], turn: TurnSpans) -> None:
    """Give calls the results that later model calls were told, by call id, else in the order they were asked.

    An agent that a tool call started hears of its own calls only, and nobody else hears of them.

    Args:
        calls: the calls of the turn in step order.
        turn: the spans of the turn.
    """
    by_id: dict[tuple[Node | None, str], list[Call]] = defaultdict(list)
    by_place: dict[Node | None, list[Call]] = defaultdict(list)
    for call in calls:
        witness = call.asked_by or call.node
        place = witness.holding_call if witness is not None else None
        by_place[place].append(call)
        if call.call_id is not None:
            by_id[place, call.call_id].append(call)
    untold: dict[Node | None, _Untold] = {place: _Untold(found) for place, found in by_place.items()}
    listeners = [node for node in turn.nodes if isinstance(node.event, (events.ModelCall, events.AgentRun))]
    for node in sorted(listeners, key=lambda node: node.at):
        place = node.holding_call
        named, unnamed = _told(node)
        for call_id, results in named.items():
            among = by_id.get((place, call_id), [])
            _tell_in_order(_asked_before(among, node), results)
        if unnamed and place in untold:
            untold[place].tell(unnamed, node)


def _tell_in_order(calls: Sequence[Call], results: Sequence[events.CallResult]) -> None:
    """Tell calls of one id their results: the last one is the last one's, for a history may have lost its beginning."""
    for call, result in zip(reversed(calls), reversed(results), strict=False):
        if call.told is None:
            call.told = result


def _asked_before(calls: Sequence[Call], node: Node) -> Sequence[Call]:
    """Return the calls that were asked before a model call; a run tells of all its calls, whenever they were asked."""
    if isinstance(node.event, events.AgentRun):
        return calls
    return calls[: bisect_left(calls, (*node.at, 0), key=lambda call: call.asker)]


class _Untold:
    """The calls of one agent that the model was told nothing of yet, for results that carry no id."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._later = list(reversed(calls))
        self._asked: list[Call] = []

    def tell(self, results: Sequence[events.CallResult], node: Node) -> None:
        """Tell the latest response that waits for results its own, in the order of its calls, by name where they have one."""
        if isinstance(node.event, events.AgentRun):
            _match([call for call in [*self._asked, *reversed(self._later)] if call.told is None], results)
            return
        while self._later and self._later[-1].asker < (*node.at, 0):
            self._asked.append(self._later.pop())
        while results and self._asked:
            step: list[Call] = []
            while self._asked and (not step or self._asked[-1].asker == step[-1].asker):
                step.append(self._asked.pop())
            waiting = [call for call in reversed(step) if call.told is None]
            results = _match(waiting, results)
            self._asked += [call for call in waiting if call.told is None] if not results else []


def _match(calls: Sequence[Call], results: Sequence[events.CallResult]) -> list[events.CallResult]:
    """Tell calls their results: each result the first call of its name, else the first call; return what is left."""
    by_name: dict[str, list[Call]] = defaultdict(list)
    for call in reversed(calls):
        by_name[folded(call.name)].append(call)
    nameless = []
    for result in results:
        named = by_name.get(folded(result.name)) if result.name else None
        if named:
            named.pop().told = result
        else:
            nameless.append(result)
    waiting = [call for call in reversed(calls) if call.told is None]
    left = []
    for result in nameless:
        if waiting:
            waiting.pop().told = result
        else:
            left.append(result)
    return left


def _told(node: Node) -> tuple[dict[str, list[events.CallResult]], list[events.CallResult]]:
    """Return the results that a model call was told, or that a run lists: by id, and those without one that are new."""
    event = node.event
    if isinstance(event, events.ModelCall):
        messages = event.messages_in or ()
        fresh, newest = after_last_query(messages), after_last_assistant(messages)
        if fresh is None or len(fresh) < len(newest):
            fresh = newest
    else:
        fresh = newest = own_output(event) if isinstance(event, events.AgentRun) and node.is_run else ()
    named: dict[str, list[events.CallResult]] = defaultdict(list)
    for result in _results(fresh):
        if result.call_id is not None:
            named[result.call_id].append(result)
    return named, [result for result in _results(newest) if result.call_id is None]


def _results(messages: Iterable[events.Message]) -> Iterable[events.CallResult]:
    return (result for message in messages for result in message.results)
