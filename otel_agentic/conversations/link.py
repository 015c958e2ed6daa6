"""Which conversation a trace, or a part of one, belongs to.

Identity is (environment, conversation id). An explicit id wins, the one nearest the root over those below it, and is
inherited over the whole trace. Without one: span links, then growing message history, else the trace is the conversation.
Everything here is a pure function of the set of spans: the order of arrival changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_agentic.conversations.echoes import echoes_of
from otel_agentic.conversations.model import ConversationId, LinkMethod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_agentic.conversations.segments import Segment


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


def link(segments: Iterable[Segment], *, idle_ns: int) -> list[Linked]:
    """Return the conversations that the segments make up, in order of their first span.

    Args:
        segments: the segments of all traces in view.
        idle_ns: the longest pause, in nanoseconds, over which message history links two traces without an id.
    """
    everything = sorted(segments, key=lambda segment: (segment.start_ns, segment.trace_id))
    echoes = echoes_of(everything)
    ordered = [segment for segment in everything if id(segment) not in echoes]
    repeated: dict[int, list[Segment]] = defaultdict(list)
    for segment in everything:
        if id(segment) in echoes:
            repeated[id(echoes[id(segment)])].append(segment)
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
        chain.echoes += repeated.get(id(segment), ())
        for told in (segment, *repeated.get(id(segment), ())):
            by_trace.setdefault(told.trace_id, chain)
        if chain.explicit_id is not None:
            heads.setdefault((chain.environment, chain.explicit_id), chain)
        else:
            loose.add(segment, chain)
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
            ends = self._ends.get(_family(segment, digest), [])
            ends[:] = [
                (end, chain)
                for end, chain in ends  # segments come in time order: what is over now stays so
                if segment.start_ns <= end.end_ns + self._idle_ns and chain.segments[-1] is end
            ]
            open_ends = [
                (end, chain)
                for end, chain in ends
                if end.end_ns <= segment.start_ns and _same_agent(segment, end) and _is_shown(end, segment, digest)
            ]
            if not open_ends:
                continue
            latest = max(end.end_ns for end, _ in open_ends)
            best = [chain for end, chain in open_ends if end.end_ns == latest]
            return (best[0], False) if len(best) == 1 else (None, True)
        return None, False


def _family(segment: Segment, digest: str) -> tuple[str, str | None, str]:
    return (segment.environment, segment.service, digest)


def _is_shown(end: Segment, segment: Segment, digest: str) -> bool:
    """Return whether a digest that both have proves it: that of a line does so only within a transcript."""
    if end.transcript is None or segment.transcript is None or digest != end.transcript.digest:
        return True
    return segment.transcript.shows(end.transcript)


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
