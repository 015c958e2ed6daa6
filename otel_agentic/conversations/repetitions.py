"""One call, one event: two instrumentations of one process that are active at once tell of everything twice."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_agentic.conversations.duplicates import content_of, folded, merged_model_call, named_by, with_outcome
from otel_agentic.dialects.events import CallRequest, ModelCall, ToolCall

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from otel_agentic.conversations.tree import Node
    from otel_agentic.dialects.events import AgentEvent, Message


@dataclass(slots=True, kw_only=True)
class _Telling:
    """A call as it was first told, and the instrumentations that told of it so far: each of them does so once."""

    node: Node
    scopes: set[str]


#: The tellings of one identity that may still be repeated, by the scope of their span.
_Open = dict[str, OrderedDict[int, _Telling]]


def drop_repetitions(ordered: Sequence[Node]) -> None:
    """Ignore what another instrumentation of the same process tells of the same call at the same time.

    Args:
        ordered: all nodes of one trace in depth-first order.
    """
    scopes = len({node.span.scope.name for node in ordered})
    if scopes == 1:
        return
    told: dict[Hashable, _Open] = defaultdict(lambda: defaultdict(OrderedDict))
    last = _last_below(ordered)
    for node in sorted(ordered, key=lambda node: (node.span.start_ns, node.order)):
        own, keys = node.span.scope.name, list(_identities(node))
        found = next(filter(None, (_echoed(node, told[key], last, scopes) for key in keys)), None)
        if found is None:
            telling = _Telling(node=node, scopes={own})
            for key in keys:
                told[key][own][node.order] = telling
            continue
        found.scopes.add(own)
        found.node.retell(_told_by_both(found.node.event, node.event))
        kind = "model" if isinstance(node.event, ModelCall) else "tool"
        node.ignore(f"the same {kind} call as told by {found.node.span.scope.name}", same_as=found.node)


def _last_below(ordered: Sequence[Node]) -> list[int]:
    """Return the order of the last node below each node, by the node's own order."""
    found = list(range(len(ordered)))
    for node in reversed(ordered):
        if node.parent is not None:
            found[node.parent.order] = max(found[node.parent.order], found[node.order])
    return found


def _echoed(node: Node, told: _Open, last: Sequence[int], scopes: int) -> _Telling | None:
    """Return the telling of another scope that a node repeats; what cannot be repeated any more is forgotten."""
    own = node.span.scope.name
    for tellings in (tellings for scope, tellings in told.items() if scope != own):
        over, found = [], None
        for order, telling in tellings.items():
            first = telling.node
            if first.span.end_ns < node.span.start_ns or len(telling.scopes) == scopes:
                over.append(order)
            # Below it an agent made a call of its own, or it would have been merged.
            elif (
                own not in telling.scopes and not order < node.order <= last[order] and _agree(node.event, first.event)
            ):
                found = telling
                break
        for order in over:
            del tellings[order]
        if found is not None:
            return found
    return None


def _agree(one: AgentEvent, other: AgentEvent) -> bool:
    """Return whether two tellings with one identity can be of the same call."""
    if isinstance(one, ToolCall) and isinstance(other, ToolCall):
        made, asked = one.arguments or {}, other.arguments or {}
        shared = made.keys() & asked.keys()  # some add arguments of the framework's, or write values in their own way
        return not shared or any(made[name] == asked[name] for name in shared)
    if isinstance(one, ModelCall) and isinstance(other, ModelCall):
        if one.response_id is not None and other.response_id is not None:
            return one.response_id == other.response_id
        return len({_asked_last(one), _asked_last(other)} - {None}) <= 1
    return False


def _asked_last(event: ModelCall) -> str | None:
    """Return the last text that a model call was sent, spaces aside."""
    texts = (message.text for message in reversed(event.messages_in or ()))
    return next((" ".join(text.split()) for text in texts if text), None)


def _told_by_both(first: AgentEvent, echo: AgentEvent) -> AgentEvent:
    if isinstance(first, ToolCall) and isinstance(echo, ToolCall):
        return with_outcome(named_by(first, echo), echo, failed=echo)
    if isinstance(first, ModelCall) and isinstance(echo, ModelCall):
        return merged_model_call((first, echo))
    return first


def _identities(node: Node) -> Iterator[Hashable]:
    """Yield what names a call beyond doubt: a provider's id, or all that was said."""
    event = node.event
    if isinstance(event, ToolCall) and event.call_id is not None:
        yield ("tool", folded(event.name), event.call_id)
    elif isinstance(event, ModelCall):
        if event.response_id is not None:
            yield ("response", event.response_id)
        if event.messages_out:
            yield ("said", _said(event.messages_out))


def _said(messages: Iterable[Message]) -> str:
    """Return what messages say and ask for as text that compares: roles, texts, names of calls, their ids or arguments."""
    return repr(
        [(message.role, message.text, [_asked(request) for request in message.requests]) for message in messages]
    )


def _asked(request: CallRequest) -> tuple[str, str]:
    return (folded(request.name), request.call_id) if request.call_id is not None else content_of(request)
