"""A backlog is worked off in portions, so that scores come early and a stop is obeyed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic import Engine, load_settings
from otel_agentic.pipeline.assembler import Assembler
from otel_agentic.testing import SECOND_NS, batch, span

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.spans import Span

_COUNT = 1_200


def test_a_tick_closes_a_portion_and_the_next_ones_the_rest(tmp_path: Path) -> None:
    now_ns = [1_000 * SECOND_NS]
    settings = load_settings(
        store={"db": tmp_path / "backlog.duckdb"}, conversations={"idle_s": 5.0, "turn_idle_s": 1.0}
    )
    with Engine(settings, create=True, clock=lambda: now_ns[0]) as engine:
        watching = Assembler(engine, lambda _: None)
        engine.store.accept(batch(*(_run(number) for number in range(_COUNT))))
        watching.arrived(engine.rebuilder.pending())
        now_ns[0] += 10 * SECOND_NS

        closed = []
        for _ in range(4):
            closed.append(len(watching.tick().saved))
            now_ns[0] += 10 * SECOND_NS

    assert max(closed) <= 1_000
    assert sum(closed) == _COUNT
    assert watching.open_count == 0


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
