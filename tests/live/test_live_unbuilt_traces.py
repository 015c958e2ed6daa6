"""What a process had read, and was killed before it built that, is built by the next one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_agentic.commands.ingest import rebuild_pending
from otel_agentic.engine.rebuild import AffectedItems
from otel_agentic.live.assembler import Assembler
from otel_agentic.store.links import open_conversations
from otel_agentic.testing import batch, span
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


def open_ids(engine: Engine) -> list[str]:
    """Return the ids of the conversations that a new collector takes as open."""
    with engine.store.read() as con:
        return sorted(conversation.key[1] for conversation in open_conversations(con, engine.clock()))


def test_turns_read_at_different_times_are_built_together_and_later_spans_are_late(tmp_path: Path) -> None:
    clock = Clock()
    with retaining_engine(tmp_path / "t.duckdb", clock) as engine:
        rebuilder, touched = engine.rebuilder, AffectedItems(keys=frozenset(), loose_traces=frozenset())
        for hours, name in ((0, "a"), (1, "b"), (2, "a")):
            clock.at(hours)
            engine.store.accept(talk(name, hours))
            touched |= rebuilder.read(rebuilder.pending())
        assert open_ids(engine) == ["a", "b"]
        clock.at(3)
        rebuilder.rebuild(touched, lambda _: "idle")
        assert open_ids(engine) == []

        assert store_talk(engine, "a", 4).late_spans == len(talk("a", 4).spans)
        assert open_ids(engine) == []


def test_a_late_span_that_changes_nothing_leaves_its_conversation_closed(tmp_path: Path) -> None:
    clock = Clock()
    first = talk("c").spans[0]
    with retaining_engine(tmp_path / "t.duckdb", clock) as engine:
        store_talk(engine, "c")
        clock.at(0.5)
        engine.store.accept(batch(span("GET /", parent=first, start_ns=first.start_ns, end_ns=first.end_ns)))
        touched = engine.rebuilder.read(engine.rebuilder.pending())
        assert open_ids(engine) == ["c"]  # the span may change it
        assert engine.rebuilder.rebuild(touched, lambda _: None).saved == ()

    with retaining_engine(tmp_path / "t.duckdb", clock) as engine:
        assert open_ids(engine) == []
        assert revisions(engine) == [("c", 1, False)]
