"""Assemble linked segments into one `Conversation` of turns; a turn has one user query and may span several traces.

The spans also provide models and tokens, plans, available tools, the final state, and hashes of the user and session.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.config.patterns import own_pattern
from otel_agentic.conversations.calls import CallContext, calls_of
from otel_agentic.conversations.merge import Node, agent_of, by_order, by_time
from otel_agentic.conversations.model import ClosedBy, Conversation, ModelUse, Turn
from otel_agentic.conversations.requests import TurnSpans
from otel_agentic.conversations.slices import USER_ATTRIBUTES, slices_of
from otel_agentic.conversations.tree import (
    after_last_assistant,
    after_last_query,
    is_old,
    last_answer,
    last_query,
    without_history,
)
from otel_agentic.dialects.events import (
    CUT,
    AgentRun,
    Definitions,
    Header,
    Ignored,
    Message,
    ModelCall,
    Plan,
    ToolCall,
    merged_definitions,
)
from otel_agentic.dialects.values import is_redacted, parsed
from otel_agentic.spans.model import SpanKind

if TYPE_CHECKING:
    from otel_agentic.config import ConversationSettings
    from otel_agentic.conversations.segments import Linked, Segment

#: Number of token counts of a model call: input and output.
_BOTH: Final = 2
#: A greeting and a turn with a query.
_WITH_GREETING: Final = 2


def cut(segments: Sequence[Segment]) -> list[TurnSpans]:
    """Return the turns of a conversation in time order.

    A topmost agent run is a turn; one without a new query continues the turn before it. Model and tool calls outside any run
    are cut at each model call with a new user message. A span that contains several turns is not a run (see `find_sessions`).
    A greeting, before any user input, belongs to the first turn.
    """
    turns: list[TurnSpans] = []
    for unit in sorted((unit for segment in segments for unit in _units_of(segment)), key=lambda unit: unit.lead.at):
        if unit.runs:
            _add_run(turns, unit.copy())
        else:
            _add_loose(turns, unit.nodes)
    return _with_greeting(turns)


def _units_of(segment: Segment) -> Sequence[TurnSpans]:
    """Return the parts of a segment that are divided into turns, computed once: topmost runs, or calls outside of any run."""
    if not segment.units:
        segment.units[:] = [
            _run_spans(unit) if unit[0].is_run else TurnSpans(lead=unit[0], nodes=unit) for unit in _units(segment)
        ]
    return segment.units


def _with_greeting(turns: list[TurnSpans]) -> list[TurnSpans]:
    """Return the turns, with a first turn without a query merged into the next one of its trace."""
    if len(turns) < _WITH_GREETING or turns[0].query is not None or not turns[0].query_captured:
        return turns
    greeting, first, *following = turns
    if first.query is None or first.lead.span.trace_id != greeting.lead.span.trace_id:
        return turns
    first.runs = [*greeting.runs, *first.runs]
    first.nodes = [*greeting.nodes, *first.nodes]
    return [first, *following]


def _units(segment: Segment) -> list[list[Node]]:
    """Return the topmost runs, each with its nodes, or the model and tool calls of a trace without a run, with their subtrees.

    If the trace has a run, a call outside of every run (its parent never arrived) belongs to the run before it, else to the
    first: it is not a turn of its own.
    """
    members = {id(node) for node in segment.nodes}
    outside = [
        node
        for node in segment.nodes
        if node.holding_call is None and (node.run is None or id(node.run) not in members)
    ]
    top_runs = sorted((node for node in outside if node.is_run), key=by_time)
    loose = sorted(
        (node for node in outside if isinstance(node.event, (ModelCall, ToolCall))), key=lambda node: node.at
    )
    if not top_runs:
        return [[below for node in loose for below in _with_subtree(node, segment)]] if loose else []
    units = [list(top.subtree(segment.nodes)) for top in top_runs]
    for node in loose:
        index = bisect_right(top_runs, node.at, key=lambda top: top.at) - 1
        units[max(index, 0)] += _with_subtree(node, segment)
    return units


def _with_subtree(node: Node, segment: Segment) -> Sequence[Node]:
    """Return a call outside of every run, with its subtree if it is a tool call."""
    return node.subtree(segment.nodes) if isinstance(node.event, ToolCall) else [node]


def _run_spans(unit: Sequence[Node]) -> TurnSpans:
    """Return the spans of a topmost run, with its query."""
    run = unit[0]
    event = run.event
    assert isinstance(event, AgentRun)  # noqa: S101 — `is_run` is only ever set on agent runs
    turn = TurnSpans(lead=run, runs=[run])
    turn.add(unit)
    turn.query, turn.query_captured = _run_query(event, turn)
    turn.left_open = turn.query is not None and _has_no_end(event, unit)
    return turn


def _add_run(turns: list[TurnSpans], turn: TurnSpans) -> None:
    event = turn.lead.event
    assert isinstance(event, AgentRun)  # noqa: S101 — the same
    if turns and (event.goes_on or (turn.query is None and turn.query_captured) or _takes_over(turn, turns[-1])):
        _extend(turns[-1], turn)  # resumed: the run has an input that is not a query
    else:
        turns.append(turn)


def _takes_over(turn: TurnSpans, previous: TurnSpans) -> bool:
    """Return whether a run answers the query of the run before it in the same trace, which failed or handed control over.

    In a new turn with the same text, the model's input ends with the query; in a continuation, calls or results follow
    it.
    """
    if turn.query is None or turn.query != previous.query or turn.lead.span.trace_id != previous.lead.span.trace_id:
        return False
    if previous.runs and previous.runs[-1].event.header.error is not None:
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
    agent_query = _query_below(turn)
    if agent_query is not None and not event.messages_in:
        return agent_query, True
    run_input = event.messages_in
    if run_input and model_input and is_old(last_query(run_input)[0], model_input):
        run_input = None
    captured_inputs = [messages for messages in (run_input, model_input, *_inputs_below(turn)) if messages]
    for messages in captured_inputs:
        query, is_captured = last_query(messages)
        if query is not None or not is_captured:
            return query, is_captured
    return None, bool(captured_inputs)


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
        if node.holding_call is not None:  # below the tool call before it
            turns[-1].add([node])
            continue
        current = turns[-1] if turns and (not turns[-1].runs or turns[-1].left_open) else None
        same_trace = current is not None and current.nodes[-1].span.trace_id == node.span.trace_id
        if isinstance(node.event, ModelCall):
            query, is_captured, is_new = _loose_query(node.event)
            continues = current is not None and (
                (is_captured and not is_new)
                or (query is None and same_trace)
                or ((same_trace or current.left_open) and _asked_again(current, query))
            )
        else:
            query, is_captured = None, False
            continues = current is not None and (same_trace or current.left_open or _waits_for(current, node.event))
        if current is not None and continues:
            current.add([node])
        else:
            root = next(iter([*node.ancestors()][::-1]), node)
            turns.append(TurnSpans(lead=root, query=query, query_captured=is_captured))
            turns[-1].add([node])


def _loose_query(event: ModelCall) -> tuple[str | None, bool, bool]:
    """Return the query, whether the input was captured, and whether the query is new with this call."""
    if not event.messages_in:
        return None, False, False
    query, is_captured = last_query(event.messages_in)
    if not is_captured:
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
    return turn.waiting.get(event.name, 0) > 0


#: A longer state, in characters, is not read.
_LONGEST_STATE: Final = 1_000_000
#: The attribute of the session, by the semantic conventions.
_SESSION: Final = ("session.id",)
_VISITOR_ATTRIBUTES: Final = (*USER_ATTRIBUTES, *_SESSION)
#: The largest number of plans that are kept for one turn.
_MOST_PLANS: Final = 100
#: The largest number of texts of reasoning that are kept for one turn, and of their characters.
_MOST_TEXTS: Final = 100
_MOST_CHARACTERS: Final = 100_000


def models_of(turn: TurnSpans) -> tuple[ModelUse, ...]:
    """Return the use of each model in a turn, by name, the unnamed one first."""
    by_model: dict[str | None, list[ModelCall]] = defaultdict(list)
    for node in turn.nodes:
        if isinstance(node.event, ModelCall):
            by_model[node.event.model or None].append(node.event)
    return tuple(_use(model, by_model[model]) for model in sorted(by_model, key=lambda name: name or ""))


def _use(model: str | None, calls: Sequence[ModelCall]) -> ModelUse:
    retries = failed = priced = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    for event in calls:
        retries += event.failed_tries
        failed += event.header.error is not None
        if event.input_tokens is not None:
            input_tokens = (input_tokens or 0) + event.input_tokens
        if event.output_tokens is not None:
            output_tokens = (output_tokens or 0) + event.output_tokens
        recorded = (event.input_tokens is not None) + (event.output_tokens is not None)
        # Without a response there were no tokens, so none are missing.
        priced += recorded == _BOTH or (recorded == 0 and event.header.error is not None)
    return ModelUse(
        model=model,
        calls=len(calls) + retries,
        failed=failed + retries,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        priced_calls=priced + retries,
    )


def plans_of(turns: Sequence[TurnSpans], nodes: Sequence[Node]) -> dict[int, tuple[str, ...]]:
    """Return the recorded plans by index of the turn, in time order.

    A plan outside of every run belongs to the turn of its trace that is running at that time, else to the next one.
    """
    plans = sorted((node for node in nodes if isinstance(node.event, Plan)), key=by_time)
    if not plans:
        return {}
    calls: dict[str, list[Node]] = defaultdict(list)  # by trace
    for node in sorted(nodes, key=by_order):
        if isinstance(node.event, ModelCall):
            calls[node.span.trace_id].append(node)
    turn_indices = {id(node): index for index, turn in enumerate(turns) for node in turn.nodes}
    texts_by_turn: dict[int, list[str]] = defaultdict(list)
    for node in plans:
        text = _plan_text(node, calls[node.span.trace_id])
        index = turn_indices.get(id(node), _nearest_turn(turns, node))
        if text is not None and index is not None and len(texts_by_turn[index]) < _MOST_PLANS:
            texts_by_turn[index].append(text)
    return {index: tuple(texts) for index, texts in texts_by_turn.items()}


def _nearest_turn(turns: Sequence[TurnSpans], node: Node) -> int | None:
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


def _plan_text(node: Node, calls: Sequence[Node]) -> str | None:
    """Return the plan's text: its own, else the answer of the last model call below it.

    Args:
        node: the plan.
        calls: the model calls of its trace in depth-first order.
    """
    event = node.event
    if isinstance(event, Plan) and event.text:
        return event.text
    for below in sorted(node.subtree(calls), key=by_time, reverse=True):
        answer = last_answer(below.event.messages_out) if isinstance(below.event, ModelCall) else None
        if answer is not None and answer[0]:
            return answer[0]
    return None


def reasoning_of(turn: TurnSpans, answer: str | None) -> tuple[str, ...]:
    """Return the texts of the model's responses in a turn that are not its answer, each once, in time order."""
    events = [node.event for node in sorted(turn.nodes, key=by_time)]
    outputs = [event.messages_out for event in events if isinstance(event, ModelCall) and event.messages_out]
    outputs = outputs or [event.messages_out for event in events if isinstance(event, AgentRun) and event.messages_out]
    responses = [message for messages in outputs for message in messages if message.role == "assistant"]
    texts = dict.fromkeys(
        text for message in responses for text in (*message.reasoning, message.text) if text and text.strip()
    )
    texts.pop(answer or "", None)
    lengths = accumulate(map(len, texts))
    return tuple(text for text, total in zip(texts, lengths, strict=True) if total <= _MOST_CHARACTERS)[:_MOST_TEXTS]


def definitions_of(nodes: Sequence[Node]) -> Definitions | None:
    """Return the tools that were available to the models and agents, by name; None if that was not captured.

    Of several schemas of one tool, the latest counts. A called tool's own span may contain its schema, but a call alone
    does not make a tool an available one.
    """
    nodes_with_tools = [
        node for node in nodes if isinstance(node.event, (AgentRun, ModelCall)) and node.event.definitions is not None
    ]
    merged: Definitions | None = None
    for node in sorted(nodes_with_tools, key=by_time):
        assert isinstance(node.event, (AgentRun, ModelCall))  # noqa: S101 — selected above
        merged = merged_definitions(merged, node.event.definitions)
    if merged is CUT:
        return None
    if not merged or all(schema is not None for schema in merged.values()):
        return merged
    tool_calls = [node for node in nodes if isinstance(node.event, ToolCall) and node.event.schema is not None]
    called_schemas = {
        node.event.name: node.event.schema
        for node in sorted(tool_calls, key=by_time)
        if isinstance(node.event, ToolCall)
    }
    return {name: called_schemas.get(name) if schema is None else schema for name, schema in merged.items()}


def visitor_hashes(nodes: Iterable[Node], conversation_id: str) -> tuple[int | None, int | None]:
    """Return hashes of the user and of the session on the first span that names one, each None if no span does.

    A session id that equals the conversation id is ignored. The ids themselves stay in the spans: hashes are enough to find out
    whether two conversations belong to the same user or session.
    """
    named = [node for node in nodes if not node.span.attributes.keys().isdisjoint(_VISITOR_ATTRIBUTES)]
    if not named:
        return None, None
    nodes_by_time = sorted(named, key=by_time)
    return tuple(  # type: ignore[return-value]  # one hash for the user, one for the session
        next(
            (
                int.from_bytes(hashlib.blake2b(str(value).encode(), digest_size=8).digest())
                for node in nodes_by_time
                for name in names
                if (value := node.span.attributes.get(name)) and str(value) != conversation_id
            ),
            None,
        )
        for names in (USER_ATTRIBUTES, _SESSION)
    )


def final_state_of(nodes: Iterable[Node], names: Sequence[str]) -> Mapping[str, Any] | None:
    """Return the latest state that a span contains under one of the attributes; None if there is no state.

    The result is also None if the latest state cannot be read, because an earlier state is not the final one.
    """
    nodes_with_state = [node for node in nodes if any(node.span.attributes.get(name) is not None for name in names)]
    last_node = max(nodes_with_state, key=lambda node: (node.span.end_ns, node.at), default=None)
    return None if last_node is None else _state(last_node.span.attributes, names)


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


def assemble(linked: Linked, settings: ConversationSettings, *, closed_by: ClosedBy | None = None) -> Conversation:
    """Return the conversation that linked segments form, in revision 1.

    Args:
        linked: the segments, from `link`.
        settings: attribute names and error patterns.
        closed_by: the reason why it closed, None while it is open. An end mark in the spans takes precedence.
    """
    return closed(*assemble_open(linked, settings), closed_by)


def closed(conversation: Conversation, mark: EndMark | None, closed_by: ClosedBy | None) -> Conversation:
    """Return an open conversation with the reason why it closed; without a reason, return it unchanged.

    Args:
        conversation: the result of `assemble_open`.
        mark: its end mark, which takes precedence over the reason, and whose error becomes that of the last turn.
        closed_by: the reason.
    """
    if closed_by is None:
        return conversation
    if mark is None:
        return replace(conversation, closed_by=closed_by)
    return replace(conversation, closed_by=mark.closed_by, turns=_with_error(conversation.turns, mark.error))


def assemble_open(linked: Linked, settings: ConversationSettings) -> tuple[Conversation, EndMark | None]:
    """Return the conversation that linked segments form as if it were open, and its end mark; see `assemble`."""
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
    built_turns = [
        _with_later_answer(_turn(index, turn, context, plans.get(index, ())), following)
        for index, (turn, following) in enumerate(zip_longest(turns, turns[1:]))
    ]
    conversation = Conversation(
        environment=linked.environment,
        conversation_id=linked.conversation_id,
        revision=1,
        agent_name=agent,
        agent_version=_first(header.agent_version for header in headers),
        service=first.service,
        started_ns=min(node.span.start_ns for node in events),
        ended_ns=max(node.span.end_ns for node in events),
        closed_by=None,
        link_method=linked.method,
        case_id=_first(header.case_id for header in headers),
        verdict=_last([header.verdict for header in headers]),
        turns=tuple(built_turns),
        tool_definitions=definitions_of(events),
        final_state=final_state_of(nodes, settings.state_attributes),
        user_hash=user_hash,
        session_hash=session_hash,
        slices=slices_of(nodes, built_turns, settings.slices),
    )
    return conversation, _end_mark(headers)


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


@dataclass(frozen=True, slots=True)
class EndMark:
    """The statement of a span that its conversation is over; `error` is the error of that span, None if it succeeded."""

    error: str | None

    @property
    def closed_by(self) -> ClosedBy:
        """The reason for which the conversation is closed."""
        return "end_mark" if self.error is None else "agent_error"


def _end_mark(headers: Iterable[Header]) -> EndMark | None:
    """Return the end mark in the spans of a conversation, None without one."""
    marks = [header for header in headers if header.ends_conversation]
    return EndMark(next((mark.error for mark in marks if mark.error is not None), None)) if marks else None


def _with_error(turns: Sequence[Turn], error: str | None) -> tuple[Turn, ...]:
    """Return the turns; the last one has the error with which the agent ended, unless it has one of its own."""
    return (*turns[:-1], *(replace(last, error=last.error or error) for last in turns[-1:]))


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
    top_calls = turn.top_calls
    answering_calls = _answering_calls(turn, top_calls)
    answer, answer_captured = _answer(turn, answering_calls)
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
        response_id=_response_id(top_calls),
        dialect=framework_node.event.header.dialect,
        scope=framework_node.span.scope.name,
        models=models_of(turn),
        plans=plans,
        agent_name=next((node.agent_name for node in reversed(answering_calls)), None),
        reasoning=reasoning_of(turn, answer),
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
    return min(events, key=by_time, default=turn.lead)


def _answer(turn: TurnSpans, answering_calls: Sequence[Node]) -> tuple[str | None, bool]:
    """Return the final answer, and whether it was captured (then None means that there was no answer).

    The answer on the run itself takes precedence. Text next to a tool call never reached the user, so only a response without
    calls is an answer.
    """
    runs = sorted(turn.runs, key=by_time)
    for run in reversed(runs):
        event = run.event
        if isinstance(event, AgentRun) and event.answer is not None:
            return event.answer, True
        answer = last_answer(event.messages_out) if isinstance(event, AgentRun) else None
        if answer is not None:
            return answer
    calls = [node.event for node in answering_calls if isinstance(node.event, ModelCall)]
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


def _answering_calls(turn: TurnSpans, own_calls: Sequence[Node]) -> Sequence[Node]:
    """Return the model calls whose last one may answer: those of the turn's agent, else all outside of tool calls."""
    if own_calls and isinstance(own_calls[-1].event, ModelCall) and last_answer(own_calls[-1].event.messages_out):
        return own_calls
    outer_calls = [node for node in turn.nodes if isinstance(node.event, ModelCall) and not node.holding_call]
    return sorted(outer_calls, key=by_time)


def _response_id(top_calls: Sequence[Node]) -> str | None:
    return _first(node.event.response_id for node in reversed(top_calls) if isinstance(node.event, ModelCall))
