"""Review: the next conversation of a queue, blind verdicts, undo, disagreements, and what a verdict changes."""

from __future__ import annotations

import re
import shutil
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.console.review import Claims
from tests.console.conftest import RunningConsole, serving
from tests.console.test_console_pages import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx


@pytest.fixture
def console(tmp_path: Path, demo_file: Path) -> Iterator[RunningConsole]:
    """Serve a store of its own, because these tests change it."""
    db = tmp_path / "demo.duckdb"
    shutil.copy(demo_file, db)
    yield from serving(db)


def item_of(page: httpx.Response) -> str:
    """Return the id of the conversation under review."""
    return str(re.findall(r'name="id" value="([^"]+)"', page.text)[-1])


def judge(session: httpx.Client, verdict: str, page: str | httpx.Response = "/review", **values: str) -> httpx.Response:
    """Send the form of the conversation under review, of a page that is read before unless it is given."""
    item_page = session.get(page) if isinstance(page, str) else page
    names = re.findall(
        r'<input type="hidden" name="(\w+)" value="([^"]*)"', item_page.text.rpartition('class="verdict"')[2]
    )
    fields = {name: value.replace("&amp;", "&") for name, value in names}
    return session.post("/label", data={**fields, "verdict": verdict, **values}, follow_redirects=True)


def label(console: RunningConsole, annotator: str, conversation_id: str, verdict: str, **more: str) -> None:
    """Record a verdict without the page, which computes two reports to show its effect."""
    key = {"conversation_id": conversation_id, "environment": "demo"}
    console.run("label", **key, annotator=annotator, verdict=verdict, **more)


def group(session: httpx.Client, version: str) -> dict[str, Any]:
    """Return the group of a version of trip-planner from the report."""
    groups = session.get("/reliability.json").json()["groups"]
    result: dict[str, Any] = next(group for group in groups if group["agent_version"] == version)
    return result


def test_a_verdict_changes_the_outcome_and_the_rate_at_once(console: RunningConsole) -> None:
    with console.session() as session:
        before = group(session, "1.1.0")
        answer = session.post(
            "/label",
            data={"id": "lyon-family-1.1.0-3", "environment": "demo", "verdict": "pass", "note": "<b>fine</b>"},
            follow_redirects=True,
        )
        after = group(session, "1.1.0")

        assert "Its outcome is pass now (computed: fail)." in text_of(answer)
        assert "<b>fine</b>" in text_of(answer)
        assert (before["c"], after["c"]) == (13, 14)
        assert re.search(
            r"pass\^3 of trip-planner 1\.1\.0: \.171 \[.*\], coverage 100%, 13 of 24 correct → \.\d+ \[.*, 14 of 24",
            text_of(answer),
        )
        estimator = after["default_estimator"]
        rates = [row["estimates"][estimator]["pass_pow_k"]["3"]["value"] for row in (before, after)]
        assert rates[0] < rates[1]

        withdrawn = session.post(
            "/label",
            data={"id": "lyon-family-1.1.0-3", "environment": "demo", "verdict": "withdraw"},
            follow_redirects=True,
        )
        assert "Withdrawn: the verdict of ana" in text_of(withdrawn)
        assert group(session, "1.1.0")["c"] == 13


def test_an_item_is_blind_and_comes_once(console: RunningConsole) -> None:
    with console.session() as session:
        ids = []
        for _ in range(3):
            page = session.get("/review")
            ids.append(item_of(page))
            # Each is isolated: a name from right to left does not move the version.
            assert re.search(r"<h2>A conversation of <bdi>.+</bdi> <bdi>.+</bdi></h2>", page.text)
            assert "✗ fail" not in text_of(page)
            assert "✓ pass" not in text_of(page)
            assert judge(session, "pass", page).status_code == 200
        assert len(set(ids)) == 3
        assert "you judged 3 conversations" in text_of(session.get("/review"))

        undone = re.findall(
            r'value="([^"]+)"><input type="hidden" name="environment" value="demo">', judge(session, "fail").text
        )
        answer = session.post(
            "/label",
            data={"id": undone[0], "environment": "demo", "verdict": "withdraw", "back": "/review"},
            follow_redirects=True,
        )
        assert item_of(answer) == undone[0]


def test_verdicts_of_a_random_queue_are_a_random_sample(console: RunningConsole) -> None:
    with console.session() as session:
        judge(session, "pass")
        judge(session, "fail", page="/review?order=newest&outcome=fail")
        judge(session, "pass", page="/review?order=random&text=milan")
        judge(session, "pass", page="/review?order=random&agent=trip-planner&since=30d")

    rows = console.run("query", sql="SELECT random_sample FROM annotations ORDER BY annotated_at")["rows"]
    assert rows == [[True], [False], [False], [True]]


def test_the_link_of_a_queue_does_not_grow_and_undo_returns_to_it(console: RunningConsole) -> None:
    queue = "/review?order=newest&outcome=fail"
    with console.session() as session:
        first = judge(session, "pass", page=queue)
        second = judge(session, "pass", page=str(first.url))
        assert len(str(second.url)) < len(str(first.url)) + 40
        (undo,) = re.findall(r'name="back" value="([^"]+)">.*data-key="u"', second.text)

    assert unescape(undo) == queue


def test_a_skipped_item_stays_in_the_queue(console: RunningConsole) -> None:
    with console.session() as session:
        first = session.get("/review")
        (skip,) = re.findall(r'href="(/review\?cursor=[^"]+)"', first.text)
        assert item_of(session.get(skip.replace("&amp;", "&"))) != item_of(first)
        assert item_of(session.get("/review")) == item_of(first)


def test_disagreements_reach_a_person_who_decides(console: RunningConsole) -> None:
    verdicts = {"ana": "pass", "bo": "fail"}
    data = {"id": "milan-weekend-1.1.0-1", "environment": "demo"}
    for name, verdict in verdicts.items():
        label(console, name, data["id"], verdict, note=f"{name} because")

    with console.session("chris") as session:
        page = session.get("/review?order=newest&disagreements=1")
        assert "ana because" in text_of(page)
        assert "bo because" in text_of(page)
        decided = judge(session, "fail", page="/review?order=newest&disagreements=1")
        assert "There are no disagreements to resolve" in text_of(decided)
        conversation = session.get("/conversation.json", params=data).json()
    assert conversation["score"]["outcome_source"] == "adjudication"


def test_agreement_is_item_page(console: RunningConsole) -> None:
    ids = [f"lyon-family-1.1.0-{number}" for number in range(1, 7)]
    verdicts = {
        "ana": ["pass", "pass", "fail", "fail", "pass", "fail"],
        "bo": ["pass", "fail", "fail", "fail", "pass", "pass"],
    }
    for name, given in verdicts.items():
        for conversation_id, verdict in zip(ids, given, strict=True):
            label(console, name, conversation_id, verdict)

    with console.session() as session:
        text = text_of(session.get("/review"))
    # Cohen's kappa: observed agreement 4/6, expected 1/2 by equal margins.
    assert "6 items judged by several people: they agree on 67%, Cohen's kappa 0.33" in text
    assert "2 disagreements" in text


def test_two_people_share_a_queue_that_needs_one_reviewer(console: RunningConsole) -> None:
    queue = "/review?order=random&reviewers=1&agent=trip-planner&agent_version=1.1.0&text=bicycle"
    with console.session("ana") as ana, console.session("ben") as ben:
        items: dict[str, list[str]] = {"ana": [], "ben": []}
        for _ in range(3):
            items["ana"].append(item_of(ana.get(queue)))
            items["ben"].append(item_of(ben.get(queue)))
            assert item_of(ana.get(queue)) == items["ana"][-1]  # it stays the same until it has a verdict
            for name, ids in items.items():
                label(console, name, ids[-1], "pass")
        assert len({*items["ana"], *items["ben"]}) == 6  # all conversations of this selection, each once
        assert "This queue is empty" in text_of(ana.get(queue))


def test_a_queue_without_a_number_of_reviewers_is_the_same_for_everyone(console: RunningConsole) -> None:
    with console.session("ana") as ana, console.session("ben") as ben:
        assert item_of(ana.get("/review")) == item_of(ben.get("/review"))


def test_a_skipped_conversation_is_free_for_others(console: RunningConsole) -> None:
    queue = "/review?order=random&reviewers=1"
    with console.session("ana") as ana, console.session("ben") as ben:
        page = ana.get(queue)
        skip = re.search(r'<a href="([^"]+)" data-key="s n"', page.text)
        assert skip is not None
        ana.get(unescape(skip[1]))

        assert item_of(ben.get(queue)) == item_of(page)


def test_a_claim_ends_after_a_time() -> None:
    now_s = 0.0
    claims = Claims(lambda: now_s)
    key = ("", "c1")

    assert claims.claim(key, "ana", frozenset(), 1)
    assert not claims.claim(key, "ben", frozenset(), 1)
    assert claims.claim(key, "ben", frozenset(), 2)
    assert not claims.claim(key, "cleo", frozenset(), 2)
    assert not claims.claim(key, "ana", {"cleo"}, 1)
    now_s = 901.0
    assert claims.claim(key, "cleo", frozenset(), 1)
