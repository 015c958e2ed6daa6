"""A checkpoint that was cut off at any byte is undone: the file opens, and holds every commit."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from otel_agentic.store.durability import UndoFile, restore, undo_path
from otel_agentic.testing import batch, span
from tests.store.store_queries import rows, run_python

if TYPE_CHECKING:
    from otel_agentic.store import Store
    from tests.store.conftest import OpenStore

HEADERS, BLOCK = 3 * 4096, 262_144
STORED = "SELECT name, dialect, count(*), sum(hash(attributes::VARCHAR)) FROM spans GROUP BY ALL ORDER BY ALL"


class Checkpointed:
    """A store's file and log before a checkpoint, its undo file, and the file after it."""

    def __init__(self, store: Store, folder: Path) -> None:
        folder.mkdir()
        self.wal = store.path.with_name(f"{store.path.name}.wal").read_bytes()
        self.before = store.path.read_bytes()
        self._undo = folder / "kept"
        undo = store._undo
        store.write(lambda _: None)

        def checkpoint() -> None:
            undo.save(store._writer._con)
            shutil.copy(undo_path(store.path), self._undo)
            store._writer._con.execute("CHECKPOINT")
            undo.discard()

        checkpoint()
        self.after = store.path.read_bytes()
        self.expected = rows(store, STORED)

    def torn(self, draw: random.Random, db: Path) -> None:
        """Write the file as a kill leaves it: some of the blocks, or parts of them, are those of the checkpoint."""
        content = bytearray(self.before.ljust(len(self.after), b"\0"))
        for start in range(HEADERS, len(self.after), BLOCK):
            size = draw.choice([0, draw.randrange(0, BLOCK, 4096), BLOCK])
            content[start : start + size] = self.after[start : start + size]
        db.write_bytes(content)
        db.with_name(f"{db.name}.wal").write_bytes(self.wal)
        shutil.copy(self._undo, undo_path(db))


def churn(store: Store, round_: int) -> None:
    """Change the store as a collector does: new spans, updates, deletions."""
    for part in range(3):
        name = f"{round_}-{part}"
        store.accept(
            batch(*(span(name, span_id=f"{name}-{n}", attributes={"x": os.urandom(300).hex()}) for n in range(40)))
        )
    store.write(lambda con: con.execute("UPDATE spans SET dialect = 'changed' WHERE rowid % 7 = ?", [round_ % 7]))
    store.write(lambda con: con.execute("DELETE FROM spans WHERE name = ?", [f"{round_ - 3}-1"]))


def images(store: Store, tmp_path: Path, rounds: int) -> list[Checkpointed]:
    images_of_rounds = []
    for round_ in range(rounds):
        churn(store, round_)
        images_of_rounds.append(Checkpointed(store, tmp_path / f"round-{round_}"))
    return images_of_rounds


def test_a_checkpoint_cut_off_anywhere_is_taken_back_and_no_commit_is_lost(
    store: Store, open_store: OpenStore, tmp_path: Path
) -> None:
    draw = random.Random(6)  # noqa: S311 — places to cut, no secrets
    for number, image in enumerate(images(store, tmp_path, 3)):
        for cut in range(2):
            db = tmp_path / f"torn-{number}-{cut}.duckdb"
            image.torn(draw, db)
            with open_store(db=db) as again:
                assert image.expected == rows(again, STORED)
            assert not undo_path(db).exists()


def test_without_the_undo_file_duckdb_cannot_open_what_a_cut_left(store: Store, tmp_path: Path) -> None:
    # Why all this is there. Should this fail one day, DuckDB has learnt to do without, and the undo file may go.
    draw = random.Random(6)  # noqa: S311 — places to cut, no secrets
    damaged = 0
    for number, image in enumerate(images(store, tmp_path, 5)):
        for cut in range(2):
            db = tmp_path / f"torn-{number}-{cut}.duckdb"
            image.torn(draw, db)
            try:
                duckdb.connect(str(db)).close()
            except duckdb.Error:
                damaged += 1

    assert damaged


def test_the_undo_file_of_a_finished_checkpoint_is_thrown_away(
    store: Store, open_store: OpenStore, tmp_path: Path
) -> None:
    (image,) = images(store, tmp_path, 1)
    db = tmp_path / "done.duckdb"
    image.torn(random.Random(0), db)  # noqa: S311 — for its undo file
    db.write_bytes(image.after)
    db.with_name(f"{db.name}.wal").unlink()

    assert not restore(db)
    assert image.after == db.read_bytes()
    assert image.expected == rows(open_store(db=db), STORED)


@pytest.mark.parametrize("content", [b"", b"otel-agentic undo 2\n", b"x" * 100], ids=["empty", "begun", "foreign"])
def test_an_undo_file_that_is_not_whole_belongs_to_a_checkpoint_that_was_not_begun(
    store: Store, open_store: OpenStore, content: bytes
) -> None:
    store.accept(batch(span("a")))
    store.close()
    undo_path(store.path).write_bytes(content)
    before = store.path.read_bytes()

    assert not restore(store.path)
    assert before == store.path.read_bytes()
    assert [("a",)] == rows(open_store(), "SELECT name FROM spans")


def test_a_file_that_another_process_holds_is_left_alone(store: Store, db: Path, tmp_path: Path) -> None:
    (image,) = images(store, tmp_path, 1)
    store.close()
    held = tmp_path / "held.duckdb"
    shutil.copy(db, held)
    with run_python("import sys, duckdb\nc = duckdb.connect(sys.argv[1])\nprint('held')\ninput()", held) as process:
        assert process.stdout is not None
        assert "held" == process.stdout.readline().strip()
        undo_path(held).write_bytes((tmp_path / "round-0" / "kept").read_bytes())
        before = held.read_bytes()

        assert not restore(held)
        assert before == held.read_bytes()
        assert undo_path(held).exists()
        process.communicate("\n")
    assert image.after


def test_reading_the_undo_copy_keeps_the_lock_on_the_file(store: Store, db: Path) -> None:
    store.accept(batch(span("a")))
    store._undo.save(store._writer._con)
    store._undo.discard()

    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)",
            db,
        ],
        capture_output=True,
        check=False,
    )
    assert b"BlockingIOError" in done.stderr
    assert isinstance(store._undo, UndoFile)
