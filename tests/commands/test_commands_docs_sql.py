"""Every SQL statement of the documentation answers its question on a store without a deployment environment."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest
from inline_snapshot import snapshot

from otel_agentic.cli.errors import error_lines
from otel_agentic.commands import Commands
from otel_agentic.commands.ingest import ingest_files
from otel_agentic.config import JudgeSettings, StoreSettings
from otel_agentic.engine.engine import Engine
from otel_agentic.errors import QueryError
from otel_agentic.evaluators.registry import all_evaluators, metrics_by_name
from otel_agentic.judges.llm import LangChainJudge
from otel_agentic.live.reporting import MonitorLoop
from otel_agentic.store.connection import DEFAULT, open_database, show
from otel_agentic.store.queries.sql import check_statement
from otel_agentic.telemetry import Telemetry
from otel_agentic.testing import AgentRunScript, scripted_call, speak_genai
from tests.builders import feed
from tests.cli.small import SECOND_NS, conversation, write_spans
from tests.judges.models import Bare
from tests.snapshots import passage
from tests.stores import settings_for

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK: Final = re.compile(r"^```sql\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND: Final = re.compile(r"^\$ (otel-agentic query .*)$", re.MULTILINE)
DAY_NS: Final = 24 * 3600 * SECOND_NS
SEAT: Final = {"seat": "1A"}
CASE: Final[dict[str, Any]] = {
    "case_id": "seat",
    "dataset": "shop",
    "turns": [
        {
            "query": "A seat, please",
            "answer": "Booked: AB12.",
            "tools": {"calls": [{"tool_name": "book_seat", "parameters": SEAT}]},
        }
    ],
}
RIGHT_CALL: Final = ("book_seat", SEAT, '{"code": "AB12"}')
WRONG_CALL: Final = ("book_seat", {"seat": "2B"}, '{"code": "AB12"}')


def talk(name: str, *calls: Any, day: int, version: str = "1.9", **fields: Any) -> dict[str, Any]:
    """Return a conversation that ended some days ago, of a sender that sets no environment."""
    start_ns = time.time_ns() - day * DAY_NS - 3600 * SECOND_NS
    given = {"query": "A seat, please", "answer": "Booked: AB12.", "case": "seat", **fields}
    dialogue = conversation(name, calls=calls, version=version, start_ns=start_ns, **given)
    resource = dialogue["resourceSpans"][0]["resource"]
    resource["attributes"] = [attribute for attribute in resource["attributes"] if attribute["key"] == "service.name"]
    if fields.get("answer") == "":  # the sender records no answers
        for span in dialogue["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            span["attributes"] = [
                attribute for attribute in span["attributes"] if attribute["key"] != "gen_ai.output.messages"
            ]
    return dialogue


FIRST: Final = (
    talk("c1", RIGHT_CALL, day=5),
    talk("c2", RIGHT_CALL, day=4),
    talk("c3", WRONG_CALL, day=3, version="1.10"),
    talk("c4", ("book_seat", SEAT, '{"price": 120}'), day=2, version="1.10", answer="Booked: the price is 90."),
    talk("c5", WRONG_CALL, day=1, version="1.10", answer=""),
)


def of_two_agents() -> AgentRunScript:
    """Return a conversation in which an agent used as a tool books the wrong seat."""
    desk = (
        AgentRunScript(agent_name="desk").ask("A seat").calls(scripted_call("book_seat", {"seat": "9C"}, result="AB12"))
    )
    call = scripted_call("desk", {"request": "A seat"}, result="AB12", agent=desk.answers("AB12"))
    return (
        AgentRunScript(conversation_id="c8", agent_name="shop")
        .ask("A seat, please")
        .calls(call)
        .answers("Booked: AB12.")
    )


LATE: Final = (talk("c6", WRONG_CALL, day=0, version="1.10"), talk("c7", RIGHT_CALL, day=3, version="1.10"))
LABELS: Final = "conversation_id,verdict\nc1,fail\n"
OBJECTIVES: Final = [{"k": 3, "target": 0.7}]


def reply_of_model(human: str, _: str) -> str | Exception:
    """Answer as a model that finds nothing helpful, and that fails when it is asked about coherence."""
    if "coheren" in human:
        return TimeoutError("too late")
    return json.dumps({"reasoning": "It is so.", "score": 2.0 if "brings the user closer" in human else 1.0})


@pytest.fixture(scope="module")
def answering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """The commands on a store that has rows for every question."""
    folder = tmp_path_factory.mktemp("docs")
    since_ns = time.time_ns() - 6 * DAY_NS
    settings = settings_for(folder / "t.duckdb", scoring={"criteria": ["annotated"]}, slo={"objectives": OBJECTIVES})
    with Engine(settings, create=True) as engine:
        engine.runner.judge = LangChainJudge(Bare(say=reply_of_model), JudgeSettings(tries=1))
        commands = Commands(engine)
        feed(engine, speak_genai(of_two_agents(), start_ns=time.time_ns() - 2 * DAY_NS))
        for number, (some, force) in enumerate(((FIRST, False), (LATE, True))):
            path = write_spans(folder / f"{number}.jsonl", some)
            ingest_files(engine, [str(path)], lambda *_: None)
            commands.evaluate(
                cases=[("cases.jsonl", json.dumps(CASE))],
                labels=[("labels.csv", LABELS)],
                metrics=["helpfulness", "coherence", "layers", "operations", "handoffs"],
                force=force,
            )
            list(commands.backfill(since_ns=since_ns, step_ns=DAY_NS, windows=["24h", "48h"]))
        telemetry = Telemetry.from_settings(settings.emit, run_id="run", trigger="online")
        for annotator, verdict in (("ana", "pass"), ("ben", "fail")):
            commands.call("label", {"conversation_id": "c2", "verdict": verdict, "annotator": annotator})
        MonitorLoop(engine, telemetry).refresh()
        telemetry.shutdown(1.0)
        yield commands


def statements() -> list[Any]:
    """Return every statement of the pages, named by its page and beginning."""
    result = []
    for page in PAGES:
        text = page.read_text("utf-8")
        blocks = (part for block in BLOCK.findall(text) for part in block.split(";"))
        commands = (next(term for term in shlex.split(item) if " " in term) for item in COMMAND.findall(text))
        # Another agent than those of this test.
        parts = [part.strip().replace("agent = 'atlas'", "agent IS NOT NULL") for part in (*blocks, *commands)]
        result += [pytest.param(sql, id=f"{page.name}-{number}") for number, sql in enumerate(filter(None, parts), 1)]
    return result


@pytest.fixture(scope="module")
def guarded(copied: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection as the process of a user's query has it: hardened, read-only, with the views of the default evaluation."""
    db = Path(
        shutil.copy(copied, copied.with_name("guarded.duckdb"))
    )  # one process opens a file with one configuration
    con = open_database(db, StoreSettings(db=db), create=False, read_only=True)
    show(con, DEFAULT)
    yield con
    con.close()


@pytest.mark.parametrize("sql", statements())
def test_a_documented_statement_has_an_answer(guarded: duckdb.DuckDBPyConnection, sql: str) -> None:
    assert guarded.execute(check_statement(guarded, sql, folder=None)).fetchall()


def test_a_documented_statement_has_the_same_answer_in_the_process_of_a_query(
    answering: Commands, guarded: duckdb.DuckDBPyConnection
) -> None:
    (sql,) = statements()[0].values
    assert len(guarded.execute(sql).fetchall()) == len(answering.query(sql=sql)["rows"])


def test_the_statements_of_the_documentation_are_found() -> None:
    assert 25 <= len(statements())


@pytest.mark.parametrize("page", ["sql.md", "failing-tools.md"])
def test_a_statement_of_a_guide_stands_below_the_question_that_it_answers(page: str) -> None:
    (text,) = BLOCK.findall((ROOT / "docs" / page).read_text("utf-8"))
    assert all(re.match(r"-- .+\?\n", part.strip()) for part in text.split(";") if part.strip())


def test_the_guides_have_a_statement_for_each_view(answering: Commands) -> None:
    views = answering.query(sql="SELECT view_name FROM duckdb_views() WHERE NOT internal")["rows"]
    displayed = " ".join((ROOT / "docs" / page).read_text("utf-8") for page in ("sql.md", "failing-tools.md"))
    # The guides read `scores` instead of the views of one kind of score.
    of_one_kind = {"conversation_scores", "turn_scores", "tool_scores"}
    assert {name for (name,) in views} - of_one_kind == set(
        re.findall(r"(?:FROM|JOIN) (v_\w+|labels|human_verdicts)", displayed)
    )


def test_the_metrics_that_the_guide_names_are_there(answering: Commands) -> None:
    settings = answering.engine.settings
    named = set(re.findall(r"'(agentic\.[\w.]+)'", (ROOT / "docs" / "sql.md").read_text("utf-8")))
    assert named <= set(metrics_by_name(all_evaluators(settings.evaluators)))
    assert named


#: Views of which each row has a time, and its column.
TIMES: Final = {
    "v_annotations": "annotated_at",
    "v_annotator_disagreements": "last_at",
    "v_conversations": "ended_at",
    "v_tool_faults": "ended_at",
    "v_tool_evidence": "ended_at",
    "v_disagreements": "ended_at",
    "v_state_changes": "ended_at",
    "v_reliability": "last_conversation",
    "v_metrics": "last_conversation",
    "v_tool_health": "last_seen",
    "v_failing_tools": "last_seen",
    "v_fault_history": "since",
}


def test_every_view_with_a_time_is_asked_about_it(answering: Commands) -> None:
    columns = answering.query(
        sql="SELECT table_name, column_name, data_type FROM duckdb_columns() "
        "WHERE table_name LIKE 'v\\_%' ESCAPE '\\' AND data_type LIKE 'TIMESTAMP%'"
    )["rows"]
    assert {kind for _, _, kind in columns} == snapshot({"TIMESTAMP WITH TIME ZONE"})
    assert set(TIMES) == {view for view, _, _ in columns}


@pytest.fixture(scope="module")
def copied(answering: Commands, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the store's file, for other programs to open."""
    target = tmp_path_factory.mktemp("copy") / "t.duckdb"
    with answering.engine.store.backup() as file, target.open("wb") as copy:
        shutil.copyfileobj(file, copy)
    return target


@pytest.mark.parametrize(
    "zone", ["America/New_York", *(pytest.param(zone, marks=pytest.mark.slow) for zone in ("UTC", "Asia/Tokyo"))]
)
def test_the_last_days_of_every_view_are_the_same_in_every_time_zone(copied: Path, zone: str) -> None:
    with duckdb.connect(str(copied), read_only=True) as con:
        con.execute("SET TimeZone = ?", [zone])
        for view, column in TIMES.items():
            ((everything, result),) = con.execute(
                f"SELECT count(*), count(*) FILTER ({column} > now() - INTERVAL 6 DAY AND {column} < now()) FROM {view}"  # noqa: S608 — ours
            ).fetchall()
            assert everything == result > 0, view


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM spans WHERE start_time > now() - INTERVAL 1 HOUR",
        "SELECT * FROM conversations WHERE ended_at BETWEEN now() - INTERVAL 1 HOUR AND now()",
    ],
)
def test_a_time_of_a_table_that_is_compared_with_now_gets_a_hint(answering: Commands, sql: str) -> None:
    with pytest.raises(QueryError) as refused:
        answering.query(sql=sql)
    (displayed,) = error_lines(refused.value)
    (hint,) = re.findall(r"write `(.+?)`", displayed)
    assert passage(hint) == snapshot("AT TIME ZONE 'UTC'")
    mended = re.sub(r"now\(\) - INTERVAL 1 HOUR", f"{hint} - INTERVAL 6 DAY", sql).replace("AND now()", f"AND {hint}")
    assert answering.query(sql=mended)["rows"]
