"""Snapshots: complete databases that other processes read while the store is written to."""

from __future__ import annotations

import shutil
import stat
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from inline_snapshot import snapshot

from otel_agentic.config import StoreSettings
from otel_agentic.errors import OverloadedError, QueryError, StoreUnusableError
from otel_agentic.testing import batch, span
from tests.live.running_collector import eventually
from tests.snapshots import raises
from tests.store.store_queries import run_python

if TYPE_CHECKING:
    from otel_agentic.store import Store
    from tests.store.conftest import OpenStore

COUNT = "SELECT count(*) FROM spans"
#: Reads every value, so that a block that is not as it was would be noticed.
ALL = "SELECT count(*), sum(length(spans::VARCHAR)) FROM spans"


def count_in(path: Path) -> int:
    """Return how many spans a database file holds, as any program finds them that opens it for reading."""
    with duckdb.connect(str(path), read_only=True) as con:
        (row,) = con.execute(ALL).fetchall()
        return int(row[0])


@pytest.fixture
def quick(open_store: OpenStore) -> Store:
    """A store with a new snapshot whenever one is asked for."""
    return open_store(snapshot_interval_s=0.001, checkpoint_threshold_mb=1)


def test_a_snapshot_holds_what_was_acknowledged_before_and_no_log(quick: Store) -> None:
    for number in range(3):
        quick.accept(batch(span(f"s{number}")))
        copied = quick.snapshots.latest(fresh=True)
        assert number + 1 == count_in(copied.path)

    assert not copied.path.with_name(f"{copied.path.name}.wal").exists()
    assert 0o600 == stat.S_IMODE(copied.path.stat().st_mode)
    assert copied.as_of_ns == copied.path.stat().st_mtime_ns
    assert copied.as_of_ns <= quick.clock()


def test_snapshots_under_load_are_whole_and_lose_nothing_acknowledged(quick: Store) -> None:
    done, acknowledged = threading.Event(), [0]

    def send() -> None:
        while not done.is_set():
            number = acknowledged[0]
            quick.accept(batch(*(span(f"{number + n}", attributes={"x": f"{n}" * 5000}) for n in range(20))))
            acknowledged[0] = number + 20

    sending = threading.Thread(target=send)
    sending.start()
    try:
        for _ in range(6):
            before = acknowledged[0]
            copied = quick.snapshots.latest(fresh=True)
            assert before <= count_in(copied.path)
    finally:
        done.set()
        sending.join()
    assert acknowledged[0] == count_in(quick.snapshots.latest(fresh=True).path)


def test_a_snapshot_is_used_until_it_is_too_old_and_a_fresh_one_is_made_when_asked_for(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otel_agentic.store.maintenance.backup._FRESH_S", 0.1)  # between two fresh ones
    store = open_store(snapshot_interval_s=3600.0)
    store.accept(batch(span("one")))
    first = store.snapshots.latest()
    idle = store.snapshots.latest()
    assert idle.as_of_ns > first.as_of_ns, "nothing was stored since, so it is current"
    assert first.path.stat().st_ino == idle.path.stat().st_ino, "and was not copied again"

    store.accept(batch(span("two")))
    stale = store.snapshots.latest()
    assert (1, first.as_of_ns) == (count_in(stale.path), stale.as_of_ns)
    assert 2 == count_in(store.snapshots.latest(fresh=True).path)


def test_while_a_copy_is_made_commits_go_on_and_the_file_stays_as_it_is(quick: Store, db: Path) -> None:
    with quick._writer.holding_checkpoints() as is_held:
        content = db.read_bytes()
        for number in range(30):
            quick.accept(batch(span(f"s{number}", attributes={"x": "y" * 100_000})))
        assert is_held()
        assert content == db.read_bytes()
        log = db.with_name(f"{db.name}.wal")
        assert log.stat().st_size > 2_000_000, "more than the threshold of a checkpoint"
    quick.accept(batch(span("last")))
    eventually(lambda: db.stat().st_size > len(content), expected=True)


def test_a_copy_with_a_checkpoint_in_between_is_not_used(quick: Store, db: Path) -> None:
    with quick._writer.holding_checkpoints() as is_held:
        quick.accept(batch(span("one")))
        db.with_name(f"{db.name}.wal").unlink()  # its content is written to the file at once, before any copy
        quick.accept(batch(span("two")))
        assert not is_held()
    assert 2 == count_in(quick.snapshots.latest(fresh=True).path)


def test_where_no_checkpoint_can_be_made_the_last_snapshot_answers_and_a_fresh_one_is_refused(
    quick: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otel_agentic.store.maintenance.backup._WAIT_S", 0.01)
    quick.accept(batch(span("one")))
    first = quick.snapshots.latest()
    with quick.read() as con:
        con.execute(COUNT).fetchall()
        quick.write(lambda con: con.execute("UPDATE spans SET name = 'other'"))  # DuckDB keeps both for the reader
        assert first.as_of_ns == quick.snapshots.latest().as_of_ns
        with raises(OverloadedError, snapshot("too busy for a snapshot")):
            quick.snapshots.latest(fresh=True)
        assert quick.state.problem is None
    assert quick.snapshots.latest().as_of_ns > first.as_of_ns


def test_where_the_disk_has_no_room_the_last_snapshot_answers_and_a_fresh_one_is_refused_at_once(
    quick: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick.accept(batch(span("one")))
    first = quick.snapshots.latest()
    quick.accept(batch(span("two")))

    with monkeypatch.context() as full:
        full.setattr("otel_agentic.store.durability.Checkpoints._free_bytes", lambda _: 0)
        full.setattr("otel_agentic.store.maintenance.backup._WAIT_S", 3600.0)  # not tried again
        with pytest.raises(StoreUnusableError, match="no room"):
            quick.snapshots.latest(fresh=True)
        assert first.as_of_ns == quick.snapshots.latest().as_of_ns
        assert 1 == count_in(first.path)
    assert 2 == count_in(quick.snapshots.latest().path)


def test_without_room_for_a_copy_the_last_snapshot_answers(quick: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_agentic.store.durability._FICLONE", 0)  # as on a file system that cannot share blocks
    quick.accept(batch(span("one")))
    first = quick.snapshots.latest()
    quick.accept(batch(span("two")))

    monkeypatch.setattr("otel_agentic.store.maintenance.backup._LEAVE_FREE_BYTES", 2**62)
    assert first.as_of_ns == quick.snapshots.latest().as_of_ns
    with pytest.raises(StoreUnusableError, match="free some space"):
        quick.snapshots.latest(fresh=True)
    assert [first.path] == list(quick.path.parent.glob("*.snapshot*"))


def test_a_file_that_is_too_large_is_not_copied_and_the_export_is_named(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("otel_agentic.store.durability._FICLONE", 0)  # as on a file system that cannot share blocks
    store = open_store(snapshot_limit_mb=1)
    store.accept(batch(*(span(f"s{number}", attributes={"x": f"{number}" * 100_000}) for number in range(30))))

    with raises(
        QueryError,
        snapshot(
            "<db> has 1 MB: queries against a running collector need a copy of it, which this file system cannot make without writing all of that, and 1 MB are allowed (store.snapshot_limit_mb); raise that, or read the Parquet export instead (serve --export FOLDER, otel-agentic store export), with any DuckDB"
        ),
        db=store.path,
    ):
        store.snapshots.latest()
    assert [] == list(store.path.parent.glob("*.snapshot*"))


def test_what_a_killed_process_left_behind_is_removed(quick: Store) -> None:
    folder, name = quick.path.parent, quick.path.name
    (folder / f"{name}.snapshot").write_text("old")
    (folder / f"{name}.snapshot.draft").write_text("old")
    (folder / f"{name}.snapshot.query-1-1.tmp").mkdir()

    quick.snapshots.start()

    assert [] == list(folder.glob("*.snapshot*"))


def test_its_own_snapshot_goes_with_the_store_and_one_that_was_asked_for_stays(
    open_store: OpenStore, tmp_path: Path
) -> None:
    store = open_store()
    path = store.snapshots.latest().path
    store.close()
    assert not path.exists()
    with pytest.raises(StoreUnusableError, match="closing"):
        store.snapshots.latest()

    store = open_store(snapshot=tmp_path / "for-others.duckdb")
    store.snapshots.latest()
    store.close()
    assert 0 == count_in(tmp_path / "for-others.duckdb")


def test_the_snapshot_may_not_be_the_file_itself(db: Path) -> None:
    with raises(ValueError, snapshot("path of its own")):
        StoreSettings(db=db, snapshot=db)


def test_another_process_reads_the_snapshot_that_the_settings_name_while_the_store_is_written_to(
    open_store: OpenStore, tmp_path: Path
) -> None:
    path = tmp_path / "for others.duckdb"
    store = open_store(snapshot=path, snapshot_interval_s=0.05)
    store.snapshots.start()
    reader = run_python(
        """
        import sys, time
        import duckdb
        seen = 0
        while seen < 200:
            try:
                with duckdb.connect(sys.argv[1], read_only=True) as con:
                    ((found, _),) = con.execute(sys.argv[2]).fetchall()
            except duckdb.IOException as error:
                assert "does not exist" in str(error), error
                continue
            assert found >= seen, "a later snapshot has more"
            seen = found
            time.sleep(0.02)
        print(seen)
        """,
        path,
        ALL,
    )
    for number in range(20):
        store.accept(batch(*(span(f"{number}-{n}", attributes={"x": "y" * 10_000}) for n in range(10))))

    assert "200" == reader.communicate(timeout=60)[0].strip()
    assert 0 == reader.returncode


@pytest.mark.skipif(
    shutil.which("duckdb") is None, reason="the DuckDB command line (package duckdb-cli) reads the file"
)
def test_the_duckdb_command_line_reads_a_snapshot(quick: Store) -> None:
    quick.accept(batch(span("one")))
    path = quick.snapshots.latest(fresh=True).path

    ran = subprocess.run(
        ["duckdb", "-readonly", "-csv", "-noheader", path, COUNT], capture_output=True, text=True, check=True
    )

    assert "1" == ran.stdout.strip()
