"""The live tail over HTTP: what arrives at a collector appears as server-sent events, within bounds."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from html import unescape
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import httpx
import orjson
import pytest

from otel_agentic.console.sessions import Sessions
from otel_agentic.console.tail import MAX_VIEWERS, Tail, TailRow, Update
from otel_agentic.conversations.model import ConversationId
from otel_agentic.engine.rebuild import SavedRevision
from otel_agentic.errors import StoreError
from otel_agentic.testing import conversation, span, speak_genai
from tests.builders import CASE, ask_hotel, scored_as
from tests.console.conftest import RunningConsole
from tests.console.test_console_pages import links_of, text_of
from tests.live.otlp_export import export, just_now
from tests.live.running_collector import OPEN, eventually, live_settings, running

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.live.collector import LiveCollector
    from otel_agentic.net.server_file import LiveServer
    from otel_agentic.scoring import ConversationScore
    from otel_agentic.spans.model import Span
    from otel_agentic.store.table import Key

CASES = [("cases.jsonl", CASE)]
HOSTILE = '"><script>alert(1)</script>\r\n\ndata: {}\nevent: x\n\n<img src=x onerror=alert(1)>'


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of the stream."""

    id: int
    rows: list[str]
    missed: int

    @property
    def texts(self) -> list[str]:
        """The rows as text with single spaces."""
        return [" ".join(unescape(re.sub(r"<[^>]+>", " ", row)).split()) for row in self.rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A running collector with receivers and a session of its console."""

    live: LiveCollector
    server: LiveServer
    console: RunningConsole
    session: httpx.Client

    def converse(self, *names: str, agent: str = "travel", answer: str = "The Ritz.", ends: bool = True) -> None:
        """Send conversations to the collector in one request, each with an end mark unless it stays open."""
        spans: list[Span] = []
        for name in names:
            own = speak_genai(ask_hotel(name, agent_name=agent).answers(answer), start_ns=just_now()).spans
            spans += own
            if ends:
                spans.append(span(f"end {name}", parent=own[0], attributes={"agentic.conversation.end": True}))
        export(self.server, spans)


@contextmanager
def following(db: Path, **sections: Any) -> Iterator[Followed]:
    """Run a collector with a case, in which conversations stay open until an end mark."""
    with running(live_settings(db, **OPEN, **sections), cases=CASES) as (live, server):
        console = RunningConsole(url=server.admin, db=db)
        with console.session() as session:
            yield Followed(live=live, server=server, console=console, session=session)


@pytest.fixture(scope="module")
def tailed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    """Run a collector for all tests that leave it running."""
    with following(tmp_path_factory.mktemp("tail") / "t.duckdb") as running_one:
        yield running_one


@contextmanager
def stream(client: httpx.Client, path: str = "/tail/events", **headers: str) -> Iterator[Iterator[Event]]:
    """Open the stream, and provide its events."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    with client.stream("GET", path, headers=names) as answer:
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        yield events(answer.iter_lines())


def unscored(_: Sequence[Key]) -> Mapping[Key, ConversationScore]:
    """Return no provisional scores."""
    return {}


def quiet_revision(name: str) -> SavedRevision:
    """Return an open conversation whose turn became quiet."""
    return SavedRevision(
        key=("", name),
        revision=1,
        agent="travel",
        agent_version=None,
        closed_by=None,
        ended_ns=1,
        has_id=True,
        turn_count=1,
        call_count=0,
        traces=frozenset(),
    )


def events(lines: Iterator[str]) -> Iterator[Event]:
    """Parse server-sent events; nothing but ids, data and comments may occur."""
    fields: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            assert name in {"id", "data"}
            assert name not in fields
            fields[name] = value
        elif fields:
            data: Mapping[str, Any] = orjson.loads(fields["data"])
            rows = re.findall(r"<tr>.*?</tr>", data["rows"], re.DOTALL)
            yield Event(id=int(fields["id"]), rows=rows, missed=data["missed"])
            fields = {}


def until(received: Iterator[Event], pattern: str) -> list[Event]:
    """Return the events up to the one with a row that matches."""
    received_events = []
    for event in received:
        received_events.append(event)
        if any(re.search(pattern, text) for text in event.texts):
            return received_events
    raise AssertionError(f"the stream ended without {pattern!r}: {received_events}")


def test_a_conversation_appears_when_it_is_quiet_and_again_when_it_is_scored(tailed: Followed) -> None:
    page = tailed.session.get("/tail")
    (url,) = re.findall(r'data-tail="([^"]+)"', page.text)
    (position,) = re.findall(r'data-position="(\d+)"', page.text)
    with stream(tailed.session, f"{url}?after={position}") as received:
        tailed.converse("waits", ends=False)
        quiet = until(received, "^waits … open, no failure so far .*travel hotel")
        tailed.converse("wrong", answer="The Savoy.")
        scored = until(received, "^wrong ✗ fail .*(Savoy|answer).* travel hotel")
    (row,) = [row for row in scored[-1].rows if "wrong" in row]
    details = tailed.session.get(links_of(httpx.Response(200, text=row))[0])
    after = tailed.session.get("/tail")

    assert [0] * len(quiet + scored) == [event.missed for event in quiet + scored]
    assert (details.status_code, "The Savoy." in text_of(details)) == (200, True)
    assert "wrong ✗ fail" in text_of(after)  # rows of the server, without a script
    assert "Without JavaScript" in text_of(after)


def test_a_failure_that_no_further_turn_can_change_appears_at_once(tailed: Followed) -> None:
    with stream(tailed.session, "/tail/events?outcome=fail") as received:
        tailed.converse("good so far", ends=False)
        tailed.converse("doomed", answer="The Savoy.", ends=False)
        received_events = until(received, "^doomed ✗ failed already … open .*(Savoy|answer).* travel hotel")
    page = text_of(tailed.session.get("/tail"))

    assert not any("good so far" in text for event in received_events for text in event.texts)
    assert re.search("doomed ✗ failed already … open .*(Savoy|answer).* travel hotel", page)  # also without a script
    assert "good so far … open, no failure so far" in page
    assert "failed already" not in text_of(tailed.session.get("/conversations"))  # a list of stored rows


def test_an_error_of_scoring_does_not_stop_the_tail(caplog: pytest.LogCaptureFixture) -> None:
    def fails(keys: Sequence[Key]) -> Mapping[Key, ConversationScore]:
        raise StoreError(f"cannot read {keys}")

    tail = Tail(fails)
    position = tail.prepare()
    tail.quiet([quiet_revision("c-1")])

    async def take() -> Update:
        return tail.watch(position, lambda _: True).take()

    (row,) = asyncio.run(take()).rows
    assert (row.conversation_id, row.so_far) == ("c-1", None)
    assert "cannot score open conversations" in caplog.text


def test_without_a_viewer_and_in_a_burst_no_score_is_computed() -> None:
    requested: list[Key] = []

    def count(keys: Sequence[Key]) -> Mapping[Key, ConversationScore]:
        requested.extend(keys)
        return {}

    tail = Tail(count)
    tail.quiet([quiet_revision("c-1")])
    assert requested == []

    tail.prepare()
    tail.quiet([quiet_revision(f"c-{number}") for number in range(200)])
    assert requested == []  # more than a page displays
    tail.quiet([quiet_revision("c-1")])
    assert requested == [("", "c-1")]


def test_more_than_anybody_reads_is_counted(tailed: Followed) -> None:
    names = [f"burst-{number}" for number in range(60)]
    with stream(tailed.session) as received:
        tailed.converse(*names, ends=False)
        received_events: list[Event] = []
        while sum(len(event.rows) + event.missed for event in received_events) < len(names):
            received_events.append(next(received))

    assert sum(len(event.rows) + event.missed for event in received_events) == len(names)
    assert max(len(event.rows) for event in received_events) == 10
    assert sum(event.missed for event in received_events) > 0


def test_conditions_select_what_is_sent(tailed: Followed) -> None:
    with (
        stream(tailed.session, "/tail/events?agent=tr*&outcome=fail&environment=") as received,
        stream(tailed.session, "/tail/events?environment=elsewhere") as elsewhere,
    ):
        tailed.converse("passes")
        tailed.converse("differs", agent="other", answer="The Savoy.")
        tailed.converse("fails", answer="The Savoy.")
        rows = [text for event in until(received, "^fails") for text in event.texts]
        first = next(elsewhere)

    assert [row.split()[:3] for row in rows] == [["fails", "✗", "fail"]]
    assert first.rows == []


class Markup(HTMLParser):
    """The names of tags and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names |= {tag, *(name for name, _ in attrs)}


def test_hostile_text_is_neither_markup_nor_a_field_of_an_event(tailed: Followed) -> None:
    with stream(tailed.session) as received:
        tailed.converse(HOSTILE, agent=HOSTILE)
        rows = [row for event in until(received, "alert.*(not evaluated|pass|fail)") for row in event.rows]
    markup = Markup()
    markup.feed("".join(rows))

    assert any("&lt;script&gt;" in row for row in rows)
    assert markup.names <= {"tr", "th", "td", "a", "bdi", "span", "wbr", "scope", "href", "class", "title"} | {
        "data-label",
        "aria-hidden",
    }


def test_a_browser_that_connects_again_receives_what_it_lacks(tailed: Followed) -> None:
    with stream(tailed.session) as received:
        tailed.converse("first")
        last = until(received, "^first ✓ pass")[-1]
    tailed.converse("second")
    with stream(tailed.session, "/tail/events?after=0", last_event_id=str(last.id)) as received:
        received_events = until(received, "^second ✓ pass")

    assert not any("first" in text for event in received_events for text in event.texts)
    assert [0] * len(received_events) == [event.missed for event in received_events]


@pytest.mark.parametrize("position", ["-1", "x", "9" * 5000, "1e3"])
def test_an_invalid_position_is_refused(tailed: Followed, position: str) -> None:
    answer = tailed.session.get("/tail/events", headers={"last-event-id": position})

    assert (answer.status_code, answer.text[:6]) == (400, "after:")


def test_a_position_of_the_future_is_the_current_one(tailed: Followed) -> None:
    with stream(tailed.session) as received, stream(tailed.session, f"/tail/events?after={10**15}") as other:
        expected, first = next(received), next(other)

    assert (first.id, first.rows, first.missed) == (expected.id, [], 0)


def test_the_number_of_viewers_is_bounded(tailed: Followed) -> None:
    eventually(lambda: len(tailed.live._tail._viewers), 0)  # those of other tests have left
    with ExitStack() as stack:
        viewers = [stack.enter_context(stream(tailed.session)) for _ in range(MAX_VIEWERS)]
        assert [next(received).missed for received in viewers] == [0] * MAX_VIEWERS
        refused = tailed.session.get("/tail/events")
        assert tailed.session.get("/conversations").status_code == 200
    eventually(lambda: status_of(tailed.session), 200)

    assert (refused.status_code, refused.headers["content-type"]) == (503, "text/plain; charset=utf-8")
    assert refused.text.startswith("16 pages already follow this collector")


def test_a_request_for_the_headers_occupies_no_viewer_slot(tailed: Followed) -> None:
    eventually(lambda: len(tailed.live._tail._viewers), 0)  # those of other tests have left

    answer = tailed.session.head("/tail/events", timeout=30)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream")
    assert not tailed.live._tail._viewers


def status_of(session: httpx.Client) -> int:
    """Return the status of the stream."""
    with session.stream("GET", "/tail/events") as answer:
        return answer.status_code


def test_nothing_is_sent_without_a_session_or_after_its_end(tailed: Followed) -> None:
    anonymous = httpx.get(f"{tailed.server.admin}/tail/events", timeout=30)
    with tailed.console.session("bo") as session, stream(session) as received:
        next(received)
        cookies = dict(session.cookies)
        session.post("/logout")
        tailed.converse("secret")
        assert not any("secret" in text for event in received for text in event.texts)  # the stream ends
    again = httpx.get(f"{tailed.server.admin}/tail/events", cookies=cookies, timeout=30)

    assert (anonymous.status_code, anonymous.text[:10], again.status_code) == (401, "no session", 401)
    assert anonymous.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    "headers", [{"host": "evil.example"}, {"sec-fetch-site": "same-site"}, {"sec-fetch-site": "cross-site"}]
)
def test_other_sites_and_hosts_open_no_stream(tailed: Followed, headers: dict[str, str]) -> None:
    assert tailed.session.get("/tail/events", headers=headers).status_code == 403


def test_to_watch_is_no_request_that_keeps_a_session_open() -> None:
    now_s = [0.0]
    sessions = Sessions(lambda: now_s[0])
    cookie = sessions.open("ana", "admin")
    for now_s[0] in range(0, 1800, 300):
        assert sessions.peek(cookie) is not None
    now_s[0] = 1801.0

    assert sessions.peek(cookie) is None
    assert sessions.find(cookie) is None


def test_a_reading_session_may_watch_and_the_stream_ends_with_the_collector(tmp_path: Path) -> None:
    admin = {"address": "127.0.0.1:0", "query_token": "reader"}
    with (
        following(tmp_path / "t.duckdb", admin=admin) as own,
        httpx.Client(base_url=own.server.admin, headers={"sec-fetch-site": "same-origin"}, timeout=30) as client,
    ):
        assert client.post("/login", data={"token": "reader"}).status_code == 303
        with stream(client) as received:
            assert next(received).id == 0
            stopping = threading.Thread(target=own.live.stop)
            stopping.start()
            assert list(received) == []  # the response ends; a connection that is cut would raise an error
            stopping.join()
            assert not own.live._tail._viewers


def test_a_console_without_a_collector_explains_that_nothing_arrives(console: RunningConsole) -> None:
    with console.session() as session:
        page = session.get("/tail")
        refused = session.get("/tail/events")

    assert "No collector runs on this store" in text_of(page)
    assert "data-tail" not in page.text
    assert (refused.status_code, refused.text[:19]) == (400, "no collector runs o")


def test_the_pages_of_a_collector_lead_to_the_tail(tailed: Followed) -> None:
    listed = tailed.session.get("/conversations?agent=tr*&outcome=fail&tool=x")

    assert "/tail?agent=tr%2A&outcome=fail" in links_of(listed)
    assert "/tail" in links_of(tailed.session.get("/collector"))
    assert "No conversations yet" in text_of(tailed.session.get("/tail?agent=nobody"))
    assert tailed.session.get("/tail.json?agent=nobody").json()["rows"] == []
    assert tailed.session.get("/tail?outcome=x").status_code == 400


def test_rows_without_a_viewer_are_counted_and_not_stored() -> None:
    now_s = [0.0]
    tail = Tail(unscored, lambda: now_s[0])
    items = [scored_as(conversation(conversation_id=ConversationId(f"c-{number}"))) for number in range(3)]

    def update(after: int | None) -> Update:
        async def take() -> Update:
            viewer = tail.watch(after, lambda _: True)
            try:
                return viewer.take()
            finally:
                viewer.leave()

        return asyncio.run(take())

    tail.scored(items)
    assert len(tail._rows) == 0
    assert update(0) == Update(position=3, rows=[], missed=3)

    tail.scored(items[:2])  # a viewer left just now
    latest = update(1)
    assert ([row.conversation_id for row in latest.rows], latest.missed, latest.position) == (["c-1", "c-0"], 2, 5)

    now_s[0] = 100.0
    tail.scored(items)
    assert len(tail._rows) == 0
    assert update(5).missed == 3


def test_a_burst_beyond_the_memory_of_the_tail_is_counted() -> None:
    tail = Tail(unscored)
    position = tail.prepare()
    item = scored_as(conversation())
    tail.scored([item] * 1500)
    tail.scored([item] * 1500)

    async def take() -> Update:
        return tail.watch(position, lambda _: True).take()

    update = asyncio.run(take())
    assert (len(tail._rows), len(update.rows), update.missed) == (1000, 1, 2000)
    assert isinstance(update.rows[0], TailRow)


def test_erased_conversations_leave_the_tail(tailed: Followed) -> None:
    with stream(tailed.session) as received:
        tailed.converse("erased")
        until(received, "^erased ✓ pass")
        tailed.live.run("store_erase", {"conversation_id": "erased"})

        assert "erased" not in {row.conversation_id for row in tailed.live._tail._rows}
