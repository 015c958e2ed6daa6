"""The tool calls of a turn: the union of tool spans and of the calls that model responses requested, in step order."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.conversations.answers import gives_answer
from otel_agentic.conversations.code import code_runs
from otel_agentic.conversations.duplicates import folded
from otel_agentic.conversations.join import join, join_runs, transfer_target
from otel_agentic.conversations.model import CallKind, ToolCall
from otel_agentic.conversations.requests import (
    Call,
    Requester,
    add_unrecorded,
    anchor_history_calls,
    requested,
    requester_of,
)
from otel_agentic.conversations.results import with_result
from otel_agentic.conversations.told import assign_results
from otel_agentic.dialects import events
from otel_agentic.dialects.values import has_named_arguments

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from otel_agentic.config.own_patterns import OwnPattern
    from otel_agentic.conversations.node import Node
    from otel_agentic.conversations.turns import TurnSpans

#: Texts by which frameworks report to the model that a call never ran because its arguments were invalid. Words that results
#: use, too (required, unknown, not found), count only near the name of the problem (argument, parameter, tool ...).
_REFUSAL: Final = re.compile(
    r"\b(?:errors?|invalid|validation|malformed|mandatory|failed|failure|retry|try again)\b|[a-z]Error\b"
    r"|\b(?:argument|parameter|field|property|input|tool|function|schema|keyword)s?\b.{0,80}"
    r"\b(?:not found|not exist|unknown|unexpected|missing|required|not allowed|not available)\b"
    r"|\b(?:unknown|unexpected|missing|required|no such)\b.{0,40}\b(?:argument|parameter|field|property|input|tool|function|keyword)",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The agents of a conversation, and the patterns of its failures.

    Calls whose spans name no agent belong to `agent`; a call that hands over to one of `agents` is a transfer.
    `error_patterns` match results that are errors although they are not marked as such.
    """

    agent: str | None
    agents: frozenset[str]
    error_patterns: tuple[OwnPattern, ...]


def calls_of(turn: TurnSpans, context: CallContext, *, answer: str | None = None) -> tuple[ToolCall, ...]:
    """Return the calls of a turn in step order, the calls of sub-agents after the call that contains them.

    For an agent that acts by writing code, the calls of its code are the calls; the interpreter is not (see `code_runs`).

    Args:
        turn: the spans of the turn.
        context: the agents and error patterns of the conversation.
        answer: the turn's answer: a call that only gives the answer is left out.
    """
    calls = requested(turn)
    spans = sorted((node for node in turn.nodes if isinstance(node.event, events.ToolCall)), key=lambda node: node.at)
    silent = _silent_calls(turn)
    unclaimed = join(calls, spans)
    join_runs(calls, turn)
    anchor_history_calls(calls, silent)
    calls += [_from_span(node, silent) for node in unclaimed]
    add_unrecorded(calls, silent)
    calls = [call for call in calls if not gives_answer(call.name, _arguments(call), answer)]
    calls.sort(key=lambda call: (call.requester, call.position))
    assign_results(calls, turn)
    interpreters = code_runs(calls, turn)
    calls = [call for call in calls if id(call) not in interpreters]
    wrappers = frozenset(id(node) for node in interpreters.values() if node is not None)
    requesters = dict.fromkeys(call.requester for call in calls)
    steps = {requester: step for step, requester in enumerate(requesters, start=1)}
    agents = frozenset(folded(name) for name in context.agents)
    never_ran = _never_ran(calls)
    started = {id(call.run): call.run for call in calls if call.run is not None}
    return tuple(
        with_result(
            _finished(
                call,
                step=steps[call.requester],
                position=position,
                agent=context.agent,
                agents=agents,
                holder=_holder(call, started, wrappers),
            ),
            call.event,
            _answer_of(call.run) or call.reported,
            context.error_patterns,
            never_ran=id(call) in never_ran,
        )
        for position, call in enumerate(calls)
    )


def _silent_calls(turn: TurnSpans) -> Mapping[Node | None, list[Node]]:
    """Return the model calls whose response was not captured, in time order, by the run that made them."""
    silent: dict[Node | None, list[Node]] = defaultdict(list)
    for node in sorted(turn.nodes, key=lambda node: node.at):
        if isinstance(node.event, events.ModelCall) and node.event.messages_out is None:
            silent[node.run].append(node)
    return silent


def _from_span(node: Node, silent: Mapping[Node | None, list[Node]]) -> Call:
    """Return a call that was recorded only by its span."""
    position = (node.span.start_ns, node.order)
    return Call(requester=requester_of(node, silent), position=position, request=None, requested_by=None, node=node)


def _never_ran(calls: Sequence[Call]) -> frozenset[int]:
    """Return the calls, by `id()`, that a framework refused to run, because it did run the next call of the same tool.

    A call with invalid arguments has no span; the model gets an error, and requests the tool again in its next response.
    """
    refused: set[int] = set()
    ran: dict[str, list[Requester]] = defaultdict(list)  # by tool: requesters of the calls that ran, the earliest last
    following: dict[Requester, Requester | None] = _following(calls)
    for call in reversed(calls):
        if call.node is not None:
            ran[folded(call.name)].append(call.requester)
    for call in calls:
        later = ran[folded(call.name)]
        while later and later[-1] <= call.requester:
            later.pop()
        again = bool(later) and later[-1] == following[call.requester]
        if call.unrecorded or (call.node is None and again and _is_refusal(call.reported)):
            refused.add(id(call))
    return frozenset(refused)


def _following(calls: Sequence[Call]) -> dict[Requester, Requester | None]:
    requesters = list(dict.fromkeys(call.requester for call in calls))
    return dict(zip_longest(requesters, requesters[1:]))


def _is_refusal(reported: events.CallResult | None) -> bool:
    if reported is None or not isinstance(reported.result, str):
        return False
    return _REFUSAL.search(reported.result[:2000]) is not None


def _finished(
    call: Call,
    *,
    step: int,
    position: int,
    agent: str | None,
    agents: frozenset[str],
    holder: Node | None,
) -> ToolCall:
    event, request, witness = call.event, call.request, _witness(call)
    own = call.node or call.run
    return ToolCall(
        name=call.name,
        kind=_kind(call, agents),
        step=step,
        position=position,
        arguments=_arguments(call),
        result=None,
        result_captured=False,
        error=None,
        call_id=call.call_id,
        trace_id=witness.span.trace_id,
        span_id=own.span.span_id if own is not None else None,
        parent_span_id=holder.span.span_id if holder is not None else None,
        agent_name=witness.agent_name or agent,
        source="both" if event is not None and request is not None else "span" if event is not None else "message",
        started_ns=own.span.start_ns if own is not None else None,
        ended_ns=own.span.end_ns if own is not None else None,
    )


def _witness(call: Call) -> Node:
    witness = call.node or call.requested_by
    assert witness is not None  # noqa: S101 — every call has a span, a request, or both
    return witness


def _holder(call: Call, started: Mapping[int, Node], wrappers: Container[int]) -> Node | None:
    """Return the call that contains another: the tool span above it, or the run that a call without a span started.

    A wrapper is not a call: a call inside it has the holder of the wrapper.
    """
    witness = _witness(call)
    run = witness.run
    while run is not None and started:
        if id(run) in started:
            return run
        run = run.run
    holder = witness.holding_call
    while holder is not None and id(holder) in wrappers:
        holder = holder.holding_call
    return holder


def _answer_of(run: Node | None) -> events.CallResult | None:
    """Return the answer of the agent that a call started, as the call's result."""
    event = run.event if run is not None else None
    if not isinstance(event, events.AgentRun):
        return None
    answer = event.answer or next(
        (message.text for message in reversed(event.messages_out or ()) if message.text), None
    )
    if answer is None and event.header.error is None:
        return None
    failed = event.header.error is not None
    result = event.header.error if failed else answer
    return events.CallResult(call_id=None, name=None, result=result, captured=True, is_error=failed)


def _arguments(call: Call) -> Mapping[str, Any] | None:
    """Return the arguments; the model's own take precedence, since a span's may be cut, renamed or without names."""
    requested = call.request.arguments if call.request is not None else None
    actual = call.event.arguments if call.event is not None else None
    if call.request is not None and actual is not None and not has_named_arguments(actual) and transfer_target(call):
        return requested  # the span of a handoff contains the previous speaker
    if requested is None or (actual is not None and not has_named_arguments(requested) and has_named_arguments(actual)):
        return actual
    return requested


def _kind(call: Call, agents: frozenset[str]) -> CallKind:
    if call.event is not None and call.event.handoff_to is not None:
        return "transfer"
    target = transfer_target(call)
    if target is not None and (target == "" or target in agents):
        return "transfer"
    if call.run is not None or (call.node is not None and call.node.holds_run):
        return "agent"
    return "tool"
