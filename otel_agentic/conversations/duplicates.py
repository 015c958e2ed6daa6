"""One call, one event: what several spans of a trace tell of the same model or tool call is put together.

Wrappers record what they wrap a second time: a client inside a framework, a protocol inside a tool.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from otel_agentic.dialects.definitions import merged_definitions
from otel_agentic.dialects.events import AgentRun, CallRequest, Ignored, ModelCall, Redacted, ToolCall
from otel_agentic.dialects.values import has_named_arguments

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from otel_agentic.conversations.tree import Node
    from otel_agentic.dialects.definitions import Definitions
    from otel_agentic.dialects.events import Message, Part

#: Whole numbers below this are exact as floating-point numbers.
_EXACT: Final = 2**53
_NOT_WORD: Final = re.compile(r"[^0-9a-z]+")


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """Return a name as it is compared: some instrumentations write the model's spelling, some the code's.

    >>> folded("Delegate work to coworker") == folded("delegate_work_to_coworker")
    True
    """
    return _NOT_WORD.sub("_", name.lower()).strip("_")


def merge_duplicates(ordered: Sequence[Node]) -> None:
    """Let one node tell of each call; the others become ignored, with the reason.

    Args:
        ordered: all nodes of one trace in depth-first order.
    """
    for node in ordered:
        if isinstance(node.event, ModelCall) and node.event.messages_out:
            fresh = _without_stale(node.event)
            if fresh is not node.event:
                node.retell(fresh)
    holders = _holders(ordered)
    _merge_nested_model_calls(ordered, holders)
    _merge_nested_tool_calls(ordered, holders)


def _holders(ordered: Sequence[Node]) -> dict[int, Node]:
    """Return the nearest run or call above each node that has one, by the node's `id()`."""
    found: dict[int, Node] = {}
    for node in ordered:  # depth first: what is above is known already
        parent = node.parent
        if parent is None:
            continue
        holder = parent if isinstance(parent.event, (AgentRun, ModelCall, ToolCall)) else found.get(id(parent))
        if holder is not None:
            found[id(node)] = holder
    return found


def _merge_nested_model_calls(ordered: Sequence[Node], holders: Mapping[int, Node]) -> None:
    inside: dict[int, list[Node]] = defaultdict(list)
    holds_tools: set[int] = set()
    for node in ordered:
        holder = holders.get(id(node))
        if holder is None or not isinstance(holder.event, ModelCall):
            continue
        if isinstance(node.event, ModelCall):
            inside[id(holder)].append(node)
        elif isinstance(node.event, ToolCall):
            holds_tools.add(id(holder))
    for node in reversed(ordered):  # from the leaves up: what is inside is put together already
        if id(node) in inside:
            _merge_inner(node, inside[id(node)], holds_tools=id(node) in holds_tools)


def _merge_inner(outer: Node, inner: Sequence[Node], *, holds_tools: bool) -> None:
    """Merge what is inside a model call into it, unless it sums up several of them."""
    worked = [node for node in inner if node.event.header.error is None]
    # Of a call that was tried again all tries but the last failed; where all did, the last is the call itself.
    failed = len(inner) - len(worked) - (outer.event.header.error is not None)
    sums = any(isinstance(node.event, Ignored) for node in inner)  # what holds a summary is one, too
    if len(worked) > 1 or holds_tools or sums:
        if len(worked) == 1 and isinstance(worked[0].event, ModelCall) and isinstance(outer.event, ModelCall):
            worked[0].retell(_filled(worked[0].event, outer.event))
        outer.ignore("sums up the model calls inside it")
        return
    told = [node.event for node in (outer, *inner) if isinstance(node.event, ModelCall)]
    merged = merged_model_call(told)
    outer.retell(
        replace(
            merged,
            input_tokens=_all_tries([event.input_tokens for event in told]),
            output_tokens=_all_tries([event.output_tokens for event in told]),
            failed_tries=merged.failed_tries + max(failed, 0),
        )
    )
    for node in inner:
        if isinstance(node.event, ModelCall):
            node.ignore("the same model call as the span above it", same_as=outer)


def _all_tries(counts: Sequence[int | None]) -> int | None:
    """Return the tokens of a call as its own span counts them, the first; else those of all tries inside it together."""
    inner = [count for count in counts[1:] if count is not None]
    return _count((counts[0], sum(inner) if inner else None))


def _filled(inner: ModelCall, outer: ModelCall) -> ModelCall:
    """Return a model call with the content that only the span around it holds (call_llm of google-adk)."""
    return replace(
        inner,
        messages_in=outer.messages_in if inner.messages_in is None else inner.messages_in,
        messages_out=outer.messages_out if inner.messages_out is None else inner.messages_out,
        model=inner.model or outer.model,
        input_tokens=outer.input_tokens if inner.input_tokens is None else inner.input_tokens,
        output_tokens=outer.output_tokens if inner.output_tokens is None else inner.output_tokens,
        definitions=outer.definitions if inner.definitions is None else inner.definitions,
    )


def merged_model_call(told: Sequence[ModelCall]) -> ModelCall:
    """Return the first of several tellings with what the others know better."""
    return replace(
        told[0],
        messages_in=max((event.messages_in for event in told), key=_substance),
        messages_out=max((event.messages_out for event in told), key=_substance),
        model=next((event.model for event in told if event.model), None),
        response_id=next((event.response_id for event in told if event.response_id), None),
        asks_for_tools=next((event.asks_for_tools for event in told if event.asks_for_tools is not None), None),
        input_tokens=_count(event.input_tokens for event in told),
        output_tokens=_count(event.output_tokens for event in told),
        definitions=_merged(event.definitions for event in told),
        failed_tries=max(event.failed_tries for event in told),
    )


def _count(told: Iterable[int | None]) -> int | None:
    """Return the first count of tokens; 0, which some write for unknown, only where nobody tells another."""
    counts = [count for count in told if count is not None]
    return next(filter(None, counts), counts[0] if counts else None)


def _merged(told: Iterable[Definitions | None]) -> Definitions | None:
    """Return the definitions of all tellings; what the first says of a tool's parameters wins."""
    found: Definitions | None = None
    for definitions in reversed(list(told)):
        found = merged_definitions(found, definitions)
    return found


def _substance(messages: Sequence[Message] | None) -> tuple[int, int]:
    """Return how much a list of messages tells: whether it was captured, and how many parts it has."""
    if messages is None:
        return (0, 0)
    return (1, sum(not isinstance(part, Redacted) for message in messages for part in message.parts))


def _merge_nested_tool_calls(ordered: Sequence[Node], holders: Mapping[int, Node]) -> None:
    inside: dict[Node, list[ToolCall]] = defaultdict(list)
    for node in ordered:  # depth first: a chain of three is merged into its top
        inner, holder = node.event, holders.get(id(node))
        if holder is not None and holder.same_as is not None:
            holder = holder.same_as
        outer = holder.event if holder is not None else None
        if not isinstance(inner, ToolCall) or holder is None or not isinstance(outer, ToolCall):
            continue
        if _reports(node, holder):
            node.ignore("an event of the tool call above it", same_as=holder)
            continue
        if _same_tool_call(outer, inner):
            holder.retell(named_by(outer, inner))
            node.ignore("the same tool call as the span above it", same_as=holder)
            inside[holder].append(inner)
    for holder, tellings in inside.items():
        assert isinstance(holder.event, ToolCall)  # noqa: S101 — chosen so above
        # Of an inner call that was tried again the last try counts.
        tellings.sort(key=lambda event: event.header.span.end_ns, reverse=True)
        told = next((event for event in tellings if event.result_captured), tellings[0])
        holder.retell(with_outcome(holder.event, told, failed=tellings[0]))


def _reports(node: Node, holder: Node) -> bool:
    """Return whether a span without the name of a tool, right inside a call that has one, is an event of that call.

    An instrumentation names all of its tools or none; a span named after an event (`error`, `retry`) is not a tool (BeeAI).
    """
    inner, outer = node.event, holder.event
    if not isinstance(inner, ToolCall) or not isinstance(outer, ToolCall) or inner.is_named or not outer.is_named:
        return False
    return node.parent is holder and not node.children and node.span.scope.name == holder.span.scope.name


def _same_tool_call(one: ToolCall, other: ToolCall) -> bool:
    if folded(one.name) != folded(other.name):
        return False
    if one.call_id is not None and other.call_id is not None:
        return one.call_id == other.call_id
    return one.arguments is None or other.arguments is None or one.arguments == other.arguments or _unnamed(one, other)


def _unnamed(one: ToolCall, other: ToolCall) -> bool:
    return not (has_named_arguments(one.arguments) and has_named_arguments(other.arguments))


def named_by(outer: ToolCall, inner: ToolCall) -> ToolCall:
    """Return a call with the id and the arguments that another telling of it knows better."""
    better = has_named_arguments(outer.arguments) or inner.arguments is None
    return replace(
        outer,
        call_id=outer.call_id or inner.call_id,
        arguments=outer.arguments if better else inner.arguments,
        handoff_to=outer.handoff_to or inner.handoff_to,
        schema=inner.schema if outer.schema is None else outer.schema,
    )


def with_outcome(outer: ToolCall, told: ToolCall, *, failed: ToolCall) -> ToolCall:
    """Return a call with the result of one other telling, and the error of one, where it knows none itself."""
    result = outer if outer.result_captured or not told.result_captured else told
    return replace(
        outer,
        header=replace(outer.header, error=outer.header.error or failed.header.error),
        result=result.result,
        result_captured=result.result_captured,
        is_error=outer.is_error or failed.is_error,
    )


def _without_stale(event: ModelCall) -> ModelCall:
    """Return the response without requests that its own input already shows.

    Several model calls that are written onto one span overwrite each other by key, and what the last one did not write
    stays from an earlier one (google-adk under OpenInference).
    """
    messages = event.messages_out or ()
    ids = {request.call_id for message in messages for request in message.requests} - {None}
    asked = {
        (request.call_id, *content_of(request))
        for message in (event.messages_in or () if ids else ())
        for request in message.requests
        if request.call_id in ids
    }
    if not asked:
        return event
    fresh = (
        replace(message, parts=tuple(part for part in message.parts if not _is_stale(part, asked)))
        for message in messages
    )
    return replace(event, messages_out=tuple(fresh))


def _is_stale(part: Part, asked: Container[tuple[str | None, str, str]]) -> bool:
    # An id alone proves nothing: some number the calls of each response anew.
    return isinstance(part, CallRequest) and part.call_id is not None and (part.call_id, *content_of(part)) in asked


def content_of(request: CallRequest) -> tuple[str, str]:
    """Return a request's tool and arguments as text that compares: 42 and 42.0 are one, the order of names is none."""
    return (folded(request.name), comparable(request.arguments))


def comparable(value: object) -> str:
    """Return arguments as text that compares.

    >>> comparable({"n": 42, "city": "Paris"}) == comparable({"city": "Paris", "n": 42.0})
    True
    """
    return repr(_sorted(value))


def _sorted(value: object) -> object:
    if isinstance(value, Mapping):
        return sorted((str(key), repr(_sorted(item))) for key, item in value.items())
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < _EXACT else value
