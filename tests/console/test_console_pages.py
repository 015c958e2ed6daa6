"""The pages of the console over HTTP: their content, their JSON and CSV twins, filters and links."""

from __future__ import annotations

import csv
import re
from html import unescape
from io import StringIO
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from otel_agentic.console.pages import PAGES
from otel_agentic.engine.engine import Engine
from otel_agentic.testing import AgentRunScript, batch, scripted_call, speak_genai
from tests.builders import feed
from tests.cli.running import done
from tests.cli.small import conversation, write_cases, write_spans
from tests.console.conftest import RunningConsole, serving
from tests.conversations.rebuilding import run as agent_run
from tests.conversations.wire import json_of, requests_of
from tests.stores import settings_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx

#: The parameters that pages about one object need.
_WITH_OBJECT = {"/conversation", "/span"}
_CONVERSATION = "/conversation?id=lyon-family-1.1.0-3&environment=demo"
_PAGES = [
    "/",
    *(path for path in PAGES if path not in _WITH_OBJECT),
    _CONVERSATION,
    "/review",
    "/tail",
    "/matches",
    "/sql?q=SELECT+42",
]
_TAG = re.compile(r"<[^>]+>")
_MAX_PAGE = 80 * 1024


def text_of(answer: httpx.Response) -> str:
    """Return the visible text of a page, with single spaces."""
    return " ".join(unescape(_TAG.sub("", answer.text)).split())


def links_of(answer: httpx.Response) -> list[str]:
    """Return the targets of the links of a page that lead to the console."""
    return [unescape(target) for target in re.findall(r'href="(/[^"]*)"', answer.text)]


@pytest.mark.parametrize("path", _PAGES)
def test_a_page_is_html_under_a_strict_policy_and_loads_only_own_files(session: httpx.Client, path: str) -> None:
    answer = session.get(path)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["referrer-policy"] == "same-origin"
    assert not re.search(r"<script(?! src=\"/static/)|<style|style=|\son\w+=|javascript:", answer.text)
    assert answer.text.count("<h1>") == 1
    assert path == "/numbers" or len(answer.content) < _MAX_PAGE


def test_a_list_leads_to_a_review_of_its_conversations(session: httpx.Client) -> None:
    answer = session.get("/conversations?agent=trip-planner&outcome=fail&order=random&labelled=no&limit=5")
    (link,) = [target for target in links_of(answer) if target.startswith("/review?")]

    assert link == "/review?order=newest&agent=trip-planner&outcome=fail"
    assert session.get(link).status_code == 200


def test_the_slices_of_a_conversation_lead_to_the_conversations_in_them(session: httpx.Client) -> None:
    page = session.get(_CONVERSATION)
    link = next(target for target in links_of(page) if target.startswith("/conversations?in_slice=model"))
    matching = f"{link}&text=lyon-family-1.1.0-3".replace("/conversations", "/conversations.json")
    listed = session.get(matching).json()["rows"]
    none = session.get("/conversations.json?in_slice=model%3Dunknown").json()["rows"]

    assert ["lyon-family-1.1.0-3"] == [row["conversation_id"] for row in listed]
    assert none == []
    assert "model=" in text_of(session.get("/?by=model"))


def test_a_malformed_k_is_an_error(session: httpx.Client) -> None:
    assert [session.get(f"/?k={k}").status_code for k in ("1,3", "1, 3", "1,x", "1,")] == [200, 200, 400, 400]


@pytest.mark.parametrize("path", [*PAGES])
def test_a_page_is_also_json(session: httpx.Client, path: str) -> None:
    parameters = urlsplit(_CONVERSATION).query if path == "/conversation" else "q=SELECT+42"
    answer = session.get(f"{path}.json?{parameters}")

    assert answer.headers["content-type"] == "application/json"
    assert answer.status_code == (400 if path == "/span" else 200)
    assert answer.json()


def shape_of(target: str) -> tuple[str, ...]:
    """Return the path of a link and the names of its parameters."""
    url = urlsplit(target)
    return url.path, *sorted(parse_qs(url.query, keep_blank_values=True))


@pytest.mark.parametrize(
    "shape", [shape_of, pytest.param(str, marks=pytest.mark.slow)], ids=["one of each shape", "each link"]
)
def test_every_link_of_every_page_leads_somewhere(session: httpx.Client, shape: Callable[[str], object]) -> None:
    targets = {target for path in _PAGES for target in links_of(session.get(path))}
    chosen = {shape(target): target for target in sorted(targets)}.values()

    failed = {target: answer.status_code for target in chosen if (answer := session.get(target)).status_code != 200}
    assert len(targets) > 100
    assert len(chosen) > 20
    assert failed == {}


def test_the_first_page_leads_to_the_wrong_parameter_in_two_clicks(session: httpx.Client) -> None:
    first = session.get("/")
    assert "trip-planner · 1.1.0 needs improvement: pass^3 .171 [.015, .542]" in text_of(first)
    assert "book_seat.seat_class is wrong in 6 of 24 conversations" in text_of(first)

    (fault,) = {link for link in links_of(first) if "parameter=seat_class" in link}
    conversations = session.get(fault)
    ids = re.findall(r"/conversation\?id=([^&]+)", " ".join(links_of(conversations)))
    assert len(ids) == 6

    details = session.get(next(link for link in links_of(conversations) if link.startswith("/conversation?")))
    assert "book_seat seat_class: first ≠ second" in text_of(details)


def test_a_list_continues_after_its_last_row(session: httpx.Client) -> None:
    ids: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = session.get("/conversations.json", params={"limit": 7, "cursor": cursor}).json()
        ids += [row["conversation_id"] for row in page["rows"]]
        cursor = page["next_cursor"]

    everything = session.get("/conversations.json", params={"limit": 1000}).json()["rows"]
    assert ids == [row["conversation_id"] for row in everything]
    assert len(set(ids)) == len(ids) == 89


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("outcome=fail", 12),
        ("agent_version=1.1.0&outcome=fail", 11),
        ("tool=book_seat&fault=wrong_parameters", 7),
        ("tool=get_weather&fault=missing", 2),
        ("case_id=lyon-family", 12),
        ("text=BICYCLE", 12),
        ("outcome=not_evaluated&reason=unmatched", 1),
        ("labelled=yes", 0),
        ("agent=refund-*", 40),
        ("since=1h", 89),
        ("environment=nowhere", 0),
    ],
)
def test_conditions_select_conversations(session: httpx.Client, condition: str, expected: int) -> None:
    rows = session.get(f"/conversations.json?limit=1000&{condition}").json()["rows"]

    assert len(rows) == expected


def test_csv_has_the_rows_of_json(session: httpx.Client) -> None:
    answer = session.get("/conversations.csv?outcome=fail")

    rows = list(csv.DictReader(StringIO(answer.text)))
    expected = session.get("/conversations.json?outcome=fail").json()["rows"]
    assert [row["conversation_id"] for row in rows] == [row["conversation_id"] for row in expected]
    assert "attachment" in answer.headers["content-disposition"]


def test_the_spans_of_a_conversation_lead_to_their_attributes(session: httpx.Client) -> None:
    page = session.get(_CONVERSATION)
    assert page.text.count('role="row"') == 14
    assert "gen_ai" not in page.text  # no attributes

    span = session.get(next(link for link in links_of(page) if link.startswith("/span")))
    assert "openinference.span.kind" in text_of(span)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/conversation?id=no-such-id", "no conversation 'no-such-id'"),
        ("/conversation", "/conversation needs the parameter id"),
        ("/conversations?cursor=%21", "cursor '!' is invalid"),
        ("/conversations?limit=many", "limit: 'many' is not a whole number"),
        ("/review?reviewers=0", "reviewers"),
        ("/review?reviewers=99999999999999999999", "reviewers"),
        ("/?criterion=beauty", "beauty"),
        ("/sql?q=DROP+TABLE+spans", "spans"),
    ],
)
def test_what_cannot_be_shown_is_explained(session: httpx.Client, path: str, reason: str) -> None:
    answer = session.get(path)

    assert answer.status_code == 400
    assert reason in text_of(answer)


def test_untrusted_text_is_never_markup(session: httpx.Client) -> None:
    hostile = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'"
    names = ["agent", "agent_version", "text", "tool", "fault", "parameter", "case_id", "reason", "environment"]
    for path in ("/conversations", "/tools", "/cases", "/", "/review"):
        answer = session.get(path, params=dict.fromkeys(names, hostile))
        assert "<script>alert" not in answer.text
        assert "<img" not in answer.text


def test_pages_of_an_empty_store_name_the_next_step(empty: RunningConsole) -> None:
    with empty.session() as session:
        assert "otel-agentic run -- COMMAND" in text_of(session.get("/"))
        assert "OTEL_EXPORTER_OTLP_ENDPOINT" in text_of(session.get("/collector"))
        assert "This queue is empty: no closed conversation" in text_of(session.get("/review"))
        assert "No conversation is stored yet. Send spans" in text_of(session.get("/conversations"))
        assert session.get("/tools").status_code == session.get("/cases").status_code == 200


def test_every_span_of_a_long_conversation_is_reachable_in_pages_of_bounded_size(tmp_path: Path) -> None:
    calls = [("search", {"page": page}, f"result {page}") for page in range(1100)]
    spans = [conversation("long", query="Book", answer="Booked.", calls=calls)]
    done("ingest", write_spans(tmp_path / "s.jsonl", spans), "--db", tmp_path / "t.duckdb")
    linked: list[str] = []
    for running in serving(tmp_path / "t.duckdb"):
        with running.session() as session:
            target = "/conversation?id=long"
            while target:
                page = session.get(target)
                assert len(page.content) < 300_000
                linked += [link for link in links_of(page) if link.startswith("/span?")]
                target = unescape("".join(re.findall(r'rel="next" href="([^"]+)"', page.text)))
            beyond = session.get("/conversation?id=long&spans=5000")
            assert session.get(f"/conversation?id=long&spans={10**30}").status_code == 400

    assert len(linked) == len(set(linked)) == 1101
    assert "The conversation has no span at this position." in text_of(beyond)


def test_every_turn_of_a_long_conversation_is_reachable_in_pages_of_bounded_size(tmp_path: Path) -> None:
    script, turns = AgentRunScript(conversation_id="long"), []
    for number in range(75):
        results = [scripted_call("book", {"seat": seat}, result="Booked. " * 100) for seat in range(4)]
        script = script.ask(f"Book train {number}. " * 20).calls(*results).answers(f"Train {number} is booked. " * 20)
        seats = [{"tool_name": "book", "parameters": {"seat": 9 if number == 70 else seat}} for seat in range(4)]
        turns.append({"query": f"Book train {number}. " * 20, "tools": {"calls": seats}})
    db = tmp_path / "t.duckdb"
    with Engine(settings_for(db), create=True) as engine:
        feed(engine, speak_genai(script))
    cases = write_cases(tmp_path / "c.jsonl", [{"case_id": "trains", "turns": turns}])
    done("evaluate", "--db", db, "--cases", cases, "--close-open")
    numbers: list[str] = []
    for running in serving(db):
        with running.session() as session:
            target = "/conversation?id=long"
            while target:
                page = session.get(target)
                assert len(page.content) < 300_000
                numbers += re.findall(r'id="c-t(\d+)"', page.text)
                assert set(re.findall(r'href="#c-t(\d+)"', page.text)) <= set(re.findall(r'id="c-t(\d+)"', page.text))
                target = unescape("".join(re.findall(r'href="([^"]+)">Later turns', page.text)))
            first = session.get("/conversation?id=long")
            (chip,) = {unescape(link) for link in re.findall(r'class="chip" href="([^"]*#c-t\d+)"', first.text)}
            assert 'id="c-t71"' in session.get(chip).text
            beyond = session.get("/conversation?id=long&turns=5000")
            reviewed = session.get("/review")
            (later,) = {unescape(link) for link in re.findall(r'href="([^"]+)">Later turns', reviewed.text)}
            assert 'id="c-t31"' in session.get(later).text

    assert numbers == [str(number) for number in range(1, 76)]
    assert chip.endswith("#c-t71")
    assert "no turn at this position" in text_of(beyond)
    assert "/conversation?id=long&turns=60" in links_of(beyond)


def test_a_conversation_opens_although_others_share_its_id(tmp_path: Path) -> None:
    spans = [agent_run(9 * at, id="1", trace=service, query="Hi", service=service) for at, service in enumerate("xy")]
    file, db = tmp_path / "spans.jsonl", tmp_path / "t.duckdb"
    file.write_bytes(json_of(requests_of(batch(*spans))[0]) + b"\n")
    done("ingest", file, "--db", db)
    for console in serving(db):
        with console.session() as session:
            links = [link for link in links_of(session.get("/conversations")) if link.startswith("/conversation?")]
            services = {session.get(link.replace("?", ".json?", 1)).json()["conversation"]["service"] for link in links}
            assert services == {"x", "y"}
            assert session.get("/conversation?id=1&environment=elsewhere").status_code == 400
            assert session.get("/match?id=1&environment=elsewhere").status_code == 400


@pytest.mark.slow  # that it opens: a test above; its verdicts: tests/engine/test_engine_identity.py
def test_the_page_of_a_conversation_whose_id_others_share_leads_to_pages_about_it_alone(tmp_path: Path) -> None:
    spans = [
        agent_run(9 * at, id="1", trace=service, query=f"Hi {service}", service=service)
        for at, service in enumerate("xy")
    ]
    file, db = tmp_path / "spans.jsonl", tmp_path / "t.duckdb"
    file.write_bytes(json_of(requests_of(batch(*spans))[0]) + b"\n")
    done("ingest", file, "--db", db)
    done("evaluate", "--db", db, "--close-open")
    for console in serving(db):
        with console.session() as session:
            listed = [link for link in links_of(session.get("/conversations")) if link.startswith("/conversation?")]
            assert len(listed) == 2
            for link in listed:
                page = session.get(link)
                service = session.get(link.replace("?", ".json?", 1)).json()["conversation"]["service"]
                own = [target for target in links_of(page) if target.startswith(("/case?id=", "/conversation."))]
                assert len(own) >= 2
                assert {target: session.get(target).status_code for target in own} == dict.fromkeys(own, 200)
                assert f"Hi {service}" in next(session.get(target).text for target in own if "/case?" in target)
                matched = session.get(link.replace("/conversation?", "/match?"))
                assert (matched.status_code, f"Hi {service}" in matched.text) == (200, True)

                fields = dict(re.findall(r'name="(id|environment)" value="([^"]*)"', page.text))
                verdict = {"verdict": "pass", "note": f"by {service}"}
                recorded = session.post("/label", data={**fields, **verdict}, follow_redirects=True)
                assert (recorded.status_code, f"by {service}" in recorded.text) == (200, True)
                withdrawn = session.post("/label", data={**fields, "verdict": "withdraw"}, follow_redirects=True)
                assert "Withdrawn: the verdict of ana" in text_of(withdrawn)
                session.post("/label", data={**fields, **verdict})
        votes = console.run("truth_annotations")["annotations"]
    assert [f"by {service}" for service in "xy"] == sorted(vote["note"] for vote in votes)
    assert len({vote["conversation_id"] for vote in votes}) == 2


@pytest.mark.slow
def test_a_conversation_of_ten_thousand_spans_is_small(tmp_path: Path) -> None:
    calls = [("search", {"page": page}, f"result {page}") for page in range(9_999)]
    spans = [conversation("long", query="Book", answer="Booked.", calls=calls)]
    done("ingest", write_spans(tmp_path / "s.jsonl", spans), "--db", tmp_path / "t.duckdb")
    for console in serving(tmp_path / "t.duckdb"):
        counted = console.run("query", sql="SELECT count(*) FROM spans")["rows"]
        with console.session() as session:
            pages = [session.get(f"/conversation?id=long{suffix}") for suffix in ("", "&spans=9900")]
    assert counted == [[10_000]]
    assert {page.status_code for page in pages} == {200}
    assert max(len(page.content) for page in pages) < 300_000, [len(page.content) for page in pages]


@pytest.mark.parametrize(
    "condition",
    [
        "outcome=fail",
        "outcome=not_evaluated",
        "case_id=lyon-family",
        "tool=book_seat",
        "tool=book_seat&fault=wrong_parameters",
    ],
)
def test_a_condition_selects_the_same_conversations_however_many_are_read_first(
    session: httpx.Client, monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    selected: dict[tuple[int, ...], list[str]] = {}
    every: tuple[int, ...] = ()
    for steps in (every, (3, 20)):
        monkeypatch.setattr("otel_agentic.store.queries.browsing._NEWEST", steps)
        names, cursor = [], ""
        while cursor is not None:
            page = session.get(f"/conversations.json?{condition}&limit=4&cursor={cursor}").json()
            names += [row["conversation_id"] for row in page["rows"]]
            cursor = page["next_cursor"]
        selected[steps] = names

    assert selected[every] == selected[3, 20]
    assert len(set(selected[every])) == len(selected[every]) > 0


@pytest.mark.parametrize(
    "condition",
    [
        {},
        {"outcome": "fail"},
        *(pytest.param(other, marks=pytest.mark.slow) for other in ({"agent": "trip-planner"}, {"labelled": False})),
    ],
)
def test_a_random_order_is_the_same_however_many_are_read_first(
    console: RunningConsole, monkeypatch: pytest.MonkeyPatch, condition: dict[str, object]
) -> None:
    ordered: dict[tuple[int, ...], list[str]] = {}
    every: tuple[int, ...] = ()
    for steps in (every, (1, 200)):
        monkeypatch.setattr("otel_agentic.store.queries.browsing._BUCKETS_AT_FIRST", steps)
        names: list[str] = []
        page: dict[str, Any] = {"next_cursor": None}
        while not names or page["next_cursor"] is not None:
            page = console.run("conversations_page", order="random", limit=4, cursor=page["next_cursor"], **condition)
            assert page["rows"]
            names += [row["conversation_id"] for row in page["rows"]]
        ordered[steps] = names

    assert ordered[every] == ordered[1, 200] != sorted(ordered[every])
    assert len(set(ordered[every])) == len(ordered[every]) > 0
