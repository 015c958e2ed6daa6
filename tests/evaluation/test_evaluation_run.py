"""Stored conversations -> stored scores: once for each evaluator version, the older ones kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.commands import Commands
from otel_agentic.commands.ingest import ingest_files
from otel_agentic.errors import CaseError
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, speak_genai
from tests.builders import CASE, ask_hotel, contents, feed, rows

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from tests.stores import CopyOf, OpenEngine, PreparedStore

CASES = [("cases.jsonl", CASE)]
CHANGED = [("cases.jsonl", CASE.replace("The Ritz.", "The Savoy."))]
SCORES = "SELECT revision, outcome, superseded FROM conversation_scores ORDER BY revision"


def _two_conversations(engine: Engine) -> None:
    other = AgentRunScript(conversation_id="second").ask("Where to?").answers("Home.").ask("When?").answers("Now.")
    feed(engine, speak_genai(ask_hotel()), speak_genai(other))


def _two_evaluated_conversations(engine: Engine) -> None:
    _two_conversations(engine)
    Commands(engine).evaluate(cases=CASES)


@pytest.fixture
def engine(copy_of: CopyOf, prepared_store: PreparedStore) -> Engine:
    """An engine on two conversations, of which the case fits one."""
    return copy_of(prepared_store(_two_conversations))


@pytest.fixture
def commands(engine: Engine) -> Commands:
    return Commands(engine)


@pytest.fixture
def evaluated(copy_of: CopyOf, prepared_store: PreparedStore) -> Engine:
    """An engine on the same conversations, evaluated with the case."""
    return copy_of(prepared_store(_two_evaluated_conversations))


def test_ingesting_and_evaluating_again_changes_nothing(
    copy_of: CopyOf, labelled_file: Path, tau: Path, tau_truth: dict[str, Any]
) -> None:
    engine = copy_of(labelled_file)
    before = contents(engine)

    receipt = ingest_files(engine, [str(tau / "spans.jsonl.gz")], lambda *_: None).receipt
    done = Commands(engine).evaluate(**tau_truth)

    assert (0, 4959, 0) == (receipt.accepted, receipt.duplicate, receipt.rejected)
    assert (0, 0, 50, 200) == (done["scored"], done["new_case_versions"], done["cases"], done["labels"])
    after = contents(engine)
    assert [] == [name for name in before if before[name] != after[name]]


def test_cases_and_labels_given_once_are_remembered(engine: Engine, commands: Commands) -> None:
    first = commands.evaluate(cases=CASES)
    feed(engine, speak_genai(ask_hotel("third"), start_ns=NOON_NS + SECOND_NS))

    again = commands.evaluate()

    assert ({"pass": 1, "not_evaluated": 1}, {"pass": 1}) == (first["outcomes"], again["outcomes"])
    assert first["evaluation_id"] == again["evaluation_id"]


def test_a_changed_case_is_scored_again_and_the_old_score_stays_superseded(engine: Engine, commands: Commands) -> None:
    first = commands.evaluate(cases=CASES)
    second = commands.evaluate(cases=CHANGED)

    assert (2, 2, 1) == (second["scored"], second["restated"], second["new_case_versions"])
    assert first["evaluation_id"] != second["evaluation_id"]
    assert [("fail", False), ("pass", True)] == rows(
        engine,
        "SELECT outcome, superseded FROM conversation_scores WHERE conversation_id = 'conversation-1' ORDER BY ALL",
    )
    assert [(2,)] == rows(engine, "SELECT count(DISTINCT version) FROM cases")


def test_a_case_that_changes_back_brings_the_old_evaluation_back(engine: Engine, commands: Commands) -> None:
    first = commands.evaluate(cases=CASES)
    commands.evaluate(cases=CHANGED)
    third = commands.evaluate(cases=CASES)

    assert first["evaluation_id"] == third["evaluation_id"]
    assert {"pass": 1, "not_evaluated": 1} == third["outcomes"]
    assert [(2, 2)] == rows(
        engine, "SELECT count(*), count(DISTINCT conversation_id) FROM conversation_scores WHERE NOT superseded"
    )


def test_a_case_dropped_from_its_file_matches_nothing_any_more(evaluated: Engine) -> None:
    commands = Commands(evaluated)
    other = [("cases.jsonl", CASE.replace('"hotel"', '"other"').replace("Which hotel?", "Else?"))]

    assert {"not_evaluated": 2} == commands.evaluate(cases=other)["outcomes"]
    assert [("other", 0)] == [(case["case_id"], case["attempts"]) for case in commands.truth_list()]


def test_a_label_decides_and_a_changed_label_decides_anew(engine: Engine, commands: Commands) -> None:
    label = "conversation_id,case_id,verdict\nconversation-1,hotel,{}\n"
    commands.evaluate(cases=CASES, labels=[("labels.csv", label.format("fail"))])
    stored = rows(
        engine, "SELECT outcome, outcome_source, computed_outcome FROM conversation_scores WHERE case_id = 'hotel'"
    )
    again = commands.evaluate(labels=[("labels.csv", label.format("pass"))])

    assert [("fail", "labels", "pass")] == stored
    assert {"pass": 1, "not_evaluated": 1} == again["outcomes"]


def test_a_bad_case_file_is_refused_whole_and_nothing_is_written(engine: Engine, commands: Commands) -> None:
    before = contents(engine)

    with pytest.raises(CaseError, match=r"bad\.jsonl:2"):
        commands.evaluate(cases=[*CASES, ("bad.jsonl", CASE.replace('"hotel"', '"x"') + '\n{"case_id": 5}')])

    assert before == contents(engine)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, 2),
        ({"agent": "tra*"}, 2),
        ({"agent": "no-such-agent"}, 0),
        ({"since_ns": NOON_NS + 10 * SECOND_NS}, 1),
        ({"until_ns": NOON_NS + 10 * SECOND_NS}, 1),
        ({"since_ns": NOON_NS, "until_ns": NOON_NS + 1}, 0),
    ],
)
def test_a_selection_scores_what_it_names(commands: Commands, chosen: dict[str, Any], expected: int) -> None:
    assert expected == commands.evaluate(cases=CASES, **chosen)["scored"]


def test_force_scores_again_what_has_a_score(evaluated: Engine) -> None:
    engine, commands = evaluated, Commands(evaluated)
    times = {"scores": "scored_at, metrics_at", **dict.fromkeys(("matches", "tool_faults", "call_pairs"), "scored_at")}
    untimed = {
        table: f"SELECT * EXCLUDE ({names}) FROM {table} ORDER BY ALL"  # noqa: S608 — our own table names
        for table, names in times.items()
    }
    before, scores = contents(engine), {table: rows(engine, sql) for table, sql in untimed.items()}

    assert 0 == commands.evaluate()["scored"]
    assert 2 == commands.evaluate(force=True)["scored"]
    after = contents(engine)
    # The time of scoring differs, and the journal lists the windows to check again.
    same = [name for name in before if name not in {*times, "window_changes"}]
    assert {name: before[name] for name in same} == {name: after[name] for name in same}
    assert scores == {table: rows(engine, sql) for table, sql in untimed.items()}


def test_a_late_span_after_closing_supersedes_the_old_score(open_engine: OpenEngine) -> None:
    engine = open_engine()
    spans = speak_genai(ask_hotel()).spans
    tool = next(item for item in spans if "gen_ai.tool.name" in item.attributes)
    commands = Commands(engine)
    feed(engine, *(item for item in spans if item is not tool))
    commands.evaluate(cases=CASES)

    feed(engine, tool)
    assert [(None, None)] == [(item["outcome"], item["reason"]) for item in commands.conversations_export()]
    assert None is commands.conversations_show(conversation_id="conversation-1")["score"]
    done = commands.evaluate()

    assert (1, 1) == (done["scored"], done["restated"])
    assert [(1, "pass", True), (2, "pass", False)] == rows(engine, SCORES)
    assert [("pass", 2)] == [(item["outcome"], item["revision"]) for item in commands.conversations_export()]


def test_the_scores_of_tau_airline_are_there_by_turn_tool_and_fault(labelled_engine: Engine) -> None:
    engine = labelled_engine

    assert [(200, 84)] == rows(
        engine, "SELECT count(*), count(*) FILTER (outcome = 'pass') FROM conversation_scores WHERE NOT superseded"
    )
    assert [(1341,)] == rows(engine, "SELECT count(*) FROM turn_scores")
    assert {"missing", "wrong_parameters", "errored"} <= {
        fault for (fault,) in rows(engine, "SELECT fault FROM tool_faults")
    }
    failing = Commands(engine).tools_failing()
    assert failing[0]["failed"] == max(row["failed"] for row in failing)
    assert 1.0 == pytest.approx(sum(row["share"] for row in failing))


def test_each_conversation_tells_how_it_was_matched_or_why_not(evaluated: Engine) -> None:
    commands = Commands(evaluated)
    reported = {
        row["conversation_id"]: (row["case_id"], row["method"], row["reason"]) for row in commands.truth_matches()
    }
    assert ("hotel", "exact_queries", None) == reported["conversation-1"]
    assert (None, None, "unmatched") == reported["second"]
    assert ["second"] == [row["conversation_id"] for row in commands.truth_matches(only="unmatched")]


def test_labels_of_conversations_that_are_not_in_the_store_are_reported(open_engine: OpenEngine) -> None:
    engine = open_engine()
    feed(engine, speak_genai(ask_hotel("one")))
    labels = "conversation_id,verdict\none,pass\n" + "".join(f"absent-{number},fail\n" for number in range(7))

    done = Commands(engine).evaluate(labels=[("l.csv", labels)])

    assert done["warnings"] == snapshot(
        [
            (
                "7 labels wait for a conversation that is not in the store: 'absent-0', 'absent-1', 'absent-2', 'absent-3', "
                "'absent-4' and 2 more"
            )
        ]
    )
    assert [] == Commands(engine).evaluate()["warnings"]


def test_every_score_has_an_id_an_evaluator_a_version_and_a_reason_where_it_is_not_evaluated(
    labelled_engine: Engine,
) -> None:
    engine = labelled_engine

    assert [] == rows(
        engine,
        """
        SELECT name, label, count(*) FROM scores
        WHERE score_id IS NULL OR evaluator IS NULL OR evaluator_version IS NULL
            OR (reason IS NULL AND (label = 'not_evaluated' OR (label IS NULL AND value IS NULL)))
        GROUP BY ALL
        """,
    )
    assert [(1341,)] == rows(
        engine,
        "SELECT count(*) FROM scores WHERE name = 'agentic.answer' AND reason = 'no_data' AND evaluator = 'core'",
    )
    assert [(True,)] == rows(engine, "SELECT count(*) = count(DISTINCT score_id) FROM scores WHERE evaluator = 'core'")


def test_the_result_of_a_conversation_that_goes_on_is_gone_until_it_is_scored_again(evaluated: Engine) -> None:
    engine, commands = evaluated, Commands(evaluated)
    later = AgentRunScript(conversation_id="conversation-1").ask("And now?").answers("Home.")
    feed(engine, speak_genai(later, start_ns=NOON_NS + 60 * SECOND_NS))
    result = {row["conversation_id"]: row["reason"] for row in commands.conversations_list()}
    left = rows(engine, "SELECT conversation_id FROM results")

    commands.evaluate()

    assert ("not_scored", [("second",)]) == (result["conversation-1"], left)
    assert [("conversation-1", 2), ("second", 1)] == rows(
        engine, "SELECT conversation_id, revision FROM results ORDER BY ALL"
    )
