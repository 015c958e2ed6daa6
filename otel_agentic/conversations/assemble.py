"""Linked segments -> one `Conversation`.

Apart from turns it takes facts from the spans: models and tokens, plans, available tools, the final state, hashes of the user.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.config.patterns import own_pattern
from otel_agentic.conversations.calls import CallContext, calls_of
from otel_agentic.conversations.messages import last_answer
from otel_agentic.conversations.model import ClosedBy, Conversation, ModelUse, Turn
from otel_agentic.conversations.node import agent_of
from otel_agentic.conversations.turns import TurnSpans, cut, runs_below
from otel_agentic.dialects.definitions import CUT, merged_definitions
from otel_agentic.dialects.events import AgentRun, Ignored, ModelCall, Plan, ToolCall
from otel_agentic.dialects.values import is_redacted, parsed
from otel_agentic.spans.model import SpanKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.config import ConversationSettings
    from otel_agentic.conversations.link import Linked
    from otel_agentic.conversations.node import Node
    from otel_agentic.dialects.definitions import Definitions
    from otel_agentic.dialects.events import Header

#: A longer state, in characters, is not read.
_LONGEST_STATE: Final = 1_000_000
#: The attributes of the user (the second name is the older one) and of the session, by the semantic conventions.
_USER: Final = ("user.id", "enduser.id")
_SESSION: Final = ("session.id",)
#: The largest number of plans that are kept for one turn.
_MOST_PLANS: Final = 100


def models_of(turn: TurnSpans) -> tuple[ModelUse, ...]:
    """Return the use of each model in a turn, by name, the unnamed one first."""
    by_model: dict[str | None, list[ModelCall]] = defaultdict(list)
    for node in turn.nodes:
        if isinstance(node.event, ModelCall):
            by_model[node.event.model or None].append(node.event)
    return tuple(_use(model, by_model[model]) for model in sorted(by_model, key=lambda name: name or ""))


def _use(model: str | None, calls: Sequence[ModelCall]) -> ModelUse:
    retried = sum(event.failed_tries for event in calls)
    known = sum(event.input_tokens is not None and event.output_tokens is not None for event in calls)
    return ModelUse(
        model=model,
        calls=len(calls) + retried,
        failed=sum(event.header.error is not None for event in calls) + retried,
        input_tokens=_total(event.input_tokens for event in calls),
        output_tokens=_total(event.output_tokens for event in calls),
        priced_calls=known + retried + sum(_cost_nothing(event) for event in calls),
    )


def _total(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _cost_nothing(event: ModelCall) -> bool:
    """Return whether a request failed without recorded tokens: there was no response, so no tokens are missing."""
    return event.header.error is not None and event.input_tokens is None and event.output_tokens is None


def plans_of(turns: Sequence[TurnSpans], nodes: Sequence[Node]) -> dict[int, tuple[str, ...]]:
    """Return the recorded plans by index of the turn, in time order.

    A plan outside of every run belongs to the turn of its trace that is running at that time, else to the next one.
    """
    plans = sorted((node for node in nodes if isinstance(node.event, Plan)), key=lambda node: node.at)
    if not plans:
        return {}
    home = {id(node): index for index, turn in enumerate(turns) for node in turn.nodes}
    texts_by_turn: dict[int, list[str]] = defaultdict(list)
    for node in plans:
        text = _plan_text(node)
        index = home.get(id(node), _nearest(turns, node))
        if text is not None and index is not None and len(texts_by_turn[index]) < _MOST_PLANS:
            texts_by_turn[index].append(text)
    return {index: tuple(texts) for index, texts in texts_by_turn.items()}


def _nearest(turns: Sequence[TurnSpans], node: Node) -> int | None:
    """Return the first turn of the node's trace that ends after the node began, else the last one of the trace."""
    last = None
    for index, turn in enumerate(turns):
        spans = [member.span for member in turn.nodes if member.span.trace_id == node.span.trace_id]
        if not spans:
            continue
        if max(span.end_ns for span in spans) >= node.span.start_ns:
            return index
        last = index
    return last


def _plan_text(node: Node) -> str | None:
    """Return the plan's text: its own, else the answer of the last model call below it."""
    event = node.event
    if isinstance(event, Plan) and event.text:
        return event.text
    calls = sorted(
        (below for below in node.subtree() if isinstance(below.event, ModelCall)), key=lambda below: below.at
    )
    for below in reversed(calls):
        answer = last_answer(below.event.messages_out) if isinstance(below.event, ModelCall) else None
        if answer is not None and answer[0]:
            return answer[0]
    return None


def definitions_of(nodes: Sequence[Node]) -> Definitions | None:
    """Return the tools that were available to the models and agents, by name; None if that was not captured.

    Of several schemas of one tool the last in time counts. A called tool's own span may contain its schema, but a call alone
    does not make a tool an available one.
    """
    recorded = [
        node for node in nodes if isinstance(node.event, (AgentRun, ModelCall)) and node.event.definitions is not None
    ]
    merged: Definitions | None = None
    for node in sorted(recorded, key=lambda node: node.at):
        assert isinstance(node.event, (AgentRun, ModelCall))  # noqa: S101 — selected above
        merged = merged_definitions(merged, node.event.definitions)
    if merged is CUT:
        return None
    if not merged or all(schema is not None for schema in merged.values()):
        return merged
    called = [node for node in nodes if isinstance(node.event, ToolCall) and node.event.schema is not None]
    own = {
        node.event.name: node.event.schema
        for node in sorted(called, key=lambda node: node.at)
        if isinstance(node.event, ToolCall)
    }
    return {name: own.get(name) if schema is None else schema for name, schema in merged.items()}


def visitor_hashes(nodes: Iterable[Node], conversation_id: str) -> tuple[int | None, int | None]:
    """Return hashes of the user and of the session on the first span that names one, each None if no span does.

    A session id that equals the conversation id is ignored. The ids themselves stay in the spans: hashes are enough to find out
    whether two conversations belong to the same user or session.
    """
    in_time = sorted(nodes, key=lambda node: (node.span.start_ns, node.at))
    return tuple(  # type: ignore[return-value]  # two names give two hashes
        next(
            (
                int.from_bytes(hashlib.blake2b(str(value).encode(), digest_size=8).digest())
                for node in in_time
                for name in names
                if (value := node.span.attributes.get(name)) and str(value) != conversation_id
            ),
            None,
        )
        for names in (_USER, _SESSION)
    )


def final_state_of(nodes: Iterable[Node], names: Sequence[str]) -> Mapping[str, Any] | None:
    """Return the last state, in time, that a span contains under one of some attributes; None if there is no state.

    None as well if the last one cannot be read, because an earlier one is not the final state.
    """
    recorded = [node for node in nodes if any(node.span.attributes.get(name) is not None for name in names)]
    last = max(recorded, key=lambda node: (node.span.end_ns, node.at), default=None)
    return None if last is None else _state(last.span.attributes, names)


def _state(attributes: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any] | None:
    for name in names:
        value = attributes.get(name)
        if value is None or is_redacted(value) or (isinstance(value, str) and len(value) > _LONGEST_STATE):
            continue
        state = parsed(value)
        if isinstance(state, dict):
            return state
    return None


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
