"""Rebuilds conversations from stored spans: finds changed traces and affected conversations, and saves revisions."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from otel_agentic.conversations import (
    EndMark,
    Linked,
    assemble_open,
    closed,
    idle_limit_ns,
    link_segments,
)
from otel_agentic.conversations.identity import names_before
from otel_agentic.errors import OtelAgenticError
from otel_agentic.store import links
from otel_agentic.store.conversations import (
    Built,
    Current,
    close_conversations,
    content_hash,
    current_revisions,
    has_removed,
    removed_keys,
    removed_traces,
    retention_state,
    save_conversations,
    supersede,
)
from otel_agentic.store.links import Families, Item, NotRebuilt, delete_not_rebuilt, load_not_rebuilt, save_not_rebuilt

if TYPE_CHECKING:
    from otel_agentic.config import ConversationSettings
    from otel_agentic.conversations import Segment
    from otel_agentic.conversations.model import ClosedBy, Conversation
    from otel_agentic.engine.segments import SegmentReader
    from otel_agentic.store import Store
    from otel_agentic.store.connection import Connection
    from otel_agentic.store.spans import Arrival
    from otel_agentic.store.table import Key


def without_frozen(
    con: Connection, trace_ids: Sequence[str], segments: Sequence[Segment]
) -> tuple[list[Segment], set[str]]:
    """Return the segments to rebuild, and the traces with at least one frozen segment.

    A segment is frozen if retention has removed its trace, or the conversation that it names, and no later conversation
    with the same id is stored.
    """
    if not has_removed(con):
        return list(segments), set()
    traces = removed_traces(con, trace_ids)
    explicit_keys = {
        (segment.environment, segment.explicit_id) for segment in segments if segment.explicit_id is not None
    }
    keys = removed_keys(con, explicit_keys)
    starts_ns = links.earliest_starts(con, keys)
    frozen = [
        segment
        for segment in segments
        if segment.trace_id in traces
        or (
            (key := (segment.environment, segment.explicit_id or "")) in keys
            and segment.start_ns < starts_ns.get(key, segment.start_ns + 1)
        )
    ]
    if not frozen:
        return list(segments), traces
    remaining = [segment for segment in segments if segment not in frozen]
    return remaining, traces | {segment.trace_id for segment in frozen}


_log = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")
ItemT = TypeVar("ItemT", bound="Item")
#: Maximum number of stored characters of an error.
_MAX_REASON: Final = 500
#: Traces, or conversations, loaded into memory at once.
_CHUNK: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedItems:
    """The conversations affected by arrived spans, and the traces without an explicit conversation id.

    `left_out` contains a message for each trace that could not be read: its spans are stored, and it stays pending.
    """

    keys: frozenset[Key]
    loose_traces: frozenset[str]
    left_out: tuple[str, ...] = ()

    def __or__(self, other: AffectedItems) -> AffectedItems:
        """Return the union."""
        return AffectedItems(
            keys=self.keys | other.keys,
            loose_traces=self.loose_traces | other.loose_traces,
            left_out=self.left_out + other.left_out,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRevision:
    """A saved revision without its content, because a rebuild may affect more conversations than fit in memory."""

    key: Key
    revision: int
    agent: str | None
    agent_version: str | None
    closed_by: ClosedBy | None
    ended_ns: int
    has_id: bool
    turn_count: int
    call_count: int
    traces: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildResult:
    """The changes of a rebuild: the saved revisions, and the conversations that were merged into others.

    `late_spans` is the number of spans that arrived after their conversation had closed. `left_out` contains a message
    for each trace or conversation that could not be read or rebuilt. `split` contains the conversations that share an id, by
    (environment, id).
    """

    saved: tuple[SavedRevision, ...] = ()
    split: Mapping[Key, frozenset[Key]] = field(default_factory=dict)
    vanished: frozenset[Key] = frozenset()
    late_spans: int = 0
    left_out: tuple[str, ...] = ()

    def __add__(self, other: RebuildResult) -> RebuildResult:
        """Return the sum."""
        return RebuildResult(
            saved=self.saved + other.saved,
            split={**self.split, **other.split},
            vanished=self.vanished | other.vanished,
            late_spans=self.late_spans + other.late_spans,
            left_out=self.left_out + other.left_out,
        )


class Rebuilder:
    """Keeps the table `trace_links` and the tables of conversations consistent with the spans."""

    def __init__(
        self,
        store: Store,
        segments: SegmentReader,
        settings: ConversationSettings,
        on_late: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Create a rebuilder.

        Args:
            store: holds spans and conversations.
            segments: reads the traces of the store.
            settings: how spans become conversations.
            on_late: called with the number of spans that arrived after their conversation was removed.
        """
        self._store = store
        self._known = store.known_ids
        self._segments = segments
        self._settings = settings
        self._on_late = on_late
        self._not_rebuilt: dict[Item, NotRebuilt] | None = None

    def pending(self) -> list[str]:
        """Return the traces with arrivals since they were last read, in order of arrival."""
        with self._store.read() as con:
            pending = links.pending_traces(con)
        self._segments.outdate(pending)  # an import commits spans without the writer's notice
        return pending

    def unbuilt(self) -> AffectedItems:
        """Return the items that an earlier process read but did not rebuild before it was killed."""
        with self._store.read() as con:
            return AffectedItems(keys=frozenset(links.unbuilt_conversations(con)), loose_traces=frozenset())

    @property
    def not_rebuilt(self) -> Mapping[Item, NotRebuilt]:
        """The items that could not be rebuilt, by trace id or conversation key, in this process or an earlier one."""
        if self._not_rebuilt is None:
            with self._store.read() as con:
                self._not_rebuilt = {failure.item: failure for failure in load_not_rebuilt(con)}
        return self._not_rebuilt

    def refresh(self) -> None:
        """Discard the segments and failures in memory, because another part of the process has deleted spans or `not_rebuilt` items."""
        self._segments.clear()
        self._not_rebuilt = None

    def read(self, trace_ids: Iterable[str], progress: Callable[[int], None] = lambda _: None) -> AffectedItems:
        """Read traces, store which conversations their spans belong to, and return the affected items.

        Args:
            trace_ids: the traces, preferably in order of arrival, so that the file is read once.
            progress: called with the number of traces read after each chunk.
        """
        touched = AffectedItems(keys=frozenset(), loose_traces=frozenset())
        failures: list[NotRebuilt] = []
        for chunk in chunks(list(dict.fromkeys(trace_ids))):
            for part in self._in_parts(chunk, self._read_chunk, failures):
                touched |= part
            progress(len(chunk))
        return replace(touched, left_out=self._record_failures(failures))

    def rebuild(
        self,
        touched: AffectedItems,
        closed_by: Callable[[Key], ClosedBy | None],
        progress: Callable[[int], None] = lambda _: None,
    ) -> RebuildResult:
        """Rebuild the affected items and save the changes.

        Args:
            touched: the result of `read`.
            closed_by: returns the cause that closed a conversation, None if it is open. An end mark in its spans closes
                it, too.
            progress: called with the number of conversations or traces processed after each chunk.
        """
        total = RebuildResult()
        failures: list[NotRebuilt] = []
        done: set[str] = set()
        for loose in chunks(sorted(touched.loose_traces)):
            fresh = [trace_id for trace_id in loose if trace_id not in done]
            near = self._near(fresh) if len(touched.loose_traces) > _CHUNK else set()
            failed = len(failures)
            for part in self._in_parts(fresh, lambda traces: self._rebuild_part([], traces, closed_by), failures):
                total += part
            if failed == len(failures):
                done |= near  # if all traces are linked, each later chunk would rebuild all of them
            progress(len(loose))
        for keys in chunks(self._by_arrival(touched.keys)):
            for part in self._in_parts(keys, lambda part_keys: self._rebuild_part(part_keys, [], closed_by), failures):
                total += part
            progress(len(keys))
        return replace(total, left_out=(*touched.left_out, *total.left_out, *self._record_failures(failures)))

    def close(self, keys: AbstractSet[Key], arrived: Container[str]) -> RebuildResult:
        """Close open conversations that are rebuilt already, without reading them again; only `closed_by` changes.

        Args:
            keys: the conversations. Those without a trace, with an arrived one, or whose last rebuild failed stay open
                and must be rebuilt.
            arrived: traces with arrivals that were not read yet.
        """
        with self._store.read() as con:
            traces = links.traces_of(con, keys - self.not_rebuilt.keys(), self._known)
        unchanged = [key for key, own in traces.items() if not any(trace_id in arrived for trace_id in own)]
        closed = self._store.write(lambda con: close_conversations(con, unchanged)) if unchanged else []
        self._segments.discard(trace_id for key in unchanged for trace_id in traces[key])
        return RebuildResult(
            saved=tuple(
                SavedRevision(
                    key=item.key,
                    revision=item.revision,
                    agent=item.agent,
                    agent_version=item.agent_version,
                    closed_by="idle",
                    ended_ns=item.ended_ns,
                    has_id=item.has_id,
                    turn_count=item.turn_count,
                    call_count=item.call_count,
                    traces=traces[item.key],
                )
                for item in closed
            )
        )

    def _in_parts(
        self, items: Sequence[ItemT], work: Callable[[Sequence[ItemT]], R], failures: list[NotRebuilt]
    ) -> Iterator[R]:
        """Yield the results of `work` on all items; an item that makes it fail is added to `failures` and skipped.

        Items that failed before are tried alone, so that their chunk is not bisected each time.
        """
        alone = [item for item in items if item in self.not_rebuilt]
        yield from self._bisected([item for item in items if item not in self.not_rebuilt], work, failures)
        for item in alone:
            yield from self._bisected([item], work, failures)

    def _bisected(
        self, items: Sequence[ItemT], work: Callable[[Sequence[ItemT]], R], failures: list[NotRebuilt]
    ) -> Iterator[R]:
        if not items:
            return
        try:
            result = work(items)
        except OtelAgenticError:
            raise  # a problem of the store, not of an item
        except Exception as error:  # noqa: BLE001 — bisected down to the item, which is recorded
            if len(items) == 1:
                failures.append(self._failure(items[0], error))
                return
            middle = len(items) // 2
            yield from self._bisected(items[:middle], work, failures)
            yield from self._bisected(items[middle:], work, failures)
        else:
            yield result

    def _failure(self, item: Item, error: Exception) -> NotRebuilt:
        """Return the failure of one item; a new one is logged, with its traceback at level debug."""
        before, now_ns = self.not_rebuilt.get(item), self._store.clock()
        reason = f"{type(error).__name__}: {error}"[:_MAX_REASON].encode("utf-8", "backslashreplace").decode()
        first_ns = now_ns if before is None else before.first_ns
        failure = NotRebuilt(item=item, reason=reason, first_ns=first_ns, last_ns=now_ns)
        if before is None or before.reason != reason:
            _log.warning("%s", failure.message)
        _log.debug("traceback of an item that cannot be rebuilt", exc_info=error)
        return failure

    def _record_failures(self, failures: Sequence[NotRebuilt]) -> tuple[str, ...]:
        """Store failures; return their messages."""
        if failures:
            self._store.write(lambda con: save_not_rebuilt(con, failures))
            self._not_rebuilt = {**self.not_rebuilt, **{failure.item: failure for failure in failures}}
        return tuple(failure.message for failure in failures)

    def _clear_failures(self, items: AbstractSet[Item]) -> None:
        """Delete the failures of items that were rebuilt since."""
        resolved = self.not_rebuilt.keys() & items
        if resolved:
            self._store.write(lambda con: delete_not_rebuilt(con, resolved))
            self._not_rebuilt = {item: failure for item, failure in self.not_rebuilt.items() if item not in resolved}

    def _by_arrival(self, keys: AbstractSet[Key]) -> list[Key]:
        """Return conversations in the order in which their spans are stored; the order does not matter for few."""
        if len(keys) <= _CHUNK:
            return sorted(keys)
        with self._store.read() as con:
            return links.by_arrival(con, keys)

    def _read_chunk(self, trace_ids: Sequence[str]) -> AffectedItems:
        traces = self._segments.read_arrived(trace_ids)
        return self._save_read(trace_ids, traces.segments, traces.arrivals)

    def _save_read(
        self,
        trace_ids: Sequence[str],
        segments: Sequence[Segment],
        arrivals: Mapping[str, Arrival],
    ) -> AffectedItems:
        stored_traces = [trace_id for trace_id in trace_ids if trace_id in arrivals]
        with self._store.read() as con:
            before = links.conversations_of(con, set(trace_ids) - arrivals.keys(), self._known)
            segments, frozen = without_frozen(con, stored_traces, segments)
            late_spans = links.unread_spans(con, frozen)
        before |= self._store.write(
            lambda con: links.save_segments(con, stored_traces, segments, arrivals, self._known)
        )
        if late_spans:
            self._on_late(late_spans)
        # A trace with segments is cleared after these are rebuilt.
        self._clear_failures(set(stored_traces) - {segment.trace_id for segment in segments})
        explicit_keys = {
            (segment.environment, segment.explicit_id) for segment in segments if segment.explicit_id is not None
        }
        return AffectedItems(
            keys=frozenset(before | explicit_keys),
            loose_traces=frozenset(segment.trace_id for segment in segments if segment.explicit_id is None),
        )

    def _rebuild_part(
        self, named: Sequence[Key], loose: Sequence[str], closed_by: Callable[[Key], ClosedBy | None]
    ) -> RebuildResult:
        with self._store.read() as con:
            view, trace_ids = self._in_view(con, named, loose)
        traces = self._segments.read_to_rebuild(trace_ids)
        linked = self._link(traces.segments, view)
        dissolved = view.keys - {_key(conversation) for conversation in linked}
        return self._save(linked, dissolved, closed_by, traces.read_ns)

    def _link(self, segments: Sequence[Segment], view: Families) -> list[Linked]:
        """Return the conversations of segments that are completely in view."""
        reserved = self._removed_names(view)
        while True:
            linked = complete_in(view.ids, link_segments(segments, self._settings, reserved))
            clashes = self._clashes(linked) - reserved
            if not clashes:
                return linked
            reserved |= clashes

    def _in_view(self, con: Connection, named: Sequence[Key], loose: Sequence[str]) -> tuple[Families, set[str]]:
        """Return the conversations and traces that named conversations and loose traces may affect."""
        # Loose traces near named ones: another instrumentation may have recorded the same turn without the conversation
        # id.
        own = links.families_of(con, named, self._known)
        near = links.neighbourhood(con, {*loose, *own.traces}, idle_limit_ns(self._settings, has_id=False))
        # One conversation may become two, so all their traces are examined again.
        view = own | links.families_of(con, links.conversations_of(con, near, self._known) - own.keys, self._known)
        return view, near | view.traces

    def _clashes(self, linked: Sequence[Linked]) -> set[Key]:
        """Return the names, made of an id and a number or service, that are the ids of other conversations."""
        with self._store.read() as con:
            names = {_key(item) for item in linked if item.conversation_id != item.explicit_id}
            return links.explicit_ids(con, names, self._known)

    def _removed_names(self, view: Families) -> set[Key]:
        """Return the names of the attempts before the first stored one: those that retention removed keep their numbers."""
        later = {key: name for key, name in view.first_names.items() if name != key[1]}
        if not later:
            return set()
        with self._store.read() as con:
            if not retention_state(con).conversations:
                return set()
        return {
            (environment, name)
            for (environment, raw_id), first in later.items()
            for name in names_before(raw_id, first)
        }

    def _near(self, loose: Sequence[str]) -> set[str]:
        """Return the traces that are completely rebuilt together with loose ones, as are their conversations."""
        with self._store.read() as con:
            return links.neighbourhood(con, loose, idle_limit_ns(self._settings, has_id=False))

    def _save(
        self,
        linked: Sequence[Linked],
        dissolved: frozenset[Key],
        closed_by: Callable[[Key], ClosedBy | None],
        now_ns: int,
        assembled: Callable[[Linked], tuple[Conversation, EndMark | None]] | None = None,
    ) -> RebuildResult:
        """Save the changes.

        Args:
            linked: the conversations.
            dissolved: conversations in view that are not among them.
            closed_by: see `rebuild`.
            now_ns: a time before the spans were read; others may have arrived since.
            assembled: returns a conversation as if it were open, and its end mark; None assembles it.
        """
        assembled = assembled or self._assemble
        keys = {_key(conversation) for conversation in linked} | dissolved
        names = [name for _, name in keys]
        with self._store.read() as con:
            before = current_revisions(con, keys, self._known.since(names))
        built = []
        failures = []
        late: dict[str, int] = {}
        closed_traces: set[str] = set()
        for conversation in linked:
            key = _key(conversation)
            current = before.get(key)
            try:
                fresh, mark = assembled(conversation)
                reason = closed_by(key) or _reason(mark, current)
                revised = _revise(closed(fresh, mark, reason), current)
            except Exception as error:  # noqa: BLE001 — recorded; the other conversations must not be blocked
                failures.append(self._failure(key, error))
                continue
            closed_traces |= _traces(conversation) if reason is not None else set()
            if revised is None:
                continue
            # A closing conversation is rebuilt without its alternatives in view, so an ambiguous link stays ambiguous.
            ambiguous = conversation.ambiguous or (current is not None and current.ambiguous_link)
            built.append(
                Built(
                    conversation=revised,
                    ambiguous_link=ambiguous,
                    possible_reuse=conversation.possible_reuse,
                    is_first=current is None,
                )
            )
            if current is not None and current.closed:
                late |= {segment.trace_id: current.built_ns for segment in conversation.segments}
        by_id: dict[Key, set[Key]] = defaultdict(set)
        for conversation in linked:
            if conversation.explicit_id is not None:
                by_id[conversation.environment, conversation.explicit_id].add(_key(conversation))
        vanished = frozenset(key for key in dissolved & before.keys() if not before[key].dissolved)

        def write(con: Connection) -> None:
            links.assign(con, linked, self._known, {failure.item for failure in failures})
            supersede(con, vanished)
            save_conversations(con, built, now_ns, self._known.since(names))

        self._store.write(write)
        self._segments.discard(closed_traces)
        left_out = self._record_failures(failures)
        if self.not_rebuilt:
            rebuilt = {*dissolved, *map(_key, linked)} - {failure.item for failure in failures}
            self._clear_failures(rebuilt.union(*map(_traces, linked)))
        with self._store.read() as con:
            late_spans = links.spans_since(con, late)
        return RebuildResult(
            saved=tuple(_saved_revision(item.conversation) for item in built),
            vanished=vanished,
            split={key: frozenset(names) for key, names in by_id.items() if len(names) > 1},
            late_spans=late_spans,
            left_out=left_out,
        )

    def _assemble(self, linked: Linked) -> tuple[Conversation, EndMark | None]:
        return assemble_open(linked, self._settings)


def complete_in(ids: AbstractSet[Key], linked: Iterable[Linked]) -> list[Linked]:
    """Return the conversations whose spans are all in view: a trace may contain parts of others that are not.

    Args:
        ids: (environment, id) of which all traces are in view.
        linked: the conversations of the traces in view.
    """
    return [item for item in linked if item.explicit_id is None or (item.environment, item.explicit_id) in ids]


def _reason(mark: EndMark | None, current: Current | None) -> ClosedBy | None:
    """Return the reason for which a conversation that has not become idle is closed; a closed one does not reopen."""
    if mark is not None:
        return mark.closed_by
    return "idle" if current is not None and current.closed else None


def _traces(linked: Linked) -> set[str]:
    return {segment.trace_id for segment in (*linked.segments, *linked.echoes)}


def _revise(fresh: Conversation, current: Current | None) -> Conversation | None:
    """Return the revision to save, or None if nothing changed.

    An open conversation is replaced in place. A closed or dissolved one keeps its revision, and a new one is added.
    """
    if current is None:
        return fresh
    if current.dissolved:
        return replace(fresh, revision=current.revision + 1)
    same = content_hash(fresh) == current.content_hash
    if current.closed:
        return None if same else replace(fresh, revision=current.revision + 1)
    if same and fresh.closed_by is None:
        return None
    return replace(fresh, revision=current.revision)


def _saved_revision(conversation: Conversation) -> SavedRevision:
    return SavedRevision(
        key=(conversation.environment, str(conversation.conversation_id)),
        revision=conversation.revision,
        agent=conversation.agent_name,
        agent_version=conversation.agent_version,
        closed_by=conversation.closed_by,
        ended_ns=conversation.ended_ns,
        has_id=conversation.link_method == "explicit",
        turn_count=len(conversation.turns),
        call_count=sum(len(turn.calls) for turn in conversation.turns),
        traces=frozenset(turn.trace_id for turn in conversation.turns),
    )


def _key(linked: Linked) -> Key:
    return (linked.environment, str(linked.conversation_id))


def chunks(items: Sequence[T], size: int = _CHUNK) -> Iterator[list[T]]:
    """Yield the items in lists of at most `size`."""
    stream = iter(items)
    while chunk := list(islice(stream, size)):
        yield chunk
