"""A file moved away under a running collector: neither its own log nor that of its successor is lost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from inline_snapshot import snapshot

from otel_agentic.errors import StoreUnusableError
from otel_agentic.testing import batch, span
from tests.snapshots import raises
from tests.store.store_queries import rows, run_python, value

if TYPE_CHECKING:
    from otel_agentic.store import Store
    from tests.store.conftest import OpenStore

COUNT = "SELECT count(*) FROM spans"
#: Acknowledges a span into a file of its own and dies.
SUCCESSOR = """
import os, sys
from pathlib import Path
from otel_agentic.config import ConversationSettings, StoreSettings
from otel_agentic.dialects import Reader
from otel_agentic.store import Store
from otel_agentic.testing import batch, span
store = Store(StoreSettings(db=Path(sys.argv[1])), Reader.from_settings(ConversationSettings()))
store.accept(batch(span("second")))
print("acknowledged", flush=True)
input()
os._exit(1)
"""


def test_the_log_of_a_successor_stays_when_the_collector_of_the_moved_file_stops(
    store: Store, open_store: OpenStore, db: Path, tmp_path: Path
) -> None:
    store.accept(batch(span("first")))
    moved = tmp_path / "moved" / db.name
    moved.parent.mkdir()
    db.rename(moved)
    db.with_name(f"{db.name}.wal").rename(moved.with_name(f"{db.name}.wal"))
    with run_python(SUCCESSOR, db) as successor:
        assert successor.stdout is not None
        assert "acknowledged" == successor.stdout.readline().strip()
        store.close()
        successor.communicate("\n")

    assert [("second",)] == rows(open_store(), "SELECT name FROM spans")
    assert [("first",)] == rows(open_store(db=moved), "SELECT name FROM spans")


def test_no_file_is_created_next_to_the_log_of_another_store(
    store: Store, open_store: OpenStore, db: Path, tmp_path: Path
) -> None:
    store.accept(batch(span("first")))
    moved = tmp_path / "moved.duckdb"
    db.rename(moved)

    with raises(
        StoreUnusableError,
        snapshot(
            "<tmp_path>/t.duckdb is missing, and <tmp_path>/t.duckdb.wal holds the last data stored in it: put the file back next to its log, or remove the log"
        ),
        tmp_path=tmp_path,
    ):
        open_store()
    store.close()

    assert 1 == value(open_store(db=moved), COUNT)
    assert 0 == value(open_store(), COUNT)
