"""A backlog is worked off in portions, so that scores come early and a stop is obeyed."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from otel_agentic import Engine, load_settings
from otel_agentic.live.assembler import Assembler
from otel_agentic.store import links
from otel_agentic.testing import SECOND_NS, batch, span

if TYPE_CHECKING:
    from otel_agentic.spans import Span

_COUNT = 1_200


def test_ticks_begin_small_and_work_off_everything_once(tmp_path: Path) -> None:
    now_ns = [1_000 * SECOND_NS]
    settings = load_settings(
        store={"db": tmp_path / "backlog.duckdb"}, conversations={"idle_s": 5.0, "turn_idle_s": 1.0}
    )
    with Engine(settings, create=True, clock=lambda: now_ns[0]) as engine:
        watching = Assembler(engine, lambda _: None)
        engine.store.accept(batch(*(_run(number) for number in range(_COUNT))))
        watching.arrived(engine.rebuilder.pending())
        now_ns[0] += 10 * SECOND_NS

        closed: list[list[str]] = []
        while sum(map(len, closed)) < _COUNT and len(closed) < _COUNT:
            closed.append([saved.key[1] for saved in watching.tick().saved])
            now_ns[0] += 10 * SECOND_NS

    assert len(closed[0]) == 200  # what one costs is not known yet
    assert max(map(len, closed)) <= 1_000
    assert sorted(chain.from_iterable(closed)) == sorted(f"conversation-{number}" for number in range(_COUNT))
    assert watching.open_count == 0


def test_pending_traces_and_many_conversations_come_in_the_order_of_their_arrival(tmp_path: Path) -> None:
    settings = load_settings(store={"db": tmp_path / "order.duckdb"})
    arrived = [7, 3, 9, 1]
    with Engine(settings, create=True) as engine:
        for number in arrived:
            engine.store.accept(batch(_run(number)))
        pending = engine.rebuilder.pending()
        touched = engine.rebuilder.read(pending)
        with engine.store.read() as con:
            ordered = links.by_arrival(con, touched.keys | {("", "conversation-gone")})

    assert pending == [_run(number).trace_id for number in arrived]
    assert [name for _, name in ordered] == [*(f"conversation-{number}" for number in arrived), "conversation-gone"]


def _run(number: int) -> Span:
    return span(
        f"invoke_agent clerk {number}",
        trace=f"trace-{number}",
        attributes={
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.conversation.id": f"conversation-{number}",
            "gen_ai.agent.name": "clerk",
        },
    )
