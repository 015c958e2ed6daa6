"""Matching over stored conversations: similar queries, clusters of unmatched conversations, the warning on real data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.commands import Commands
from otel_agentic.errors import UsageError
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, speak_genai
from otel_agentic.truth import parse_cases
from otel_agentic.truth.match import shares_nothing
from tests.builders import CASE, ask_hotel, feed, stored_conversations
from tests.live.running_collector import ask, live_settings, running

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from tests.stores import CopyOf, OpenEngine, PreparedStore

CASES = [("cases.jsonl", CASE)]
#: Cases that a conversation is shifted to, each a few places on: a table of ids that slipped.
SHIFTS = (1, 2, 3, 5, 8)


def conversation_asking(name: str, query: str, at: int = 0) -> Any:
    script = AgentRunScript(conversation_id=name).ask(query).answers("Now.")
    return speak_genai(script, start_ns=NOON_NS + at * SECOND_NS)


@pytest.mark.parametrize(
    ("text", "near", "counted", "by_text"),
    [
        ("off", (None, None, None), 0, None),
        ("suggest", (None, None, "hotel"), 0, {"matched": 0, "suggested": 1}),
        ("auto", ("hotel", "text", None), 1, {"matched": 1, "suggested": 0}),
    ],
)
def test_a_text_is_ignored_suggested_or_matched_as_the_settings_say(
    open_engine: OpenEngine, text: str, near: tuple[Any, ...], counted: int, by_text: dict[str, int] | None
) -> None:
    engine = open_engine(matching={"text": text})
    feed(engine, conversation_asking("near", "Whch hotel?"), conversation_asking("far", "Which way?", 60))
    commands = Commands(engine)
    done = commands.evaluate(cases=CASES)
    rows = {row["conversation_id"]: row for row in commands.truth_matches()}

    assert near == tuple(rows["near"][name] for name in ("case_id", "method", "suggested_case_id"))
    assert (None, None) == (rows["far"]["case_id"], rows["far"]["suggested_case_id"])
    assert counted == done["scored"] - done["reasons"].get("unmatched", 0)
    assert by_text == commands.report().get("matched_by_text")
    assert [
        name for name, kind in (("near", "suggested"), ("near", "text")) if near[2 if kind == "suggested" else 1]
    ] == [row["conversation_id"] for kind in ("suggested", "text") for row in commands.truth_matches(only=kind)]


def test_a_suggestion_counts_once_a_label_confirms_it(open_engine: OpenEngine) -> None:
    engine = open_engine()
    feed(engine, conversation_asking("near", "Whch hotel?"))
    commands = Commands(engine)
    commands.evaluate(cases=CASES)
    (row,) = commands.truth_matches(only="suggested")
    confirmed = f"conversation_id,case_id\nnear,{row['suggested_dataset']}/{row['suggested_case_id']}\n"
    commands.evaluate(labels=[("confirmed.csv", confirmed)])

    (row,) = commands.truth_matches()
    assert ("hotel", "labels_file", None) == (row["case_id"], row["method"], row["suggested_case_id"])


def _clustered(engine: Engine) -> None:
    twice = '{"case_id": "%s", "turns": [{"query": "Bye"}]}'
    feed(
        engine,
        speak_genai(ask_hotel()),
        conversation_asking("a1", "Where is order 1?", 100),
        conversation_asking("a2", "Where is order 2?", 200),
        conversation_asking("b", "Play music", 300),
        conversation_asking("c1", "Bye", 400),
        conversation_asking("c2", "bye!", 500),
    )
    cases = [*CASES, ("bye.jsonl", f"{twice % 'one'}\n{twice % 'two'}")]
    Commands(engine).evaluate(cases=cases, metrics=["none"])


@pytest.fixture
def clustered(copy_of: CopyOf, prepared_store: PreparedStore) -> Commands:
    """Commands on a store of a matched conversation, two of one question, one of another, two that two cases fit."""
    return Commands(copy_of(prepared_store(_clustered)))


def test_unmatched_conversations_are_listed_by_their_first_query(clustered: Commands) -> None:
    first, second = clustered.truth_clusters()

    assert {
        "evaluation": "default",
        "query": "Where is order 2?",
        "size": 2,
        "share": pytest.approx(2 / 3),
        "agents": ["travel"],
        "example_conversation": "a2",
        "environment": "",
    } == {name: first[name] for name in first if not name.endswith("seen")}
    assert first["first_seen"] < first["last_seen"] < second["last_seen"]
    assert ("Play music", 1) == (second["query"], second["size"])
    assert [("bye!", 2)] == [(row["query"], row["size"]) for row in clustered.truth_clusters(only="ambiguous")]
    assert [] == clustered.truth_clusters(only="warning")
    assert [] == clustered.truth_clusters(agent="nobody")
    assert ["b"] == [
        row["example_conversation"] for row in clustered.truth_clusters(since_ns=NOON_NS + 250 * SECOND_NS)
    ]


def test_a_promoted_case_takes_its_conversations_out_of_the_unmatched(clustered: Commands) -> None:
    result = clustered.truth_promote(unmatched=True, failing=False)
    (most, other) = result["cases"]

    assert (["a2"], ["b"]) == (most["promoted_from"], other["promoted_from"])
    assert [] == clustered.truth_promote(failing=True, unmatched=False)["cases"]
    assert [most] == clustered.truth_promote(limit=1)["cases"]
    assert [] == clustered.truth_promote(environment="nowhere")["cases"]


def test_an_invalid_command_is_refused(clustered: Commands) -> None:
    with pytest.raises(UsageError, match="argument limit"):
        clustered.call("truth_promote", {"limit": 0})
    with pytest.raises(UsageError, match="argument only"):
        clustered.call("truth_clusters", {"only": "failing"})


def test_a_running_collector_promotes_too(tmp_path: Path) -> None:
    settings = live_settings(tmp_path / "live.duckdb")
    with running(settings):
        assert {"cases": [], "left_out": [], "tagged": [], "unscored": 0} == ask(settings, "truth_promote")
        assert [] == ask(settings, "truth_clusters")


def test_the_warning_keeps_quiet_over_right_cases_and_speaks_over_wrong_ones(
    copy_of: CopyOf, tau_file: Path, tau: Path
) -> None:
    cases = list(parse_cases("cases.jsonl", (tau / "cases.jsonl").read_text("utf-8")).require())
    position = {case.case_id: index for index, case in enumerate(cases)}
    built = [
        stored_conversation
        for stored_conversation in stored_conversations(copy_of(tau_file)).values()
        if stored_conversation.case_id is not None
    ]

    right = sum(shares_nothing(cases[position[item.case_id or ""]], item) for item in built)
    invalid = sum(
        shares_nothing(cases[(position[item.case_id or ""] + shift) % len(cases)], item)
        for item in built
        for shift in SHIFTS
    )

    assert (0, 200) == (right, len(built))
    # Nine cases expect no call, and 24 conversations make none: there is nothing to compare.
    assert invalid / (len(built) * len(SHIFTS)) > 0.6
