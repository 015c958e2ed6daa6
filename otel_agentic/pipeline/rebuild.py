"""Stored spans -> stored conversations: which traces changed, which conversations that touches, which revisions follow."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from otel_agentic.conversations import (
    Linked,
    assemble,
    has_end_mark,
    idle_limit_ns,
    link_segments,
    read_segments,
)
from otel_agentic.errors import OtelAgenticError
from otel_agentic.pipeline.frozen import without_frozen
from otel_agentic.store import links
from otel_agentic.store.conversations import (
    Built,
    content_hash,
    current_revisions,
    save_conversations,
    supersede,
)
from otel_agentic.store.not_rebuilt import NotRebuilt, delete_not_rebuilt, load_not_rebuilt, save_not_rebuilt
from otel_agentic.store.reader import load_traces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from otel_agentic.config import ConversationSettings
    from otel_agentic.conversations.model import ClosedBy, Conversation
    from otel_agentic.conversations.segments import Segment
    from otel_agentic.dialects.detect import Reader
    from otel_agentic.store import Store
    from otel_agentic.store.conversations import Current
    from otel_agentic.store.database import Connection
    from otel_agentic.store.not_rebuilt import Item
    from otel_agentic.store.reader import Arrival

_log = logging.getLogger(__name__)
Key = tuple[str, str]
T = TypeVar("T")
R = TypeVar("R")
ItemT = TypeVar("ItemT", bound="Item")
#: Characters of an error that are kept.
_LONGEST_REASON: Final = 500
#: Traces, or conversations, read into memory at once.
_CHUNK: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """What arrived spans concern: conversations that name themselves, and traces that do not.

    `left_out` tells of traces that could not be read, one sentence each: their spans are stored, and they stay pending.
    """

    keys: frozenset[Key]
    loose_traces: frozenset[str]
    left_out: tuple[str, ...] = ()

    def __or__(self, other: Touched) -> Touched:
        """Return both together."""
        return Touched(
            keys=self.keys | other.keys,
            loose_traces=self.loose_traces | other.loose_traces,
            left_out=self.left_out + other.left_out,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A saved revision, without its content: a rebuild may touch more conversations than memory holds."""

    key: Key
    revision: int
    closed_by: ClosedBy | None
    ended_ns: int
    has_id: bool
    turn_count: int
    call_count: int
    traces: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """What a rebuild changed: the saved revisions, and the conversations that dissolved into others.

    `late_spans` counts the spans that came after their conversation had closed. `left_out` tells of traces and
    conversations that could not be read or rebuilt, one sentence each.
    """

    saved: tuple[Saved, ...] = ()
    vanished: frozenset[Key] = frozenset()
    late_spans: int = 0
    left_out: tuple[str, ...] = ()

    def __add__(self, other: Rebuilt) -> Rebuilt:
        """Return both together."""
        return Rebuilt(
            saved=self.saved + other.saved,
            vanished=self.vanished | other.vanished,
            late_spans=self.late_spans + other.late_spans,
            left_out=self.left_out + other.left_out,
        )


class Rebuilder:
    """Keeps `trace_links` and the conversation tables true to the spans."""

    def __init__(self, store: Store, reader: Reader, settings: ConversationSettings) -> None:
        self._store = store
        self._reader = reader
        self._settings = settings
        self._not_rebuilt: dict[Item, NotRebuilt] | None = None
        #: Told how many spans came late for conversations that were removed since.
        self.frozen: Callable[[int], None] = lambda _: None

    def pending(self) -> list[str]:
        """Return the traces of which something arrived since they were last read, in the order in which they came."""
        with self._store.read() as con:
            return links.pending_traces(con)

    def unbuilt(self) -> Touched:
        """Return what an earlier process had read, and was killed before it rebuilt that."""
        with self._store.read() as con:
            return Touched(keys=frozenset(links.unbuilt_conversations(con)), loose_traces=frozenset())

    @property
    def not_rebuilt(self) -> Mapping[Item, NotRebuilt]:
        """What could not be rebuilt so far, by trace id or conversation, in this process or an earlier one."""
        if self._not_rebuilt is None:
            with self._store.read() as con:
                self._not_rebuilt = {one.item: one for one in load_not_rebuilt(con)}
        return self._not_rebuilt

    def refresh(self) -> None:
        """Read anew what could not be rebuilt, once it is asked for: another part of the process deleted some of it."""
        self._not_rebuilt = None

    def read(self, trace_ids: Iterable[str], progress: Callable[[int], None] = lambda _: None) -> Touched:
        """Read traces, write down which conversations their spans name, and return what they concern.

        Args:
            trace_ids: traces to read, best in the order in which they came: the file then is read once.
            progress: called with the number of traces read after each chunk.
        """
        touched = Touched(keys=frozenset(), loose_traces=frozenset())
        failures: list[NotRebuilt] = []
        for chunk in chunks(list(dict.fromkeys(trace_ids))):
            for part in self._in_parts(chunk, self._read_chunk, failures):
                touched |= part
            progress(len(chunk))
        return replace(touched, left_out=self._recorded(failures))

    def rebuild(
        self,
        touched: Touched,
        closed_by: Callable[[Key], ClosedBy | None],
        progress: Callable[[int], None] = lambda _: None,
    ) -> Rebuilt:
        """Rebuild what is touched and save what changed.

        Args:
            touched: from `read`.
            closed_by: what closed a conversation, None for one that is open. An end mark in its spans closes it too.
            progress: called with the number of conversations or traces done after each chunk.
        """
        total = Rebuilt()
        failures: list[NotRebuilt] = []
        done: set[str] = set()
        for loose in chunks(sorted(touched.loose_traces)):
            fresh = [trace_id for trace_id in loose if trace_id not in done]
            near = self._near(fresh) if len(touched.loose_traces) > _CHUNK else set()
            failed = len(failures)
            for part in self._in_parts(fresh, lambda some: self._rebuild_part([], some, closed_by), failures):
                total += part
            if failed == len(failures):
                done |= near  # all of them may be tied to each other: then each chunk would rebuild all
            progress(len(loose))
        for keys in chunks(self._by_arrival(touched.keys)):
            for part in self._in_parts(keys, lambda some: self._rebuild_part(some, [], closed_by), failures):
                total += part
            progress(len(keys))
        return replace(total, left_out=(*touched.left_out, *total.left_out, *self._recorded(failures)))

    def _in_parts(
        self, items: Sequence[ItemT], work: Callable[[Sequence[ItemT]], R], failures: list[NotRebuilt]
    ) -> Iterator[R]:
        """Yield the result of some work on all items; an item that makes it fail is added to `failures` and passed over.

        What failed before is tried alone, so that its neighbours are divided once and not each time.
        """
        alone = [item for item in items if item in self.not_rebuilt]
        yield from self._halved([item for item in items if item not in self.not_rebuilt], work, failures)
        for item in alone:
            yield from self._halved([item], work, failures)

    def _halved(
        self, items: Sequence[ItemT], work: Callable[[Sequence[ItemT]], R], failures: list[NotRebuilt]
    ) -> Iterator[R]:
        if not items:
            return
        try:
            result = work(items)
        except OtelAgenticError:
            raise  # the store's trouble, not an item's
        except Exception as error:  # noqa: BLE001 — narrowed down to the item, which is recorded
            if len(items) == 1:
                failures.append(self._failure(items[0], error))
                return
            middle = len(items) // 2
            yield from self._halved(items[:middle], work, failures)
            yield from self._halved(items[middle:], work, failures)
        else:
            yield result

    def _failure(self, item: Item, error: Exception) -> NotRebuilt:
        """Return the failure of one item; it is logged when it is new, with its traceback at level debug."""
        before, now_ns = self.not_rebuilt.get(item), self._store.clock()
        reason = f"{type(error).__name__}: {error}"[:_LONGEST_REASON].encode("utf-8", "backslashreplace").decode()
        first_ns = now_ns if before is None else before.first_ns
        found = NotRebuilt(item=item, reason=reason, first_ns=first_ns, last_ns=now_ns)
        if before is None or before.reason != reason:
            _log.warning("%s", found.message)
        _log.debug("traceback of what cannot be rebuilt", exc_info=error)
        return found

    def _recorded(self, failures: Sequence[NotRebuilt]) -> tuple[str, ...]:
        """Write failures down; return them as one sentence each."""
        if failures:
            self._store.write(lambda con: save_not_rebuilt(con, failures))
            self._not_rebuilt = {**self.not_rebuilt, **{one.item: one for one in failures}}
        return tuple(one.message for one in failures)

    def _cleared(self, items: AbstractSet[Item]) -> None:
        """Forget failures of traces and conversations that were rebuilt since."""
        gone = self.not_rebuilt.keys() & items
        if gone:
            self._store.write(lambda con: delete_not_rebuilt(con, gone))
            self._not_rebuilt = {item: one for item, one in self.not_rebuilt.items() if item not in gone}

    def _by_arrival(self, keys: AbstractSet[Key]) -> list[Key]:
        """Return conversations in an order in which their spans lie together; of few it does not matter."""
        if len(keys) <= _CHUNK:
            return sorted(keys)
        with self._store.read() as con:
            return links.by_arrival(con, keys)

    def _read_chunk(self, trace_ids: Sequence[str]) -> Touched:
        with self._store.read() as con:
            before = links.conversations_of(con, trace_ids)
            stored = load_traces(con, trace_ids)
        segments = read_segments(stored.spans, stored.logs, self._reader)
        return self._save_read(trace_ids, before, segments, stored.arrivals)

    def _save_read(
        self,
        trace_ids: Sequence[str],
        before: AbstractSet[Key],
        segments: Sequence[Segment],
        arrivals: Mapping[str, Arrival],
    ) -> Touched:
        known = [trace_id for trace_id in trace_ids if trace_id in arrivals]
        with self._store.read() as con:
            segments, frozen = without_frozen(con, known, segments)
            late_spans = links.unread_spans(con, frozen)
        self._store.write(lambda con: links.save_segments(con, known, segments, arrivals))
        if late_spans:
            self.frozen(late_spans)
        # A trace with segments is cleared once these are rebuilt.
        self._cleared(set(known) - {segment.trace_id for segment in segments})
        named = {(segment.environment, segment.explicit_id) for segment in segments if segment.explicit_id is not None}
        return Touched(
            keys=frozenset(before | named),
            loose_traces=frozenset(segment.trace_id for segment in segments if segment.explicit_id is None),
        )

    def _rebuild_part(
        self, named: Sequence[Key], loose: Sequence[str], closed_by: Callable[[Key], ClosedBy | None]
    ) -> Rebuilt:
        now_ns = self._store.clock()  # before: what arrives from now on is not in view
        with self._store.read() as con:
            keys, traces = self._in_view(con, named, loose)
            stored = load_traces(con, traces)
        segments = read_segments(stored.spans, stored.logs, self._reader)
        linked = [found for found in link_segments(segments, self._settings) if self._is_whole(found, keys)]
        found_keys = {_key(conversation) for conversation in linked}
        return self._save(linked, keys - found_keys, closed_by, now_ns)

    def _in_view(self, con: Connection, named: Sequence[Key], loose: Sequence[str]) -> tuple[frozenset[Key], set[str]]:
        """Return the conversations, and the traces, that some named conversations and loose traces may concern."""
        # Named traces come in because another instrumentation may have told of the same turn without the name.
        own = {*loose, *links.traces_of(con, named)}
        near = links.neighbourhood(con, own, idle_limit_ns(self._settings, has_id=False))
        # What was one conversation may become two, so everything that they hold is looked at again.
        keys = frozenset(named) | links.conversations_of(con, near)
        return keys, near | links.traces_of(con, keys - frozenset(named))

    def _near(self, loose: Sequence[str]) -> set[str]:
        """Return the traces that are wholly rebuilt with some loose ones: their conversations are, too."""
        with self._store.read() as con:
            return links.neighbourhood(con, loose, idle_limit_ns(self._settings, has_id=False))

    def _is_whole(self, linked: Linked, keys: frozenset[Key]) -> bool:
        """Return whether all of the conversation is in view: a trace may hold parts of others that are not."""
        return linked.method != "explicit" or _key(linked) in keys

    def _save(
        self,
        linked: Sequence[Linked],
        gone: frozenset[Key],
        closed_by: Callable[[Key], ClosedBy | None],
        now_ns: int | None = None,
    ) -> Rebuilt:
        """Save what changed; `now_ns` is when the spans were asked for, where others may have come since."""
        now_ns = self._store.clock() if now_ns is None else now_ns
        with self._store.read() as con:
            before = current_revisions(con, {_key(conversation) for conversation in linked} | gone)
        built = []
        failures = []
        late: dict[str, int] = {}
        for conversation in linked:
            key = _key(conversation)
            current = before.get(key)
            reason = closed_by(key) or ("end_mark" if has_end_mark(conversation) else None)
            if reason is None and current is not None and current.closed:
                reason = "idle"  # a closed conversation does not open again: late spans make the next closed revision
            try:
                revised = _revise(self._assembled(conversation, reason), current)
            except Exception as error:  # noqa: BLE001 — recorded; the other conversations must not wait for it
                failures.append(self._failure(key, error))
                continue
            if revised is None:
                continue
            # A closing conversation is rebuilt without its rivals in view: what was found ambiguous stays so.
            ambiguous = conversation.ambiguous or (current is not None and current.ambiguous_link)
            built.append(Built(conversation=revised, ambiguous_link=ambiguous))
            if current is not None and current.closed:
                late |= {segment.trace_id: current.built_ns for segment in conversation.segments}
        vanished = frozenset(key for key in gone & before.keys() if not before[key].dissolved)

        def write(con: Connection) -> None:
            links.assign(con, linked)
            supersede(con, vanished)
            save_conversations(con, built, now_ns)

        self._store.write(write)
        left_out = self._recorded(failures)
        if self.not_rebuilt:
            parts = (part for found in linked for part in (*found.segments, *found.echoes))
            rebuilt = {*gone, *map(_key, linked)} - {failure.item for failure in failures}
            self._cleared({*rebuilt, *(part.trace_id for part in parts)})
        with self._store.read() as con:
            late_spans = links.spans_since(con, late)
        return Rebuilt(
            saved=tuple(_saved(item.conversation) for item in built),
            vanished=vanished,
            late_spans=late_spans,
            left_out=left_out,
        )

    def _assembled(self, linked: Linked, closed_by: ClosedBy | None) -> Conversation:
        return assemble(linked, self._settings, closed_by=closed_by)


def _revise(fresh: Conversation, current: Current | None) -> Conversation | None:
    """Return the revision to save, None when nothing changed.

    An open conversation is replaced in place; a closed one keeps its revision and gets a new one beside it, and so does
    one that had dissolved and is there again.
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


def _saved(conversation: Conversation) -> Saved:
    return Saved(
        key=(conversation.environment, str(conversation.conversation_id)),
        revision=conversation.revision,
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
