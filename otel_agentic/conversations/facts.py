"""What spans tell beside what was said: models and their tokens, plans, the tools that were given, the state in the end."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.conversations.answers import last_words
from otel_agentic.conversations.model import ModelUse
from otel_agentic.dialects.definitions import CUT, merged_definitions
from otel_agentic.dialects.events import AgentRun, ModelCall, Plan, ToolCall
from otel_agentic.dialects.values import is_redacted, parsed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.conversations.tree import Node
    from otel_agentic.conversations.turns import TurnSpans
    from otel_agentic.dialects.definitions import Definitions

#: A state of more text than this is none that a case expects.
_LONGEST_STATE: Final = 1_000_000
#: Who asks, by the semantic conventions: the user (the second name is the older one), and the session.
_USER: Final = ("user.id", "enduser.id")
_SESSION: Final = ("session.id",)
#: Of one turn no more plans are kept.
_MOST_PLANS: Final = 100


def models_of(turn: TurnSpans) -> tuple[ModelUse, ...]:
    """Return what each model was asked for in a turn, by name, the nameless one first."""
    asked: dict[str | None, list[ModelCall]] = defaultdict(list)
    for node in turn.nodes:
        if isinstance(node.event, ModelCall):
            asked[node.event.model or None].append(node.event)
    return tuple(_use(model, asked[model]) for model in sorted(asked, key=lambda name: name or ""))


def _use(model: str | None, asked: Sequence[ModelCall]) -> ModelUse:
    retried = sum(event.failed_tries for event in asked)
    known = sum(event.input_tokens is not None and event.output_tokens is not None for event in asked)
    return ModelUse(
        model=model,
        calls=len(asked) + retried,
        failed=sum(event.header.error is not None for event in asked) + retried,
        input_tokens=_total(event.input_tokens for event in asked),
        output_tokens=_total(event.output_tokens for event in asked),
        priced_calls=known + retried + sum(_cost_nothing(event) for event in asked),
    )


def _total(counts: Iterable[int | None]) -> int | None:
    told = [count for count in counts if count is not None]
    return sum(told) if told else None


def _cost_nothing(event: ModelCall) -> bool:
    """Return whether a request failed and no tokens are told of: nothing was answered, so nothing is missing."""
    return event.header.error is not None and event.input_tokens is None and event.output_tokens is None


def plans_of(turns: Sequence[TurnSpans], nodes: Sequence[Node]) -> dict[int, tuple[str, ...]]:
    """Return the plans that were written down, by index of the turn, in time order.

    A plan outside of every run belongs to the turn of its trace that goes on while it is made, else to the next one.
    """
    plans = sorted((node for node in nodes if isinstance(node.event, Plan)), key=lambda node: node.at)
    if not plans:
        return {}
    home = {id(node): index for index, turn in enumerate(turns) for node in turn.nodes}
    found: dict[int, list[str]] = defaultdict(list)
    for node in plans:
        text = _plan_text(node)
        index = home.get(id(node), _nearest(turns, node))
        if text is not None and index is not None and len(found[index]) < _MOST_PLANS:
            found[index].append(text)
    return {index: tuple(texts) for index, texts in found.items()}


def _nearest(turns: Sequence[TurnSpans], node: Node) -> int | None:
    """Return the first turn of the node's trace that ends after the node began, else the last one of the trace."""
    last = None
    for index, turn in enumerate(turns):
        spans = [each.span for each in turn.nodes if each.span.trace_id == node.span.trace_id]
        if not spans:
            continue
        if max(span.end_ns for span in spans) >= node.span.start_ns:
            return index
        last = index
    return last


def _plan_text(node: Node) -> str | None:
    """Return the plan's text: its own, else what the last model that it asked said."""
    event = node.event
    if isinstance(event, Plan) and event.text:
        return event.text
    asked = sorted(
        (below for below in node.subtree() if isinstance(below.event, ModelCall)), key=lambda below: below.at
    )
    for below in reversed(asked):
        said = last_words(below.event.messages_out) if isinstance(below.event, ModelCall) else None
        if said is not None and said[0]:
            return said[0]
    return None


def definitions_of(nodes: Sequence[Node]) -> Definitions | None:
    """Return the tools that the models and agents were given, by name; None where that was not captured.

    Of several schemas of one tool the last in time counts. A called tool's own span may tell its schema, but being called
    makes no tool a given one.
    """
    told = [
        node for node in nodes if isinstance(node.event, (AgentRun, ModelCall)) and node.event.definitions is not None
    ]
    found: Definitions | None = None
    for node in sorted(told, key=lambda node: node.at):
        assert isinstance(node.event, (AgentRun, ModelCall))  # noqa: S101 — chosen so above
        found = merged_definitions(found, node.event.definitions)
    if found is CUT:
        return None
    if not found or all(schema is not None for schema in found.values()):
        return found
    called = [node for node in nodes if isinstance(node.event, ToolCall) and node.event.schema is not None]
    own = {
        node.event.name: node.event.schema
        for node in sorted(called, key=lambda node: node.at)
        if isinstance(node.event, ToolCall)
    }
    return {name: own.get(name) if schema is None else schema for name, schema in found.items()}


def visitor_hashes(nodes: Iterable[Node], conversation_id: str) -> tuple[int | None, int | None]:
    """Return hashes of the user and of the session that the first span with one names, None where none does.

    A session that is the conversation itself says nothing of others. Who it is stays in the spans: hashes tell whether two
    conversations are of the same one.
    """
    in_time = sorted(nodes, key=lambda node: (node.span.start_ns, node.at))
    return tuple(  # type: ignore[return-value]  # of two come two
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
    """Return the last state, in time, that a span names under one of some attributes; None where none does.

    None as well where the last one cannot be read: the one before it is not how things are in the end.
    """
    told = [node for node in nodes if any(node.span.attributes.get(name) is not None for name in names)]
    last = max(told, key=lambda node: (node.span.end_ns, node.at), default=None)
    return None if last is None else _state(last.span.attributes, names)


def _state(attributes: Mapping[str, Any], names: Sequence[str]) -> Mapping[str, Any] | None:
    for name in names:
        value = attributes.get(name)
        if value is None or is_redacted(value) or (isinstance(value, str) and len(value) > _LONGEST_STATE):
            continue
        found = parsed(value)
        if isinstance(found, dict):
            return found
    return None
