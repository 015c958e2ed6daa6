"""`otel-agentic store`: what people see, exit codes, and files out of a store and into it."""

from __future__ import annotations

import shutil
import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from inline_snapshot import snapshot

from otel_agentic.cli.store import receive_backup
from otel_agentic.commands import RemoteClient
from otel_agentic.errors import BackendError
from otel_agentic.results.store import BackupPiece
from otel_agentic.store.maintenance import migrations
from otel_agentic.store.maintenance.migrations import Migration
from tests.cli.running import done, run
from tests.live.running_collector import live_settings, running
from tests.snapshots import passage, raises

if TYPE_CHECKING:
    from tests.cli.conftest import Shop


@pytest.fixture
def db(shop: Shop, tmp_path: Path) -> Path:
    """A copy of the shop's store."""
    copy = tmp_path / "copy.duckdb"
    shutil.copy(shop.db, copy)
    return copy


def test_stats_tell_rows_bytes_and_ages(shop: Shop) -> None:
    result = done("store", "stats", "--db", shop.db, "--format", "json").json

    tables = {row["table"]: row for row in result["tables"]}
    assert (4, 0) == (result["conversations"]["closed"], result["conversations"]["open"])
    assert 4 == tables["conversations"]["rows"]
    assert tables["spans"]["bytes"] > 0
    assert tables["spans"]["oldest"] <= tables["spans"]["newest"]
    assert shop.db.stat().st_size == result["file_bytes"]
    assert {"keep": None, "spans_removed": 0} == {name: result["retention"][name] for name in ("keep", "spans_removed")}
    assert (False, 0) == (result["export"]["on"], result["export"]["written"])


def test_stats_for_people_name_what_is_there(shop: Shop) -> None:
    output = done("store", "stats", "--db", shop.db).out

    assert "4 conversations closed, 0 open" in output
    assert "all data is kept" in output
    assert "conversations        " in output
    assert "backfills" not in output  # it is empty


def test_a_vacuum_removes_what_is_old_and_gives_room_back(db: Path) -> None:
    dry = done("store", "vacuum", "--db", db, "--keep", "1h", "--dry-run", "--format", "json").json
    before = db.stat().st_size
    assert 4 == dry["removed"]["conversations"]
    assert 4 == len(done("conversations", "list", "--db", db, "--format", "json").json)

    output = done("store", "vacuum", "--db", db, "--keep", "1h").out

    assert passage(output) == snapshot("removed data older than 1h: 4 conversations")
    assert [] == done("conversations", "list", "--db", db, "--format", "json").json
    assert db.stat().st_size < before
    assert "file: " in output


def test_a_vacuum_without_an_age_only_rewrites_the_file(db: Path) -> None:
    output = done("store", "vacuum", "--db", db).out

    assert passage(output) == snapshot("all data is kept (neither --keep nor retention.keep is given)")
    assert 4 == len(done("conversations", "list", "--db", db, "--format", "json").json)


def test_an_age_that_cannot_be_read_is_a_usage_error(db: Path) -> None:
    ran = run("store", "vacuum", "--db", db, "--keep", "long")

    assert 2 == ran.code
    assert "'long'" in ran.err


def test_a_store_goes_out_and_in_again(db: Path, tmp_path: Path) -> None:
    out = done("store", "export", tmp_path / "out", "--db", db, "--format", "json").json
    result = done("store", "import", tmp_path / "out", "--db", tmp_path / "new.duckdb", "--format", "json").json

    assert out["tables"] == {table: count["new"] for table, count in result["tables"].items()}
    report = [
        done("report", "--db", item, "-k", "1", "--format", "json").json["groups"]
        for item in (db, tmp_path / "new.duckdb")
    ]
    assert report[0] == report[1]
    assert [] == [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]
    with duckdb.connect() as con:
        assert [(4,)] == con.execute(f"SELECT count(*) FROM '{tmp_path}/out/conversations/**/*.parquet'").fetchall()  # noqa: S608 — a folder of the test


def test_what_people_read_of_an_export_and_an_import(db: Path, tmp_path: Path) -> None:
    wrote = done("store", "export", tmp_path / "out", "--db", db).out
    read = done("store", "import", tmp_path / "out", "--db", tmp_path / "new.duckdb").out

    assert wrote.startswith("wrote ")
    assert f"into {tmp_path / 'out'}" in wrote
    assert read.startswith("read ")
    assert passage(read) == snapshot("0 traces to be rebuilt")


def test_an_export_into_a_folder_that_holds_something_is_refused(db: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()

    ran = run("store", "export", tmp_path / "mine", "--db", db)

    assert (2, True) == (ran.code, "not empty" in ran.err)


def test_an_import_of_what_is_no_export_is_bad_input_and_makes_no_store(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder, message in (("nowhere", "no such folder"), ("empty", "no export files")):
        ran = run("store", "import", tmp_path / folder, "--db", tmp_path / "new.duckdb")
        assert (3, True) == (ran.code, message in ran.err)
    assert not (tmp_path / "new.duckdb").exists()


def test_a_running_collector_is_asked_and_writes_nowhere_but_here(db: Path, tmp_path: Path) -> None:
    with running(live_settings(db)) as (_, server):
        stats = done("store", "stats", "--server", server.admin, "--format", "json").json
        out = done("store", "export", tmp_path / "out", "--db", db, "--format", "json").json
        again = done("store", "import", tmp_path / "out", "--server", server.admin, "--format", "json").json
        vacuum = done("store", "vacuum", "--db", db).out

        assert 4 == stats["conversations"]["closed"]
        assert 4 == out["tables"]["conversations"]
        assert {0} == {count["new"] for count in again["tables"].values()}
        assert passage(vacuum) == snapshot("a collector holds the file: it keeps its size")
        assert not db.with_name(f"{db.name}.export").exists()


def test_a_folder_that_cannot_be_written_is_named(db: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    ran = run("store", "export", tmp_path / "file" / "out", "--db", db)

    assert ran.code in {2, 3}
    assert str(tmp_path / "file") in ran.err


@pytest.fixture
def later_release(monkeypatch: pytest.MonkeyPatch) -> Migration:
    """Have this installation be a release with one more migration."""
    later = Migration(name="0001_later.sql", sql="ALTER TABLE spans ADD COLUMN later INTEGER;")
    known = [*migrations.all_migrations(), later]
    monkeypatch.setattr(migrations, "all_migrations", lambda: known)
    return later


@pytest.mark.parametrize(
    "command",
    [
        ("report",),
        ("conversations", "list"),
        ("tools", "failing"),
        ("gate", "--min-success", "0"),
        ("store", "stats"),
        ("evaluate",),
    ],
    ids=lambda command: " ".join(command[:2]),
)
@pytest.mark.usefixtures("later_release")
def test_commands_on_an_older_store_ask_for_an_upgrade_and_change_nothing(db: Path, command: tuple[str, ...]) -> None:
    before = db.read_bytes()
    ran = run(*command, "--db", db)
    assert 4 == ran.code
    assert passage(ran.err, db=db) == snapshot("otel-agentic store upgrade --db <db>")
    assert before == db.read_bytes()
    assert [] == list(db.parent.glob("*before*"))


@pytest.mark.parametrize("how", ["upgrade", "ingest", "serve"])
def test_what_writes_upgrades_an_older_store_and_names_the_copy(
    db: Path, shop: Shop, later_release: Migration, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    copy = db.with_name("copy.before-0001.duckdb")
    if how == "upgrade":
        result = done("store", "upgrade", "--db", db, "--format", "json").json
        assert {"db": str(db), "applied": [later_release.name], "copy": str(copy)} == result
        assert "up to date" in done("store", "upgrade", "--db", db).out
    elif how == "ingest":
        done("ingest", shop.spans, "--db", db)
    else:
        with running(live_settings(db)):
            pass
    assert str(copy) in caplog.text
    assert shop.db.stat().st_size == copy.stat().st_size
    assert 4 == len(done("conversations", "list", "--db", db, "--format", "json").json)


def test_a_backup_is_written_and_put_back(db: Path, tmp_path: Path) -> None:
    copy, other = tmp_path / "b.duckdb", tmp_path / "other.duckdb"
    result = done("store", "backup", copy, "--db", db, "--format", "json").json
    assert (str(copy), copy.stat().st_size) == (result["file"], result["bytes"])
    assert 4 == result["tables"]["conversations"]
    assert sha256(copy.read_bytes()).hexdigest() == result["sha256"]
    assert 0o600 == copy.stat().st_mode & 0o777

    assert "4 conversations" in done("store", "restore", copy, "--db", other).out
    assert done("report", "--db", db, "--format", "json").out == done("report", "--db", other, "--format", "json").out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("backup", "copy.duckdb", "--db", "copy.duckdb", "--force"), 2, "is the store itself"),
        (("backup", "there", "--db", "copy.duckdb"), 2, "there already exists; give --force"),
        (("backup", "nowhere/b", "--db", "copy.duckdb"), 3, "nowhere/b: cannot be written"),
        (("restore", "there", "--db", "new.duckdb"), 4, "there is not a DuckDB file"),
        (("restore", "nothing", "--db", "new.duckdb"), 4, "nothing: no such backup"),
        (("restore", "copy.duckdb", "--db", "copy.duckdb", "--force"), 4, "is the store itself"),
    ],
)
def test_a_backup_or_restore_that_cannot_be_changes_nothing(
    db: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    (tmp_path / "there").write_text("mine")
    before = db.read_bytes()
    ran = run("store", *arguments)
    assert code == ran.code
    assert message in ran.err
    assert {"there", "copy.duckdb"} == {path.name for path in tmp_path.iterdir()} - {"copy.duckdb.key"}
    assert ("mine", before) == ((tmp_path / "there").read_text(), db.read_bytes())


def test_a_collector_sends_its_backup_only_to_an_admin(db: Path, tmp_path: Path) -> None:
    settings = live_settings(db, admin={"address": "127.0.0.1:0", "token": "a" * 20, "query_token": "q" * 20})
    copy = tmp_path / "b.duckdb"
    with running(settings) as (_, server), pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_AGENTIC_ADMIN__TOKEN", "q" * 20)
        refused = run("store", "backup", copy, "--server", server.admin)
        assert (2, False) == (refused.code, copy.exists())
        patch.setenv("OTEL_AGENTIC_ADMIN__TOKEN", "a" * 20)
        done("store", "backup", copy, "--server", server.admin)
        held = run("store", "restore", copy, "--db", db, "--force")
        assert (4, True) == (held.code, "collector" in held.err)
    assert 4 == len(done("conversations", "list", "--db", copy, "--format", "json").json)


def test_a_backup_that_is_left_in_the_middle_makes_way_for_the_next(db: Path, tmp_path: Path) -> None:
    with running(live_settings(db)) as (_, server):
        pieces = RemoteClient(server.admin, None).stream("store_backup")
        next(pieces)
        del pieces
        deadline = time.monotonic() + 20
        while run("store", "backup", tmp_path / "b.duckdb", "--db", db).code:
            assert time.monotonic() < deadline
    assert [] == list(tmp_path.glob(".*"))


def test_pieces_that_do_not_come_whole_leave_the_backup_before(tmp_path: Path) -> None:
    target = tmp_path / "b.duckdb"
    target.write_text("before")
    pieces = [BackupPiece(data="aGFsZg==", done=4, total=8), BackupPiece(sha256="of the whole", done=8, total=8)]
    with raises(BackendError, snapshot("was received incompletely")):
        receive_backup(target, pieces, lambda *_: None)
    assert "before" == target.read_text()
    assert [target] == list(tmp_path.iterdir())
