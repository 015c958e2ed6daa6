"""A damaged log is reported and kept; the torn end that a kill leaves is not taken for damage."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb
import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import StoreUnusableError
from otel_agentic.store.durability import examine, keep_damaged_log, log_path
from otel_agentic.testing import batch, span
from tests.snapshots import passage
from tests.store.store_queries import run_python, value

if TYPE_CHECKING:
    from otel_agentic.store import Store
    from tests.store.conftest import OpenStore

COUNT: Final = "SELECT count(*) FROM spans"
BATCHES: Final = 6
_OPTIONS: Final = {"storage_compatibility_version": "v1.4.0"}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DuckDB file with a log of four transactions, the first of which makes the table."""
    db = tmp_path_factory.mktemp("plain") / "t.duckdb"
    with duckdb.connect(str(db), config=dict(_OPTIONS)) as con:
        con.execute("SET checkpoint_threshold = '1TB'")
        con.execute("PRAGMA disable_checkpoint_on_shutdown")
        con.execute("CREATE TABLE t (a INTEGER, b VARCHAR)")
        for _ in range(3):
            con.execute("INSERT INTO t SELECT range, 'x' || range FROM range(5)")
    return db


def rows_after(plain: Path, log: bytes, folder: Path) -> int | None:
    """Return how many rows DuckDB finds with another log, or None if it refuses the log."""
    db = folder / "u.duckdb"
    db.write_bytes(plain.read_bytes())
    log_path(db).write_bytes(log)
    try:
        with duckdb.connect(str(db), config=dict(_OPTIONS)) as con:
            con.execute("PRAGMA disable_checkpoint_on_shutdown")
            return int(con.execute("SELECT count(*) FROM t").fetchall()[0][0])
    except duckdb.CatalogException:
        return 0
    except duckdb.Error:
        return None


def changed(log: bytes, position: int, mask: int) -> bytes:
    return log[:position] + bytes([log[position] ^ mask]) + log[position + 1 :]


@pytest.mark.parametrize("mask", [0x01, 0x55, 0x80])
def test_duckdb_refuses_or_we_detect_a_log_with_any_changed_byte(plain: Path, tmp_path: Path, mask: int) -> None:
    log = log_path(plain).read_bytes()
    unseen = []
    for position in range(len(log)):
        state = examine(changed(log, position, mask))
        if state is None or not state.damaged:
            unseen.append(position)
    # Two fields of the header: the format's version, and the database that the log belongs to.
    assert all(rows_after(plain, changed(log, position, mask), tmp_path) is None for position in unseen)
    assert len(unseen) < 40


def test_a_log_cut_off_anywhere_is_no_damage_and_is_replayed_as_duckdb_does(plain: Path, tmp_path: Path) -> None:
    log = log_path(plain).read_bytes()
    for size in range(len(log) + 1):
        state = examine(log[:size])
        assert state is not None
        assert not state.damaged
        if size % 160 == 0:
            remaining = rows_after(plain, log[: state.committed], tmp_path)
            assert remaining == rows_after(plain, log[:size], tmp_path)


@pytest.mark.parametrize(
    ("tail", "damaged"),
    [(b"", False), (b"\0" * 3, False), (b"\0" * 5000, False), (b"\x10" + b"\0" * 200, True)],
    ids=["intact", "few zeros", "zeros of a power loss", "an entry whose checksum is wrong"],
)
def test_what_stands_behind_the_last_commit(plain: Path, tail: bytes, damaged: bool) -> None:  # noqa: FBT001 — of the table
    log = log_path(plain).read_bytes()
    state = examine(log + tail)
    assert state is not None
    assert (len(log), damaged) == (state.committed, state.damaged)


def fill(store: Store) -> bytes:
    """Store spans in several transactions; return the log that a kill would leave."""
    for number in range(BATCHES):
        store.accept(batch(*(span(f"t{number}", span_id=f"{number}-{index}") for index in range(10))))
    return log_path(store.path).read_bytes()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.97])
def test_a_store_opens_without_what_is_damaged_keeps_the_log_and_says_so(
    store: Store, open_store: OpenStore, tmp_path: Path, caplog: pytest.LogCaptureFixture, share: float
) -> None:
    log = fill(store)
    file = store.path.read_bytes()
    states = (examine(changed(log, position, 0x55)) for position in range(int(share * len(log)), len(log)))
    position = next(offset for offset, state in enumerate(states, int(share * len(log))) if state and state.damaged)
    db = tmp_path / "damaged.duckdb"
    db.write_bytes(file)
    log_path(db).write_bytes(changed(log, position, 0x55))
    state = examine(log_path(db).read_bytes())
    assert state is not None

    with caplog.at_level(logging.WARNING), open_store(db=db) as reopened:
        remaining = value(reopened, COUNT) if state.committed else 0
        assert remaining % 10 == 0
        assert remaining < 10 * BATCHES
        reopened.accept(batch(span("next", span_id="next")))  # the store still accepts spans
        assert remaining + 1 == value(reopened, COUNT)

    (copy,) = tmp_path.glob("damaged.duckdb.wal.damaged-*")
    assert changed(log, position, 0x55) == copy.read_bytes()
    assert 0o600 == copy.stat().st_mode & 0o777
    (message,) = [record.getMessage() for record in caplog.records if "is damaged" in record.getMessage()]
    assert str(copy) in message
    assert f"{state.lost} of its {len(log)} bytes" in message
    assert "store restore" in message


def test_a_torn_end_is_opened_without_a_warning(
    store: Store, open_store: OpenStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, file = fill(store), store.path.read_bytes()
    db = tmp_path / "torn.duckdb"
    db.write_bytes(file)
    log_path(db).write_bytes(log[:-30])

    with caplog.at_level(logging.INFO), open_store(db=db) as reopened:
        assert 10 * (BATCHES - 1) == value(reopened, COUNT)
    assert [] == list(tmp_path.glob("*.damaged-*"))
    assert passage(caplog.text) == snapshot("no transaction that was acknowledged")
    assert [] == [record for record in caplog.records if record.levelno >= logging.WARNING]


HOLD: Final = "import sys, duckdb\ncon = duckdb.connect(sys.argv[1])\nprint('held')\nsys.stdin.read()"


def test_the_log_of_a_file_that_another_process_holds_is_left_alone(store: Store, tmp_path: Path) -> None:
    log, file = fill(store), store.path.read_bytes()
    db = tmp_path / "held.duckdb"
    db.write_bytes(file)
    with run_python(HOLD, db) as process:
        assert process.stdout is not None
        assert "held" == process.stdout.readline().strip()
        log_path(db).write_bytes(changed(log, len(log) // 2, 0x55))
        assert keep_damaged_log(db) is None
        assert len(log) == log_path(db).stat().st_size
        process.communicate()


@pytest.mark.parametrize("where", ["log", "file"])
def test_what_cannot_be_opened_says_what_to_do(store: Store, open_store: OpenStore, tmp_path: Path, where: str) -> None:
    log = fill(store)
    db = tmp_path / "refused.duckdb"
    db.write_bytes(store.path.read_bytes())
    if where == "log":
        other = examine(changed(log, 20, 0x01))
        assert other is not None
        assert not other.damaged
        log_path(db).write_bytes(changed(log, 20, 0x01))  # of the identity of the database that it belongs to
    else:
        store.close()
        content = bytearray(store.path.read_bytes())
        content[4096:12288] = os.urandom(8192)  # both headers
        db.write_bytes(content)

    with pytest.raises(StoreUnusableError, match="store restore"):
        open_store(db=db)
