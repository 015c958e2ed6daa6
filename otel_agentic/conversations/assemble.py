"""Linked segments -> one Conversation."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from otel_agentic.config.own_patterns import own_pattern
from otel_agentic.conversations.answers import last_answer
from otel_agentic.conversations.calls import CallContext, calls_of
from otel_agentic.conversations.facts import definitions_of, final_state_of, models_of, plans_of, visitor_hashes
from otel_agentic.conversations.model import ClosedBy, Conversation, Turn
from otel_agentic.conversations.naming import agent_of
from otel_agentic.conversations.turns import TurnSpans, cut, runs_below
from otel_agentic.dialects.events import AgentRun, Ignored, ModelCall
from otel_agentic.spans.model import SpanKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_agentic.config import ConversationSettings
    from otel_agentic.conversations.link import Linked
    from otel_agentic.conversations.node import Node
    from otel_agentic.dialects.events import Header


#: Kinds of spans whose parent may be in another system.
_ENTRIES: Final = (SpanKind.SERVER, SpanKind.CONSUMER)


def assemble(
    linked: Linked, settings: ConversationSettings, *, revision: int = 1, closed_by: ClosedBy | None = None
) -> Conversation:
    """Return the conversation of some linked segments.

    Args:
        linked: the segments, from `link`.
        settings: attribute names and error patterns.
        revision: the revision number, 1-based.
        closed_by: the reason why it closed, None while it is open. An end mark in the spans takes precedence over `idle`.
    """
    turns = cut(linked.segments)
    nodes = [node for segment in linked.segments for node in segment.nodes]
    headers = [node.event.header for node in nodes]
    events = [node for node in nodes if not isinstance(node.event, Ignored)]
    first = linked.segments[0]
    agent = _agent_name(turns) or first.agent_name or (first.service if _has_root(turns) else None)
    context = CallContext(
        agent=agent,
        agents=frozenset(name for node in nodes if node.is_run and (name := node.agent_name)),
        error_patterns=tuple(own_pattern(pattern, ignore_case=True) for pattern in settings.error_patterns),
    )
    plans = plans_of(turns, events)
    user_hash, session_hash = visitor_hashes(nodes, linked.conversation_id)
    return Conversation(
        environment=linked.environment,
        conversation_id=linked.conversation_id,
        revision=revision,
        agent_name=agent,
        agent_version=_first(header.agent_version for header in headers),
        service=first.service,
        started_ns=min(node.span.start_ns for node in events),
        ended_ns=max(node.span.end_ns for node in events),
        closed_by="end_mark" if closed_by and _has_end_mark(headers) else closed_by,
        link_method=linked.method,
        case_id=_first(header.case_id for header in headers),
        verdict=_last([header.verdict for header in headers]),
        turns=tuple(
            _with_later_answer(_turn(index, turn, context, plans.get(index, ())), following)
            for index, (turn, following) in enumerate(zip_longest(turns, turns[1:]))
        ),
        tool_definitions=definitions_of(events),
        final_state=final_state_of(nodes, settings.state_attributes),
        user_hash=user_hash,
        session_hash=session_hash,
    )


def _with_later_answer(turn: Turn, following: TurnSpans | None) -> Turn:
    """Return the turn with the answer from the history of the next turn if its own spans do not contain one."""
    if following is None or turn.answer_captured or turn.error is not None:
        return turn
    inputs = (node.event.messages_in for node in following.top_calls if isinstance(node.event, ModelCall))
    history = next(inputs, None) or ()
    queries = [index for index, message in enumerate(history) if message.role == "user" and message.text]
    if len(queries) <= 1 or history[queries[-2]].text != turn.query:
        return turn
    answer = last_answer(history[queries[-2] + 1 : queries[-1]])
    return turn if answer is None else replace(turn, answer=answer[0], answer_captured=answer[1])


def has_end_mark(linked: Linked) -> bool:
    """Return whether a span marks the end of the conversation."""
    return _has_end_mark([node.event.header for segment in linked.segments for node in segment.nodes])


def _has_end_mark(headers: Sequence[Header]) -> bool:
    return any(header.ends_conversation for header in headers)


def _agent_name(turns: Sequence[TurnSpans]) -> str | None:
    return _first(agent_of([*turn.runs, *turn.nodes]) for turn in turns if turn.runs)


def _has_root(turns: Sequence[TurnSpans]) -> bool:
    """Return whether a turn is known up to its root: an agent run, a span without a parent, or an incoming request.

    Only then may the service's name be used for the agent: a span that never arrived could have named the agent.
    """
    return any(turn.runs or turn.lead.span.parent_span_id is None or turn.lead.span.kind in _ENTRIES for turn in turns)


def _first(values: Iterable[str | None]) -> str | None:
    return next((value for value in values if value), None)


def _last(values: Sequence[bool | None]) -> bool | None:
    return next((value for value in reversed(values) if value is not None), None)


def _turn(index: int, turn: TurnSpans, context: CallContext, plans: tuple[str, ...]) -> Turn:
    answer, answer_captured = _answer(turn)
    spans = [node.span for node in turn.nodes]
    framework_node = _framework_node(turn)
    return Turn(
        index=index,
        query=turn.query,
        query_captured=turn.query is not None or turn.query_captured,
        answer=answer,
        answer_captured=answer_captured,
        error=_error(turn, answer),
        calls=calls_of(turn, context, answer=answer),
        trace_id=turn.lead.span.trace_id,
        span_id=turn.lead.span.span_id,
        started_ns=min(span.start_ns for span in spans),
        ended_ns=max(span.end_ns for span in spans),
        response_id=_response_id(turn),
        dialect=framework_node.event.header.dialect,
        scope=framework_node.span.scope.name,
        models=models_of(turn),
        plans=plans,
    )


def _error(turn: TurnSpans, answer: str | None) -> str | None:
    """Return the error of the turn, or None; a run that failed and was retried successfully is not a failure of the turn."""
    if answer is not None and turn.runs and turn.runs[-1].event.header.error is None:
        return None
    return _first(run.event.header.error for run in reversed(turn.runs))


def _framework_node(turn: TurnSpans) -> Node:
    """Return the node of the framework that wrote the turn: its lead, or the first event if the lead is ignored."""
    if not isinstance(turn.lead.event, Ignored):
        return turn.lead
    events = (node for node in turn.nodes if not isinstance(node.event, Ignored))
    return min(events, key=lambda node: node.at, default=turn.lead)


def _answer(turn: TurnSpans) -> tuple[str | None, bool]:
    """Return the final answer, and whether it was captured (then None means that there was no answer).

    The answer on the run itself takes precedence. Text next to a tool call never reached the user, so only a response without
    calls is an answer.
    """
    runs = sorted(turn.runs, key=lambda node: node.at)
    for run in reversed(runs):
        event = run.event
        if isinstance(event, AgentRun) and event.answer is not None:
            return event.answer, True
        answer = last_answer(event.messages_out) if isinstance(event, AgentRun) else None
        if answer is not None:
            return answer
    calls = [node.event for node in _answering_calls(turn) if isinstance(node.event, ModelCall)]
    responses = [call.messages_out for call in calls if call.messages_out]
    if not responses:
        return _answer_below(turn) or (None, False)
    return last_answer(responses[-1]) or (None, True)


def _answer_below(turn: TurnSpans) -> tuple[str | None, bool] | None:
    """Return the last answer of a workflow's agents, used if it has no answer or model calls of its own."""
    for event in reversed(runs_below(turn)):
        answer = (event.answer, True) if event.answer is not None else last_answer(event.messages_out)
        if answer is not None:
            return answer
    return None


def _answering_calls(turn: TurnSpans) -> list[Node]:
    """Return the model calls of which the last may answer: those of the turn's own agent, else any that no call contains."""
    own = turn.top_calls
    if own and isinstance(own[-1].event, ModelCall) and last_answer(own[-1].event.messages_out):
        return own
    free = [node for node in turn.nodes if isinstance(node.event, ModelCall) and not node.holding_call]
    return sorted(free, key=lambda node: node.at)


def _response_id(turn: TurnSpans) -> str | None:
    ids = [node.event.response_id for node in turn.top_calls if isinstance(node.event, ModelCall)]
    return next((response_id for response_id in reversed(ids) if response_id), None)
