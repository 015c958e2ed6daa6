"""Which conversation a trace, or a part of one, belongs to.

Identity is (environment, conversation id). An explicit id wins, the one nearest the root over those below it, and is
inherited over the whole trace. Without one: span links, then growing message history, else the trace is the conversation.
Everything here is a pure function of the set of spans: the order of arrival changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson

from otel_agentic.conversations.model import ConversationId, LinkMethod
from otel_agentic.conversations.naming import inherited_ids
from otel_agentic.dialects.events import AgentRun, Ignored, Message, ModelCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_agentic.conversations.tree import Node

_ENVIRONMENT_KEYS: Final = ("deployment.environment.name", "deployment.environment")
#: A user's message and an answer: less history than that proves nothing.
_LEAST_HISTORY: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The part of one trace that belongs to one conversation: mostly the whole trace.

    `nodes` are in depth-first order, at least one of them an event. `history_in` and `history_out` are digests of the
    messages before the first and after the last model call, one digest for each length of prefix.
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
    history_out: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """The segments of one conversation, in time order, and how they were put together."""

    environment: str
    conversation_id: ConversationId
    method: LinkMethod
    ambiguous: bool
    segments: tuple[Segment, ...]


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
    ordered = sorted(segments, key=lambda segment: (segment.start_ns, segment.trace_id))
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
    return [chain.linked() for chain in chains]


class _Chain:
    """A conversation while it is being put together."""

    def __init__(self, segment: Segment) -> None:
        self.segments = [segment]
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
        )


class _History:
    """The open ends of conversations without an id, by the digest of their history so far."""

    def __init__(self, idle_ns: int) -> None:
        self._idle_ns = idle_ns
        self._ends: dict[tuple[str, str | None, str | None, str], list[tuple[Segment, _Chain]]] = defaultdict(list)

    def add(self, segment: Segment, chain: _Chain) -> None:
        if segment.history_out is not None:
            self._ends[_family(segment, segment.history_out)].append((segment, chain))

    def find(self, segment: Segment) -> tuple[_Chain | None, bool]:
        """Return the conversation that the segment goes on, and whether two went equally well."""
        for digest in reversed(segment.history_in):  # the longest prefix first
            open_ends = [
                (end, chain)
                for end, chain in self._ends.get(_family(segment, digest), ())
                if end.end_ns <= segment.start_ns <= end.end_ns + self._idle_ns and chain.segments[-1] is end
            ]
            if not open_ends:
                continue
            latest = max(end.end_ns for end, _ in open_ends)
            best = [chain for end, chain in open_ends if end.end_ns == latest]
            return (best[0], False) if len(best) == 1 else (None, True)
        return None, False


def _family(segment: Segment, digest: str) -> tuple[str, str | None, str | None, str]:
    return (segment.environment, segment.service, segment.agent_name, digest)


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
    calls = [node.event for node in sorted(events, key=lambda node: node.at) if isinstance(node.event, ModelCall)]
    top_calls = [call for call in calls if call.messages_in is not None]
    environment = next((str(resource[key]) for key in _ENVIRONMENT_KEYS if resource.get(key)), "")
    service = resource.get("service.name")
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
        history_in=_digests(top_calls[0].messages_in or ()) if top_calls and explicit_id is None else (),
        history_out=_history_out(top_calls) if explicit_id is None else None,
    )


def _agent_name(events: Sequence[Node]) -> str | None:
    runs = [node for node in events if isinstance(node.event, AgentRun) and node.is_run]
    named = [node.agent_name for node in (runs or events) if node.agent_name]
    return named[0] if named else None


def _history_out(calls: Sequence[ModelCall]) -> str | None:
    if not calls or not calls[-1].messages_out:
        return None
    digests = _digests((*(calls[-1].messages_in or ()), *calls[-1].messages_out))
    return digests[-1] if len(digests) >= _LEAST_HISTORY else None


def _digests(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return, for each length, what the history up to there said: text and calls, system prompts left out."""
    import hashlib  # noqa: PLC0415 — only traces without a conversation id come here

    digest = hashlib.blake2b(digest_size=16)
    found = []
    for message in messages:
        if message.role == "system":
            continue
        text = " ".join((message.text or "").split())
        asked = [(request.call_id, request.name) for request in message.requests]
        told = [result.call_id for result in message.results]
        if not text and not asked and not told:
            continue
        digest.update(orjson.dumps([message.role, text, asked, told]))
        found.append(digest.copy().hexdigest())
    return tuple(found)
