"""The live tail: conversations of a running collector as their turns become quiet and as they are scored.

All viewers read one ring of the newest rows, each from its own position, so a slow viewer costs no memory: rows that leave
the ring before the viewer reads them are only counted. The ring is empty while no viewer is connected.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import orjson
from starlette.responses import StreamingResponse

from otel_agentic.console.pages import Page
from otel_agentic.console.requests import SELECTION, ConsoleLinks, page_url
from otel_agentic.errors import OverloadedError, UsageError
from otel_agentic.reports.conversations import iso
from otel_agentic.reports.provisional import FAILED_ALREADY, provisional_outcome
from otel_agentic.results import to_json
from otel_agentic.results.browsing import ConversationPage
from otel_agentic.results.conversations import ConversationRow, OpenConversation, OpenConversations

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from otel_agentic.commands import Client
    from otel_agentic.console.requests import PageRequest
    from otel_agentic.engine.rebuild import SavedRevision
    from otel_agentic.scoring import ConversationScore
    from otel_agentic.store.table import Key, Scored

T = TypeVar("T")
_log = logging.getLogger(__name__)
#: The paths of the page, and of the stream that it reads.
TAIL, EVENTS = "/tail", "/tail/events"
#: The largest number of rows in memory.
_CAPACITY: Final = 1000
#: The largest number of viewers: browsers with the page open.
MAX_VIEWERS: Final = 16
#: The largest number of rows on the page, and of rows in one event: more than a person can read in that time.
_PAGE_ROWS, _MAX_ROWS = 50, 10
#: Interval between the events of a viewer, and between comments while nothing happens, seconds.
_TICK_S, _HEARTBEAT_S = 0.5, 15.0
#: Rows are kept this long after a viewer left or a page was loaded, so that a new connection misses none, seconds.
_LINGER_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class TailRow:
    """A conversation as a row of the list of conversations.

    The outcome is None while it is open; `so_far` is then its provisional outcome, or None if it was not computed.
    """

    environment: str
    conversation_id: str
    agent: str | None
    agent_version: str | None
    ended_ns: int
    closed_by: str | None
    turn_count: int
    call_count: int
    case_id: str | None = None
    outcome: str | None = None
    reason: str | None = None
    explanation: str | None = None
    so_far: str | None = None

    @classmethod
    def of_score(cls, scored: Scored) -> TailRow:
        """Return the row of a conversation that was scored."""
        conversation, score = scored.conversation, scored.score
        return cls(
            environment=conversation.environment,
            conversation_id=conversation.conversation_id,
            agent=conversation.agent_name,
            agent_version=conversation.agent_version,
            ended_ns=conversation.ended_ns,
            closed_by=conversation.closed_by,
            turn_count=len(conversation.turns),
            call_count=sum(len(turn.calls) for turn in conversation.turns),
            case_id=score.case_id,
            outcome=score.outcome,
            reason=score.reason,
            explanation=score.explanation,
        )

    @classmethod
    def of_revision(cls, saved: SavedRevision, score: ConversationScore | None) -> TailRow:
        """Return the row of a conversation whose newest turn became quiet, with the score that it has so far."""
        environment, conversation_id = saved.key
        return cls(
            environment=environment,
            conversation_id=conversation_id,
            agent=saved.agent,
            agent_version=saved.agent_version,
            ended_ns=saved.ended_ns,
            closed_by=saved.closed_by,
            turn_count=saved.turn_count,
            call_count=saved.call_count,
            case_id=None if score is None else score.case_id,
            explanation=None if score is None else score.explanation,
            so_far=None if score is None else provisional_outcome(score),
        )

    @property
    def key(self) -> Key:
        """The identity of the conversation."""
        return self.environment, self.conversation_id

    @property
    def ended_at(self) -> str:
        """The end of the conversation as ISO 8601 text."""
        return iso(self.ended_ns)

    @property
    def href(self) -> str:
        """The page of the conversation."""
        return ConsoleLinks().conversation(self.environment, self.conversation_id)


#: A condition on rows.
Selects = Callable[[TailRow], bool]
#: Returns the scores that open conversations have so far.
ScoresSoFar = Callable[[Sequence["Key"]], Mapping["Key", "ConversationScore"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The rows that a viewer has not received yet, newest first, and the number of those that it will not receive.

    Of each conversation there is only the newest row. `position` is the position after the update.
    """

    position: int
    rows: Sequence[TailRow]
    missed: int


class Tail:
    """The newest rows of a running collector, for all viewers. Thread-safe.

    While a page follows it, conversations whose turns become quiet get a provisional outcome, unless more of them become quiet at a
    time than an event has rows: scoring ten of every hundred would cost a twentieth of the collector's CPU time.
    """

    def __init__(self, scores_so_far: ScoresSoFar, clock: Callable[[], float] = time.monotonic) -> None:
        self._scores_so_far = scores_so_far
        self._clock = clock
        self._lock = threading.Lock()
        self._rows: deque[TailRow] = deque(maxlen=_CAPACITY)
        #: The number of rows added since the start, including those that were not kept.
        self._position = 0
        self._viewers: set[Viewer] = set()
        self._until_s = 0.0
        self._is_closed = False

    def scored(self, scored: Sequence[Scored]) -> None:
        """Add conversations whose scores were just stored."""
        self._add(scored, TailRow.of_score)

    def quiet(self, saved: Sequence[SavedRevision]) -> None:
        """Add those of the conversations just saved that are open: their newest turn became quiet."""
        items = [item for item in saved if item.closed_by is None]
        scores = self._scored_so_far([item.key for item in items]) if len(items) <= _MAX_ROWS else {}
        self._add(items, lambda item: TailRow.of_revision(item, scores.get(item.key)))

    def _scored_so_far(self, keys: Sequence[Key]) -> Mapping[Key, ConversationScore]:
        with self._lock:
            if not keys or not self._is_watched():
                return {}
        try:
            return self._scores_so_far(keys)
        except Exception:  # noqa: BLE001 — logged; a page of the console must not stop the thread that rebuilds conversations
            _log.exception("cannot score open conversations for the live tail")
            return {}

    def _is_watched(self) -> bool:
        return bool(self._viewers) or self._clock() < self._until_s

    def _add(self, items: Sequence[T], row_of: Callable[[T], TailRow]) -> None:
        with self._lock:
            self._position += len(items)
            if self._is_watched():
                self._rows.extend(map(row_of, items[-_CAPACITY:]))
            else:
                self._rows.clear()

    def clear(self) -> None:
        """Discard all rows, because conversations were erased; for viewers, rows that they have not received count as missed."""
        with self._lock:
            self._rows.clear()

    def prepare(self) -> int:
        """Return the current position, and keep the rows after it for a viewer that is about to connect."""
        with self._lock:
            self._until_s = self._clock() + _LINGER_S
            return self._position

    def watch(self, after: int | None, selects: Selects) -> Viewer:
        """Return a new viewer; the caller calls its `leave` at the end. Must be called on an event loop.

        Args:
            after: the position of its page; None for the current one.
            selects: the condition on the rows that it receives.

        Raises:
            OverloadedError: there are too many viewers, or the collector is stopping.
        """
        with self._lock:
            if self._is_closed:
                raise OverloadedError("the collector is stopping; reload the page after its restart")
            if len(self._viewers) >= MAX_VIEWERS:
                raise OverloadedError(
                    f"{MAX_VIEWERS} pages already follow this collector: close one of them, then press Resume"
                )
            viewer = Viewer(self, self._position if after is None else min(after, self._position), selects)
            self._viewers.add(viewer)
        return viewer

    def leave(self, viewer: Viewer) -> None:
        """Remove a viewer."""
        with self._lock:
            self._viewers.discard(viewer)
            self._until_s = self._clock() + _LINGER_S

    def after(self, position: int) -> tuple[int, list[TailRow]]:
        """Return the current position, and the rows after `position` that are still kept, oldest first."""
        with self._lock:
            skipped = max(0, len(self._rows) - (self._position - position))
            return self._position, list(islice(self._rows, skipped, None))

    def close(self) -> None:
        """End all viewers, and admit no others."""
        with self._lock:
            self._is_closed = True
            viewers = list(self._viewers)
        for viewer in viewers:
            viewer.end()


class Viewer:
    """One open page. It is used on one event loop, apart from `end`."""

    def __init__(self, tail: Tail, position: int, selects: Selects) -> None:
        self._tail = tail
        self._position = position
        self._selects = selects
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()

    def take(self) -> Update:
        """Return the rows since the last call."""
        position, rows = self._tail.after(self._position)
        lost = position - self._position - len(rows)
        self._position = position
        newest: dict[Key, TailRow] = {}
        for row in filter(self._selects, reversed(rows)):
            newest.setdefault(row.key, row)
        displayed = list(islice(newest.values(), _MAX_ROWS))
        return Update(position=position, rows=displayed, missed=lost + len(newest) - len(displayed))

    async def wait(self) -> bool:
        """Wait for the next tick; return False once the viewer has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_TICK_S - self._loop.time() % _TICK_S):
                await self._ended.wait()
        return not self._ended.is_set()

    def end(self) -> None:
        """End the viewer without waiting for its next tick; may be called from any thread."""
        self._loop.call_soon_threadsafe(self._ended.set)

    def leave(self) -> None:
        """Release the viewer's slot."""
        self._tail.leave(self)


class TailStream(StreamingResponse):
    """Server-sent events of a viewer: each contains rows as HTML, and the number of rows that are not shown.

    It ends when the collector stops, or when `is_allowed` returns False.
    """

    def __init__(self, viewer: Viewer, render: Callable[[TailRow], str], is_allowed: Callable[[], bool]) -> None:
        self._viewer = viewer
        events = _events(viewer, render, is_allowed)
        # A proxy must not buffer the events.
        super().__init__(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until the viewer ends or disconnects; then release its slot."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._viewer.leave()


async def _events(
    viewer: Viewer, render: Callable[[TailRow], str], is_allowed: Callable[[], bool]
) -> AsyncIterator[bytes]:
    position: int | None = None
    silent_s = 0.0
    while is_allowed():
        update = viewer.take()
        if update.position != position:
            # JSON has no line breaks, so no text of a row can end a field of the event.
            data = orjson.dumps({"rows": "".join(map(render, update.rows)), "missed": update.missed})
            yield b"id: %d\ndata: %b\n\n" % (update.position, data)
            position, silent_s = update.position, 0.0
        elif silent_s >= _HEARTBEAT_S:
            yield b": nothing new\n\n"
            silent_s = 0.0
        silent_s += _TICK_S
        if not await viewer.wait():
            return


def conditions(request: PageRequest) -> Selects:
    """Return the condition that the parameters of a request set on rows, as in the list of conversations."""
    pattern = request.text("agent")
    texts = request.texts(*SELECTION, "outcome")
    outcome = texts.pop("outcome")
    exact = {name: value for name, value in texts.items() if value is not None and name != "agent"}

    def selects(row: TailRow) -> bool:
        if pattern is not None and (row.agent is None or not fnmatchcase(row.agent, pattern)):
            return False
        has_failed = outcome == "fail" and row.so_far == FAILED_ALREADY
        if outcome not in {None, row.outcome} and not has_failed:
            return False
        return all(getattr(row, name) == value for name, value in exact.items())

    return selects


def tail_page(tail: Tail | None, client: Client, request: PageRequest) -> Page:
    """Return the page with the newest conversations; `position` is None without a collector, which sends no more of them."""
    parameters = request.texts(*SELECTION, "outcome")
    position = None if tail is None else tail.prepare()
    result = client.get(ConversationPage, "conversations_page", **parameters, limit=_PAGE_ROWS)
    links = ConsoleLinks()
    so_far = _so_far(client, request) if any(row.closed_by is None for row in result.rows) else {}
    rows = [_with_score_so_far(row, so_far.get((row.environment, row.conversation_id))) for row in result.rows]
    return Page(
        template="tail",
        values={
            "rows": [(row, links.conversation(row.environment, row.conversation_id)) for row in rows],
            "so_far": {key: item.outcome for key, item in so_far.items()},
            "limit": _PAGE_ROWS,
            "position": position,
            "events": page_url(EVENTS, **parameters),
            "conversations": page_url("/conversations", **parameters),
        },
        payload=result,
        rows=[to_json(row) for row in result.rows],
    )


def _so_far(client: Client, request: PageRequest) -> dict[Key, OpenConversation]:
    selection = request.texts(*SELECTION)
    result = client.get(OpenConversations, "conversations_open", **selection, scored=True, limit=_PAGE_ROWS)
    return {(item.environment, item.conversation_id): item for item in result.conversations}


def _with_score_so_far(row: ConversationRow, item: OpenConversation | None) -> ConversationRow:
    return row if item is None else replace(row, case_id=item.case_id, explanation=item.explanation)


def watch(tail: Tail | None, request: PageRequest) -> Viewer:
    """Return the viewer of a request.

    Raises:
        UsageError: no collector runs, or a parameter is invalid.
        OverloadedError: see `Tail.watch`.
    """
    if tail is None:
        raise UsageError("no collector runs on this store, so no conversation can arrive")
    return tail.watch(request.number("after"), conditions(request))
