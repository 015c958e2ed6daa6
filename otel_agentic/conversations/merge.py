"""`Node`, one span of a trace with its event and its position in the tree; and the merging of nodes that record the same call.

Wrappers record a call a second time (a client inside a framework, a protocol inside a tool), and so do two instrumentations
of one process that are active at the same time.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from otel_agentic.dialects.base import UNKNOWN
from otel_agentic.dialects.events import (
    AgentEvent,
    AgentRun,
    CallRequest,
    Definitions,
    Ignored,
    Message,
    ModelCall,
    Part,
    Redacted,
    ToolCall,
    merged_definitions,
)
from otel_agentic.dialects.values import has_named_arguments

if TYPE_CHECKING:
    from otel_agentic.dialects.base import Reading
    from otel_agentic.spans.model import Span

#: More than one conversation.
_SEVERAL: Final = 2

#: A name longer than this many characters is shortened, because it is written to every row of its conversation.
_LONGEST: Final = 1000
_BEGINNING: Final = 200


def short(name: str) -> str:
    """Return a name as stored in the rows of a conversation; a very long name is replaced by a prefix and a digest.

    >>> short("booking"), len(short("x" * 1_000_000))
    ('booking', 233)
    """
    if len(name) <= _LONGEST:
        return name
    import hashlib  # noqa: PLC0415 — names that long are rare

    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{name[:_BEGINNING]}…{digest}"


def agent_of(nodes: Iterable[Node]) -> str | None:
    """Return the name of the agent of some spans: of the topmost run that names it, else of the topmost certain run.

    A span that may be a run (a workflow, a chain) is named after a function; it is used only if nothing else names the agent.
    """
    runs = [node for node in nodes if node.is_run and node.agent_name and node.holding_call is None]
    named = (node for node in runs if node.event.header.agent_name)
    certain = (node for node in runs if isinstance(node.event, AgentRun) and node.event.certain)
    run = next(named, None) or next(certain, None) or next(iter(runs), None)
    return run.agent_name if run is not None else None


def inherited_ids(nodes: Sequence[Node]) -> list[str | None]:
    """Return the conversation id of each node: the topmost one above it, else one from elsewhere in the trace.

    Ids on the agent's own spans take precedence over ids on spans around it (a web request with its user's session). An agent
    that was used as a tool has a session of its own, which is used only if the trace has no other id. In a trace of
    several conversations, a node that contains more than one of them belongs to none.
    """
    own_nodes = [node for node in nodes if not _is_of_sub_agent(node)]
    known_nodes = [node for node in own_nodes if node.event.header.dialect != UNKNOWN]
    alone = not any(node.is_run or isinstance(node.event, ModelCall) for node in own_nodes)
    for naming_nodes in (known_nodes, own_nodes, nodes if alone else ()):
        ids = _ids_from_above(naming_nodes, nodes)
        distinct = set(ids.values()) - {None}
        if len(distinct) == 1:
            return [distinct.pop()] * len(nodes)
        if distinct:
            return _nearby(nodes, ids)
    return [None] * len(nodes)


def _is_of_sub_agent(node: Node) -> bool:
    run = node if node.is_run else node.run
    return run is not None and run.holding_call is not None


def _ids_from_above(naming: Iterable[Node], nodes: Sequence[Node]) -> dict[int, str | None]:
    """Return the topmost conversation id above or on each node, by the node's `id()`; only ids on `naming` nodes count."""
    may_name = {id(node) for node in naming}
    ids: dict[int, str | None] = {}
    for node in nodes:  # depth first: a parent comes before its children
        above = ids.get(id(node.parent)) if node.parent is not None else None
        own = node.event.header.conversation_id if id(node) in may_name else None
        ids[id(node)] = above if above is not None else own
    return ids


def _nearby(nodes: Sequence[Node], own_ids: Mapping[int, str | None]) -> list[str | None]:
    """Return the id of each node in a trace with several ids: its own, else that of its descendants, else the previous one."""
    below: dict[int, set[str]] = {}
    for node in reversed(nodes):  # from the leaves up
        own = own_ids[id(node)]
        ids_inside = below.setdefault(id(node), set())
        ids_inside |= {own} - {None}  # type: ignore[arg-type]  # mypy does not see that None is removed
        if node.parent is not None:
            # Two are enough to know that there are several. Passing on all would make the time quadratic in the depth.
            below.setdefault(id(node.parent), set()).update(islice(ids_inside, _SEVERAL))
    ids: list[str | None] = []
    previous_id = next(value for node in nodes if (value := own_ids[id(node)]) is not None)
    for node in nodes:
        own, ids_inside = own_ids[id(node)], below[id(node)]
        previous_id = previous_id if own is None else own
        ids.append(own or (previous_id if not ids_inside else next(iter(ids_inside)) if len(ids_inside) == 1 else None))
    return ids


#: The text that frameworks put around an agent's name in a span name.
_NAME_AFFIXES: Final = re.compile(
    r"^(?:invoke_agent|invoke_workflow|agent run|Agent run:)\s*|\.(?:agent|workflow|run)$"
)


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One span in its trace, mutable because its place is known only once the trace is complete.

    It refers to no node below it: as cyclic garbage, nodes would be freed much later. `event` is the event of the span, and
    `why` the reason why its dialect was selected. `order` numbers the nodes of a trace depth first, siblings by start time;
    `last` is the order of the last node below it, its own if it has none below; `at` is the sort key in time, in which the
    trace id and this order decide between equal times. `is_run` is whether an `AgentRun` event counts as a run (see
    `mark_runs`), `run` is the nearest run above, `holding_call` the nearest tool call above, `holds_run` is whether a run
    is below, and `same_as` is the node with the merged record of the same call.
    """

    event: AgentEvent
    why: str
    span: Span
    parent: Node | None = None
    order: int = 0
    last: int = 0
    at: tuple[int, str, int] = (0, "", 0)
    is_run: bool = False
    run: Node | None = None
    holding_call: Node | None = None
    holds_run: bool = False
    same_as: Node | None = None

    @classmethod
    def of(cls, reading: Reading) -> Node:
        """Return the node of a span, without a position."""
        return cls(event=reading.event, why=reading.why, span=reading.event.header.span)

    def put_at(self, order: int) -> None:
        """Set the position in the trace."""
        self.order = self.last = order
        self.at = (self.span.start_ns, self.span.trace_id, order)

    def ignore(self, reason: str, *, same_as: Node | None = None) -> None:
        """Ignore the node for a reason; `same_as` is the node with the merged record."""
        self.event = Ignored(header=self.event.header, reason=reason)
        self.same_as = same_as

    def ancestors(self) -> Iterator[Node]:
        """Yield the nodes above, nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def subtree(self, ordered: Sequence[Node]) -> Sequence[Node]:
        """Return which of some nodes of its trace, in depth-first order, are the node itself or below it."""
        start = bisect_left(ordered, self.order, key=by_order)
        return ordered[start : bisect_right(ordered, self.last, lo=start, key=by_order)]

    @property
    def agent_name(self) -> str | None:
        """The name of the agent whose run this node is, or is part of."""
        run = self if self.is_run else self.run
        if run is None:
            return _short_or_none(self.event.header.agent_name)
        return _short_or_none(run.event.header.agent_name or _NAME_AFFIXES.sub("", run.span.name).strip())


#: The sort keys of nodes: in time, and depth first.
by_time: Final = attrgetter("at")
by_order: Final = attrgetter("order")


def _short_or_none(name: str | None) -> str | None:
    return short(name) if name else None


#: Whole numbers below this are exact as floating-point numbers.
_EXACT: Final = 2**53
_NOT_WORD: Final = re.compile(r"[^0-9a-z]+")


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """Return a name as compared: some instrumentations use the model's spelling, others that of the code.

    >>> folded("Delegate work to coworker") == folded("delegate_work_to_coworker")
    True
    """
    return _NOT_WORD.sub("_", name.lower()).strip("_")


def merge_duplicates(ordered: Sequence[Node]) -> None:
    """Keep one node for each call; ignore the others, with the reason.

    Args:
        ordered: all nodes of one trace in depth-first order.
    """
    for node in ordered:
        if isinstance(node.event, ModelCall) and node.event.messages_out:
            fresh = _without_stale(node.event)
            if fresh is not node.event:
                node.event = fresh
    holders = _holders(ordered)
    _merge_nested_model_calls(ordered, holders)
    _merge_nested_tool_calls(ordered, holders)


def _holders(ordered: Sequence[Node]) -> dict[int, Node]:
    """Return the nearest run or call above each node, if there is one, by the node's `id()`."""
    holders: dict[int, Node] = {}
    for node in ordered:  # depth first: the holder of the parent is known already
        parent = node.parent
        if parent is None:
            continue
        holder = parent if isinstance(parent.event, (AgentRun, ModelCall, ToolCall)) else holders.get(id(parent))
        if holder is not None:
            holders[id(node)] = holder
    return holders


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
    for node in reversed(ordered):  # from the leaves up: inner calls are merged already
        if id(node) in inside:
            _merge_inner(node, inside[id(node)], holds_tools=id(node) in holds_tools)


def _merge_inner(outer: Node, inner: Sequence[Node], *, holds_tools: bool) -> None:
    """Merge the model calls inside a model call into it, unless it summarises several of them."""
    succeeded = [node for node in inner if node.event.header.error is None]
    # All tries of a retried call except the last one failed; if all failed, the last one is the call itself.
    failed = len(inner) - len(succeeded) - (outer.event.header.error is not None)
    summarises = any(isinstance(node.event, Ignored) for node in inner)  # a call around a summary is a summary, too
    if len(succeeded) > 1 or holds_tools or summarises:
        if len(succeeded) == 1 and isinstance(succeeded[0].event, ModelCall) and isinstance(outer.event, ModelCall):
            succeeded[0].event = _filled(succeeded[0].event, outer.event)
        outer.ignore("summarises the model calls inside it")
        return
    records = [node.event for node in (outer, *inner) if isinstance(node.event, ModelCall)]
    merged = merged_model_call(records)
    outer.event = replace(
        merged,
        input_tokens=_all_tries([event.input_tokens for event in records]),
        output_tokens=_all_tries([event.output_tokens for event in records]),
        failed_tries=merged.failed_tries + max(failed, 0),
    )
    for node in inner:
        if isinstance(node.event, ModelCall):
            node.ignore("the same model call as the span above it", same_as=outer)


def _all_tries(counts: Sequence[int | None]) -> int | None:
    """Return the tokens of a call by its own span, the first count; else the sum over all tries inside it."""
    inner = [count for count in counts[1:] if count is not None]
    return _count((counts[0], sum(inner) if inner else None))


def _filled(inner: ModelCall, outer: ModelCall) -> ModelCall:
    """Return a model call with the content that only the span around it contains (call_llm of google-adk)."""
    return replace(
        inner,
        messages_in=outer.messages_in if inner.messages_in is None else inner.messages_in,
        messages_out=outer.messages_out if inner.messages_out is None else inner.messages_out,
        model=inner.model or outer.model,
        input_tokens=outer.input_tokens if inner.input_tokens is None else inner.input_tokens,
        output_tokens=outer.output_tokens if inner.output_tokens is None else inner.output_tokens,
        definitions=outer.definitions if inner.definitions is None else inner.definitions,
    )


def merged_model_call(records: Sequence[ModelCall]) -> ModelCall:
    """Return the first of several records of a call, completed with the others."""
    return replace(
        records[0],
        messages_in=max((event.messages_in for event in records), key=_substance),
        messages_out=max((event.messages_out for event in records), key=_substance),
        model=next((event.model for event in records if event.model), None),
        response_id=next((event.response_id for event in records if event.response_id), None),
        asks_for_tools=next((event.asks_for_tools for event in records if event.asks_for_tools is not None), None),
        input_tokens=_count(event.input_tokens for event in records),
        output_tokens=_count(event.output_tokens for event in records),
        definitions=_merged(event.definitions for event in records),
        failed_tries=max(event.failed_tries for event in records),
    )


def _count(recorded: Iterable[int | None]) -> int | None:
    """Return the first token count; 0 only if there is no other, since some instrumentations write 0 for unknown."""
    counts = [count for count in recorded if count is not None]
    return next(filter(None, counts), counts[0] if counts else None)


def _merged(recorded: Iterable[Definitions | None]) -> Definitions | None:
    """Return the definitions of all records; the parameters of a tool in the first record take precedence."""
    merged: Definitions | None = None
    for definitions in reversed(list(recorded)):
        merged = merged_definitions(merged, definitions)
    return merged


def _substance(messages: Sequence[Message] | None) -> tuple[int, int]:
    """Return how informative a list of messages is: whether it was captured, and how many parts it has."""
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
        if _is_event_of(node, holder):
            node.ignore("an event of the tool call above it", same_as=holder)
            continue
        if _same_tool_call(outer, inner):
            holder.event = named_by(outer, inner)
            node.ignore("the same tool call as the span above it", same_as=holder)
            inside[holder].append(inner)
    for holder, records in inside.items():
        assert isinstance(holder.event, ToolCall)  # noqa: S101 — selected above
        # If the inner call was retried, its last try counts.
        records.sort(key=lambda event: event.header.span.end_ns, reverse=True)
        completed = next((event for event in records if event.result_captured), records[0])
        holder.event = with_outcome(holder.event, completed, failed=records[0])


def _is_event_of(node: Node, holder: Node) -> bool:
    """Return whether a span without a tool name, directly inside a call with one, is an event of that call.

    An instrumentation names all of its tools or none; a span named after an event (`error`, `retry`) is not a tool (BeeAI).
    """
    inner, outer = node.event, holder.event
    if not isinstance(inner, ToolCall) or not isinstance(outer, ToolCall) or inner.is_named or not outer.is_named:
        return False
    return node.parent is holder and node.last == node.order and node.span.scope.name == holder.span.scope.name


def _same_tool_call(outer: ToolCall, inner: ToolCall) -> bool:
    if folded(outer.name) != folded(inner.name):
        return False
    if outer.call_id is not None and inner.call_id is not None:
        return outer.call_id == inner.call_id
    if outer.arguments is None or inner.arguments is None or outer.arguments == inner.arguments:
        return True
    return not (has_named_arguments(outer.arguments) and has_named_arguments(inner.arguments))


def named_by(outer: ToolCall, inner: ToolCall) -> ToolCall:
    """Return a call, completed with the id and the arguments of another record of it."""
    keeps_arguments = has_named_arguments(outer.arguments) or inner.arguments is None
    return replace(
        outer,
        call_id=outer.call_id or inner.call_id,
        arguments=outer.arguments if keeps_arguments else inner.arguments,
        handoff_to=outer.handoff_to or inner.handoff_to,
        schema=inner.schema if outer.schema is None else outer.schema,
    )


def with_outcome(outer: ToolCall, completed: ToolCall, *, failed: ToolCall) -> ToolCall:
    """Return a call, completed with the result of one other record and the error of another."""
    source = outer if outer.result_captured or not completed.result_captured else completed
    return replace(
        outer,
        header=replace(outer.header, error=outer.header.error or failed.header.error),
        result=source.result,
        result_captured=source.result_captured,
        is_error=outer.is_error or failed.is_error,
    )


def _without_stale(event: ModelCall) -> ModelCall:
    """Return the response without requests that its own input already contains.

    Several model calls that are written onto one span overwrite each other's keys, and keys that the last one did not write
    keep the value of an earlier one (google-adk under OpenInference).
    """
    messages = event.messages_out or ()
    ids = {request.call_id for message in messages for request in message.requests} - {None}
    input_requests = {
        (request.call_id, *content_of(request))
        for message in (event.messages_in or () if ids else ())
        for request in message.requests
        if request.call_id in ids
    }
    if not input_requests:
        return event
    cleaned = (
        replace(message, parts=tuple(part for part in message.parts if not _is_stale(part, input_requests)))
        for message in messages
    )
    return replace(event, messages_out=tuple(cleaned))


def _is_stale(part: Part, input_requests: Container[tuple[str | None, str, str]]) -> bool:
    # An id alone proves nothing: some frameworks number the calls of each response from the start.
    return (
        isinstance(part, CallRequest)
        and part.call_id is not None
        and (part.call_id, *content_of(part)) in input_requests
    )


def content_of(request: CallRequest) -> tuple[str, str]:
    """Return a request's tool and arguments as comparable text: 42 equals 42.0, and the order of names is ignored."""
    return (folded(request.name), comparable(request.arguments))


def comparable(value: object) -> str:
    """Return arguments as comparable text.

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
    for node in sorted(ordered, key=lambda node: (node.span.start_ns, node.order)):
        scope, keys = node.span.scope.name, list(_identities(node))
        original = next(filter(None, (_echoed(node, recorded[key], scopes) for key in keys)), None)
        if original is None:
            record = _Record(node=node, scopes={scope})
            for key in keys:
                recorded[key][scope][node.order] = record
            continue
        original.scopes.add(scope)
        original.node.event = _merged_records(original.node.event, node.event)
        kind = "model" if isinstance(node.event, ModelCall) else "tool"
        node.ignore(f"the same {kind} call as recorded by {original.node.span.scope.name}", same_as=original.node)


def _echoed(node: Node, recorded: _Open, scopes: int) -> _Record | None:
    """Return the record of another scope that a node repeats; remove records that can no longer be repeated."""
    own_scope = node.span.scope.name
    for records in (records for scope, records in recorded.items() if scope != own_scope):
        expired, match = [], None
        for order, record in records.items():
            first = record.node
            if first.span.end_ns < node.span.start_ns or len(record.scopes) == scopes:
                expired.append(order)
            # A call below the first record is an agent's own call; otherwise it would have been merged already.
            elif (
                own_scope not in record.scopes
                and not order < node.order <= first.last
                and _agree(node.event, first.event)
            ):
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
