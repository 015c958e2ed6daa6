"""Rows, conversations and stores for tests, on top of `otel_agentic.testing`.

All code of the tests that names the columns of a table is here, so that a new column changes one file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.commands import Commands
from otel_agentic.commands.ingest import rebuild_pending
from otel_agentic.evaluation.scope import TruthFile
from otel_agentic.scoring.model import ConversationScore, ToolScore
from otel_agentic.scoring.scope import DIMENSIONS, Outcome
from otel_agentic.store.conversations import Built, load_conversations, save_conversations
from otel_agentic.store.score_rows import score_types
from otel_agentic.store.scores import NewScores
from otel_agentic.store.table import Scored, Table
from otel_agentic.testing import NOON_NS, AgentRunScript, batch, scripted_call, speak_genai
from otel_agentic.truth.match import Match

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.conversations.model import Conversation
    from otel_agentic.engine.engine import Engine
    from otel_agentic.engine.rebuild import RebuildResult
    from otel_agentic.spans.model import LogRecord, Span, SpanBatch
    from otel_agentic.store import Store
    from otel_agentic.truth import Case
    from otel_agentic.windows import ScoredConversation


def save_revisions(store: Store, *conversations: Conversation) -> None:
    """Write revisions of conversations."""
    built = [Built(conversation=conversation, ambiguous_link=False) for conversation in conversations]
    store.write(lambda con: save_conversations(con, built, 1))


def save_scored(store: Store, *scored: Scored) -> None:
    """Write scores."""
    store.write(lambda con: NewScores.of(score_types(con), "e", scored, 1).save(con))


def scored_as(
    conversation: Conversation, outcome: Outcome = "pass", case: Case | None = None, *, ratio: float = 1.0
) -> Scored:
    """Return a conversation with a score; with a case it has two expectations of tools, of selection .5 and 1."""
    tools = [
        ToolScore(
            turn_index=turn_index,
            outcome="pass",
            reason=None,
            overall=1.0,
            dimensions={"selection": selection, "parameters": None, "sequence": None, "utilization": None},
            faults=(),
        )
        for turn_index, selection in enumerate((0.5, 1.0))
    ]
    score = ConversationScore(
        environment=conversation.environment,
        conversation_id=str(conversation.conversation_id),
        revision=conversation.revision,
        case_id=None if case is None else case.case_id,
        dataset=None if case is None else case.dataset,
        case_version=None if case is None else case.version,
        match_method=None,
        match_confidence=None,
        warning=None,
        outcome=outcome,
        reason={"pass": None, "fail": "wrong_answer", "not_evaluated": "judge_error"}[outcome],
        outcome_source="computed",
        computed_outcome=outcome,
        computed_reason=None,
        answer_outcome=outcome,
        tool_outcome=outcome,
        both_outcome=outcome,
        turns=(),
        tools=tuple(tools if case else ()),
        missing_outputs=(),
        explanation="It was so.",
    )
    match = Match(case=case, method=None, confidence=None, candidates=(), warning=None, reason=None)
    return Scored(conversation=conversation, match=match, score=score, sample_ratio=ratio)


def save_results(con: DuckDBPyConnection, scored: Sequence[ScoredConversation]) -> None:
    """Make the tables of results hold these conversations, and no others."""
    for table in ("results", "subjects", "result_cases", "removed_attempts"):
        con.execute(f"DELETE FROM {table}")  # noqa: S608 — our own table names
    subjects = {key: number for number, key in enumerate(dict.fromkeys(map(_subject, scored)), 1)}
    cases = {key: number for number, key in enumerate(dict.fromkeys(item.case_key for item in scored), 1)}
    if not scored:
        return
    Table(con, "subjects").insert(
        con,
        {
            "subject": list(subjects.values()),
            **{
                name: [key[number] for key in subjects]
                for number, name in enumerate(("agent", "agent_version", "environment", "service"))
            },
        },
    )
    named = [
        (number, *key) for key, number in cases.items() if key in {item.case_key for item in scored if item.case_id}
    ]
    columns = list(zip(*named, strict=True)) or [(), (), ()]
    Table(con, "result_cases").insert(
        con, {name: list(values) for name, values in zip(("case_no", "dataset", "case_id"), columns, strict=True)}
    )
    Table(con, "results").insert(
        con,
        {
            **{
                name: [getattr(item, name) for item in scored]
                for name in (
                    "environment", "conversation_id", "revision", "agent", "agent_version", "service", "dataset",
                    "case_id", "outcome", "reason", "pass_probability",
                )
            },
            "evaluation_id": ["e"] * len(scored),
            "subject": [subjects[_subject(item)] for item in scored],
            "ended_at": [item.ended_ns for item in scored],
            "window_time": [item.ended_ns for item in scored],
            "case_no": [None if item.case_id is None else cases[item.case_key] for item in scored],
            "tags": [list(item.tags) for item in scored],
            **{name: [item.dimensions.get(name) for item in scored] for name in DIMENSIONS},
            "sample_ratio": [1.0 / item.weight for item in scored],
        },
    )  # fmt: skip


def _subject(scored: ScoredConversation) -> tuple[str | None, str | None, str, str | None]:
    return (scored.agent, scored.agent_version, scored.environment, scored.service)


_SUBJECT = "INSERT INTO subjects SELECT $number, $agent, $version, 'production', 'shop', 'correct', '' WHERE NOT EXISTS (FROM subjects WHERE subject = $number)"


def save_outcomes(
    engine: Engine,
    outcomes: Sequence[str],
    *,
    subject: int = 1,
    agent: str | None = "clerk",
    first_ns: int = 1_000,
    name: str = "c",
    cases: Sequence[int | None] = (),
) -> list[int]:
    """Store a result a microsecond, and return when they ended, ns.

    Args:
        engine: whose store.
        outcomes: pass, fail or not_evaluated, in event order.
        subject: number of the group.
        agent: its agent; the version is the number.
        first_ns: when the first ended.
        name: what the conversation ids begin with; later results replace earlier ones of the same id.
        cases: number of the case of each; () for none.
    """
    ended_ns = [first_ns + number * 1_000 for number in range(len(outcomes))]
    ids = [f"{name}-{number:06}" for number in range(len(outcomes))]

    def write(con: DuckDBPyConnection) -> None:
        con.execute(_SUBJECT, {"number": subject, "agent": agent, "version": str(subject)})
        con.execute("DELETE FROM results WHERE list_contains($ids, conversation_id)", {"ids": ids})
        Table(con, "results").insert(
            con,
            {
                "environment": ["production"] * len(ids),
                "conversation_id": ids,
                "revision": [1] * len(ids),
                "evaluation_id": ["e"] * len(ids),
                "subject": [subject] * len(ids),
                "agent": [agent] * len(ids),
                "agent_version": [str(subject)] * len(ids),
                "service": ["shop"] * len(ids),
                "ended_at": ended_ns,
                "window_time": ended_ns,
                "case_no": list(cases) or [None] * len(ids),
                "tags": [()] * len(ids),
                "outcome": list(outcomes),
                "sample_ratio": [1.0] * len(ids),
            },
        )

    engine.store.write(write)
    return ended_ns


HOUR_NS: Final = 3_600_000_000_000
#: One conversation of one trace after the other, evenly over the hour.
_NUMBERS: Final = """
CREATE OR REPLACE TEMP TABLE made AS
SELECT
    md5(concat($hour, '-', range)) AS trace_id, concat('c-', $hour, '-', range) AS name,
    $first + range * (3600000000000 // $count) AS began
FROM range($count)
"""
_SPANS: Final = """
INSERT INTO spans BY NAME
SELECT
    trace_id, substr(md5(concat(trace_id, n)), 1, 16) AS span_id, 'chat' AS name, 1 AS kind,
    make_timestamp_ns(began + n * 1000000) AS start_time, make_timestamp_ns(began + n * 1000000 + 500000) AS end_time,
    1 AS status, 's' AS service, '' AS environment, 'scope' AS scope, 'genai' AS dialect, name AS conversation_id,
    json_object('gen_ai.input.messages', list_reduce(list_transform(range(4), lambda x: md5(concat(trace_id, n, x))),
        lambda a, b: concat(a, ' the of and to in is you that it ', b))) AS attributes,
    json('{"service.name": "s"}') AS resource, 1 AS bucket, make_timestamp_ns($now) AS received_at
FROM made, range($spans) t(n)
"""
_REST: Final = (
    """
INSERT INTO trace_links BY NAME
SELECT
    trace_id, '' AS environment, 's' AS service, name AS explicit_id, name AS conversation_id,
    CAST('[]' AS VARCHAR[]) AS linked_traces, CAST('[]' AS VARCHAR[]) AS history_in, $spans AS events,
    make_timestamp_ns(began) AS started_at, make_timestamp_ns(began + $spans * 1000000) AS ended_at,
    make_timestamp_ns($now) AS received_until, make_timestamp_ns($now) AS received_from, false AS clock_ahead,
    true AS built
FROM made
""",
    """
INSERT INTO conversations BY NAME
SELECT
    '' AS environment, name AS conversation_id, 1 AS revision, false AS superseded, 'agent' AS agent, 's' AS service,
    make_timestamp_ns(began) AS started_at, make_timestamp_ns(began + $spans * 1000000) AS ended_at, ended_at AS window_time, 'idle' AS closed_by,
    'explicit' AS link_method, false AS ambiguous_link, 1 AS turn_count, 1 AS call_count, 'full' AS content_captured,
    trace_id AS content_hash, 1 AS bucket, make_timestamp_ns($now) AS built_at
FROM made
""",
    """
INSERT INTO turns BY NAME
SELECT
    '' AS environment, name AS conversation_id, 1 AS revision, 0 AS turn_index, trace_id AS query, true AS query_captured,
    trace_id AS answer, true AS answer_captured, trace_id, substr(trace_id, 1, 16) AS span_id,
    make_timestamp_ns(began) AS started_at, make_timestamp_ns(began + $spans * 1000000) AS ended_at
FROM made
""",
)


def fill_hour(engine: Engine, hour: int, *, conversations: int, spans: int) -> None:
    """Write closed conversations that ended within an hour, so many hours after noon, at its end."""
    first_ns = NOON_NS + hour * HOUR_NS
    own = {"spans": spans, "now": first_ns + HOUR_NS}

    def write(con: object) -> None:
        run = con.execute  # type: ignore[attr-defined]
        run(_NUMBERS, {"hour": hour, "count": conversations, "first": first_ns})
        run(_SPANS, own)
        for sql in _REST:
            run(sql, {name: own[name] for name in own if f"${name}" in sql})

    engine.store.write(write)


CASE = (
    '{"case_id": "hotel", "turns": [{"query": "Which hotel?", "answer": "The Ritz.", '
    '"tools": {"calls": [{"tool_name": "search", "parameters": {"q": "hotels"}}]}}]}'
)


def ask_hotel(conversation_id: str | None = "conversation-1", **changes: Any) -> AgentRunScript:
    """Return a conversation that the case `hotel` fits: one query, one call, one answer."""
    script = AgentRunScript(conversation_id=conversation_id, **changes).ask("Which hotel?")
    return script.calls(scripted_call("search", {"q": "hotels"}, result=["Ritz"])).answers("The Ritz.")


def feed(engine: Engine, *items: Span | LogRecord | SpanBatch) -> RebuildResult:
    """Store spans and rebuild what they touch, as at the end of a file."""
    engine.store.accept(batch(*items))
    return rebuild_pending(engine, lambda *_: None)


def rows(engine: Engine, sql: str, parameters: dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with engine.store.read() as con:
        return con.execute(sql, parameters or {}).fetchall()


def stored_conversations(engine: Engine) -> dict[tuple[str, str], Conversation]:
    """Return the newest revisions of all conversations by identity."""
    keys = [
        (environment, name)
        for environment, name in rows(engine, "SELECT environment, conversation_id FROM conversations")
    ]
    with engine.store.read() as con:
        return {
            (conversation.environment, str(conversation.conversation_id)): conversation
            for conversation in load_conversations(con, keys)
        }


def revisions(engine: Engine) -> list[tuple[str, int, bool]]:
    """Return (conversation id, revision, superseded) of every revision."""
    return rows(engine, "SELECT conversation_id, revision, superseded FROM conversations ORDER BY ALL")


def contents(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table, without the times of evaluator runs."""
    tables = [name for (name,) in rows(engine, "SELECT table_name FROM duckdb_tables() ORDER BY table_name")]
    return {
        name: rows(engine, f'SELECT * EXCLUDE (last_run_at) FROM "{name}" ORDER BY ALL')  # noqa: S608 — names from the file
        if name == "evaluations"
        else rows(engine, f'SELECT * FROM "{name}" ORDER BY ALL')  # noqa: S608 — same
        for name in tables
    }


DAY_NS = 24 * HOUR_NS
#: Long after every event here.
LATER_NS = NOON_NS + 100 * DAY_NS
CASES = [("cases.jsonl", CASE)]
#: Windows of a day, an end an hour.
HOURLY: dict[str, Any] = {"windows": ["6h", "24h"], "step_ns": HOUR_NS, "k": [1, 3]}


def hotel_conversation(number: int, *, name: str | None = None, right: bool | None = None) -> SpanBatch:
    """Return a conversation that starts `number` times five hours after noon; by default every third is wrong."""
    right = number % 3 > 0 if right is None else right
    script = ask_hotel(name or f"c-{number}")
    return speak_genai(script if right else script.answers("The Savoy."), start_ns=NOON_NS + number * 5 * HOUR_NS)


def fill_days(engine: Engine, count: int = 12) -> None:
    """Store and rebuild conversations over some days, and remember their case."""
    feed(engine, *[hotel_conversation(number) for number in range(count)])
    engine.runner.remember([TruthFile(name=name, text=text) for name, text in CASES], [])


def backfill_events(engine: Engine, **arguments: Any) -> list[dict[str, Any]]:
    """Return the events of a backfill."""
    return list(Commands(engine).backfill(**{**HOURLY, **arguments}))


def run_backfill(engine: Engine, **arguments: Any) -> dict[str, Any]:
    """Return the result of a backfill."""
    result: dict[str, Any] = backfill_events(engine, **arguments)[-1]["result"]
    return result


def window_rows(engine: Engine, *without: str) -> list[tuple[Any, ...]]:
    """Return the rows of the table windows, sorted, without some columns."""
    left = f"EXCLUDE ({', '.join(without)})" if without else ""
    return rows(engine, f'SELECT * {left} FROM windows ORDER BY "end", "window", agent, tag, k, estimator')  # noqa: S608 — names of the test


def window_values(engine: Engine) -> list[tuple[Any, ...]]:
    """Return the rows of the table windows without revision and time of computation."""
    return window_rows(engine, "revision", "computed_at")


def ends_of(window: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return the distinct ends of rows of `window_rows`."""
    return sorted({row[6] for row in window})
