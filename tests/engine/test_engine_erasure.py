"""Erasure removes a conversation or a person from everything stored, and nothing else; it does not come back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from otel_agentic.commands import Commands
from otel_agentic.engine.erasure import Eraser
from otel_agentic.engine.retention import HourlyExport, RetentionPass
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.spans.model import Resource, SpanBatch
from otel_agentic.store.conversations import retention_state
from otel_agentic.testing import AgentRunScript, scripted_call, speak_genai
from tests.builders import CASE, contents, feed, rows
from tests.engine.retention_engine import HOUR_NS, Clock, conversation_ids, retaining_engine, row_counts, talk

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine
    from otel_agentic.results.store import Erasures

WORDS = "Purple elephants of Ravenna"


@pytest.fixture
def clock() -> Clock:
    """Noon."""
    return Clock()


@pytest.fixture
def engine(tmp_path: Path, clock: Clock) -> Iterator[Engine]:
    """An engine that exports."""
    export = {"export": True, "export_folder": tmp_path / "history"}
    with retaining_engine(tmp_path / "t.duckdb", clock, retention=export) as opened:
        yield opened


def with_attributes(spoken: SpanBatch, **attributes: Any) -> SpanBatch:
    """Return a batch of which each span has further attributes; __ means a dot."""
    more = {name.replace("__", "."): value for name, value in attributes.items()}
    return replace(spoken, spans=tuple(replace(span, attributes={**span.attributes, **more}) for span in spoken.spans))


def in_trace(spoken: SpanBatch, trace_id: str, prefix: str) -> SpanBatch:
    """Return a batch whose spans are in another trace, with ids that begin with a hexadecimal prefix."""

    def renamed(span_id: str | None) -> str | None:
        return None if span_id is None else prefix + span_id[len(prefix) :]

    return replace(
        spoken,
        spans=tuple(
            replace(
                span, trace_id=trace_id, span_id=str(renamed(span.span_id)), parent_span_id=renamed(span.parent_span_id)
            )
            for span in spoken.spans
        ),
        logs=tuple(replace(log, trace_id=trace_id, span_id=str(renamed(log.span_id))) for log in spoken.logs),
    )


def erase(
    engine: Engine, *, user: str | None = None, conversation_id: str | None = None, environment: str | None = None
) -> Erasures:
    eraser = Eraser(engine)
    return eraser.erase(eraser.find(user=user, conversation_id=conversation_id, environment=environment))


def exported(engine: Engine, table: str) -> list[str]:
    """Return the conversations of the exported rows of a table."""
    folder = Path(str(engine.settings.retention.export_folder))
    files = [str(path) for path in folder.glob(f"{table}/**/*.parquet")]
    if not files:
        return []
    result = duckdb.execute("SELECT DISTINCT conversation_id FROM read_parquet($files) ORDER BY ALL", {"files": files})
    return [name for (name,) in result.fetchall()]


def contents_without_records(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """Return all tables but those that record exports and removals."""
    records = {"removed", "retention", "exports", "export_looks"}
    return {table: content for table, content in contents(engine).items() if table not in records}


def test_a_conversation_goes_from_all_tables_and_exported_files_and_others_stay(engine: Engine, clock: Clock) -> None:
    feed(engine, talk("kept", 0))
    HourlyExport(engine).run()
    before = contents_without_records(engine)
    feed(engine, talk("erased", 0.1))
    clock.at(1.9)
    HourlyExport(engine).run()
    assert ["erased", "kept"] == exported(engine, "conversations") == exported(engine, "turns")

    result = erase(engine, conversation_id="erased")

    assert ["erased"] == [item.conversation_id for item in result.conversations]
    assert {
        "conversations": 1,
        "turns": 1,
        "tool_calls": 1,
        "trace_links": 1,
        "spans": 4,
        "log_records": 2,
    } == result.rows
    assert 0 == result.left
    assert before == contents_without_records(engine)
    for table in ("conversations", "turns", "tool_calls"):
        assert ["kept"] == exported(engine, table)
    assert 0 == HourlyExport(engine).run().hours, "nothing must be written again"


def test_the_spans_of_an_erased_conversation_do_not_bring_it_back(engine: Engine) -> None:
    spoken = talk("erased")
    feed(engine, replace(spoken, spans=spoken.spans[:2], logs=()))
    erase(engine, conversation_id="erased")

    feed(engine, spoken)

    assert [] == conversation_ids(engine)
    assert 2 == row_counts(engine)["spans"]
    assert 2 == erase(engine, conversation_id="erased").rows["spans"], "late spans can be erased, too"
    assert {} == {table: count for table, count in row_counts(engine).items() if table != "trace_links"}


def test_all_conversations_of_a_person_go_with_their_feedback(engine: Engine) -> None:
    attributes = ("user__id", "enduser__id", "traceloop__association__properties__user_id")
    named = {
        f"{name}-{attribute}": (attribute, user)
        for attribute in attributes
        for name, user in (("mine", "u-1"), ("other", "u-12"))
    }
    named["mine"], named["other"] = ("user__id", "u-1"), ("user__id", "u-12")
    talks = [with_attributes(talk(name), **{attribute: user}) for name, (attribute, user) in named.items()]
    feed(engine, *talks)
    commands = Commands(engine)
    for name, user in (("mine", "u-1"), ("other", "u-1"), ("other", "u-12")):
        commands.call("feedback", {"conversation_id": name, "user": user, "verdict": "fail"})

    result = erase(engine, user="u-1")

    assert sorted(name for name in named if name.startswith("mine")) == [
        item.conversation_id for item in result.conversations
    ]
    assert 2 == result.rows["annotations"]
    assert sorted(name for name in named if name.startswith("other")) == sorted(conversation_ids(engine))
    assert [("other", "u-12")] == rows(engine, "SELECT conversation_id, annotator FROM annotations")


def test_of_a_shared_trace_only_the_own_part_goes(engine: Engine) -> None:
    trace_id = "ab" * 16
    feed(
        engine,
        with_attributes(in_trace(talk("mine"), trace_id, "aa"), user__id="u-1"),
        in_trace(talk("other", 0.01), trace_id, "bb"),
    )
    assert ["mine", "other"] == conversation_ids(engine)

    result = erase(engine, user="u-1")

    assert 4 == result.rows["spans"]
    assert ["other"] == conversation_ids(engine)
    assert [("bb",)] == rows(engine, "SELECT DISTINCT span_id[:2] FROM spans")
    assert [("bb",)] == rows(engine, "SELECT DISTINCT span_id[:2] FROM log_records")
    feed(engine, in_trace(talk("other", 0.02), trace_id, "cc"))
    assert ["other"] == conversation_ids(engine), "its trace is not recorded as removed"


def test_what_only_the_exported_files_have_is_found(engine: Engine, clock: Clock) -> None:
    feed(engine, with_attributes(talk("archived"), user__id="u-1"))
    feed(engine, with_attributes(talk("archived-too"), user__id="u-2"))
    clock.at(4)
    HourlyExport(engine).run()
    RetentionPass(engine, HOUR_NS).run()
    assert [] == conversation_ids(engine)

    result = erase(engine, user="u-1")

    assert ["archived"] == [item.conversation_id for item in result.conversations]
    assert {} == result.rows
    assert 0 == result.left
    assert ["archived-too"] == exported(engine, "conversations")
    with engine.store.read() as con:
        assert 3 == retention_state(con).conversations


def test_a_person_without_a_conversation_yet_is_found(engine: Engine) -> None:
    engine.store.accept(with_attributes(talk("pending"), user__id="u-1"))

    assert 4 == erase(engine, user="u-1").rows["spans"]
    assert 0 == erase_nothing(engine, user="u-1")


def erase_nothing(engine: Engine, **subject: Any) -> int:
    with pytest.raises(BadInputError, match="no spans of user 'u-1'"):
        erase(engine, **subject)
    return sum(row_counts(engine).values())


def test_the_environment_restricts_it(engine: Engine) -> None:
    for environment in ("prod", "dev"):
        feed(engine, in_environment(talk("same"), environment))

    erase(engine, conversation_id="same", environment="dev")

    assert [("prod", "same")] == rows(engine, "SELECT environment, conversation_id FROM conversations")
    assert [("prod", 4)] == rows(engine, "SELECT environment, count(*) FROM spans GROUP BY ALL")


def in_environment(spoken: SpanBatch, environment: str) -> SpanBatch:
    spoken = in_trace(spoken, environment.encode().hex().ljust(32, "0"), "cc")
    return replace(
        spoken,
        spans=tuple(
            replace(span, resource=Resource(attributes={"deployment.environment.name": environment}))
            for span in spoken.spans
        ),
    )


def test_results_stay_as_counts_and_verdicts_and_cases_go(engine: Engine) -> None:
    script = AgentRunScript(conversation_id="erased").ask(WORDS).calls(scripted_call("search", {"q": WORDS}))
    feed(engine, speak_genai(script.answers(WORDS)), talk("kept", 0.01))
    commands = Commands(engine)
    commands.call("truth_import", {"cases": [("cases.jsonl", CASE)]})
    record = commands.call("truth_propose", {"conversation_id": "erased"})["record"]
    commands.call("truth_save", {"record": json.dumps(record), "author": "ann"})
    commands.call("evaluate", {})
    commands.call("label", {"conversation_id": "erased", "verdict": "pass", "annotator": "ann", "note": WORDS})
    counted = rows(
        engine, "SELECT count(*) FROM results WHERE conversation_id = 'erased' AND outcome <> 'not_evaluated'"
    )

    result = erase(engine, conversation_id="erased")

    assert 1 == len(result.cases)
    assert ["kept"] == [name for (name,) in rows(engine, "SELECT DISTINCT conversation_id FROM results")]
    assert counted == rows(engine, "SELECT coalesce(sum(n), 0) FROM removed_attempts")
    assert 1 == rows(engine, "SELECT count(DISTINCT case_id) FROM cases")[0][0]
    for (table,) in rows(engine, "SELECT table_name FROM duckdb_tables() WHERE NOT internal"):
        matches = rows(engine, f'SELECT count(*) FROM "{table}" t WHERE contains(t::VARCHAR, $words)', {"words": WORDS})  # noqa: S608 — names from DuckDB
        assert [(0,)] == matches, table


@pytest.mark.parametrize("subject", [{}, {"user": "u-1", "conversation_id": "c-1"}])
def test_exactly_one_subject_is_given(engine: Engine, subject: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="either --user or --conversation"):
        erase(engine, **subject)


def test_an_unknown_conversation_is_named(engine: Engine) -> None:
    with pytest.raises(BadInputError, match="no conversation 'unknown' in environment 'prod'"):
        erase(engine, conversation_id="unknown", environment="prod")
