"""Which conversation a trace, or a part of one, belongs to.

Identity is (environment, conversation id). An explicit id wins, the one nearest the root over those below it, and is
inherited over the whole trace. Without one: span links, then growing message history, else the trace is the conversation.
Everything here is a pure function of the set of spans: the order of arrival changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.answers import last_words
from otel_agentic.conversations.echoes import echoes_of
from otel_agentic.conversations.history import digests_after, digests_before, text_digest
from otel_agentic.conversations.model import ConversationId, LinkMethod
from otel_agentic.conversations.naming import agent_of, inherited_ids
from otel_agentic.conversations.turns import last_query
from otel_agentic.dialects.events import AgentRun, Ignored, Message, ModelCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.conversations.tree import Node

_ENVIRONMENT_KEYS: Final = ("deployment.environment.name", "deployment.environment")


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The part of one trace that belongs to one conversation: mostly the whole trace.

    `nodes` are in depth-first order, at least one of them an event. `history_in` and `history_out` are digests of what was
    said before and after it, the weakest first (`history`). `query_digest`, `moments` (start and end of each model call, ns),
    `scopes` and `substance` (how many messages were captured) tell whether it repeats another segment (`echoes`). `agents` are all that spoke in it.
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
    moments: tuple[tuple[int, int], ...] = ()
    scopes: frozenset[str] = frozenset()
    substance: int = 0
    agents: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """The segments of one conversation, in time order, and how they were put together.

    `echoes` are segments that repeat some of these as another instrumentation saw them: they add nothing.
    """

    environment: str
    conversation_id: ConversationId
    method: LinkMethod
    ambiguous: bool
    segments: tuple[Segment, ...]
    echoes: tuple[Segment, ...] = ()


def segments_of(nodes: Sequence[Node]) -> list[Segment]:
    """Return the segments of one trace: one for each explicit conversation id, or one without.

    Args:
        nodes: all nodes of the trace in depth-first order (`tree.build`).
    """
    groups: dict[str | None, list[Node]] = defaultdict(list)
    ids = inherited_ids(nodes)
    several = len(set(ids)) > 1
    for node, conversation_id in zip(nodes, ids, strict=True):
        if conversation_id is not None or not several:
            groups[conversation_id].append(node)
    return [
        _segment(members, conversation_id)
        for conversation_id, members in groups.items()
        if any(not isinstance(member.event, Ignored) for member in members)
    ]


def link(segments: Iterable[Segment], *, idle_ns: int) -> list[Linked]:
    """Return the conversations that the segments make up, in order of their first span.

    Args:
        segments: the segments of all traces in view.
        idle_ns: the longest pause, in nanoseconds, over which message history links two traces without an id.
    """
    everything = sorted(segments, key=lambda segment: (segment.start_ns, segment.trace_id))
    echoes = echoes_of(everything)
    ordered = [segment for segment in everything if id(segment) not in echoes]
    explicit = {segment.trace_id: segment for segment in ordered if segment.explicit_id is not None}
    heads: dict[tuple[str, str | None], _Chain] = {}
    chains: list[_Chain] = []
    loose = _History(idle_ns)
    by_trace: dict[str, _Chain] = {}
    for segment in ordered:
        chain, method, ambiguous = _chain_for(segment, heads, by_trace, explicit, loose)
        if chain is None:
            chain = _Chain(segment)
            chains.append(chain)
        else:
            chain.segments.append(segment)
        chain.note(method, ambiguous=ambiguous)
        by_trace.setdefault(segment.trace_id, chain)
        if chain.explicit_id is not None:
            heads.setdefault((chain.environment, chain.explicit_id), chain)
        else:
            loose.add(segment, chain)
    home = {id(segment): chain for chain in chains for segment in chain.segments}
    for segment in everything:
        if id(segment) in echoes:
            home[id(echoes[id(segment)])].echoes.append(segment)
    return [chain.linked() for chain in chains]


class _Chain:
    """A conversation while it is being put together."""

    def __init__(self, segment: Segment) -> None:
        self.segments = [segment]
        self.echoes: list[Segment] = []
        self.environment = segment.environment
        self.explicit_id = segment.explicit_id
        self.method: LinkMethod = "explicit" if segment.explicit_id is not None else "trace"
        self.ambiguous = False

    def note(self, method: LinkMethod, *, ambiguous: bool) -> None:
        if method in {"span_link", "history"} and self.method == "trace":
            self.method = method
        self.ambiguous = self.ambiguous or ambiguous

    def linked(self) -> Linked:
        name = self.explicit_id if self.explicit_id is not None else self.segments[0].trace_id
        return Linked(
            environment=self.environment,
            conversation_id=ConversationId(name),
            method=self.method,
            ambiguous=self.ambiguous,
            segments=tuple(self.segments),
            echoes=tuple(self.echoes),
        )


class _History:
    """The open ends of conversations without an id, by the digest of their history so far."""

    def __init__(self, idle_ns: int) -> None:
        self._idle_ns = idle_ns
        self._ends: dict[tuple[str, str | None, str], list[tuple[Segment, _Chain]]] = defaultdict(list)

    def add(self, segment: Segment, chain: _Chain) -> None:
        for digest in segment.history_out:
            self._ends[_family(segment, digest)].append((segment, chain))

    def find(self, segment: Segment) -> tuple[_Chain | None, bool]:
        """Return the conversation that the segment goes on, and whether two went equally well."""
        for digest in reversed(segment.history_in):  # the longest prefix first
            open_ends = [
                (end, chain)
                for end, chain in self._ends.get(_family(segment, digest), ())
                if end.end_ns <= segment.start_ns <= end.end_ns + self._idle_ns
                and chain.segments[-1] is end
                and _same_agent(segment, end)
            ]
            if not open_ends:
                continue
            latest = max(end.end_ns for end, _ in open_ends)
            best = [chain for end, chain in open_ends if end.end_ns == latest]
            return (best[0], False) if len(best) == 1 else (None, True)
        return None, False


def _family(segment: Segment, digest: str) -> tuple[str, str | None, str]:
    return (segment.environment, segment.service, digest)


def _same_agent(segment: Segment, end: Segment) -> bool:
    """Return whether one agent goes on with what the other said: itself, or one that control was handed to."""
    return segment.agent_name == end.agent_name or segment.agent_name in end.agents


def _chain_for(
    segment: Segment,
    heads: Mapping[tuple[str, str | None], _Chain],
    by_trace: Mapping[str, _Chain],
    explicit: Mapping[str, Segment],
    loose: _History,
) -> tuple[_Chain | None, LinkMethod, bool]:
    if segment.explicit_id is not None:
        return heads.get((segment.environment, segment.explicit_id)), "explicit", False
    for trace_id in sorted(segment.linked_traces - {segment.trace_id}):
        other = explicit.get(trace_id)
        chain = by_trace.get(trace_id) or (heads.get((other.environment, other.explicit_id)) if other else None)
        if chain is not None:
            return chain, "span_link", False
    chain, ambiguous = loose.find(segment)
    return chain, "history" if chain else "trace", ambiguous


def _segment(nodes: Sequence[Node], explicit_id: str | None) -> Segment:
    events = [node for node in nodes if not isinstance(node.event, Ignored)]
    lead = events[0]
    resource = lead.span.resource.attributes
    calls = sorted((node for node in events if isinstance(node.event, ModelCall)), key=lambda node: node.at)
    environment = next((str(resource[key]) for key in _ENVIRONMENT_KEYS if resource.get(key)), "")
    service = resource.get("service.name")
    said = _said(events, calls)
    return Segment(
        trace_id=lead.span.trace_id,
        environment=environment,
        service=str(service) if service is not None else None,
        agent_name=_agent_name(events),
        explicit_id=explicit_id,
        nodes=tuple(nodes),
        start_ns=min(node.span.start_ns for node in events),
        end_ns=max(node.span.end_ns for node in events),
        linked_traces=frozenset(link.trace_id for node in nodes for link in node.span.links),
        history_in=digests_before(said.before, said.query) if explicit_id is None else (),
        history_out=digests_after(said.after, said.answer) if explicit_id is None else (),
        query_digest=text_digest(said.query) if said.query else None,
        moments=tuple((node.span.start_ns, node.span.end_ns) for node in calls),
        scopes=frozenset(node.span.scope.name for node in events),
        agents=frozenset(name for node in events if (name := node.agent_name)),
        substance=sum(len(_out(node) or ()) for node in calls),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What was said before, by and with a segment; empty where it was not captured."""

    before: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()
    query: str | None = None
    answer: str | None = None


def _said(events: Sequence[Node], calls: Sequence[Node]) -> _Said:
    """Return what a segment's own model calls heard and said; those of agents used as tools have histories of their own."""
    own = [node for node in calls if node.holding_call is None] or calls
    heard = [node for node in own if _in(node) is not None]
    run = next((node.event for node in events if node.is_run and isinstance(node.event, AgentRun)), None)
    if not heard:
        before = run.messages_in or () if run is not None else ()
        after = (*before, *(run.messages_out or ())) if run is not None else ()
    else:
        before = _in(heard[0]) or ()
        # Where the response was not recorded, what waits for it is the open end: the next trace's history holds both.
        unheard = _out(heard[-1]) is None and heard[-1].event.header.error is None
        after = (*(_in(heard[-1]) or ()), *(_out(heard[-1]) or ())) if unheard or _out(heard[-1]) else ()
    query = (run.query if run is not None else None) or last_query(before)[0]
    spoken = last_words(after)
    answer = (run.answer if run is not None else None) or (spoken[0] if spoken else None)
    return _Said(before=tuple(before), after=tuple(after), query=query, answer=answer)


def _in(node: Node) -> tuple[Message, ...] | None:
    return node.event.messages_in if isinstance(node.event, ModelCall) else None


def _out(node: Node) -> tuple[Message, ...] | None:
    return node.event.messages_out if isinstance(node.event, ModelCall) else None


def _agent_name(events: Sequence[Node]) -> str | None:
    return agent_of(events) or next((node.agent_name for node in events if node.agent_name), None)
