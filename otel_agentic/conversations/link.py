"""Assigns traces, or parts of them, to conversations.

Identity is (environment, conversation id). An explicit id takes precedence, the one nearest the root over those below it, and
is inherited across the trace. Without one: span links, then growing message history, else the trace is the conversation.
Linking is a pure function of the set of spans: the order of arrival does not matter.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.echoes import echoes_of
from otel_agentic.conversations.model import ConversationId, LinkMethod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_agentic.conversations.segments import Segment

    _Family = tuple[str, str | None, str | None, str]
    #: The end of a segment, ns, the segment and its conversation.
    _End = tuple[int, Segment, "_Chain"]

#: This many equally good conversations are ambiguous.
_TIED: Final = 2
#: Many conversations end with the same line; at most this many of the latest are examined without a match.
_MOST_SKIPPED: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """The segments of one conversation, in time order, and how they were linked.

    `echoes` are segments that repeat some of these, recorded by another instrumentation: they add nothing.
    """

    environment: str
    conversation_id: ConversationId
    method: LinkMethod
    ambiguous: bool
    segments: tuple[Segment, ...]
    echoes: tuple[Segment, ...] = ()


def link(segments: Iterable[Segment], *, idle_ns: int) -> list[Linked]:
    """Return the conversations that consist of the segments, in order of their first span.

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
        for member in (segment, *repeated.get(id(segment), ())):
            by_trace.setdefault(member.trace_id, chain)
        if chain.explicit_id is not None:
            heads.setdefault((chain.environment, chain.explicit_id), chain)
        else:
            loose.add(segment, chain)
    return [chain.linked() for chain in chains]


class _Chain:
    """A conversation while its segments are linked."""

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
    """The ends of conversations without an id, by the digest of their history and by the agent that may continue them."""

    def __init__(self, idle_ns: int) -> None:
        self._idle_ns = idle_ns
        self._ends: dict[_Family, list[_End]] = defaultdict(list)

    def add(self, segment: Segment, chain: _Chain) -> None:
        for digest in segment.history_out:
            for agent in {segment.agent_name, *segment.agents}:
                insort(self._ends[_family(segment, agent, digest)], (segment.end_ns, segment, chain), key=_end_ns)

    def find(self, segment: Segment) -> tuple[_Chain | None, bool]:
        """Return the conversation that the segment continues, and whether several match equally well."""
        for digest in reversed(segment.history_in):  # the longest prefix first
            ends = self._ends.get(_family(segment, segment.agent_name, digest))
            best = self._latest(segment, digest, ends) if ends else []
            if best:
                return (best[0], False) if len(best) == 1 else (None, True)
        return None, False

    def _latest(self, segment: Segment, digest: str, ends: list[_End]) -> list[_Chain]:
        """Return the conversations that ended last before the segment began, one or two."""
        best: list[_Chain] = []
        earliest = segment.start_ns - self._idle_ns
        at, skipped = bisect_right(ends, segment.start_ns, key=_end_ns), 0
        while at and len(best) < _TIED and skipped < _MOST_SKIPPED:
            at -= 1
            end_ns, end, chain = ends[at]
            if end_ns < earliest:
                break
            if chain.segments[-1] is not end:
                del ends[at]  # it has been continued already
            elif _is_shown(end, segment, digest):
                best.append(chain)
                earliest = end_ns
            else:
                skipped += 1
        return best


def _family(segment: Segment, agent: str | None, digest: str) -> _Family:
    """Return the key of the ends that an agent may continue: its own, or those of an agent that handed control over."""
    return (segment.environment, segment.service, agent, digest)


def _end_ns(end: _End) -> int:
    return end[0]


def _is_shown(end: Segment, segment: Segment, digest: str) -> bool:
    """Return whether a shared digest proves the continuation: the digest of a line does so only within a transcript."""
    if end.transcript is None or segment.transcript is None or digest != end.transcript.digest:
        return True
    return segment.transcript.shows(end.transcript)


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
