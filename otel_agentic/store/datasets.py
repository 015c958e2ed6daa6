"""Dataset versions: which cases were current together, and when."""

from __future__ import annotations

import hashlib
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from otel_agentic.store.selection import Row, rows
from otel_agentic.store.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duckdb import DuckDBPyConnection

_CURRENT_MEMBERS: Final = "SELECT dataset, case_id, version FROM cases WHERE current ORDER BY dataset, case_id"
_NEWEST: Final = "SELECT dataset, last(version ORDER BY rowid) FROM dataset_versions GROUP BY dataset"
_KNOWN: Final = "SELECT DISTINCT dataset, version FROM dataset_members"
_HISTORY: Final = """
SELECT
    dataset, version, cases, source, imported_at, row_number() OVER (PARTITION BY dataset ORDER BY rowid DESC) = 1 AS current
FROM dataset_versions
WHERE $dataset IS NULL OR dataset = $dataset
ORDER BY dataset, rowid DESC
"""


def dataset_version(cases: Iterable[tuple[str, str]]) -> str:
    """Return the content hash of a dataset: of the ids and versions of its cases, independent of their order.

    >>> dataset_version([("a", "1"), ("b", "2")]) == dataset_version([("b", "2"), ("a", "1")])
    True
    """
    content = hashlib.sha256()
    for case_id, version in sorted(cases):
        content.update(f"{len(case_id)}:{case_id}={version};".encode())
    return content.hexdigest()[:16]


def current_datasets(con: DuckDBPyConnection) -> dict[str, str]:
    """Return the version of each dataset that has current cases."""
    return {dataset: dataset_version(cases) for dataset, cases in _current_members(con).items()}


def record_datasets(con: DuckDBPyConnection, source: str, now_ns: int) -> None:
    """Record the current content of the datasets if it differs from the newest recorded version."""
    members = _current_members(con)
    newest = dict(con.execute(_NEWEST).fetchall())
    now = {name: dataset_version(members.get(name, ())) for name in members.keys() | newest.keys()}
    changed = sorted(name for name, version in now.items() if newest.get(name) != version)
    Table(con, "dataset_versions").insert(
        con,
        {
            "dataset": changed,
            "version": [now[name] for name in changed],
            "cases": [len(members.get(name, ())) for name in changed],
            "source": [source] * len(changed),
            "imported_at": [now_ns] * len(changed),
        },
    )
    known = {(name, version) for name, version in con.execute(_KNOWN).fetchall()}
    fresh = [(name, *case) for name in changed if (name, now[name]) not in known for case in members.get(name, ())]
    Table(con, "dataset_members").insert(
        con,
        {
            "dataset": [name for name, _, _ in fresh],
            "version": [now[name] for name, _, _ in fresh],
            "case_id": [case_id for _, case_id, _ in fresh],
            "case_version": [version for _, _, version in fresh],
        },
    )


def list_datasets(con: DuckDBPyConnection, dataset: str | None = None) -> list[Row]:
    """Return the versions of datasets, newest first; `current` marks the current one."""
    return rows(con, _HISTORY, {"dataset": dataset})


def _current_members(con: DuckDBPyConnection) -> dict[str, list[tuple[str, str]]]:
    rows = con.execute(_CURRENT_MEMBERS).fetchall()
    return {
        dataset: [(case_id, version) for _, case_id, version in cases]
        for dataset, cases in groupby(rows, key=itemgetter(0))
    }
