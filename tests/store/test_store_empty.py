"""New stores are copies of an empty one in the user's cache, and are the same without a usable cache."""

from __future__ import annotations

import gzip
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

from otel_agentic.config import StoreSettings
from otel_agentic.engine.engine import Engine
from otel_agentic.store.maintenance import empty_store
from otel_agentic.store.maintenance.empty_store import place_empty_store
from otel_agentic.store.maintenance.migrations import all_migrations
from tests.stores import settings_for

_CATALOG = (
    "SELECT table_name, column_name, data_type, comment FROM duckdb_columns() WHERE NOT internal ORDER BY ALL",
    "SELECT view_name, sql, comment FROM duckdb_views() WHERE NOT internal ORDER BY ALL",
    "SELECT table_name, comment FROM duckdb_tables() ORDER BY ALL",
    "SELECT name, checksum FROM schema_migrations ORDER BY ALL",
    "SELECT table_name, constraint_type, constraint_text FROM duckdb_constraints() ORDER BY ALL",
    "SELECT table_name, column_name, column_default, is_nullable FROM duckdb_columns() WHERE NOT internal ORDER BY ALL",
    "SELECT function_name, macro_definition FROM duckdb_functions() WHERE NOT internal ORDER BY ALL",
    "SELECT (SELECT count(*) FROM duckdb_indexes()), (SELECT count(*) FROM duckdb_sequences())",
    "SELECT tags FROM duckdb_databases() WHERE NOT internal",
)


# Bound when the module is collected; fixtures of the run replace the function later.
_COPIED = empty_store._copied


@pytest.fixture(autouse=True)
def _copies_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Create stores as users do, not as copies of bytes like those of the other tests."""
    monkeypatch.setattr(empty_store, "_copied", _COPIED)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "otel-agentic"


def placed_at(file: Path) -> bool:
    return place_empty_store(file, StoreSettings(db=file))


def catalog(file: Path) -> list[object]:
    with duckdb.connect(str(file), read_only=True) as con:
        return [con.execute(query).fetchall() for query in _CATALOG]


@pytest.mark.usefixtures("cache")
def test_a_copy_has_the_schema_and_the_comments_of_a_store_without_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Engine(settings_for(tmp_path / "copy.duckdb"), create=True).close()
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    assert not placed_at(tmp_path / "not.duckdb")
    Engine(settings_for(tmp_path / "own.duckdb"), create=True).close()

    assert catalog(tmp_path / "own.duckdb") == catalog(tmp_path / "copy.duckdb")


@pytest.mark.usefixtures("cache")
def test_a_copy_does_not_accept_the_log_of_another_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert placed_at(tmp_path / f"{name}.duckdb")
    con = duckdb.connect(str(tmp_path / "a.duckdb"))
    con.execute("PRAGMA disable_checkpoint_on_shutdown")
    con.execute("CREATE TABLE foreign_rows (n INTEGER)")
    con.close()
    (tmp_path / "a.duckdb.wal").replace(tmp_path / "b.duckdb.wal")

    with pytest.raises(duckdb.Error, match="WAL"):
        duckdb.connect(str(tmp_path / "b.duckdb"))


def test_processes_that_race_leave_one_file_and_never_replace_a_store(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "a.duckdb"
    with ThreadPoolExecutor(4) as pool:
        placed = [*pool.map(placed_at, [file] * 4)]

    assert (1, 1) == (placed.count(True), len([*cache.iterdir()]))
    assert {"a.duckdb", "cache"} == {path.name for path in tmp_path.iterdir()}
    before = file.stat()
    assert not placed_at(file)
    assert before == file.stat()


@pytest.mark.parametrize(
    "damage", [*(pytest.param(other, marks=pytest.mark.slow) for other in (b"", b"no gzip")), None]
)
def test_a_damaged_file_in_the_cache_is_replaced(cache: Path, tmp_path: Path, damage: bytes | None) -> None:
    placed_at(tmp_path / "a.duckdb")
    (cached,) = cache.iterdir()
    content = cached.read_bytes()
    cached.write_bytes(content[: len(content) // 2] if damage is None else damage)

    assert placed_at(tmp_path / "b.duckdb")

    assert catalog(tmp_path / "a.duckdb") == catalog(tmp_path / "b.duckdb")
    assert placed_at(tmp_path / "c.duckdb")
    assert gzip.decompress(cached.read_bytes())


def test_each_schema_has_a_file_of_its_own(cache: Path, tmp_path: Path) -> None:
    (base, *_) = all_migrations()
    placed_at(tmp_path / "a.duckdb")
    other = type(base)(
        name=base.name, sql=f"{base.sql}\n-- One row is a thing.\nCREATE TABLE things (\n    a INTEGER\n);\n"
    )

    place_empty_store(tmp_path / "b.duckdb", StoreSettings(), [other])

    assert 2 == len([*cache.iterdir()])
    assert catalog(tmp_path / "a.duckdb") != catalog(tmp_path / "b.duckdb")


def test_a_new_store_has_the_permissions_that_the_mask_leaves(cache: Path, tmp_path: Path) -> None:
    placed_at(tmp_path / "a.duckdb")
    duckdb.connect(str(tmp_path / "b.duckdb")).close()

    assert (tmp_path / "b.duckdb").stat().st_mode == (tmp_path / "a.duckdb").stat().st_mode
    assert {0o600} == {file.stat().st_mode & 0o777 for file in cache.iterdir()}
