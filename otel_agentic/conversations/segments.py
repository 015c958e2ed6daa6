"""Segments: the parts of a trace that belong to one conversation, with digests of the history before and after."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.answers import last_answer
from otel_agentic.conversations.history import (
    Transcript,
    digests_after,
    digests_before,
    text_digest,
    transcript_of,
)
from otel_agentic.conversations.naming import agent_of, inherited_ids, short
from otel_agentic.conversations.queries import last_query
from otel_agentic.dialects.events import AgentRun, Ignored, Message, ModelCall

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.conversations.node import Node

_ENVIRONMENT_KEYS: Final = ("deployment.environment.name", "deployment.environment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The part of one trace that belongs to one conversation: mostly the whole trace.

    `nodes` are in depth-first order, at least one of them an event. `history_in` and `history_out` are digests of the messages
    before and after it, the weakest first. `query_digest`, `moments` (start and end of each model call, ns), `answer_digest`,
    `scopes` and `substance` (how many messages were captured) decide whether it repeats another segment (`echoes_of`).
    `transcript` is its form in a later query, `agents` are the agents in it.
    """

    trace_id: str
    environment: str
    service: str | None
    agent_name: str | None
    explicit_id: str | None
    nodes: tuple[Node, ...]
    start_ns: int
    end_ns: int
    linked_traces: frozenset[str]
    history_in: tuple[str, ...]
    history_out: tuple[str, ...]
    query_digest: str | None = None
    answer_digest: str | None = None
    transcript: Transcript | None = None
    moments: tuple[tuple[int, int], ...] = ()
    scopes: frozenset[str] = frozenset()
    substance: int = 0
    agents: frozenset[str] = frozenset()


def segments_of(nodes: Sequence[Node]) -> list[Segment]:
    """Return the segments of one trace: one for each explicit conversation id, or one without an id.

    Args:
        nodes: all nodes of the trace in depth-first order (`build_tree`).
    """
    groups: dict[str | None, list[Node]] = defaultdict(list)
    ids = [None if conversation_id is None else short(conversation_id) for conversation_id in inherited_ids(nodes)]
    several = len(set(ids)) > 1
    for node, conversation_id in zip(nodes, ids, strict=True):
        if conversation_id is not None or not several:
            groups[conversation_id].append(node)
    return [
        _segment(members, conversation_id)
        for conversation_id, members in groups.items()
        if any(not isinstance(member.event, Ignored) for member in members)
    ]


def _segment(nodes: Sequence[Node], explicit_id: str | None) -> Segment:
    events = [node for node in nodes if not isinstance(node.event, Ignored)]
    lead = events[0]
    resource = lead.span.resource.attributes
    calls = sorted((node for node in events if isinstance(node.event, ModelCall)), key=lambda node: node.at)
    environment = short(next((str(resource[key]) for key in _ENVIRONMENT_KEYS if resource.get(key)), ""))
    service = resource.get("service.name")
    context = _context(events, calls)
    return Segment(
        trace_id=lead.span.trace_id,
        environment=environment,
        service=short(str(service)) if service is not None else None,
        agent_name=_agent_name(events),
        explicit_id=explicit_id,
        nodes=tuple(nodes),
        start_ns=min(node.span.start_ns for node in events),
        end_ns=max(node.span.end_ns for node in events),
        linked_traces=frozenset(link.trace_id for node in nodes for link in node.span.links),
        history_in=digests_before(context.before, context.queries) if explicit_id is None else (),
        history_out=digests_after(context.after, context.answer) if explicit_id is None else (),
        query_digest=text_digest(context.query) if context.query else None,
        answer_digest=text_digest(context.answer) if context.answer else None,
        transcript=transcript_of(context.queries, context.answer) if explicit_id is None else None,
        moments=tuple((node.span.start_ns, node.span.end_ns) for node in calls),
        scopes=frozenset(node.span.scope.name for node in events),
        agents=frozenset(name for node in events if (name := node.agent_name)),
        substance=sum(len(_out(node) or ()) for node in calls),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _MessageContext:
    """The messages before and after a segment, its queries and its answer; empty if not captured."""

    before: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()
    queries: tuple[str, ...] = ()
    answer: str | None = None

    @property
    def query(self) -> str | None:
        """The query from the run, else from the model's input."""
        return self.queries[0] if self.queries else None


def _context(events: Sequence[Node], calls: Sequence[Node]) -> _MessageContext:
    """Return the messages of a segment's own model calls; those of agents used as tools have histories of their own."""
    own = [node for node in calls if node.holding_call is None] or calls
    captured = [node for node in own if _in(node) is not None]
    run = next((node.event for node in events if node.is_run and isinstance(node.event, AgentRun)), None)
    if not captured:
        before = run.messages_in or () if run is not None else ()
        last = run.messages_out or () if run is not None else ()
        after = (*before, *last) if run is not None else ()
    else:
        before = _in(captured[0]) or ()
        # If the response was not recorded, the end is the input without it: the next trace's history contains both.
        last = _out(captured[-1]) or ()
        unrecorded = _out(captured[-1]) is None and captured[-1].event.header.error is None
        after = (*(_in(captured[-1]) or ()), *(_out(captured[-1]) or ())) if unrecorded or _out(captured[-1]) else ()
    queries = (run.query if run is not None else None, last_query(before)[0])
    spoken = last_answer(last)
    answer = (run.answer if run is not None else None) or (spoken[0] if spoken else None)
    return _MessageContext(
        before=tuple(before), after=tuple(after), queries=tuple(filter(None, queries)), answer=answer
    )


def _in(node: Node) -> tuple[Message, ...] | None:
    return node.event.messages_in if isinstance(node.event, ModelCall) else None


def _out(node: Node) -> tuple[Message, ...] | None:
    return node.event.messages_out if isinstance(node.event, ModelCall) else None


def _agent_name(events: Sequence[Node]) -> str | None:
    return agent_of(events) or next((node.agent_name for node in events if node.agent_name), None)
