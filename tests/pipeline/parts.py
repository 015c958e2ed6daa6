"""What several tests of the pipeline do with an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_agentic.commands.ingest import rebuild_pending
from otel_agentic.store.conversations import load_conversations
from otel_agentic.testing import AgentRunScript, batch, scripted_call

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.engine.engine import Engine
    from otel_agentic.engine.rebuild import RebuildResult
    from otel_agentic.spans.model import LogRecord, Span, SpanBatch

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


def conversations(engine: Engine) -> dict[tuple[str, str], Conversation]:
    """Return the newest revisions of all conversations by identity."""
    keys = [
        (environment, name)
        for environment, name in rows(engine, "SELECT environment, conversation_id FROM conversations")
    ]
    with engine.store.read() as con:
        return {(found.environment, str(found.conversation_id)): found for found in load_conversations(con, keys)}


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
