"""Cases: versions, corrections and their effect, two people who correct at once, and new cases from conversations."""

from __future__ import annotations

import re
import shutil
from html import unescape
from typing import TYPE_CHECKING, Any

import pytest

from tests.console.conftest import RunningConsole, serving
from tests.console.test_console_pages import text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

CASE = "/case?case_id=lyon-family"
#: A conversation in which the agent booked another seat class than the case expects.
FAILED = "lyon-family-1.1.0-3"


@pytest.fixture
def console(tmp_path: Path, demo_file: Path) -> Iterator[RunningConsole]:
    """Serve a store of its own, because these tests change it."""
    db = tmp_path / "demo.duckdb"
    shutil.copy(demo_file, db)
    yield from serving(db)


def form_of(page: httpx.Response) -> dict[str, str]:
    """Return the fields of the form that saves a case."""
    form = page.text.partition('action="/case"')[2].partition("</form>")[0]
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form))
    record = re.search(r"<textarea[^>]*>\n?(.*?)</textarea>", form, re.DOTALL)
    assert record is not None
    return {name: unescape(value) for name, value in {**hidden, "record": record[1]}.items()}


def save(session: httpx.Client, form: dict[str, str]) -> httpx.Response:
    return session.post("/case", data=form, follow_redirects=True)


def correct_of(console: RunningConsole) -> dict[str, int]:
    """Return the number of correct conversations of each version of trip-planner."""
    groups = console.run("report", agent="trip-planner", by=["version"], metrics=[])["groups"]
    return {group["agent_version"]: group["c"] for group in groups}


def versions_of(session: httpx.Client) -> list[dict[str, Any]]:
    versions: list[dict[str, Any]] = session.get(CASE.replace("/case", "/case.json")).json()["versions"]
    return versions


def test_accepting_a_run_corrects_the_case_and_evaluates_its_conversations_only(console: RunningConsole) -> None:
    with console.session() as session:
        before = correct_of(console)
        page = session.get(f"/conversation?id={FAILED}")
        link = re.search(r'<a href="(/case\?id=[^"]+)" data-key="e">The agent was right', page.text)
        assert link is not None
        proposal = session.get(unescape(link[1]))

        assert "turns[1].tools.calls[0].parameters.seat_class: second ≠ first" in text_of(proposal)
        assert correct_of(console) == before  # nothing is stored by a link
        saved = save(session, form_of(proposal))

        # Of 12 conversations of the case, 8 booked second class and 3 booked first class.
        assert "12 conversations evaluated again, 11 outcomes changed: 8 pass → fail, 3 fail → pass." in text_of(saved)
        assert re.search(
            r"pass\^3 of trip-planner 1\.1\.0: \.171 .* 13 of 24 correct → .* 14 of 24 correct", text_of(saved)
        )
        assert (before, correct_of(console)) == ({"1.0.0": 23, "1.1.0": 13}, {"1.0.0": 17, "1.1.0": 14})
        assert [(row["current"], row["author"], row["n"], row["c"]) for row in versions_of(session)] == [
            (True, "ana", 12, 3),
            (False, None, 12, 8),
        ]


def test_an_older_version_is_restored(console: RunningConsole) -> None:
    with console.session() as session:
        before = correct_of(console)
        save(session, form_of(session.get(f"/case?id={FAILED}")))
        link = re.search(r'<a href="([^"]+)">restore</a>', session.get(CASE).text)
        assert link is not None
        restored = save(session, form_of(session.get(unescape(link[1]))))

        assert "11 outcomes changed: 8 fail → pass, 3 pass → fail." in text_of(restored)
        assert correct_of(console) == before
        assert [(row["current"], row["c"]) for row in versions_of(session)] == [(True, 8), (False, 3)]


def test_of_two_people_who_correct_a_case_the_second_loses_nothing(console: RunningConsole) -> None:
    with console.session("ana") as ana, console.session("ben") as ben:
        form = form_of(ben.get(CASE))
        save(ana, form_of(ana.get(f"/case?id={FAILED}")))
        form["record"] = form["record"].replace("second class", "2nd class")
        refused = save(ben, form)

        assert refused.status_code == 409
        assert "was changed meanwhile" in text_of(refused)
        assert form_of(refused)["record"] == form["record"]
        assert save(ben, form_of(refused)).status_code == 409
        assert versions_of(ben)[0]["author"] == "ana"


@pytest.mark.parametrize(
    ("replaced", "by", "message"),
    [
        ('"case_id"', "case_id", "not JSON"),
        ('"tags"', '"tag"', "unknown field"),
        ('"seat_class": "second"', '"seat_class": NaN', "not JSON"),
        ('"lyon-family"', '"another"', "not current any more"),
    ],
)
def test_an_invalid_case_is_not_saved_and_its_text_remains(
    console: RunningConsole, replaced: str, by: str, message: str
) -> None:
    with console.session() as session:
        form = form_of(session.get(CASE))
        form["record"] = form["record"].replace(replaced, by, 1)
        refused = save(session, form)

        assert refused.status_code in {400, 409}
        assert message in text_of(refused)
        assert form_of(refused)["record"] == form["record"]
        assert len(versions_of(session)) == 1


def test_a_conversation_without_a_case_becomes_one(console: RunningConsole) -> None:
    with console.session() as session:
        form = form_of(session.get(CASE))
        # The case is now about another question, so its conversations have no case.
        form["record"] = (
            form["record"].replace("When is there a train", "Is there a ferry").replace("Book it", "Rent it")
        )
        moved = save(session, form)
        link = re.search(r'<a href="(/case\?id=[^"]+)">create</a>', session.get("/matches").text)

        assert "not evaluated" in text_of(moved)
        assert link is not None
        new = session.get(unescape(link[1]))
        saved = save(session, form_of(new))

        assert "New case" in text_of(new)
        assert re.search(r"Saved version \w+\. \d+ conversations evaluated again, \d+ outcomes changed", text_of(saved))
        assert save(session, form_of(new)).status_code == 409  # it exists now


@pytest.mark.slow  # one correction: the tests above
def test_a_verdict_counts_after_a_correction_of_another_case(console: RunningConsole) -> None:
    with console.session() as session:
        save(session, form_of(session.get(f"/case?id={FAILED}")))
        failed = session.get("/conversations.json?outcome=fail&case_id=milan-weekend").json()["rows"][0]
        key = {"id": failed["conversation_id"], "environment": failed["environment"]}
        answer = session.post("/label", data={**key, "verdict": "pass"}, follow_redirects=True)

        assert "Its outcome is pass now (computed: fail)." in text_of(answer)


def test_all_cases_are_listed_and_drafts_come_first(console: RunningConsole) -> None:
    with console.session() as session:
        form = form_of(session.get("/case?case_id=refund-1003"))
        assert form["record"].count('"refund-1003"') == 1
        form["record"] = form["record"].replace("{", '{"reviewed": false,', 1)
        assert save(session, form).status_code == 200
        listed = session.get("/cases.json").json()["cases"]

        assert len({row["case_id"] for row in listed}) == 44
        assert [row["case_id"] for row in listed if row["is_draft"]] == ["refund-1003"] == [listed[0]["case_id"]]
        assert "draft: review it" in text_of(session.get("/cases"))

        draft = session.get("/case?case_id=refund-1003")
        assert "reviewed: false ≠ nothing" in text_of(draft)
        save(session, form_of(draft))
        assert not any(row["is_draft"] for row in session.get("/cases.json").json()["cases"])


def test_a_store_with_cases_and_no_conversation_lists_the_cases(tmp_path: Path, empty_file: Path) -> None:
    db = tmp_path / "cases.duckdb"
    shutil.copy(empty_file, db)
    for console in serving(db):
        with console.session() as session:
            record = '{"case_id": "new", "dataset": "d", "turns": [{"query": "Where is it?", "answer": "Here."}]}'
            saved = session.post("/case", data={"record": record}, follow_redirects=True)

            assert "0 conversations evaluated again, no outcome changed." in text_of(saved)
            assert [row["case_id"] for row in session.get("/cases.json").json()["cases"]] == ["new"]
