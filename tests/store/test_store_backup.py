"""Copies of an open file, backups and the way back: complete, verified, or refused."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb
import pytest

from otel_agentic.errors import OtelAgenticError, OverloadedError, StoreBusyError, StoreUnusableError
from otel_agentic.store import durability as clone
from otel_agentic.store.durability import clone_file, log_path, replacing, undo_path
from otel_agentic.store.maintenance.backup import restore_backup, verify
from otel_agentic.testing import batch, span
from tests.store.store_queries import rows, run_python, value

if TYPE_CHECKING:
    from otel_agentic.store import Store
    from tests.store.conftest import OpenStore

COUNT: Final = "SELECT count(*) FROM spans"
MB: Final = 1_000_000


def fill(store: Store, first: int, count: int, size: int = 500) -> None:
    """Store spans whose names are numbers, each in a commit of its own; `size` bytes of each cannot be made smaller."""
    for number in range(first, first + count):
        store.accept(batch(span(f"{number}", span_id=f"{number}", attributes={"x": os.urandom(size // 2).hex()})))


def save_backup(store: Store, target: Path) -> Path:
    with store.backup() as file, target.open("wb") as out:
        shutil.copyfileobj(file, out)
    return target


def test_a_backup_is_one_file_with_everything_that_was_acknowledged(store: Store, tmp_path: Path) -> None:
    fill(store, 0, 30)
    backup = save_backup(store, tmp_path / "b.duckdb")
    fill(store, 30, 5)

    assert (30, ()) == (verify(backup).rows["spans"], verify(backup).pending)
    assert 35 == value(store, COUNT)
    assert [] == list(tmp_path.glob(".*backup*"))


@pytest.mark.parametrize("reflinks", [True, False])
def test_a_checkpoint_waits_for_the_copy_and_commits_do_not(
    open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reflinks: bool
) -> None:
    store = open_store(checkpoint_threshold_mb=1)
    monkeypatch.setattr(clone, "_LEAVE_FREE_BYTES", 0)
    if not reflinks:
        monkeypatch.setattr(clone, "reflink", lambda *_: False)
    fill(store, 0, 3)
    with store._writer.holding_checkpoints() as is_held:
        before = store.path.read_bytes()
        fill(store, 3, 20, size=100_000)  # more than the threshold
        assert log_path(store.path).stat().st_size > MB
        assert is_held()
        assert before == store.path.read_bytes()
        copy = tmp_path / "held.duckdb"
        copy.write_bytes(before)
    assert 3 == verify(copy).rows["spans"]
    fill(store, 23, 2)  # the first commit after it makes the checkpoint that was due
    assert log_path(store.path).stat().st_size < MB
    assert 25 == verify(save_backup(store, tmp_path / "b.duckdb")).rows["spans"]


def test_what_changes_the_file_while_it_is_copied_has_it_copied_again(store: Store, tmp_path: Path) -> None:
    fill(store, 0, 5)
    copied: list[int] = []
    real = clone.clone_open_file

    def interfering(source: int, target: Path, go_on: Callable[[], bool]) -> bool:
        copied.append(len(copied))
        if len(copied) == 1:
            fill(store, 5, 1)
            store.write(lambda _: store._writer._merge_log())  # as if the log had been removed
        return real(source, target, go_on)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("otel_agentic.store.maintenance.backup.clone_open_file", interfering)
        backup = save_backup(store, tmp_path / "b.duckdb")
    assert [0, 1] == copied
    assert 6 == verify(backup).rows["spans"]


def test_two_backups_at_once_are_refused_and_the_next_one_is_not(store: Store, tmp_path: Path) -> None:
    with store.backup(), pytest.raises(OverloadedError, match="another backup"), store.backup():
        pass
    save_backup(store, tmp_path / "b.duckdb")


def test_a_store_that_is_closed_gives_its_backup_up(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clone, "reflink", lambda *_: False)
    monkeypatch.setattr(clone, "_COPY_BYTES", 4096)
    real = clone.clone_open_file

    def closing(source: int, target: Path, go_on: Callable[[], bool]) -> bool:
        store._closed.set()  # as `close` does first
        return real(source, target, go_on)

    monkeypatch.setattr("otel_agentic.store.maintenance.backup.clone_open_file", closing)
    with pytest.raises(StoreUnusableError, match="is closing"):
        save_backup(store, tmp_path / "b.duckdb")
    store._closed.clear()
    assert [] == list(tmp_path.glob(".*backup*"))


def test_without_room_for_a_copy_the_store_goes_on(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clone, "_LEAVE_FREE_BYTES", 2**62)
    monkeypatch.setattr(clone, "reflink", lambda *_: False)
    with pytest.raises(StoreUnusableError, match=r"t\.duckdb"):
        save_backup(store, tmp_path / "b.duckdb")
    fill(store, 0, 1)
    assert 1 == value(store, COUNT)
    assert [] == list(tmp_path.glob(".*backup*"))


def test_what_a_killed_backup_left_is_removed_at_the_next_opening(store: Store, open_store: OpenStore) -> None:
    store.close()
    left = store.path.with_name(f".{store.path.name}.backup-abc")
    left.mkdir()
    (left / "t.duckdb").write_bytes(b"half")
    open_store()
    assert not left.exists()


def test_a_backup_comes_back_in_the_place_of_a_store(store: Store, open_store: OpenStore, tmp_path: Path) -> None:
    fill(store, 0, 3)
    backup = save_backup(store, tmp_path / "b.duckdb")
    fill(store, 3, 4)
    log, file = log_path(store.path).read_bytes(), store.path.read_bytes()
    store.close()
    store.path.write_bytes(file)  # as a kill leaves it: the log fits the file, and would fit the backup
    log_path(store.path).write_bytes(log)
    undo_path(store.path).write_bytes(b"old")

    with pytest.raises(StoreUnusableError, match="--force"):
        restore_backup(backup, store.path, overwrite=False)
    assert 3 == restore_backup(backup, store.path, overwrite=True).rows["spans"]

    assert 0o600 == store.path.stat().st_mode & 0o777
    assert {"t.duckdb", "b.duckdb"} == {path.name for path in tmp_path.iterdir() if path.is_file()} - {"t.duckdb.key"}
    with open_store() as again:
        assert [(f"{number}",) for number in range(3)] == rows(again, "SELECT name FROM spans ORDER BY ALL")


def torn(path: Path, _: Path) -> Path:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


def foreign(_: Path, folder: Path) -> Path:
    duckdb.connect(str(folder / "f.duckdb")).close()
    return folder / "f.duckdb"


def with_a_log(path: Path, _: Path) -> Path:
    log_path(path).write_bytes(b"x")
    return path


def absent(_: Path, folder: Path) -> Path:
    return folder / "nowhere.duckdb"


def no_database(_: Path, folder: Path) -> Path:
    (folder / "n.duckdb").write_text("no database")
    return folder / "n.duckdb"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (torn, "b.duckdb"),
        (foreign, "no store of otel-agentic"),
        (with_a_log, "in use, not a backup"),
        (absent, "no such backup"),
        (no_database, "not a DuckDB file"),
    ],
)
def test_what_is_no_backup_replaces_nothing(
    store: Store, tmp_path: Path, spoil: Callable[[Path, Path], Path], message: str
) -> None:
    fill(store, 0, 3)
    backup = spoil(save_backup(store, tmp_path / "b.duckdb"), tmp_path)
    store.close()
    before = store.path.read_bytes()
    with pytest.raises(OtelAgenticError, match=message):
        restore_backup(backup, store.path, overwrite=True)
    assert before == store.path.read_bytes()


HOLD: Final = "import sys, duckdb\ncon = duckdb.connect(sys.argv[1])\nprint('held')\nsys.stdin.read()"


def test_a_store_that_a_process_holds_is_not_replaced(store: Store, tmp_path: Path) -> None:
    backup = save_backup(store, tmp_path / "b.duckdb")
    store.close()
    before = store.path.read_bytes()
    with run_python(HOLD, store.path) as process:
        assert process.stdout is not None
        assert "held" == process.stdout.readline().strip()
        with pytest.raises(StoreBusyError, match="stop the collector"):
            restore_backup(backup, store.path, overwrite=True)
        process.communicate()
    assert before == store.path.read_bytes()


@pytest.mark.parametrize("reflinks", [True, False])
def test_a_clone_is_equal_private_and_atomic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, reflinks: bool
) -> None:
    if not reflinks:
        monkeypatch.setattr(clone, "reflink", lambda *_: False)
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_bytes(b"0123456789" * 1_000_000)
    target.write_text("before")

    shared = clone_file(source, target)

    assert reflinks or not shared

    assert source.read_bytes() == target.read_bytes()
    assert 0o600 == target.stat().st_mode & 0o777
    with pytest.raises(TypeError), replacing(target) as file:
        file.write(b"half" * 1_000_000 + "no bytes")  # type: ignore[operator]
    assert source.read_bytes() == target.read_bytes()
    assert {source, target} == set(tmp_path.iterdir())


def test_backups_of_a_store_that_is_written_to_hold_whole_commits_in_order(
    open_store: OpenStore, tmp_path: Path
) -> None:
    store = open_store(checkpoint_threshold_mb=1)
    stop, stored = threading.Event(), [0]

    def write() -> None:
        while not stop.is_set():
            fill(store, stored[0], 1)
            stored[0] += 1

    writing = threading.Thread(target=write)
    writing.start()
    try:
        for number in range(4):
            acknowledged = stored[0]
            backup = save_backup(store, tmp_path / f"b{number}.duckdb")
            with duckdb.connect(str(backup), read_only=True) as con:
                ids = {int(name) for (name,) in con.execute("SELECT name FROM spans").fetchall()}
            assert ids == set(range(len(ids)))
            assert acknowledged <= len(ids)
    finally:
        stop.set()
        writing.join()
    assert stored[0] == value(store, COUNT)
