"""What a process had read, and was killed before it built that, is built by the next one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_agentic.commands.ingest import rebuild_pending
from otel_agentic.live.assembler import Assembler
from otel_agentic.store.links import open_conversations
from tests.builders import revisions
from tests.engine.retention_engine import Clock, retaining_engine, store_talk, talk

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine


def killed_before_it_built(engine: Engine, hours: float) -> None:
    """Store and read a turn of the conversation `c`, and no more."""
    engine.store.accept(talk("c", hours))
    engine.rebuilder.read(engine.rebuilder.pending())


@pytest.mark.parametrize("is_late", [False, True], ids=["new", "late"])
def test_an_ingest_builds_what_a_killed_one_had_read(tmp_path: Path, *, is_late: bool) -> None:
    clock = Clock()
    with retaining_engine(tmp_path / "t.duckdb", clock) as engine:
        if is_late:
            store_talk(engine, "c", 0)
        clock.at(0.5)
        killed_before_it_built(engine, 0.4)
    with retaining_engine(tmp_path / "t.duckdb", clock) as engine:
        rebuild_pending(engine, lambda *_: None)

        assert ([("c", 1, True), ("c", 2, False)] if is_late else [("c", 1, False)]) == revisions(engine)
        assert not engine.rebuilder.unbuilt().keys


def test_a_collector_takes_up_a_closed_conversation_of_which_something_was_read(tmp_path: Path) -> None:
    clock = Clock()
    with retaining_engine(tmp_path / "t.duckdb", clock) as engine:
        store_talk(engine, "c", 0)
        clock.at(0.5)
        killed_before_it_built(engine, 0.4)
    with retaining_engine(tmp_path / "t.duckdb", clock) as engine:
        assembler = Assembler(engine, lambda _: None)
        with engine.store.read() as con:
            assert [("", "c")] == [open_conversation.key for open_conversation in open_conversations(con, clock())]
        assembler.start()
        assembler.stop()
        clock.at(1.5)
        assembler.tick()

        assert [("c", 1, True), ("c", 2, False)] == revisions(engine)


def test_an_ingest_leaves_conversations_open_that_a_collector_waits_for(tmp_path: Path) -> None:
    with retaining_engine(tmp_path / "t.duckdb", Clock()) as engine:
        engine.store.accept(talk("open", 0))
        engine.rebuilder.rebuild(engine.rebuilder.read(engine.rebuilder.pending()), lambda _: None)
        store_talk(engine, "other", 0.1)
        with engine.store.read() as con:
            assert [("", "open")] == [
                open_conversation.key for open_conversation in open_conversations(con, engine.clock())
            ]
