"""Cases and labels in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_agentic.store.datasets import record_datasets
from otel_agentic.store.table import Raw, Table, rows_with
from otel_agentic.truth.labels import Label
from otel_agentic.truth.model import Case

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duckdb import DuckDBPyConnection

    from otel_agentic.truth.model import ToolExpectation

_VERSIONS: Final = "SELECT dataset, case_id, version FROM cases"
_RETIRE: Final = """
UPDATE cases c SET current = false FROM requested w
WHERE c.dataset = w.dataset AND c.case_id = w.case_id AND c.current AND c.version <> w.version
"""
#: A case that its own file no longer contains is retired.
_DROP: Final = """
UPDATE cases SET current = false
WHERE source = $source AND current AND NOT EXISTS (
    SELECT 1 FROM requested w WHERE w.dataset = cases.dataset AND w.case_id = cases.case_id
)
"""
_REVIVE: Final = """
UPDATE cases c SET current = true, source = $source FROM requested w
WHERE c.dataset = w.dataset AND c.case_id = w.case_id AND c.version = w.version
"""
_CURRENT_CASES: Final = "SELECT definition FROM cases WHERE current ORDER BY dataset, case_id"
_FORGET_LABELS: Final = "DELETE FROM labels l USING requested w WHERE l.conversation_id = w.conversation_id"
_LABELS_OF_FILE: Final = """
SELECT conversation_id, case_id, verdict, source FROM labels WHERE regexp_replace(source, ':[0-9]+$', '') = $source
"""
_LABELS: Final = "SELECT conversation_id, case_id, verdict FROM labels ORDER BY conversation_id"


def save_cases(con: DuckDBPyConnection, cases: Sequence[Case], source: str, now_ns: int) -> int:
    """Make the cases of one file current; return how many versions are new. Older versions stay, retired.

    The resulting content of each dataset is recorded as a version of it.
    """
    keyed = {
        "dataset": [case.dataset for case in cases],
        "case_id": [case.case_id for case in cases],
        "version": [case.version for case in cases],
    }
    known = {tuple(row) for row in con.execute(_VERSIONS).fetchall()}
    fresh = [case for case in cases if (case.dataset, case.case_id, case.version) not in known]
    rows_with(con, keyed, _RETIRE, fetch=False)
    rows_with(con, keyed, _DROP, {"source": source}, fetch=False)
    rows_with(con, keyed, _REVIVE, {"source": source}, fetch=False)
    _insert_cases(con, fresh, source, now_ns)
    _insert_turns(con, fresh)
    _insert_calls(con, fresh)
    record_datasets(con, source, now_ns)
    return len(fresh)


def load_cases(con: DuckDBPyConnection) -> list[Case]:
    """Return the current cases, by dataset and case id."""
    return [Case.model_validate_json(text) for (text,) in con.execute(_CURRENT_CASES).fetchall()]


def save_labels(con: DuckDBPyConnection, labels: Mapping[str, Label], source: str, now_ns: int) -> None:
    """Make the labels of one file current: each replaces an older one, and those that the file no longer contains go."""
    known = {row[0]: row for row in con.execute(_LABELS_OF_FILE, {"source": source}).fetchall()}
    changed = [label for label in labels.values() if known.get(label.conversation_id) != _label_row(label, source)]
    stale = [*(label.conversation_id for label in changed), *(known.keys() - labels.keys())]
    rows_with(con, {"conversation_id": stale}, _FORGET_LABELS, fetch=False)
    Table(con, "labels").insert(
        con,
        {
            "conversation_id": [label.conversation_id for label in changed],
            "case_id": [label.case_id for label in changed],
            "verdict": [label.verdict for label in changed],
            "source": [f"{source}:{label.line}" for label in changed],
            "imported_at": [now_ns] * len(changed),
        },
    )


def _label_row(label: Label, source: str) -> tuple[str, str | None, bool | None, str]:
    return (label.conversation_id, label.case_id, label.verdict, f"{source}:{label.line}")


def load_labels(con: DuckDBPyConnection) -> dict[str, Label]:
    """Return the stored labels by conversation id."""
    return {
        name: Label(conversation_id=name, case_id=case_id, verdict=verdict, line=0)
        for name, case_id, verdict in con.execute(_LABELS).fetchall()
    }


def _insert_cases(con: DuckDBPyConnection, cases: Sequence[Case], source: str, now_ns: int) -> None:
    Table(con, "cases").insert(
        con,
        {
            "dataset": [case.dataset for case in cases],
            "case_id": [case.case_id for case in cases],
            "version": [case.version for case in cases],
            "current": [True] * len(cases),
            "reviewed": [case.reviewed for case in cases],
            "agent": [case.agent for case in cases],
            "tags": [list(case.tags) for case in cases],
            "definition": [Raw(case.model_dump_json(exclude_defaults=True)) for case in cases],
            "source": [source] * len(cases),
            "imported_at": [now_ns] * len(cases),
        },
    )


def _insert_turns(con: DuckDBPyConnection, cases: Sequence[Case]) -> None:
    rows = [(case, index, turn) for case in cases for index, turn in enumerate(case.turns)]
    Table(con, "case_turns").insert(
        con,
        {
            "dataset": [case.dataset for case, _, _ in rows],
            "case_id": [case.case_id for case, _, _ in rows],
            "version": [case.version for case, _, _ in rows],
            "turn_index": [index for _, index, _ in rows],
            "query": [turn.query for _, _, turn in rows],
            "answer": [turn.first_answer for _, _, turn in rows],
            "also_accepted": [list(turn.accepted_answers[1:]) for _, _, turn in rows],
        },
    )


def _insert_calls(con: DuckDBPyConnection, cases: Sequence[Case]) -> None:
    rows = [
        (case, turn_index, call_index, call)
        for case in cases
        for turn_index, tools in _expectations(case)
        for call_index, call in enumerate(tools.calls)
    ]
    Table(con, "expected_calls").insert(
        con,
        {
            "dataset": [case.dataset for case, _, _, _ in rows],
            "case_id": [case.case_id for case, _, _, _ in rows],
            "version": [case.version for case, _, _, _ in rows],
            "turn_index": [turn_index for _, turn_index, _, _ in rows],
            "call_index": [call_index for _, _, call_index, _ in rows],
            "tool_name": [call.tool_name for _, _, _, call in rows],
            "parameters": [call.parameters for _, _, _, call in rows],
            "step": [call.step for _, _, _, call in rows],
            "required": [call.required for _, _, _, call in rows],
        },
    )


def _expectations(case: Case) -> list[tuple[int | None, ToolExpectation]]:
    expectations: list[tuple[int | None, ToolExpectation]] = [
        (index, turn.tools) for index, turn in enumerate(case.turns) if turn.tools is not None
    ]
    return [(None, case.tools), *expectations] if case.tools is not None else expectations
