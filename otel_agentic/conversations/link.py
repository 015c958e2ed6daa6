"""Assign traces, or parts of them, to conversations.

Identity is (environment, conversation id). An explicit id takes precedence (the one nearest the root over those below
it) and is inherited across the trace; `identity` decides whether traces with the same id are one conversation. Traces without an explicit id are linked by span links, else by a growing message
history; otherwise the trace is a conversation of its own. Linking is a pure function of the set of spans: the order of
arrival does not matter.

A turn that two instrumentations of one process recorded in separate traces is recognised as an echo.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.identity import Attempt, attempts_of
from otel_agentic.conversations.model import ConversationId, LinkMethod, idle_limit_ns
from otel_agentic.conversations.segments import Linked, Segment, segments_of
from otel_agentic.conversations.tree import build_tree

if TYPE_CHECKING:
    from otel_agentic.config import ConversationSettings
    from otel_agentic.dialects.base import Reader
    from otel_agentic.spans.model import LogRecord, Span

    _Family = tuple[str, str | None, str | None, str]
    #: The end of a segment in nanoseconds, the segment, and its conversation.
    _End = tuple[int, "Segment", "_Chain"]

#: The largest difference between the two recorded times of the start or end of a model call, in nanoseconds.
_SAME_MOMENT_NS: Final = 50_000_000


def echoes_of(segments: Iterable[Segment]) -> dict[int, Segment]:
    """Return the segments that only repeat another one, as `id()` of the echo -> the segment that it repeats.

    Attempts of one case may run in parallel with the same query, so the query alone proves nothing: an echo comes from other
    instrumentation scopes, and each of its model calls happens at the same time as one of the other segment.
    """
    by_query: dict[tuple[str, str | None, str], list[Segment]] = defaultdict(list)
    for segment in segments:
        if segment.query_digest is not None and segment.moments:
            by_query[segment.environment, segment.service, segment.query_digest].append(segment)
    echoes: dict[int, Segment] = {}
    for group in by_query.values():
        if len({segment.scopes for segment in group}) > 1:
            _add_echoes(sorted(group, key=_rank), echoes)
    return echoes


def _add_echoes(group: Sequence[Segment], echoes: dict[int, Segment]) -> None:
    """Add the echoes in a group with the same query; only segments that begin at nearly the same time are compared."""
    originals: list[Segment] = []  # by the start of their first model call
    for segment in group:
        start_ns = segment.moments[0][0]
        low = bisect_left(originals, start_ns - _SAME_MOMENT_NS, key=_first_call_ns)
        high = bisect_right(originals, start_ns + _SAME_MOMENT_NS, key=_first_call_ns)
        original = next((other for other in sorted(originals[low:high], key=_rank) if _is_echo(segment, other)), None)
        if original is not None:
            echoes[id(segment)] = original
        else:
            insort(originals, segment, key=_first_call_ns)


def _first_call_ns(segment: Segment) -> int:
    return segment.moments[0][0]


def _rank(segment: Segment) -> tuple[bool, int, int, str]:
    """Return the sort key for the original among equals: with an id first, then most messages, then the earliest."""
    return (segment.explicit_id is None, -segment.substance, segment.start_ns, segment.trace_id)


def _is_echo(segment: Segment, original: Segment) -> bool:
    if segment.trace_id == original.trace_id or segment.scopes & original.scopes:
        return False
    if segment.explicit_id is not None and segment.explicit_id != original.explicit_id:
        return False
    if len({segment.answer_digest, original.answer_digest} - {None}) > 1:
        return False
    return len(segment.moments) == len(original.moments) and all(
        _is_same_moment(own, other) for own, other in zip(segment.moments, original.moments, strict=True)
    )


def _is_same_moment(own: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether two spans may record the same call: one contains the other, so they overlap however short they are."""
    difference_ns = max(abs(a - b) for a, b in zip(own, other, strict=True))
    return difference_ns <= _SAME_MOMENT_NS and own[0] <= other[1] and other[0] <= own[1]


#: This many equally good conversations are ambiguous.
_TIED: Final = 2
#: Maximum number of recent conversations that are examined without a match, because many end with the same line.
_MOST_SKIPPED: Final = 64


def link(
    segments: Iterable[Segment], *, idle_ns: int, reserved: AbstractSet[tuple[str, str]] = frozenset()
) -> list[Linked]:
    """Return the conversations that consist of the segments, in order of their first span.

    Args:
        segments: the segments of all traces in view.
        idle_ns: the longest pause, in nanoseconds, over which message history links two traces without an id.
        reserved: (environment, conversation id) of other conversations, which get no segment.
    """
    all_segments = sorted(segments, key=lambda segment: (segment.start_ns, segment.trace_id))
    echoes = echoes_of(all_segments)
    ordered = [segment for segment in all_segments if id(segment) not in echoes]
    echoes_by_original: dict[int, list[Segment]] = defaultdict(list)
    for segment in all_segments:
        if id(segment) in echoes:
            echoes_by_original[id(echoes[id(segment)])].append(segment)
    attempts = attempts_of(ordered, reserved)
    explicit_segments = {segment.trace_id: attempts[id(segment)] for segment in ordered if id(segment) in attempts}
    by_attempt: dict[int, _Chain] = {}
    chains: list[_Chain] = []
    history = _History(idle_ns)
    by_trace: dict[str, _Chain] = {}
    for segment in ordered:
        attempt = attempts.get(id(segment))
        chain, method, ambiguous = (
            _chain_for(segment, by_attempt, by_trace, explicit_segments, history)
            if attempt is None
            else (by_attempt.get(id(attempt)), "explicit", False)
        )
        if chain is None:
            chain = _Chain(segment, attempt)
            chains.append(chain)
        else:
            chain.segments.append(segment)
        chain.note(method, ambiguous=ambiguous)
        chain.echoes += echoes_by_original.get(id(segment), ())
        for member in (segment, *echoes_by_original.get(id(segment), ())):
            by_trace.setdefault(member.trace_id, chain)
        if chain.attempt is not None:
            by_attempt.setdefault(id(chain.attempt), chain)
        else:
            history.add(segment, chain)
    return [chain.linked() for chain in chains]


class _Chain:
    """A conversation while its segments are linked."""

    def __init__(self, segment: Segment, attempt: Attempt | None) -> None:
        self.segments = [segment]
        self.echoes: list[Segment] = []
        self.environment = segment.environment
        self.explicit_id = segment.explicit_id
        self.attempt = attempt
        self.method: LinkMethod = "explicit" if segment.explicit_id is not None else "trace"
        self.ambiguous = False

    def note(self, method: LinkMethod, *, ambiguous: bool) -> None:
        if method in {"span_link", "history"} and self.method == "trace":
            self.method = method
        self.ambiguous = self.ambiguous or ambiguous

    def linked(self) -> Linked:
        name = self.attempt.name if self.attempt is not None else self.segments[0].trace_id
        return Linked(
            environment=self.environment,
            conversation_id=ConversationId(name),
            method=self.method,
            ambiguous=self.ambiguous,
            segments=tuple(self.segments),
            echoes=tuple(self.echoes),
            explicit_id=self.explicit_id,
            split_by=self.attempt.split_by if self.attempt is not None else None,
            possible_reuse=self.attempt is not None and self.attempt.possible_reuse,
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
        index, skipped = bisect_right(ends, segment.start_ns, key=_end_ns), 0
        while index and len(best) < _TIED and skipped < _MOST_SKIPPED:
            index -= 1
            end_ns, end, chain = ends[index]
            if end_ns < earliest:
                break
            if chain.segments[-1] is not end:
                del ends[index]  # it has been continued already
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
    """Return whether a shared digest proves a continuation; the digest of a line does so only within a transcript."""
    if end.transcript is None or segment.transcript is None or digest != end.transcript.digest:
        return True
    return segment.transcript.shows(end.transcript)


def _chain_for(
    segment: Segment,
    by_attempt: Mapping[int, _Chain],
    by_trace: Mapping[str, _Chain],
    explicit_segments: Mapping[str, Attempt],
    history: _History,
) -> tuple[_Chain | None, LinkMethod, bool]:
    """Return the conversation of a segment without an id, how it was found, and whether several match equally well."""
    for trace_id in sorted(segment.linked_traces - {segment.trace_id}):
        chain = by_trace.get(trace_id) or by_attempt.get(id(explicit_segments.get(trace_id)))
        if chain is not None:
            return chain, "span_link", False
    chain, ambiguous = history.find(segment)
    return chain, "history" if chain else "trace", ambiguous


def read_segments(spans: Iterable[Span], logs: Iterable[LogRecord], reader: Reader) -> list[Segment]:
    """Return the conversation segments of all traces among the spans, sorted by trace id."""
    by_trace: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_trace[span.trace_id].append(span)
    by_span: dict[tuple[str, str], list[LogRecord]] = defaultdict(list)
    for log in logs:
        by_span[log.trace_id, log.span_id].append(log)
    for records in by_span.values():
        records.sort(key=_log_order)
    segments: list[Segment] = []
    for trace_id in sorted(by_trace):
        segments += segments_of(build_tree(reader.read_all(by_trace[trace_id], by_span)))
    return segments


def link_segments(
    segments: Sequence[Segment],
    settings: ConversationSettings,
    reserved: AbstractSet[tuple[str, str]] = frozenset(),
) -> list[Linked]:
    """Return the conversations that consist of the segments; see `link`."""
    return link(segments, idle_ns=idle_limit_ns(settings, has_id=False), reserved=reserved)


def _log_order(log: LogRecord) -> tuple[int, int, str]:
    """Return the sort key of a span's log records: time, message index, content (equal times are common)."""
    index = log.attributes.get("gen_ai.message.index")
    return (log.time_ns, index if isinstance(index, int) else 0, repr((log.event_name, log.body)))
