"""Facts from spans other than messages: models and tokens, plans, available tools, the final state, hashes of the user."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.conversations.answers import last_answer
from otel_agentic.conversations.model import ModelUse
from otel_agentic.dialects.definitions import CUT, merged_definitions
from otel_agentic.dialects.events import AgentRun, ModelCall, Plan, ToolCall
from otel_agentic.dialects.values import is_redacted, parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.conversations.node import Node
    from otel_agentic.conversations.turns import TurnSpans
    from otel_agentic.dialects.definitions import Definitions

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
