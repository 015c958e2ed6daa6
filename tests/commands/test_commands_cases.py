"""Corrections of cases by the conversations that are accepted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.commands.registry import Commands
from otel_agentic.demo.run import CASES
from otel_agentic.errors import BadInputError
from otel_agentic.results import to_json
from tests.demo_store import evaluated_demo

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from tests.stores import CopyOf, PreparedStore


@pytest.fixture
def engine(copy_of: CopyOf, prepared_store: PreparedStore) -> Engine:
    return copy_of(prepared_store(evaluated_demo))


def run(engine: Engine, name: str, **arguments: Any) -> Any:
    return to_json(Commands(engine).run(name, arguments))


def accept(engine: Engine, conversation_id: str) -> dict[str, Any]:
    """Save the case that accepts a conversation."""
    proposal = run(engine, "truth_propose", conversation_id=conversation_id)
    saved: dict[str, Any] = run(
        engine,
        "truth_save",
        author="ana",
        record=json.dumps(proposal["record"]),
        base_version=proposal["base_version"],
    )
    return saved


def failed(engine: Engine) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = run(engine, "conversations_page", outcome="fail", limit=100)["rows"]
    return rows


def outcome(engine: Engine, conversation_id: str) -> str:
    return str(run(engine, "conversations_show", conversation_id=conversation_id)["score"]["outcome"])


@pytest.mark.parametrize(
    "key", ["case_id", pytest.param("conversation_id", marks=pytest.mark.slow)], ids=["one of each case", "all"]
)
def test_every_failed_conversation_of_the_demo_passes_by_the_case_that_accepts_it(engine: Engine, key: str) -> None:
    rows = failed(engine)
    assert len({row["case_id"] for row in rows}) > 3
    for row in {row[key]: row for row in rows}.values():
        conversation_id, case_id = row["conversation_id"], row["case_id"]
        before = run(engine, "truth_case", case_id=case_id)["versions"][0]
        saved = accept(engine, conversation_id)

        assert outcome(engine, conversation_id) == "pass", row
        assert conversation_id in {change["conversation_id"] for change in saved["changed"]}
        record = json.dumps(before["record"])
        run(engine, "truth_save", author="ana", record=record, base_version=saved["version"])
        assert outcome(engine, conversation_id) == "fail"


def test_a_correction_concerns_the_conversations_of_its_case_only(engine: Engine) -> None:
    row = failed(engine)[0]
    scored_at = dict(_scored_at(engine))
    saved = accept(engine, row["conversation_id"])
    again = {conversation_id for conversation_id, time in _scored_at(engine) if time != scored_at[conversation_id]}

    assert len(again) == saved["evaluated"]
    with engine.store.read() as con:
        attempts = con.execute(
            "SELECT conversation_id FROM conversation_scores WHERE case_id = ? AND NOT superseded", [row["case_id"]]
        ).fetchall()
    assert again == {conversation_id for (conversation_id,) in attempts}


def _scored_at(engine: Engine) -> list[tuple[str, object]]:
    with engine.store.read() as con:
        return con.execute("SELECT conversation_id, scored_at FROM conversation_scores WHERE NOT superseded").fetchall()


def test_files_with_an_older_version_name_the_corrected_cases(engine: Engine) -> None:
    row = failed(engine)[0]
    accept(engine, row["conversation_id"])
    file = [(str(CASES), CASES.read_text())]

    message = (
        f"1 case keeps the version that a person saved after the one in the file: {row['case_id']!r}; "
        "`otel-agentic truth export` writes the current cases"
    )
    assert run(engine, "truth_import", cases=file)["warnings"] == [message]
    assert run(engine, "evaluate", cases=file)["warnings"] == [message]
    assert outcome(engine, row["conversation_id"]) == "pass"


def test_an_unknown_case_is_named_with_its_dataset(engine: Engine) -> None:
    with pytest.raises(BadInputError, match=r"case 'x' of dataset None is not in the store; `otel-agentic truth list`"):
        run(engine, "truth_case", case_id="x")
    with pytest.raises(BadInputError, match=r"datasets with a case of this id: 'demo'"):
        run(engine, "truth_case", case_id="lyon-family", dataset="other")
