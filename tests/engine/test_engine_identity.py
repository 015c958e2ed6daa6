"""Conversations that share an id, in a store: a running collector, restarts, worker processes, retention, and names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.commands import Commands
from otel_agentic.commands.ingest import rebuild_pending
from otel_agentic.engine.engine import Engine, rebuilder_over
from otel_agentic.engine.retention import RetentionPass
from otel_agentic.engine.workers import WorkerPool
from otel_agentic.errors import BadInputError, CaseError
from otel_agentic.live.assembler import Assembler
from otel_agentic.store import links
from otel_agentic.store.conversations import conversations_named
from otel_agentic.testing import NOON_NS, SECOND_NS, batch, link_to, span
from tests.builders import contents, feed, revisions, rows
from tests.engine.retention_engine import HOUR_NS, Clock, retaining_engine
from tests.stores import settings_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_agentic.spans.model import Span

MINUTE_NS = 60 * SECOND_NS


def turn(
    minute: float, query: str = "a", name: str = "1", *, end: bool = False, links: Sequence[Any] = (), **more: Any
) -> Span:
    """Return a trace of one turn, which takes a second, so many minutes after noon."""
    start_ns = NOON_NS + int(minute * MINUTE_NS)
    return span(
        "invoke_agent", trace=f"{name} {minute}", start_ns=start_ns, end_ns=start_ns + SECOND_NS, links=links,
        attributes={
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.conversation.id": name,
            "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": query}]}],
            "agentic.conversation.end": end,
        },
        **more,
    )  # fmt: skip


def turns_of(engine: Engine) -> dict[str, int]:
    sql = "SELECT conversation_id, turn_count FROM conversations WHERE NOT superseded ORDER BY ALL"
    return dict(rows(engine, sql))


def test_a_new_attempt_leaves_the_closed_one_as_it_is(engine: Engine) -> None:
    feed(engine, turn(0, end=True))
    feed(engine, turn(1, end=True))
    feed(engine, turn(2))

    assert [("1", 1, False), ("1#2", 1, False), ("1#3", 1, False)] == revisions(engine)


def test_a_span_sent_again_makes_no_revision_and_no_attempt(engine: Engine) -> None:
    feed(engine, turn(0, end=True), turn(1, end=True))
    for _ in range(2):
        feed(engine, turn(1, end=True))

    assert [("1", 1, False), ("1#2", 1, False)] == revisions(engine)


def test_an_attempt_that_arrives_last_and_began_first_is_the_first(engine: Engine) -> None:
    feed(engine, turn(1, "b", end=True))
    feed(engine, turn(0, end=True))

    sql = "SELECT conversation_id, query FROM turns JOIN conversations USING (conversation_id, revision) WHERE NOT superseded"
    assert {("1", "a"), ("1#2", "b")} == set(rows(engine, sql))


def test_services_that_a_later_trace_connects_become_one_conversation(engine: Engine) -> None:
    first, second = turn(0, service="x"), turn(1, "b", service="y")
    feed(engine, first, second)
    assert {"1": 1, "1@y": 1} == turns_of(engine)

    result = feed(engine, turn(2, "c", service="y", links=[link_to(first)]))

    assert {"1": 3} == turns_of(engine)
    assert {("", "1@y")} == result.vanished


def test_an_id_that_looks_like_an_attempt_keeps_its_name(engine: Engine) -> None:
    feed(engine, turn(0, end=True), turn(1, end=True))
    assert {"1": 1, "1#2": 1} == turns_of(engine)

    feed(engine, turn(2, "x", "1#2"), turn(3, "y", "1#2"))
    feed(engine, turn(4, "z"))

    assert {"1": 1, "1#2": 2, "1#3": 1, "1#4": 1} == turns_of(engine)


@pytest.mark.parametrize("restart", [False, True])
def test_a_collector_closes_each_attempt_by_its_own_last_span(tmp_path: Path, *, restart: bool) -> None:
    """The first attempt is idle for half an hour although spans with its id continue to arrive."""
    clock = Clock()
    with retaining_engine(tmp_path / "t.duckdb", clock) as engine:
        assembler = Assembler(engine, lambda _: None)
        closed: list[str] = []
        for minute in range(0, 50, 5):
            if restart and minute == 25:
                assembler = Assembler(engine, lambda _: None)
                with engine.store.read() as con:
                    state = [(item.key[1], item.last_ns) for item in links.open_conversations(con, clock())]
                assert [("1", NOON_NS), ("1#2", NOON_NS + 20 * MINUTE_NS)] == sorted(state)
                assembler.start()
                assembler.stop()
            clock.at(minute / 60)
            engine.store.accept(batch(turn(minute, str(minute), resource={"agentic.case.id": "xy"[minute > 0]})))
            assembler.arrived(engine.rebuilder.pending())
            for later in (2, 3):
                clock.at((minute + later) / 60)
                closed += [saved.key[1] for saved in assembler.tick().saved if saved.closed_by]

        assert ["1"] == closed
        assert {"1": 1, "1#2": 9} == turns_of(engine)
        clock.at(2)
        assert ["1#2"] == [saved.key[1] for saved in assembler.tick().saved if saved.closed_by]
        assert 0 == assembler.open_count


@pytest.mark.slow  # as all rows: tests/engine/test_engine_parallel.py
def test_worker_processes_find_the_same_attempts(tmp_path: Path) -> None:
    spans = [
        turn(number % 7 + minute, str(minute), f"c{number}" if number % 5 else f"c{number - 1}#2", end=minute == 10)
        for number in range(20)
        for minute in (0, 10, 20)
    ]
    built = []
    with WorkerPool(settings_for(tmp_path / "none.duckdb"), 2) as pool:
        for workers in (None, pool):
            with Engine(
                settings_for(tmp_path / f"{workers is None}.duckdb"), create=True, clock=lambda: NOON_NS
            ) as engine:
                engine.store.accept(batch(*spans))
                rebuild_pending(engine, lambda *_: None, rebuilder_over(engine, workers))
                built.append({name: table for name, table in contents(engine).items() if name != "schema_migrations"})
    assert built[0] == built[1]


def test_attempts_keep_their_numbers_when_retention_removes_the_first(tmp_path: Path) -> None:
    clock = Clock()
    with retaining_engine(tmp_path / "t.duckdb", clock) as engine:
        for hour in range(4):
            clock.at(hour + 0.1)
            feed(engine, turn(60 * hour, end=True))
        clock.at(3.5)
        RetentionPass(engine, 2 * HOUR_NS).run()
        assert {"1#3": 1, "1#4": 1} == turns_of(engine)

        feed(engine, turn(205, end=True))
        assert {"1#3": 1, "1#4": 1, "1#5": 1} == turns_of(engine)
        assert [1] == [revision for _, revision, _ in revisions(engine)[:1]]

        feed(engine, turn(5, "late"))  # of an attempt that was removed
        assert {"1#3": 1, "1#4": 1, "1#5": 1} == turns_of(engine)


@pytest.fixture
def shared(engine: Engine) -> Engine:
    """A store with three conversations that share an id, and one with its own."""
    feed(engine, turn(0, end=True), turn(1), turn(2, service="y"), turn(3, name="own"))
    return engine


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("1", ["1", "1#2", "1@y"]),
        ("1#1", ["1"]),
        ("1#2", ["1#2"]),
        ("1@y", ["1@y"]),
        ("own", ["own"]),
        ("own#1", ["own"]),
    ],
)
def test_a_name_fits_a_conversation_or_all_that_share_the_id(shared: Engine, name: str, expected: list[str]) -> None:
    with shared.store.read() as con:
        assert {name: [("", key) for key in expected]} == conversations_named(con, [name])


def test_a_shared_id_is_refused_with_the_names_that_tell_its_conversations_apart(shared: Engine) -> None:
    commands, names = Commands(shared), "'1#1', '1#2', '1@y'"
    with pytest.raises(BadInputError, match=f"several conversations share the id '1'; use the name of one: {names}"):
        commands.conversations_show(conversation_id="1")

    assert "1" == commands.conversations_show(conversation_id="1#1")["conversation"]["conversation_id"]
    assert "1@y" == commands.conversations_show(conversation_id="1@y")["conversation"]["conversation_id"]
    with pytest.raises(BadInputError, match="share the id '1'"):
        commands.truth_promote(conversation_ids=["1"])


@pytest.mark.parametrize("command", ["truth_import", "evaluate"])
def test_a_label_of_a_shared_id_is_refused_and_one_of_a_name_is_stored(shared: Engine, command: str) -> None:
    run = getattr(Commands(shared), command)
    with pytest.raises(CaseError, match=r"l\.csv:3: several conversations share the id '1'"):
        run(labels=[("l.csv", "conversation_id,verdict\nown,pass\n1,pass\n")])
    assert [] == rows(shared, "SELECT conversation_id FROM labels")

    run(labels=[("l.csv", "conversation_id,verdict\nown,pass\n1#1,fail\n1#2,pass\n")])
    labels = [("1", False), ("1#2", True), ("own", True)]
    assert labels == rows(shared, "SELECT conversation_id, verdict FROM labels ORDER BY ALL")


def test_a_verdict_of_a_shared_id_is_refused_and_one_of_a_name_is_stored(shared: Engine) -> None:
    commands = Commands(shared)
    with pytest.raises(CaseError, match="several conversations share the id '1'"):
        commands.judge_calibrate(labels=[("h.csv", "conversation_id,verdict\n1,pass\n")])


def test_the_store_counts_shared_ids_and_those_that_may_be(shared: Engine) -> None:
    feed(shared, turn(4, name="again"), turn(5, name="again"))

    reuse = Commands(shared).store_summary()["id_reuse"]

    assert (1, 3, 1) == (reuse["shared_ids"], reuse["conversations"], reuse["possible"])
    assert [
        "1 conversation id is shared by 3 conversations, which are counted separately (id, id#2, id@service)",
        (
            "1 conversation may be several attempts under one reused id, counted as one: use a new conversation id for each "
            "attempt, set agentic.attempt.id on its spans, or mark its end with agentic.conversation.end"
        ),
    ] == reuse["notes"]
