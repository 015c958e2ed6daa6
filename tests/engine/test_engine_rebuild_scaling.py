"""Traces that are tied to very many others are rebuilt in time that grows with them, not with their square."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from otel_agentic.commands.ingest import rebuild_pending
from otel_agentic.spans.model import Span, SpanLink
from otel_agentic.testing import NOON_NS, batch, span
from tests.steps import LINEAR, steps_of

if TYPE_CHECKING:
    from otel_agentic.engine.engine import Engine


def ids(number: int) -> tuple[str, str]:
    digest = hashlib.blake2b(str(number).encode(), digest_size=24).hexdigest()
    return digest[:32], digest[32:]


def turn(number: int, linked_to: int | None) -> Span:
    """Return an agent's run in a trace of its own, without a conversation id, that links to another."""
    trace_id, span_id = ids(number)
    link = () if linked_to is None else (SpanLink(trace_id=ids(linked_to)[0], span_id=ids(linked_to)[1]),)
    reported = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
    start_ns = NOON_NS + number * 1_000_000
    return span("invoke_agent a", trace=trace_id, span_id=span_id, start_ns=start_ns, attributes=reported, links=link)


def rebuilt(engine: Engine) -> None:
    assert () == rebuild_pending(engine, lambda *_: None).left_out


def turn_counts(engine: Engine) -> list[tuple[int]]:
    with engine.store.read() as con:
        return con.execute("SELECT turn_count FROM conversations WHERE NOT superseded ORDER BY 1").fetchall()


def test_one_more_turn_of_a_long_chain_of_links_is_rebuilt_in_linear_time(engine: Engine) -> None:
    steps = []
    for first, last in ((0, 100), (101, 200)):
        engine.store.accept(batch(*(turn(number, number - 1 if number else None) for number in range(first, last))))
        rebuilt(engine)
        engine.store.accept(batch(turn(last, last - 1)))
        steps.append(steps_of(lambda: rebuilt(engine)))

    assert steps[1] < LINEAR * steps[0]
    assert [(201,)] == turn_counts(engine)


def test_many_traces_that_all_link_to_one_are_rebuilt_in_linear_time(engine: Engine) -> None:
    steps = []
    for hub, count in ((0, 100), (1000, 200)):
        engine.store.accept(batch(turn(hub, None), *(turn(hub + number, hub) for number in range(1, count))))
        steps.append(steps_of(lambda: rebuilt(engine)))

    assert steps[1] < LINEAR * steps[0]
    assert [(100,), (200,)] == turn_counts(engine)
