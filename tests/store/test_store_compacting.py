"""A rewritten file: smaller, with the same content, and complete at every moment."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import StoreBusyError, StoreUnusableError
from otel_agentic.store.maintenance.vacuum import compact
from otel_agentic.testing import batch, span
from tests.snapshots import raises
from tests.store.store_queries import rows, run_python

if TYPE_CHECKING:
    from otel_agentic.store import Store
    from tests.store.conftest import OpenStore

#: Text that does not compress.
FILL: Final = """
INSERT INTO judge_calls BY NAME
SELECT
    md5(range::VARCHAR) AS content_hash, 'j' AS judge, 1 AS tries, make_timestamp_ns(range) AS judged_at,
    list_reduce(list_transform(range(40), lambda x: sha256((x + range)::VARCHAR)), lambda a, b: a || b) AS reasoning
FROM range(3000)
"""


def filled(open_store: OpenStore) -> None:
    """Leave a file of which most is free."""
    with open_store(checkpoint_threshold_mb=1000) as store:  # the writer makes none of its own next to the one below
        store.accept(batch(span("kept")))
        store.write(lambda con: con.execute(FILL))
        with store.connection() as con:
            con.execute("CHECKPOINT")
        store.write(lambda con: con.execute("DELETE FROM judge_calls"))


def held(store: Store) -> list[Any]:
    """Return the visible content of a store: rows, comments, views."""
    return [
        rows(store, "SELECT * FROM spans"),
        rows(store, "SELECT * FROM schema_migrations ORDER BY ALL"),
        rows(store, "SELECT table_name, comment FROM duckdb_tables() ORDER BY ALL"),
        rows(store, "SELECT view_name, comment, sql FROM duckdb_views() WHERE NOT internal ORDER BY ALL"),
        rows(store, "SELECT table_name, column_name, data_type, is_nullable, comment FROM duckdb_columns() WHERE NOT internal ORDER BY ALL"),
        rows(store, "SELECT tags FROM duckdb_databases() WHERE database_name = current_database()"),
        rows(store, "SELECT * FROM v_reliability"),
    ]  # fmt: skip


def test_it_is_smaller_and_holds_the_same(open_store: OpenStore, db: Path) -> None:
    filled(open_store)
    with open_store() as store:
        before = held(store)
    number = db.stat().st_ino

    old, new = compact(db)

    assert number != db.stat().st_ino  # another file in its place, at one moment: nothing was written over it

    assert new < old / 2
    assert new == db.stat().st_size
    assert before == held(open_store())
    assert [db] == [path for path in db.parent.iterdir() if not path.name.endswith(".wal")]


def test_a_link_stays_a_link_and_who_may_read_the_file_stays_as_it_was(open_store: OpenStore, db: Path) -> None:
    filled(open_store)
    db.chmod(0o640)
    link = db.with_name("link.duckdb")
    link.symlink_to(db)

    old, new = compact(link)

    assert new < old / 2
    assert link.is_symlink()
    assert new == db.stat().st_size
    assert 0o640 == db.stat().st_mode & 0o777


def test_a_file_whose_log_is_not_written_into_it_is_left_alone(open_store: OpenStore, db: Path) -> None:
    filled(open_store)
    db.with_name(f"{db.name}.wal").write_bytes(b"log")
    before = db.read_bytes()

    with raises(StoreUnusableError, snapshot("its log is not written into it yet")):
        compact(db)

    assert before == db.read_bytes()


def test_a_file_that_is_held_is_left_alone(open_store: OpenStore, db: Path) -> None:
    filled(open_store)
    code = "import duckdb, sys; con = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with run_python(code, db) as holder:
        assert holder.stdout is not None
        assert "open" == holder.stdout.readline().strip()
        with pytest.raises(StoreBusyError, match=rf"held by process {holder.pid}"):
            compact(db)
        holder.kill()
    assert [(1,)] == rows(open_store(), "SELECT count(*) FROM spans")


def test_what_is_no_database_is_left_alone(db: Path) -> None:
    db.write_bytes(b"no database" * 1000)

    with raises(StoreUnusableError, snapshot("not a DuckDB file")):
        compact(db)

    assert b"no database" * 1000 == db.read_bytes()


KILLED: Final = """
import sys
from pathlib import Path
from otel_agentic.store.maintenance.vacuum import compact
print("go", flush=True)
compact(Path(sys.argv[1]))
"""


def test_killed_on_the_way_it_leaves_a_whole_file(open_store: OpenStore, db: Path) -> None:
    filled(open_store)
    draft, number = db.with_name(f"{db.name}.compacting"), db.stat().st_ino
    with run_python(KILLED, db) as process:
        while not draft.exists() and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)

    assert number == db.stat().st_ino or not draft.exists()
    with open_store() as store:
        assert [(1,)] == rows(store, "SELECT count(*) FROM spans")
    assert compact(db)[1] < 4_000_000
    assert not draft.exists()
