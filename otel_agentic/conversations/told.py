"""The results of calls as reported to the model, in the input of its later calls."""

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

    from otel_agentic.conversations.node import Node
    from otel_agentic.conversations.requests import Call
    from otel_agentic.conversations.turns import TurnSpans


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
    unassigned: dict[Node | None, _Unassigned] = {holder: _Unassigned(held) for holder, held in by_holder.items()}
    readers = [node for node in turn.nodes if isinstance(node.event, (events.ModelCall, events.AgentRun))]
    for node in sorted(readers, key=lambda node: node.at):
        holder = node.holding_call
        with_id, without_id = _results_in(node)
        for call_id, results in with_id.items():
            candidates = by_id.get((holder, call_id), [])
            _assign_in_order(_requested_before(candidates, node), results)
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
        named = by_name.get(folded(result.name)) if result.name else None
        if named:
            named.pop().reported = result
        else:
            nameless.append(result)
    waiting = [call for call in reversed(calls) if call.reported is None]
    left = []
    for result in nameless:
        if waiting:
            waiting.pop().reported = result
        else:
            left.append(result)
    return left


def _results_in(node: Node) -> tuple[dict[str, list[events.CallResult]], list[events.CallResult]]:
    """Return the results in a model call's input or a run's output: those with an id by id, and new ones without an id."""
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
