"""Merges the calls that two instrumentations of one process both recorded."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_agentic.conversations.duplicates import content_of, folded, merged_model_call, named_by, with_outcome
from otel_agentic.dialects.events import CallRequest, ModelCall, ToolCall

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from otel_agentic.conversations.node import Node
    from otel_agentic.dialects.events import AgentEvent, Message


@dataclass(slots=True, kw_only=True)
class _Record:
    """The first record of a call, and the instrumentation scopes that recorded it so far, each once."""

    node: Node
    scopes: set[str]


#: The records with one identity that may still be repeated, by the scope of their span.
_Open = dict[str, OrderedDict[int, _Record]]


def drop_repetitions(ordered: Sequence[Node]) -> None:
    """Ignore records of a call that another instrumentation of the same process recorded at the same time.

    Args:
        ordered: all nodes of one trace in depth-first order.
    """
    scopes = len({node.span.scope.name for node in ordered})
    if scopes == 1:
        return
    recorded: dict[Hashable, _Open] = defaultdict(lambda: defaultdict(OrderedDict))
    last = _last_below(ordered)
    for node in sorted(ordered, key=lambda node: (node.span.start_ns, node.order)):
        own, keys = node.span.scope.name, list(_identities(node))
        first = next(filter(None, (_echoed(node, recorded[key], last, scopes) for key in keys)), None)
        if first is None:
            record = _Record(node=node, scopes={own})
            for key in keys:
                recorded[key][own][node.order] = record
            continue
        first.scopes.add(own)
        first.node.replace_event(_merged_records(first.node.event, node.event))
        kind = "model" if isinstance(node.event, ModelCall) else "tool"
        node.ignore(f"the same {kind} call as recorded by {first.node.span.scope.name}", same_as=first.node)


def _last_below(ordered: Sequence[Node]) -> list[int]:
    """Return the order of the last node below each node, by the node's own order."""
    last = list(range(len(ordered)))
    for node in reversed(ordered):
        if node.parent is not None:
            last[node.parent.order] = max(last[node.parent.order], last[node.order])
    return last


def _echoed(node: Node, recorded: _Open, last: Sequence[int], scopes: int) -> _Record | None:
    """Return the record of another scope that a node repeats; remove records that can no longer be repeated."""
    own = node.span.scope.name
    for records in (records for scope, records in recorded.items() if scope != own):
        expired, match = [], None
        for order, record in records.items():
            first = record.node
            if first.span.end_ns < node.span.start_ns or len(record.scopes) == scopes:
                expired.append(order)
            # A call below the first record is an agent's own call; otherwise it would have been merged already.
            elif own not in record.scopes and not order < node.order <= last[order] and _agree(node.event, first.event):
                match = record
                break
        for order in expired:
            del records[order]
        if match is not None:
            return match
    return None


def _agree(event: AgentEvent, other: AgentEvent) -> bool:
    """Return whether two records with the same identity can be records of the same call."""
    if isinstance(event, ToolCall) and isinstance(other, ToolCall):
        own, others = event.arguments or {}, other.arguments or {}
        shared = own.keys() & others.keys()  # some add the framework's arguments, or write values differently
        return not shared or any(own[name] == others[name] for name in shared)
    if isinstance(event, ModelCall) and isinstance(other, ModelCall):
        if event.response_id is not None and other.response_id is not None:
            return event.response_id == other.response_id
        return len({_last_input(event), _last_input(other)} - {None}) <= 1
    return False


def _last_input(event: ModelCall) -> str | None:
    """Return the last text in the input of a model call, with normalised white space."""
    texts = (message.text for message in reversed(event.messages_in or ()))
    return next((" ".join(text.split()) for text in texts if text), None)


def _merged_records(first: AgentEvent, echo: AgentEvent) -> AgentEvent:
    if isinstance(first, ToolCall) and isinstance(echo, ToolCall):
        return with_outcome(named_by(first, echo), echo, failed=echo)
    if isinstance(first, ModelCall) and isinstance(echo, ModelCall):
        return merged_model_call((first, echo))
    return first


def _identities(node: Node) -> Iterator[Hashable]:
    """Yield the keys that identify a call beyond doubt: a provider's id, or the complete output."""
    event = node.event
    if isinstance(event, ToolCall) and event.call_id is not None:
        yield ("tool", folded(event.name), event.call_id)
    elif isinstance(event, ModelCall):
        if event.response_id is not None:
            yield ("response", event.response_id)
        if event.messages_out:
            yield ("output", _comparable_output(event.messages_out))


def _comparable_output(messages: Iterable[Message]) -> str:
    """Return messages as comparable text: roles, texts, names of calls, their ids or arguments."""
    return repr(
        [(message.role, message.text, [_request_key(request) for request in message.requests]) for message in messages]
    )


def _request_key(request: CallRequest) -> tuple[str, str]:
    return (folded(request.name), request.call_id) if request.call_id is not None else content_of(request)
