"""Traces are read once: segments stay in memory until more arrives, and an idle conversation is closed without a rebuild."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.dialects import Reader
from otel_agentic.engine.rebuild import Rebuilder
from otel_agentic.engine.segments import SegmentReader
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, batch, scripted_call, speak_genai
from tests.builders import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from otel_agentic.dialects.base import Reading
    from otel_agentic.engine.engine import Engine
    from otel_agentic.spans.model import LogRecord, Span, SpanBatch

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


@pytest.mark.parametrize("max_bytes", [0, 40_000, 10**9])
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
