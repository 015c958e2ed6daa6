"""Cuts a conversation's spans into turns of one user query each, over one or several traces."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.messages import (
    after_last_assistant,
    after_last_query,
    is_old,
    last_query,
    without_history,
)
from otel_agentic.dialects.events import AgentRun, Message, ModelCall, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.conversations.link import Segment
    from otel_agentic.conversations.node import Node

#: A greeting and a turn with a query.
_WITH_GREETING: Final = 2


@dataclass(slots=True, kw_only=True, eq=False)
class TurnSpans:
    """The spans of one turn while it is assembled.

    `runs` are its topmost agent runs (several if an interrupted run was resumed), `nodes` every node of the turn, `lead` the
    main node of the turn: its run, else the root of its trace. `left_open` is a turn whose run has no result within its own
    spans. `answered` is whether one of its model calls gave an answer, `waiting` how many more times a tool was requested than
    called.
    """

    lead: Node
    runs: list[Node] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    query: str | None = None
    query_captured: bool = False
    left_open: bool = False
    answered: bool = False
    waiting: Counter[str] = field(default_factory=Counter)

    def add(self, nodes: Sequence[Node]) -> None:
        """Add nodes to the turn; update `answered` and `waiting`."""
        self.nodes += nodes
        for node in nodes:
            if isinstance(node.event, ToolCall):
                self.waiting[node.event.name] -= 1
            for message in (node.event.messages_out or ()) if isinstance(node.event, ModelCall) else ():
                self.answered = self.answered or bool(message.text and not message.requests)
                self.waiting.update(request.name for request in message.requests)

    @property
    def top_calls(self) -> list[Node]:
        """The model calls of the turn's own agent, in time order, without those of agents below it.

        A workflow calls no model itself: the calls of its agents are used, except agents that a tool call started.
        """
        free = [node for node in self.nodes if isinstance(node.event, ModelCall) and not node.holding_call]
        own = [node for node in free if node.run in self.runs] if self.runs else free
        return sorted(own or free, key=lambda node: node.at)


def cut(segments: Sequence[Segment]) -> list[TurnSpans]:
    """Return the turns of a conversation in time order.

    A topmost agent run is a turn; one without a new query continues the turn before it. Model and tool calls outside any run
    are cut at each model call with a new user message. A span that contains several turns is not a run (see `find_sessions`).
    A greeting, before any user input, belongs to the first turn.
    """
    turns: list[TurnSpans] = []
    for unit in sorted((unit for segment in segments for unit in _units(segment)), key=lambda unit: unit[0].at):
        if unit[0].is_run:
            _add_run(turns, unit)
        else:
            _add_loose(turns, unit)
    return _with_greeting(turns)


def _with_greeting(turns: list[TurnSpans]) -> list[TurnSpans]:
    """Return the turns, with a first turn without a query merged into the next one of its trace."""
    if len(turns) < _WITH_GREETING or turns[0].query is not None or not turns[0].query_captured:
        return turns
    greeting, first, *rest = turns
    if first.query is None or first.lead.span.trace_id != greeting.lead.span.trace_id:
        return turns
    first.runs = [*greeting.runs, *first.runs]
    first.nodes = [*greeting.nodes, *first.nodes]
    return [first, *rest]


def _units(segment: Segment) -> list[list[Node]]:
    """Return the topmost runs, each with its nodes, or the model and tool calls of a trace without a run.

    If the trace has a run, a call outside of every run (its parent never arrived) belongs to the run before it, else to the
    first: it is not a turn of its own.
    """
    members = {id(node) for node in segment.nodes}
    outside = [
        node
        for node in segment.nodes
        if node.holding_call is None and (node.run is None or id(node.run) not in members)
    ]
    tops = sorted((node for node in outside if node.is_run), key=lambda node: node.at)
    loose = sorted(
        (node for node in outside if isinstance(node.event, (ModelCall, ToolCall))), key=lambda node: node.at
    )
    if not tops:
        return [loose] if loose else []
    units = [[node for node in top.subtree() if id(node) in members] for top in tops]
    for node in loose:
        home = bisect_right(tops, node.at, key=lambda top: top.at) - 1
        units[max(home, 0)] += _with_held(node)
    return units


def _with_held(node: Node) -> list[Node]:
    """Return a call outside of every run, with its subtree if it is a tool call."""
    return list(node.subtree()) if isinstance(node.event, ToolCall) else [node]


def _add_run(turns: list[TurnSpans], unit: Sequence[Node]) -> None:
    run = unit[0]
    event = run.event
    assert isinstance(event, AgentRun)  # noqa: S101 — `is_run` is only ever set on agent runs
    turn = TurnSpans(lead=run, runs=[run])
    turn.add(unit)
    turn.query, turn.query_captured = _run_query(event, turn)
    turn.left_open = turn.query is not None and _has_no_end(event, unit)
    if turns and (event.goes_on or (turn.query is None and turn.query_captured) or _takes_over(turn, turns[-1])):
        _extend(turns[-1], turn)  # resumed: the run has an input that is not a query
    else:
        turns.append(turn)


def _takes_over(turn: TurnSpans, before: TurnSpans) -> bool:
    """Return whether a run answers the query of the run before it in the same trace, which failed or handed control over.

    A new turn with the same text begins with it; a continuation has calls or results after it in its model's input.
    """
    if turn.query is None or turn.query != before.query or turn.lead.span.trace_id != before.lead.span.trace_id:
        return False
    if before.runs and before.runs[-1].event.header.error is not None:
        return True
    calls = [node.event.messages_in for node in turn.top_calls if isinstance(node.event, ModelCall)]
    model_input = next(filter(None, calls), None)
    return bool(model_input and after_last_query(model_input))


def _has_no_end(event: AgentRun, unit: Sequence[Node]) -> bool:
    """Return whether a run has no result within its own spans: its calls are recorded in other traces (agno)."""
    ended = event.answer is not None or event.messages_out or event.header.error is not None
    return not ended and not any(isinstance(node.event, (ModelCall, ToolCall)) for node in unit)


def _run_query(event: AgentRun, turn: TurnSpans) -> tuple[str | None, bool]:
    calls = [node.event.messages_in for node in turn.top_calls if isinstance(node.event, ModelCall)]
    model_input = next(filter(None, calls), None)
    if event.query is not None:
        return without_history(event.query, model_input or ()), True
    below = _query_below(turn)
    if below is not None and not event.messages_in:
        return below, True
    run_input = event.messages_in
    if run_input and model_input and is_old(last_query(run_input)[0], model_input):
        run_input = None
    captured = [messages for messages in (run_input, model_input, *_inputs_below(turn)) if messages]
    for messages in captured:
        query, known = last_query(messages)
        if query is not None or not known:
            return query, known
    return None, bool(captured)


def _query_below(turn: TurnSpans) -> str | None:
    """Return the query of the first agent below a run that has no query of its own (a crew and its task)."""
    return next((event.query for event in runs_below(turn) if event.query is not None), None)


def _inputs_below(turn: TurnSpans) -> Iterator[Sequence[Message]]:
    """Yield the inputs of a workflow's agents, used if it has no input or model calls of its own."""
    return (event.messages_in for event in runs_below(turn) if event.messages_in)


def runs_below(turn: TurnSpans) -> list[AgentRun]:
    """Return the runs below the turn's own that no call started, in the order of the spans."""
    runs = (node for node in turn.nodes if node.is_run and node not in turn.runs and node.holding_call is None)
    return [node.event for node in runs if isinstance(node.event, AgentRun)]


def _extend(turn: TurnSpans, more: TurnSpans) -> None:
    turn.runs += more.runs
    turn.add(more.nodes)


def _add_loose(turns: list[TurnSpans], unit: Sequence[Node]) -> None:
    for node in unit:
        current = turns[-1] if turns and (not turns[-1].runs or turns[-1].left_open) else None
        same_trace = current is not None and current.nodes[-1].span.trace_id == node.span.trace_id
        if isinstance(node.event, ModelCall):
            query, known, fresh = _loose_query(node.event)
            goes_on = current is not None and (
                (known and not fresh)
                or (query is None and same_trace)
                or ((same_trace or current.left_open) and _asked_again(current, query))
            )
        else:
            query, known = None, False
            goes_on = current is not None and (same_trace or current.left_open or _waits_for(current, node.event))
        if current is not None and goes_on:
            current.add(_with_held(node))
        else:
            root = next(iter([*node.ancestors()][::-1]), node)
            turns.append(TurnSpans(lead=root, query=query, query_captured=known))
            turns[-1].add(_with_held(node))


def _loose_query(event: ModelCall) -> tuple[str | None, bool, bool]:
    """Return the query, whether the input was captured, and whether the query is new with this call."""
    if not event.messages_in:
        return None, False, False
    query, known = last_query(event.messages_in)
    if not known:
        return None, False, True
    return query, True, query is not None and not _has_results(after_last_assistant(event.messages_in))


def _has_results(messages: Sequence[Message]) -> bool:
    return any(message.results for message in messages)


def _asked_again(turn: TurnSpans, query: str | None) -> bool:
    """Return whether the turn still waits for the answer to the same query: a retry, not a new turn."""
    return query == turn.query and not turn.answered


def _waits_for(turn: TurnSpans, event: object) -> bool:
    """Return whether a model call of the turn requested the tool more often than it was called."""
    if not isinstance(event, ToolCall):
        return False
    return turn.waiting[event.name] > 0
