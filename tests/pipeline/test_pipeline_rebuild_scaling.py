"""Traces that are tied to very many others are rebuilt in time that grows with them, not with their square."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING

import pytest

from otel_agentic.pipeline.ingest import rebuild_pending
from otel_agentic.spans.model import SpanLink
from otel_agentic.testing import NOON_NS, batch, span

if TYPE_CHECKING:
    from otel_agentic.pipeline import Engine
    from otel_agentic.spans.model import Span


def ids(number: int) -> tuple[str, str]:
    digest = hashlib.blake2b(str(number).encode(), digest_size=24).hexdigest()
    return digest[:32], digest[32:]


def turn(number: int, linked_to: int | None) -> Span:
    """Return an agent's run in a trace of its own, without a conversation id, that links to another."""
    trace_id, span_id = ids(number)
    link = () if linked_to is None else (SpanLink(trace_id=ids(linked_to)[0], span_id=ids(linked_to)[1]),)
    told = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}
    start_ns = NOON_NS + number * 1_000_000
    return span("invoke_agent a", trace=trace_id, span_id=span_id, start_ns=start_ns, attributes=told, links=link)


def rebuild_s(engine: Engine) -> float:
    """Rebuild what arrived; return the seconds of CPU that it took."""
    began = time.process_time()
    assert () == rebuild_pending(engine, lambda *_: None).left_out
    return time.process_time() - began


def turn_counts(engine: Engine) -> list[tuple[int]]:
    with engine.store.read() as con:
        return con.execute("SELECT turn_count FROM conversations WHERE NOT superseded ORDER BY 1").fetchall()


def test_one_more_turn_of_a_long_chain_of_links_is_rebuilt_soon(engine: Engine) -> None:
    engine.store.accept(batch(*(turn(number, number - 1 if number else None) for number in range(1000))))
    rebuild_s(engine)
    engine.store.accept(batch(turn(1000, 999)))
    assert rebuild_s(engine) < 8
    assert [(1001,)] == turn_counts(engine)


@pytest.mark.slow
def test_thousands_of_traces_that_all_link_to_one_are_rebuilt_once(engine: Engine) -> None:
    engine.store.accept(batch(turn(0, None), *(turn(number, 0) for number in range(1, 6000))))
    assert rebuild_s(engine) < 20
    assert [(6000,)] == turn_counts(engine)
