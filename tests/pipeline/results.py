"""Results written straight into a store, as many as a monitor wants to see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.store.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.engine.engine import Engine

_SUBJECT = "INSERT INTO subjects SELECT $number, $agent, $version, 'production', 'shop' WHERE NOT EXISTS (FROM subjects WHERE subject = $number)"


def put_results(
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
    ended_ns = [first_ns + place * 1_000 for place in range(len(outcomes))]
    ids = [f"{name}-{place:06}" for place in range(len(outcomes))]

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
