"""Writes results straight into their table, as scores would have left them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.scoring.model import DIMENSIONS
from otel_agentic.store.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.windows import ScoredConversation


def put_results(con: DuckDBPyConnection, scored: Sequence[ScoredConversation]) -> None:
    """Make the tables of results hold these conversations, and no others."""
    for table in ("results", "subjects", "result_cases", "removed_attempts"):
        con.execute(f"DELETE FROM {table}")  # noqa: S608 — our own table names
    subjects = {key: number for number, key in enumerate(dict.fromkeys(map(_subject, scored)), 1)}
    cases = {key: number for number, key in enumerate(dict.fromkeys(each.case_key for each in scored), 1)}
    if not scored:
        return
    Table(con, "subjects").insert(
        con,
        {
            "subject": list(subjects.values()),
            **{
                name: [key[place] for key in subjects]
                for place, name in enumerate(("agent", "agent_version", "environment", "service"))
            },
        },
    )
    named = [
        (number, *key) for key, number in cases.items() if key in {each.case_key for each in scored if each.case_id}
    ]
    columns = list(zip(*named, strict=True)) or [(), (), ()]
    Table(con, "result_cases").insert(
        con, {name: list(values) for name, values in zip(("case_no", "dataset", "case_id"), columns, strict=True)}
    )
    Table(con, "results").insert(
        con,
        {
            **{
                name: [getattr(each, name) for each in scored]
                for name in (
                    "environment", "conversation_id", "revision", "agent", "agent_version", "service", "dataset",
                    "case_id", "outcome", "reason", "pass_probability",
                )
            },
            "evaluation_id": ["e"] * len(scored),
            "subject": [subjects[_subject(each)] for each in scored],
            "ended_at": [each.ended_ns for each in scored],
            "window_time": [each.ended_ns for each in scored],
            "case_no": [None if each.case_id is None else cases[each.case_key] for each in scored],
            "tags": [list(each.tags) for each in scored],
            **{name: [each.dimensions.get(name) for each in scored] for name in DIMENSIONS},
            "sample_ratio": [1.0 / each.weight for each in scored],
        },
    )  # fmt: skip


def _subject(scored: ScoredConversation) -> tuple[str | None, str | None, str, str | None]:
    return (scored.agent, scored.agent_version, scored.environment, scored.service)
