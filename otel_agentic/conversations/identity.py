"""Decide which traces with the same conversation id are one conversation.

Ids are reused: every quick start uses the thread id "1", and a script uses the same ids each time it runs. Traces with one id
form a *family*, which is divided in two steps:

- By service. Two services share a conversation only if a trace, a span link or a message history connects them.
- By attempt. A new attempt starts after an end mark, when the case or attempt id changes, or when the client sends its
  history (an earlier turn's model input contains the messages before it) and this turn's model input contains none.

Without such evidence nothing is divided. The first conversation of a family has the id itself; the others are `id#2`,
`id@service`, `id@service#2`. All of this is a function of the set of spans and not of their order of arrival.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from otel_agentic.conversations.assemble import cut
from otel_agentic.conversations.tree import last_query
from otel_agentic.dialects.events import ModelCall
from otel_agentic.dialects.values import is_cut

if TYPE_CHECKING:
    from otel_agentic.conversations.requests import TurnSpans
    from otel_agentic.conversations.segments import Segment
    from otel_agentic.dialects.events import Message

#: Environment and conversation id.
_Key = tuple[str, str]

#: System prompts that grew by more characters than this may contain a summary of the earlier turns.
_MOST_GROWTH: Final = 80
#: A shorter query proves nothing when it occurs inside a longer text.
_LEAST_QUERY: Final = 8
#: From this many traces on, an id without any evidence of a history may belong to several conversations.
_MANY_TRACES: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opening:
    """How a segment begins.

    Attributes:
        sender: its agent, or the system prompt if the spans name no agent.
        query: the query of its first turn, None if it has no turn or the query was not captured.
        has_turn: whether the segment has a turn; one without a turn never starts an attempt.
        queries: the queries of all its turns.
        earlier: the user's texts before the query in the model inputs of the first turn.
        begins: whether these inputs were captured and contain no message before the query, except system prompts.
        inputs: the inputs themselves.
        sends_history: whether a later turn's model input contains the query of an earlier turn.
    """

    sender: str = ""
    query: str | None = None
    has_turn: bool = False
    queries: frozenset[str] = frozenset()
    earlier: frozenset[str] = frozenset()
    begins: bool = False
    inputs: tuple[Sequence[Message], ...] = ()
    sends_history: bool = False

    @property
    def prompt_length(self) -> int:
        """The length of the longest system prompt."""
        return max((sum(map(len, _prompts(messages))) for messages in self.inputs), default=0)

    def may_quote(self, queries: AbstractSet[str]) -> bool:
        """Return whether a text of the inputs may contain earlier turns.

        It is then a pasted transcript with one of the queries, or serialised messages that a length limit has cut.
        """
        long_queries = [query for query in queries if len(query) >= _LEAST_QUERY]
        texts = [message.text for messages in self.inputs for message in messages if message.text]
        pasted = [_spaced(text) for text in texts if "\n" in text.strip()]
        return any(map(is_cut, texts)) or any(
            query in text and query != text for text in pasted for query in long_queries
        )


def _opening(segment: Segment) -> _Opening:
    turns = cut((segment,))
    if not turns:
        return _Opening()
    first = turns[0]
    inputs = _inputs(first)
    query = None if first.query is None else _spaced(first.query)
    befores = [_before(messages, query) for messages in inputs]
    known = {text for turn in turns for text in _queries_of(turn)}
    return _Opening(
        sender=segment.agent_name or " ".join(_prompts(inputs[0]) if inputs else ()),
        query=query,
        has_turn=True,
        queries=frozenset(known),
        earlier=frozenset(text for before in befores for text in _user_texts(before)),
        begins=bool(befores) and all(message.role == "system" for before in befores for message in before),
        inputs=tuple(inputs),
        sends_history=len(turns) > 1 and _later_turns_show_earlier(turns),
    )


def _inputs(turn: TurnSpans) -> list[Sequence[Message]]:
    """Return the captured inputs of a turn's model calls, except those of agents that a tool call started."""
    events = (node.event for node in turn.nodes if not node.holding_call)
    return [event.messages_in for event in events if isinstance(event, ModelCall) and event.messages_in]


def _queries_of(turn: TurnSpans) -> Iterator[str]:
    """Yield the query of a turn, from the run and from the model's input."""
    first_input = next((node.event.messages_in for node in turn.top_calls if isinstance(node.event, ModelCall)), None)
    for query in (turn.query, last_query(first_input)[0] if first_input else None):
        if query is not None and query.strip():
            yield _spaced(query)


def _before(messages: Sequence[Message], query: str | None) -> Sequence[Message]:
    """Return the messages of an input before the query, or before the last text of the user if it differs from it."""
    last = 0
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message.role == "user" and message.text:
            if _spaced(message.text) == query:
                return messages[:index]
            last = last or index
    return messages[:last]


def _user_texts(messages: Iterable[Message]) -> Iterator[str]:
    return (_spaced(message.text) for message in messages if message.role == "user" and message.text)


def _later_turns_show_earlier(turns: Sequence[TurnSpans]) -> bool:
    known: set[str] = set()
    for turn in turns:
        query = None if turn.query is None else _spaced(turn.query)
        if known and any(known.intersection(_user_texts(_before(messages, query))) for messages in _inputs(turn)):
            return True
        known.update(_queries_of(turn))
    return False


def _prompts(messages: Iterable[Message]) -> Iterator[str]:
    return (message.text for message in messages if message.role == "system" and message.text)


def _spaced(text: str) -> str:
    return " ".join(text.split())


@dataclass(slots=True, kw_only=True, eq=False)
class Attempt:
    """One conversation of a family, mutable while its segments are found; `order` numbers those of a family by start.

    `split_by` is the reason why it is not part of the conversation before it, None for the first of a family.
    `possible_reuse` is whether its id may have been used for several conversations that nothing distinguishes. `senders` are
    those whose model inputs contain earlier turns (`_Opening.sender`): a conversation may have others that need no history,
    such as one that writes titles.
    """

    name: str = ""
    order: int = 0
    split_by: str | None = None
    possible_reuse: bool = False
    case_id: str | None = None
    attempt_id: str | None = None
    ended_ns: int | None = None
    senders: set[str] = field(default_factory=set)
    query: str | None = None
    queries: set[str] = field(default_factory=set)
    prompt_length: int = 0
    size: int = 0

    def add(self, segment: Segment, opening: _Opening, *, continues: bool) -> None:
        """Add a segment; `continues` is whether its model input shows an earlier turn of this attempt."""
        if self.size and opening.query is not None and opening.query == self.query and not continues:
            self.possible_reuse = True
        self.query = opening.query if self.query is None else self.query
        self.case_id = self.case_id or segment.case_id
        self.attempt_id = self.attempt_id or segment.attempt_id
        if continues or opening.sends_history:
            self.senders.add(opening.sender)
        self.queries |= opening.queries
        self.prompt_length = max(self.prompt_length, opening.prompt_length)
        self.size += opening.has_turn
        if segment.end_mark_ns is not None:
            self.ended_ns = max(self.ended_ns or 0, segment.end_mark_ns)
        if self.size >= _MANY_TRACES and not self.senders:
            self.possible_reuse = True

    def conflict(self, segment: Segment) -> str | None:
        """Return the reason why the segment cannot be part of the attempt; None if it can."""
        if self.ended_ns is not None and segment.start_ns >= self.ended_ns:
            return "an end mark before it"
        if self.attempt_id and segment.attempt_id and self.attempt_id != segment.attempt_id:
            return f"attempt id {segment.attempt_id} instead of {self.attempt_id}"
        if self.case_id and segment.case_id and self.case_id != segment.case_id:
            return f"case id {segment.case_id} instead of {self.case_id}"
        return None

    def lacks(self, opening: _Opening) -> bool:
        """Return whether a segment's model input lacks the history that this client sends."""
        return (
            opening.sender in self.senders
            and opening.begins
            and opening.query is not None
            and opening.prompt_length <= self.prompt_length + _MOST_GROWTH
            and not opening.may_quote(self.queries)
        )


@dataclass(slots=True, kw_only=True, eq=False)
class _Lane:
    """The attempts of services that are connected; `label` is the service of the first one."""

    label: str | None
    services: set[str]
    attempts: list[Attempt] = field(default_factory=list)


class _Family:
    """The segments with one environment and conversation id, in time order."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._connected = _connected_services(segments)
        self._lanes: list[_Lane] = []
        self._newest: _Lane | None = None
        self._by_query: dict[str, dict[int, tuple[_Lane, Attempt]]] = defaultdict(dict)
        self._by_trace: dict[str, tuple[_Lane, Attempt]] = {}
        self._linking: dict[str, set[str]] = defaultdict(set)
        for segment in segments:
            for trace_id in segment.linked_traces:
                self._linking[trace_id].add(segment.trace_id)
        self.attempts: dict[int, Attempt] = {id(segment): self._assign(segment) for segment in segments}

    def _assign(self, segment: Segment) -> Attempt:
        """Return the attempt of a segment, and add the segment to it."""
        opening, lane = _opening(segment), self._lane(segment)
        continued = self._continued(segment, opening, lane)
        linked = continued or self._connected_by_link(segment)
        if linked is not None:
            lane, attempt = linked
            lane.services |= segment.services
        else:
            lane, attempt = self._current(segment, opening, lane)
        attempt.add(segment, opening, continues=continued is not None)
        self._newest = lane
        self._by_trace[segment.trace_id] = lane, attempt
        for query in opening.queries:
            self._by_query[query][attempt.order] = lane, attempt
        return attempt

    def _current(self, segment: Segment, opening: _Opening, lane: _Lane | None) -> tuple[_Lane, Attempt]:
        """Return the attempt that a segment without a visible predecessor belongs to: the latest, or a new one."""
        if lane is None:
            label = min(segment.services, default=None) if segment.service is None else segment.service
            split_by = f"service {label}, which nothing connects with {self._lanes[0].label}" if self._lanes else None
            lane = _Lane(label=label, services=set(self._component(segment)))
            self._lanes.append(lane)
            return lane, self._new_attempt(lane, split_by)
        lane.services |= segment.services
        lane.label = lane.label or segment.service
        same = (attempt for attempt in reversed(lane.attempts) if attempt.attempt_id == segment.attempt_id)
        attempt = (next(same, None) if segment.attempt_id else None) or lane.attempts[-1]
        split_by = attempt.conflict(segment)
        if split_by is None and attempt.lacks(opening):
            split_by = "a model input without the earlier turns, which this client sends"
        if split_by is not None and opening.has_turn:
            attempt = self._new_attempt(lane, split_by)
        return lane, attempt

    def _new_attempt(self, lane: _Lane, split_by: str | None) -> Attempt:
        lane.attempts.append(Attempt(order=sum(len(lane.attempts) for lane in self._lanes), split_by=split_by))
        return lane.attempts[-1]

    def _lane(self, segment: Segment) -> _Lane | None:
        """Return the lane of a segment's services; a segment without a service belongs to the newest lane."""
        if not segment.services:
            return self._newest
        component = self._component(segment)
        lane = next((lane for lane in self._lanes if lane.services & component), None)
        return lane or next((lane for lane in self._lanes if not lane.services), None)

    def _component(self, segment: Segment) -> AbstractSet[str]:
        return next((services for services in self._connected if services & segment.services), segment.services)

    def _continued(self, segment: Segment, opening: _Opening, lane: _Lane | None) -> tuple[_Lane, Attempt] | None:
        """Return the attempt whose queries the segment's model input contains.

        Services that run the same test ask the same questions, so another service's attempt counts only if none of the own
        service does. Of several, the one that shares most queries is the best, then the one with the fewest others.
        """
        candidates = {
            order: candidate
            for text in opening.earlier
            for order, candidate in self._by_query.get(text, {}).items()
            if candidate[1].conflict(segment) is None
        }
        own = {order: candidate for order, candidate in candidates.items() if candidate[0] is lane}

        def rank(order: int) -> tuple[int, int, int]:
            queries = candidates[order][1].queries
            return len(queries & opening.earlier), -len(queries - opening.earlier), order

        return candidates[max(own or candidates, key=rank)] if candidates else None

    def _connected_by_link(self, segment: Segment) -> tuple[_Lane, Attempt] | None:
        """Return the attempt that a span link connects with the segment."""
        traces = sorted((segment.linked_traces | self._linking[segment.trace_id]) - {segment.trace_id})
        candidates = (self._by_trace[trace_id] for trace_id in traces if trace_id in self._by_trace)
        return next((candidate for candidate in candidates if candidate[1].conflict(segment) is None), None)

    def name(self, key: _Key, used: set[_Key]) -> None:
        """Name the attempts; the first one has the id itself. Names in `used` are skipped."""
        environment, conversation_id = key
        for index, lane in enumerate(self._lanes):
            base = conversation_id if index == 0 else f"{conversation_id}@{lane.label}"
            number = 1
            for attempt in lane.attempts:
                while (environment, _numbered(base, number)) in used:
                    number += 1
                attempt.name = _numbered(base, number)
                used.add((environment, attempt.name))


def _numbered(base: str, number: int) -> str:
    return base if number == 1 else f"{base}#{number}"


def names_before(raw_id: str, name: str) -> Iterator[str]:
    """Yield the names of the attempts of an id that came before a named one.

    >>> list(names_before("1", "1#3")), list(names_before("1", "1@shop"))
    (['1', '1#2'], [])
    """
    number = name.removeprefix(f"{raw_id}#")
    if number != name and number.isdecimal():
        yield from (_numbered(raw_id, before) for before in range(1, int(number)))


def _connected_services(segments: Sequence[Segment]) -> list[AbstractSet[str]]:
    """Return sets of services that a trace or a span link connects, each service in one of them."""
    by_trace = {segment.trace_id: segment.services for segment in segments}
    groups: list[AbstractSet[str]] = []
    for segment in segments:
        linked = (by_trace.get(trace_id, frozenset()) for trace_id in segment.linked_traces)
        services = segment.services.union(*linked)
        if services and not any(services <= group for group in groups):
            touching = [group for group in groups if group & services]
            groups = [group for group in groups if not group & services]
            groups.append(services.union(*touching))
    return groups


def attempts_of(segments: Iterable[Segment], reserved: AbstractSet[_Key] = frozenset()) -> Mapping[int, Attempt]:
    """Return the conversation of each segment with an explicit id, as `id()` of the segment -> its attempt.

    Args:
        segments: all segments with these ids, in time order.
        reserved: (environment, name) of conversations that are not among these segments; no attempt gets such a name.
    """
    by_key: dict[_Key, list[Segment]] = defaultdict(list)
    for segment in segments:
        if segment.explicit_id is not None:
            by_key[segment.environment, segment.explicit_id].append(segment)
    attempts: dict[int, Attempt] = {}
    used = {*reserved}
    several: list[tuple[_Key, _Family]] = []
    for key, members in by_key.items():
        if len(members) == 1 and key not in reserved:
            attempts[id(members[0])] = Attempt(name=key[1])
            used.add(key)
        else:
            several.append((key, _Family(members)))
    own_ids = {key for key, _ in several} - used
    for key, family in several:
        family.name(key, (own := used | (own_ids - {key})))
        used |= own - own_ids
        attempts |= family.attempts
    return attempts
