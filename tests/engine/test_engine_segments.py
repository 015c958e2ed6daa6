"""Traces are read once: segments stay in memory until more arrives, and an idle conversation is closed without a rebuild."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.config import Settings
from otel_agentic.dialects import Reader
from otel_agentic.engine.engine import Engine
from otel_agentic.engine.rebuild import Rebuilder
from otel_agentic.engine.segments import SegmentReader
from otel_agentic.spans.model import LogRecord, Resource, Scope, Span, SpanEvent
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, batch, log_record, scripted_call, speak_genai
from tests.builders import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from otel_agentic.conversations import Segment
    from otel_agentic.dialects.base import Reading
    from otel_agentic.engine.segments import ReadTraces
    from otel_agentic.spans.model import SpanBatch

CONTENT = """
SELECT c.* EXCLUDE (built_at), t.* EXCLUDE (environment, conversation_id, revision), list(k ORDER BY k.position) AS calls
FROM conversations c
LEFT JOIN turns t USING (environment, conversation_id, revision)
LEFT JOIN tool_calls k USING (environment, conversation_id, revision, turn_index)
GROUP BY ALL ORDER BY ALL
"""


def talk(name: str, turns: int = 2, start: int = 0) -> SpanBatch:
    script = AgentRunScript(conversation_id=name)
    for number in range(turns):
        call = scripted_call("find", {"n": number}, result="ok")
        script = script.ask(f"Question {number}?").calls(call).answers(f"Answer {number}.")
    return speak_genai(script, start_ns=NOON_NS + start * SECOND_NS)


class CountingReader(Reader):
    """Counts the traces that it reads, and calls `meanwhile` before each."""

    reads = 0
    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def read_all(self, spans: Iterable[Span], logs: Mapping[tuple[str, str], Sequence[LogRecord]]) -> list[Reading]:
        self.reads += 1
        self.meanwhile()
        return super().read_all(list(spans), logs)


def rebuilder_of(engine: Engine, **limits: Any) -> tuple[Rebuilder, CountingReader]:
    settings = engine.settings.conversations
    reader = CountingReader(Reader.from_settings(settings)._dialects, settings)
    return Rebuilder(engine.store, SegmentReader(engine.store, reader, **limits), settings), reader


def test_a_trace_is_read_once_until_more_of_it_arrives(engine: Engine) -> None:
    rebuilder, reader = rebuilder_of(engine)
    spans = talk("c").spans
    traces = len({span.trace_id for span in spans})
    engine.store.accept(batch(*spans[:-1]))
    rebuilder.rebuild(rebuilder.read(rebuilder.pending()), lambda _: None)
    assert traces == reader.reads
    engine.store.accept(batch(spans[-1]))
    rebuilder.rebuild(rebuilder.read(rebuilder.pending()), lambda _: None)
    assert traces + 1 == reader.reads


def test_what_is_committed_while_a_trace_is_read_is_read_the_next_time(engine: Engine) -> None:
    rebuilder, reader = rebuilder_of(engine)
    *first, last = talk("c", turns=1).spans
    engine.store.accept(batch(*first))
    reader.meanwhile = lambda: engine.store.accept(batch(last))
    touched = rebuilder.read(rebuilder.pending())
    reader.meanwhile = lambda: None
    rebuilder.rebuild(touched, lambda _: None)
    expected = rows(engine, CONTENT)
    again, _ = rebuilder_of(engine)
    again.rebuild(again.read({last.trace_id}), lambda _: None)
    assert expected == rows(engine, CONTENT)
    assert 2 == reader.reads


@pytest.mark.parametrize("max_bytes", [0, 40_000, pytest.param(10**9, marks=pytest.mark.slow)])
def test_memory_changes_no_conversation(engine: Engine, max_bytes: int) -> None:
    rebuilder, _ = rebuilder_of(engine, max_bytes=max_bytes)
    for part in range(2):
        for number in range(4):
            spans = talk(f"c-{number}", start=number).spans
            engine.store.accept(batch(*(spans[: len(spans) // 2] if part == 0 else spans[len(spans) // 2 :])))
        rebuilder.rebuild(rebuilder.read(rebuilder.pending()), lambda _: None)
    content = rows(engine, CONTENT)
    assert 8 == len(content)
    fresh, _ = rebuilder_of(engine)
    fresh.rebuild(fresh.read({span.trace_id for number in range(4) for span in talk(f"c-{number}", start=number).spans}), lambda _: None)  # fmt: skip
    assert content == rows(engine, CONTENT)


def test_closing_changes_what_a_rebuild_would_change(engine: Engine) -> None:
    rebuilder, reader = rebuilder_of(engine)
    engine.store.accept(batch(talk("closed"), talk("rebuilt", start=100)))
    touched = rebuilder.read(rebuilder.pending())
    rebuilder.rebuild(touched, lambda _: None)
    reads = reader.reads
    (closed,) = rebuilder.close({("", "closed")}, ()).saved
    assert reads == reader.reads
    (rebuilt,) = rebuilder.rebuild(touched, lambda key: "idle" if key[1] == "rebuilt" else None).saved
    assert (closed.closed_by, closed.revision, closed.turn_count, closed.call_count, closed.has_id) == (
        rebuilt.closed_by, rebuilt.revision, rebuilt.turn_count, rebuilt.call_count, rebuilt.has_id,
    )  # fmt: skip
    assert [("idle", 2)] == rows(engine, "SELECT closed_by, count(*) FROM conversations GROUP BY ALL")


def test_a_conversation_with_an_arrived_trace_or_a_closed_one_is_not_closed(engine: Engine) -> None:
    rebuilder, _ = rebuilder_of(engine)
    spans = talk("c").spans
    engine.store.accept(batch(*spans))
    rebuilder.rebuild(rebuilder.read(rebuilder.pending()), lambda _: None)
    key = ("", "c")
    assert () == rebuilder.close({key, ("", "unknown")}, {spans[0].trace_id}).saved
    assert 1 == len(rebuilder.close({key}, ()).saved)
    assert () == rebuilder.close({key}, ()).saved


def test_removed_spans_are_forgotten(engine: Engine) -> None:
    rebuilder, reader = rebuilder_of(engine)
    engine.store.accept(talk("c", turns=1))
    touched = rebuilder.read(rebuilder.pending())
    engine.store.write(lambda con: con.execute("DELETE FROM spans"))
    rebuilder.refresh()
    assert () == rebuilder.rebuild(touched, lambda _: None).saved
    assert 1 == reader.reads


#: Values that JSON changes.
CHANGED = {"raw": b"\x00\xff", "share": float("nan"), "nested": {"$bytes": "AAE="}, "listed": [1.5, {"bytes": b"x"}]}


def items() -> list[Span | LogRecord]:
    """Return spans and log records of three traces, with values and fields that the store changes or leaves out."""
    first, *others = [span for name in ("a", "b") for span in talk(name, turns=2 if name == "a" else 1).spans]
    event = SpanEvent(name="note", time_ns=first.start_ns, attributes=CHANGED)
    first = replace(
        first, attributes={**first.attributes, **CHANGED}, events=(event,), scope=Scope(name="s", schema_url="u")
    )
    others[0] = replace(others[0], resource=Resource(attributes={"service.name": "x", **CHANGED}, schema_url="u"))
    late_clock = replace(others[1], end_ns=2**62)
    return [
        first,
        late_clock,
        others[0],
        *others[2:],
        log_record(first, "gen_ai.user.message", {"content": "Hi", **CHANGED}),
    ]


ITEMS = items()
TRACES = {item.trace_id for item in ITEMS}


def content(read: ReadTraces) -> list[Any]:
    def of_segment(segment: Segment) -> tuple[Any, ...]:
        nodes = [(node.event, node.why, node.span, node.at, node.is_run) for node in segment.nodes]
        return segment.trace_id, segment.explicit_id or "", replace(segment, nodes=()), nodes

    return sorted(map(of_segment, read.segments), key=lambda segment: segment[:2])


@settings(max_examples=settings().max_examples // 4)
@given(
    batches=st.lists(
        st.tuples(
            st.lists(st.sampled_from(ITEMS), min_size=1, max_size=8),
            st.sampled_from(["nothing", "read", "rebuild", "restart", "close"]),
        ),
        max_size=6,
    ),
    rest=st.permutations(ITEMS),
    max_bytes=st.sampled_from([0, 40_000, 10**9]),
)
def test_segments_of_arrived_spans_equal_those_of_stored_spans(
    batches: list[tuple[list[Span | LogRecord], str]], rest: list[Span | LogRecord], max_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        own = Settings.model_validate({"store": {"db": Path(folder) / "t.duckdb"}})
        with Engine(own, create=True) as engine:
            tested = SegmentReader(engine.store, engine.reader, max_bytes)
            for arriving, action in [*batches, (rest, "read")]:
                engine.store.accept(batch(*arriving))
                engine.store.write(lambda _: None)  # after the listeners of the commit
                if action == "restart":
                    tested = SegmentReader(engine.store, engine.reader, max_bytes)
                elif action == "close":
                    tested.discard(TRACES)
                elif action != "nothing":
                    loading = SegmentReader(engine.store, engine.reader, keeps_spans=False)
                    stored, read = loading.read_arrived(TRACES), tested.read_arrived(TRACES)
                    assert content(stored) == content(read)
                    assert stored.arrivals == read.arrivals
                    assert content(stored) == content(tested.read_to_rebuild(TRACES))


def test_spans_that_arrive_are_not_loaded_from_the_store(engine: Engine) -> None:
    reader = SegmentReader(engine.store, engine.reader)
    first, *others = talk("c", turns=1).spans
    for arriving in ([first], others):
        engine.store.accept(batch(*arriving))
        engine.store.write(lambda _: None)
        before = reader._entries[first.trace_id].spans
        (segment,) = reader.read_arrived({first.trace_id}).segments
        assert {id(span) for span in before} >= {id(node.span) for node in segment.nodes}
