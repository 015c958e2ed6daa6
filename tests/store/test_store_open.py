"""The error about an unusable file names it, the problem and the next step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import StoreBusyError, StoreUnusableError
from otel_agentic.testing import batch, span
from tests.snapshots import raises
from tests.store.store_queries import run_python

if TYPE_CHECKING:
    from tests.store.conftest import OpenStore

HOLD = """
import sys, duckdb
con = duckdb.connect(sys.argv[1])
print("held")
sys.stdin.read()
"""


def test_a_file_held_by_another_process_is_busy_and_names_it(open_store: OpenStore, db: Path) -> None:
    with run_python(HOLD, db) as process:
        assert process.stdout is not None
        assert "held" == process.stdout.readline().strip()

        with pytest.raises(StoreBusyError, match=rf"{db} is held by process {process.pid}: .*--server.*stop that"):
            open_store()
        process.communicate()


def test_a_file_that_is_open_in_this_process_is_busy(open_store: OpenStore) -> None:
    open_store()

    with raises(
        StoreBusyError,
        snapshot("t.duckdb is already open in this process"),
    ):
        open_store()


def test_a_closed_store_leaves_the_file_to_others_at_once(open_store: OpenStore, db: Path) -> None:
    store = open_store()
    store.accept(batch(span()))
    store.close()

    process = subprocess.run(
        [sys.executable, "-c", "import sys, duckdb; print(duckdb.connect(sys.argv[1]).sql('FROM spans').shape)", db],
        check=True,
        capture_output=True,
        text=True,
    )

    assert process.stdout.startswith("(1, ")


@pytest.mark.parametrize("content", [b"", b"hello" * 2000], ids=["empty", "text"])
def test_a_file_that_is_no_database_is_refused(open_store: OpenStore, db: Path, content: bytes) -> None:
    db.write_bytes(content)

    with raises(StoreUnusableError, snapshot("<db> is not a DuckDB file; give another --db"), db=db):
        open_store()
    assert content == db.read_bytes()


def test_a_missing_file_is_not_created_without_create(open_store: OpenStore, db: Path) -> None:
    with raises(StoreUnusableError, snapshot("<db>: no such DuckDB file; `otel-agentic ingest --db"), db=db):
        open_store(create=False)
    assert not db.exists()


def test_a_missing_folder_is_named(open_store: OpenStore, tmp_path: Path) -> None:
    with raises(StoreUnusableError, snapshot("folder <tmp_path>/missing does not exist"), tmp_path=tmp_path):
        open_store(db=tmp_path / "missing" / "t.duckdb")


def test_a_folder_is_no_file(open_store: OpenStore, tmp_path: Path) -> None:
    with pytest.raises(StoreUnusableError, match=rf"{tmp_path} cannot be used: .*directory"):
        open_store(db=tmp_path)


def test_tables_of_other_programs_are_left_alone(open_store: OpenStore, db: Path) -> None:
    with duckdb.connect(str(db)) as con:
        con.execute("CREATE TABLE spans (mine INTEGER)")

    with raises(
        StoreUnusableError,
        snapshot('<tmp_path>/t.duckdb cannot be used: Catalog Error: Table with name "spans" already exists!'),
        tmp_path=db.parent,
    ):
        open_store()
    with duckdb.connect(str(db)) as con:
        assert [("spans",)] == con.execute("SELECT table_name FROM duckdb_tables()").fetchall()
