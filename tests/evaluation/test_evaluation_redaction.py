"""Evaluation continues under redaction: marks compare, match, and count as captured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.api.evaluate import evaluate
from otel_agentic.backfill.dry_run import truth_with
from otel_agentic.commands import Commands
from otel_agentic.commands.ingest import ingest_files
from otel_agentic.config import Settings
from otel_agentic.evaluation.scope import TruthFile
from otel_agentic.reports.doctor import read_traces
from otel_agentic.testing import AgentRunScript, scripted_call, speak_genai
from tests.builders import feed, rows, stored_conversations
from tests.live.secrets_everywhere import RecordedQuestions
from tests.snapshots import opening
from tests.spans.secrets_made_up import ALL, SHAPED

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from tests.stores import OpenEngine

KEY, OTHER = SHAPED["openai_key"], SHAPED["anthropic_key"]
CASE = {
    "case_id": "login",
    "turns": [
        {
            "query": "Log in bob@example.com",
            "answer": f"Use {KEY}, Bob.",
            "tools": {
                "calls": [
                    {"tool_name": "login", "parameters": {"password": "hunter22", "card": 4111111111111111, "n": 2}}
                ]
            },
        }
    ],
}
FILE = [("cases.jsonl", json.dumps(CASE))]
SCORES = "SELECT conversation_id, outcome, reason FROM conversation_scores WHERE NOT superseded ORDER BY ALL"


def login(conversation_id: str, key: str = KEY, *, query: str = "Log in bob@example.com", **changed: Any) -> Any:
    arguments = {"password": "hunter22", "card": 4111111111111111, "n": 2, **changed}
    script = AgentRunScript(conversation_id=conversation_id).ask(query)
    return speak_genai(script.calls(scripted_call("login", arguments, result={"ok": True})).answers(f"Use {key}, Bob."))


def both(engine: Engine) -> list[tuple[Any, ...]]:
    """Score everything; return identity, outcome and reason."""
    Commands(engine).evaluate(cases=FILE)
    return rows(engine, SCORES)


SCORING = {"criteria": ["annotated"]}


@pytest.mark.parametrize("redaction", [{"credentials": False}, {}, ALL])
def test_outcomes_are_those_of_texts_that_were_not_redacted(open_engine: OpenEngine, redaction: dict[str, Any]) -> None:
    engine = open_engine(redaction=redaction, scoring=SCORING)
    feed(engine, login("right"), login("other key", OTHER), login("other card", card=5555555555554444))
    feed(
        engine,
        login("other password", password="hunter23"),  # noqa: S106 — made up
        login("asked otherwise", query="Log in al@example.com"),
    )
    assert both(engine) == [
        ("asked otherwise", "not_evaluated", "unmatched"),
        ("other card", "fail", "tool_fault"),
        ("other key", "fail", "wrong_answer"),
        ("other password", "fail", "tool_fault"),
        ("right", "pass", None),
    ]


def test_cases_from_before_personal_data_was_redacted_compare_still(open_engine: OpenEngine, tmp_path: Path) -> None:
    db = tmp_path / "old.duckdb"
    with open_engine(db, redaction={"credentials": False}) as engine:
        Commands(engine).truth_import(cases=FILE)
        assert KEY in json.dumps(Commands(engine).truth_export())
    engine = open_engine(db, redaction=ALL, scoring=SCORING)
    feed(engine, login("right"))
    Commands(engine).evaluate()
    assert [("right", "pass", None)] == rows(engine, SCORES)


def test_importing_the_same_cases_again_makes_no_new_version(open_engine: OpenEngine) -> None:
    engine = open_engine(redaction=ALL)
    assert [1, 0] == [Commands(engine).truth_import(cases=FILE)["new_case_versions"] for _ in range(2)]


def test_our_marks_are_captured_content_and_those_of_others_are_not(open_engine: OpenEngine) -> None:
    engine = open_engine(redaction=ALL)
    script = AgentRunScript(conversation_id="foreign").ask("[Scrubbed due to 'x']").answers("__REDACTED__")
    feed(engine, login("ours"), speak_genai(script))
    result = {name: item.content_captured for (_, name), item in stored_conversations(engine).items()}
    assert {"ours": "full", "foreign": "none"} == result


def test_labels_and_filters_name_conversations_that_are_called_by_what_is_taken(open_engine: OpenEngine) -> None:
    engine = open_engine(redaction=ALL)
    feed(engine, login("bob@example.com"))
    result = Commands(engine).evaluate(labels=[("l.csv", "conversation_id,verdict\nbob@example.com,fail\n")])
    ((name, outcome, _),) = rows(engine, SCORES)
    assert name.startswith("[redacted:email:")
    assert "fail" == outcome
    assert not [warning for warning in result["warnings"] if "not in the store" in warning]


def test_labels_of_people_find_them_too(open_engine: OpenEngine) -> None:
    engine = open_engine(redaction=ALL)
    feed(engine, login("bob@example.com"))
    both(engine)
    calibration = Commands(engine).judge_calibrate(
        labels=[("p.csv", "conversation_id,verdict\nbob@example.com,pass\n")]
    )
    assert [] == [warning for warning in calibration["warnings"] if "bob" in warning or "redacted" in warning]


def document() -> dict[str, Any]:
    return {
        "resourceSpans": [
            {
                "scopeSpans": [
                    {
                        "spans": [
                            {
                                "traceId": "1" * 32,
                                "spanId": "2" * 16,
                                "name": f"span {KEY}",
                                "startTimeUnixNano": "1",
                                "endTimeUnixNano": "2",
                            }
                        ]
                    }
                ]
            }
        ]
    }


def test_files_are_redacted_on_their_way_in(open_engine: OpenEngine, tmp_path: Path) -> None:
    file = tmp_path / "spans.json"
    file.write_text(json.dumps(document()))
    engine = open_engine()
    ingest_files(engine, [str(file)], lambda *_: None)
    ((name,),) = rows(engine, "SELECT name FROM spans")
    assert opening(name) == snapshot("span [redacted:openai_key:")


def test_a_dry_run_reads_cases_as_they_would_be_remembered(open_engine: OpenEngine) -> None:
    engine = open_engine(redaction=ALL)
    feed(engine, login("right"))
    truth = truth_with(engine, [TruthFile(name="cases.jsonl", text=FILE[0][1])], [])
    (case,) = truth.index
    assert not any(secret in case.model_dump_json() for secret in (KEY, "bob@example", "hunter22", "4111"))
    matched = engine.runner.match(truth, [("", "right")])
    assert ["login"] == [item.match.case.case_id for item in matched if item.match.case]
    assert [] == rows(engine, "SELECT case_id FROM cases")


def test_a_judge_in_a_notebook_is_shown_no_secret() -> None:
    questions = RecordedQuestions()
    script = login("bob@example.com")
    done = evaluate(
        script, CASE, judge=questions.judge(), labels={"bob@example.com": True}, settings=Settings(redaction=ALL)
    )
    assert ["pass"] == [attempt.score.outcome for attempt in done.attempts]
    displayed = repr(questions.questions) + repr(done.attempts) + repr(done.cases)
    assert questions.questions
    assert not any(secret in displayed for secret in (KEY, "bob@example", "hunter22", "4111"))
    assert () == done.unused_labels


def test_doctor_shows_what_a_store_would_hold(tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    file.write_text(json.dumps(document()))
    result = read_traces(Settings(), [str(file)])
    assert KEY not in repr(result)
    assert "[redacted:openai_key:" in repr(result)
