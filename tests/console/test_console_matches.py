"""Matches: conversations without a case, the choice of one, its effect, and the choice withdrawn."""

from __future__ import annotations

import csv
import re
import shutil
from html import unescape
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.running import done
from tests.cli.small import NOON_NS, SECOND_NS, conversation, write_cases, write_spans
from tests.console.conftest import RunningConsole, serving
from tests.console.test_console_pages import links_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

CASES = [
    {"case_id": "where", "dataset": "d", "turns": [{"query": "Where is my order?", "answer": "It arrives on Monday."}]},
    {"case_id": "bye-1", "dataset": "d", "turns": [{"query": "Bye"}]},
    {"case_id": "bye-2", "dataset": "d", "turns": [{"query": "Bye"}]},
    {
        "case_id": "hotel",
        "dataset": "d",
        "turns": [{"query": "Which hotel is near the old harbour?", "answer": "None."}],
    },
    {"case_id": "foreign", "dataset": "d", "agent": "other", "turns": [{"query": "Has my parcel left?"}]},
]
#: An unusual word for "order" and three similar questions, which no case has.
PARCEL = "Has my parcel number {} left the warehouse?"
HOSTILE = "<script>alert(1)</script> & \u202etxt"


def _spans() -> list[dict[str, Any]]:
    texts = {
        "known": "Where is my order?",
        **{f"parcel-{number}": PARCEL.format(number) for number in (1, 2, 3)},
        "music": "Play music",
        "bye": "bye!",
        "harbour": "Which hotel is near the old harbor?",
        "hostile": HOSTILE,
    }
    return [
        conversation(name, query=query, start_ns=NOON_NS + at * 100 * SECOND_NS)
        for at, (name, query) in enumerate(texts.items())
    ]


@pytest.fixture(scope="module")
def matches_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with one conversation that a case matches, six that none does, one that fits two cases."""
    folder = tmp_path_factory.mktemp("matches")
    db = folder / "matches.duckdb"
    done("ingest", write_spans(folder / "s.jsonl", _spans()), "--db", db)
    done("evaluate", "--cases", write_cases(folder / "cases.jsonl", CASES), "--db", db)
    return db


@pytest.fixture
def console(tmp_path: Path, matches_file: Path) -> Iterator[RunningConsole]:
    """Serve a store of its own, because these tests change it."""
    db = tmp_path / "matches.duckdb"
    shutil.copy(matches_file, db)
    yield from serving(db)


def outcomes_of(session: httpx.Client) -> dict[str, tuple[str | None, str | None]]:
    """Return the case and the reason or outcome of each conversation."""
    rows = session.get("/conversations.json?limit=1000").json()["rows"]
    return {row["conversation_id"]: (row["case_id"], row["reason"] or row["outcome"]) for row in rows}


def choose(session: httpx.Client, conversation_id: str, case: str, **values: str) -> httpx.Response:
    data = {"id": conversation_id, "environment": "production", "case": case, "action": "one", **values}
    return session.post("/match", data=data, follow_redirects=True)


def choices_of(session: httpx.Client, conversation_id: str, **values: str) -> dict[str, Any]:
    answer = session.get("/match.json", params={"id": conversation_id, **values})
    choices: dict[str, Any] = answer.json()
    return choices


def test_the_page_lists_what_users_asked_without_a_case_and_the_uncertain_matches(console: RunningConsole) -> None:
    with console.session() as session:
        page = session.get("/matches")
        twin = session.get("/matches.json").json()

        assert next((row["query"], row["size"]) for row in twin["clusters"]) == (PARCEL.format(3), 3)
        assert sum(row["size"] for row in twin["clusters"]) == 6
        assert [row["candidates"] for row in twin["ambiguous"]["rows"]] == [["bye-1", "bye-2"]]
        assert [row["suggested_case_id"] for row in twin["suggested"]["rows"]] == ["hotel"]
        assert "6 conversations that no case matches" in text_of(page)
        assert "<script>alert" not in page.text
        assert all(session.get(link).status_code == 200 for link in links_of(page) if link.startswith("/match"))
        assert len(list(csv.DictReader(StringIO(session.get("/matches.csv").text)))) == len(twin["clusters"])


@pytest.mark.parametrize(
    ("conditions", "clusters", "others"),
    [
        ("text=PARCEL", [3], {"ambiguous": 0, "suggested": 0, "warning": 0}),
        ("only=unmatched", [3, 1, 1, 1], {}),
        ("only=ambiguous", None, {"ambiguous": 1}),
        ("only=ambiguous&text=bye", None, {"ambiguous": 1}),
        ("only=ambiguous&text=parcel", None, {"ambiguous": 0}),
        ("agent=nobody", [], {"ambiguous": 0, "suggested": 0, "warning": 0}),
    ],
)
def test_conditions_are_applied_by_the_server(
    console: RunningConsole, conditions: str, clusters: list[int] | None, others: dict[str, int]
) -> None:
    with console.session() as session:
        twin = session.get(f"/matches.json?{conditions}").json()
        clustered = twin.pop("clusters")

        assert (None if clustered is None else [row["size"] for row in clustered]) == clusters
        assert {kind: page["total"] for kind, page in twin.items()} == others
        assert session.get(f"/matches?{conditions}").status_code == 200


def test_cases_are_offered_by_similarity_and_only_those_of_the_agent(console: RunningConsole) -> None:
    with console.session() as session:
        harbour = choices_of(session, "harbour")
        bye = choices_of(session, "bye")

        assert next(case["case_id"] for case in harbour["cases"]) == "hotel"
        assert {case["case_id"] for case in harbour["cases"]} == {"where", "bye-1", "bye-2", "hotel"}
        similarities = [case["similarity"] for case in harbour["cases"]]
        assert similarities == sorted(similarities, reverse=True)
        assert 0 < similarities[0] <= 1
        assert [case["case_id"] for case in bye["cases"] if case["fits"]] == ["bye-1", "bye-2"]
        assert [case["case_id"] for case in choices_of(session, "harbour", text="ORDER")["cases"]] == ["where"]
        assert "No case for this agent contains" in text_of(session.get("/match?id=harbour&text=nothing-like-it"))


def test_a_choice_is_evaluated_at_once_and_the_page_names_the_effect(console: RunningConsole) -> None:
    with console.session() as session:
        answer = choose(session, "parcel-1", "d/where")
        message = text_of(answer)

        assert (
            "Mapped 1 conversation to where. 1 conversation evaluated again, 1 outcome changed: 1 not evaluated → pass."
            in message
        )
        assert re.search(
            r"pass\^\d of clerk 1\.0: .*, coverage 12%, 1 of 1 correct → .*, coverage 25%, 2 of 2 correct", message
        )
        assert outcomes_of(session)["parcel-1"] == ("where", "pass")
        choices = choices_of(session, "parcel-1")
        assert (choices["method"], choices["case_id"], choices["mapped_by"]) == ("person", "where", "ana")
        assert "case where, chosen by ana" in text_of(session.get("/match?id=parcel-1"))
        assert "where" in text_of(session.get("/conversation?id=parcel-1"))


def test_a_choice_for_a_cluster_maps_all_of_it_and_no_other(console: RunningConsole) -> None:
    with console.session() as session:
        before = outcomes_of(session)
        answer = choose(session, "parcel-3", "where", action="similar")
        after = outcomes_of(session)

        assert "Mapped 3 conversations to where." in text_of(answer)
        assert {name for name in after if after[name] != before[name]} == {"parcel-1", "parcel-2", "parcel-3"}
        assert session.get("/matches.json").json()["clusters"][0]["size"] == 1


def test_the_conditions_of_the_list_bound_what_a_choice_maps(console: RunningConsole) -> None:
    with console.session() as session:
        link = next(link for link in links_of(session.get("/matches?text=number+2")) if link.startswith("/match?"))
        back = unescape(re.findall(r'name="back" value="([^"]*)"', session.get(link).text)[0])
        answer = choose(session, "parcel-2", "where", action="similar", back=back)

        assert "Mapped 1 conversation to where." in text_of(answer)
        assert answer.url.params["text"] == "number 2"
        assert outcomes_of(session)["parcel-1"] == (None, "unmatched")


def test_a_choice_settles_an_ambiguous_match_and_stays_until_it_is_withdrawn(console: RunningConsole) -> None:
    with console.session() as ana, console.session("ben") as ben:
        assert outcomes_of(ana)["bye"] == (None, "ambiguous")
        choose(ana, "bye", "d/bye-2")
        assert outcomes_of(ana)["bye"][0] == "bye-2"
        choose(ben, "bye", "d/bye-1")  # the newest choice counts
        assert outcomes_of(ana)["bye"][0] == "bye-1"
        assert choices_of(ana, "bye")["mapped_by"] == "ben"

        # A new version of another case evaluates nothing of this conversation, and a verdict keeps its case.
        ana.post("/label", data={"id": "bye", "environment": "production", "verdict": "pass"})
        assert outcomes_of(ana)["bye"] == ("bye-1", "pass")
        withdrawn = choose(ana, "bye", "", action="withdraw")
        assert "Withdrawn: this conversation is no longer mapped" in text_of(withdrawn)
        assert outcomes_of(ana)["bye"][0] is None
        assert choose(ana, "bye", "", action="withdraw").status_code == 400


def test_a_choice_survives_a_restart_and_an_evaluation_by_other_cases(tmp_path: Path, matches_file: Path) -> None:
    db = tmp_path / "matches.duckdb"
    shutil.copy(matches_file, db)
    for console in serving(db):
        with console.session() as session:
            choose(session, "music", "d/where")
    case = {"case_id": "music", "dataset": "later", "turns": [{"query": "Play music", "answer": "Done."}]}
    done("evaluate", "--cases", write_cases(tmp_path / "later.jsonl", [case]), "--db", db)
    for console in serving(db):
        with console.session() as session:
            choices = choices_of(session, "music")
            assert (choices["method"], choices["case_id"], choices["mapped_by"]) == ("person", "where", "ana")
            assert outcomes_of(session)["music"] == ("where", "pass")


@pytest.mark.parametrize(
    ("case", "status", "message"),
    [("missing", 400, "no current case 'missing'"), ("d/foreign", 400, "is for agent 'other'"), ("", 400, "needs")],
)
def test_a_case_that_cannot_be_chosen_is_refused(console: RunningConsole, case: str, status: int, message: str) -> None:
    with console.session() as session:
        before = outcomes_of(session)
        answer = choose(session, "music", case)

        assert (answer.status_code, message in text_of(answer)) == (status, True)
        assert outcomes_of(session) == before
