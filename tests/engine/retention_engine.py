"""A store whose present is the test's, with conversations at chosen hours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.engine.engine import Engine, EngineListener
from otel_agentic.testing import NOON_NS, speak_genai
from tests.builders import ask_hotel, feed, rows
from tests.stores import settings_for

if TYPE_CHECKING:
    from otel_agentic.engine.rebuild import RebuildResult
    from otel_agentic.spans.model import SpanBatch

HOUR_NS: Final = 3_600_000_000_000
DAY_NS: Final = 24 * HOUR_NS
#: Tables with rows of a conversation, and those of its spans.
DEPENDENT_TABLES: Final = (
    "conversations", "turns", "tool_calls", "matches", "tool_faults",
    "tool_counts", "call_pairs", "scores", "trace_links", "spans", "log_records",
)  # fmt: skip


class Clock:
    """The present, as the test has it: hours after noon."""

    def __init__(self) -> None:
        self.now_ns = NOON_NS

    def __call__(self) -> int:
        """Return it, ns."""
        return self.now_ns

    def at(self, hours: float) -> None:
        """Set it."""
        self.now_ns = NOON_NS + int(hours * HOUR_NS)


def retaining_engine(
    db: Path, clock: Clock, *, listener: EngineListener | None = None, **sections: dict[str, Any]
) -> Engine:
    """Return an engine that keeps two hours by default; hours are final at once."""
    windows = {"widths": ["1h"], "step_s": 300, "lateness_s": 1.0, **sections.pop("windows", {})}
    retention = {"keep": "2h", **sections.pop("retention", {})}
    return Engine(
        settings_for(db, windows=windows, retention=retention, **sections),
        create=not db.exists(),
        clock=clock,
        listener=listener or EngineListener(),
    )


def talk(name: str | None, hours: float = 0, **changes: Any) -> SpanBatch:
    """Return the spans and log records of a conversation that began so many hours after noon."""
    return speak_genai(ask_hotel(name, **changes), style="logs", start_ns=NOON_NS + int(hours * HOUR_NS))


def store_talk(
    engine: Engine, name: str | None, hours: float = 0, *, ahead: bool = False, **changes: Any
) -> RebuildResult:
    """Store a conversation and rebuild it, at its own time; `ahead` of it where the sender's clock is wrong."""
    if not ahead and isinstance(engine.clock, Clock):
        engine.clock.now_ns = max(engine.clock.now_ns, NOON_NS + int(hours * HOUR_NS))
    return feed(engine, talk(name, hours, **changes))


def conversation_ids(engine: Engine) -> list[str]:
    """Return the ids of the conversations."""
    return [name for (name,) in rows(engine, "SELECT DISTINCT conversation_id FROM conversations ORDER BY ALL")]


def row_counts(engine: Engine) -> dict[str, int]:
    """Return the rows of all tables that hang on conversations, where there are any."""
    result = {table: rows(engine, f"SELECT count(*) FROM {table}")[0][0] for table in DEPENDENT_TABLES}  # noqa: S608 — names of our own
    return {table: count for table, count in result.items() if count}
