"""Spans -> stored conversations: revisions, links that change, and nothing where nothing changed."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from otel_agentic.commands import Commands
from otel_agentic.conversations import (
    Conversation,
    EndMark,
    Linked,
    assemble,
    assemble_open,
    link_segments,
    read_segments,
)
from otel_agentic.dialects import Reader
from otel_agentic.engine.rebuild import Rebuilder
from otel_agentic.engine.segments import SegmentReader
from otel_agentic.store import links
from otel_agentic.store.spans import load_traces
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, batch, link_to, scripted_call, span, speak_genai
from tests.builders import ask_hotel, contents, feed, revisions, rows, stored_conversations

if TYPE_CHECKING:
    from otel_agentic.dialects.base import Reading
    from otel_agentic.engine.engine import Engine
    from otel_agentic.spans.model import LogRecord, Span
    from tests.stores import CopyOf, OpenEngine

HOTEL = speak_genai(ask_hotel()).spans
TOOL_SPAN = next(result for result in HOTEL if "gen_ai.tool.name" in result.attributes)
NO_LOSS: tuple[Span, ...] = tuple(result for result in HOTEL if result is not TOOL_SPAN)
#: Three queries to an agent that names no conversation: each trace repeats the history so far.
CHAIN = (
    AgentRunScript(conversation_id=None)
    .ask("Which hotel?")
    .answers("The Ritz.")
    .ask("How much?")
    .answers("300 euros.")
    .ask("Book it.")
    .answers("Done.")
)


def traces_of(spans: Iterable[Span]) -> list[list[Span]]:
    """Return the spans trace by trace, in the order of their first span."""
    result: dict[str, list[Span]] = {}
    for item in sorted(spans, key=lambda other: other.start_ns):
        result.setdefault(item.trace_id, []).append(item)
    return list(result.values())


@pytest.mark.slow  # of small ones: tests/conversations/test_conversations_store.py
def test_a_conversation_comes_back_as_it_was_assembled(copy_of: CopyOf, tau_file: Path) -> None:
    engine = copy_of(tau_file)
    with engine.store.read() as con:
        traces = [name for (name,) in con.execute("SELECT DISTINCT trace_id FROM trace_links").fetchall()]
        stored = load_traces(con, traces)
    own = engine.settings.conversations
    linked = link_segments(read_segments(stored.spans, stored.logs, engine.reader), own)
    built = [assemble(item, own, closed_by="end_of_input") for item in linked]

    assert {item.key: item for item in built} == stored_conversations(engine)
    assert (200, 1341, 1164) == (
        len(built),
        sum(len(item.turns) for item in built),
        sum(len(turn.calls) for item in built for turn in item.turns),
    )


def test_input_that_changes_nothing_makes_no_revision(engine: Engine) -> None:
    feed(engine, *HOTEL)
    before = contents(engine)

    assert () == feed(engine, *HOTEL).saved
    assert before == contents(engine)


def test_a_late_span_makes_the_next_revision_and_the_first_is_kept(engine: Engine) -> None:
    feed(engine, *NO_LOSS)

    rebuilt = feed(engine, TOOL_SPAN)

    assert [("conversation-1", 1, True), ("conversation-1", 2, False)] == revisions(engine)
    assert 1 == rebuilt.late_spans
    assert [(1, "message"), (2, "both")] == rows(engine, "SELECT revision, source FROM tool_calls ORDER BY revision")
    assert [(1, 1), (2, 1)] == rows(engine, "SELECT revision, count(*) FROM turns GROUP BY revision ORDER BY revision")


def test_a_late_span_that_says_nothing_new_makes_no_revision(engine: Engine) -> None:
    feed(engine, *HOTEL)

    rebuilt = feed(engine, span("GET /", parent=HOTEL[0], start_ns=HOTEL[0].start_ns, end_ns=HOTEL[0].end_ns))

    assert ((), 0) == (rebuilt.saved, rebuilt.late_spans)
    assert [("conversation-1", 1, False)] == revisions(engine)


def test_environments_separate_equal_ids(engine: Engine) -> None:
    for environment in (None, "staging", "production"):
        feed(engine, speak_genai(ask_hotel(environment=environment), start_ns=NOON_NS + len(environment or "")))

    assert {("", "conversation-1"), ("staging", "conversation-1"), ("production", "conversation-1")} == set(
        stored_conversations(engine)
    )
    assert {1} == {len(stored_conversation.turns) for stored_conversation in stored_conversations(engine).values()}


def test_a_trace_that_gets_an_id_later_leaves_its_own_conversation(engine: Engine) -> None:
    loose = speak_genai(ask_hotel(None)).spans
    feed(engine, *loose)
    ((_, old),) = stored_conversations(engine)

    rebuilt = feed(
        engine,
        span("late", parent=loose[0], attributes={"gen_ai.conversation.id": "named", "gen_ai.operation.name": "chat"}),
    )

    assert {("", old)} == rebuilt.vanished
    assert [(old, 1, True), ("named", 1, False)] == sorted(revisions(engine), key=lambda row: row[2], reverse=True)


def test_a_conversation_that_dissolved_and_is_there_again_keeps_its_old_revision(engine: Engine) -> None:
    first, second, _ = traces_of(speak_genai(CHAIN).spans)
    feed(engine, *second)
    feed(engine, *first)  # the second trace continues the first
    own = second[0].trace_id
    assert [(own, 1, True)] == [row for row in revisions(engine) if row[0] == own]

    named = span(
        "late", parent=first[0], attributes={"gen_ai.conversation.id": "named", "gen_ai.operation.name": "chat"}
    )
    feed(engine, named)  # the first belongs elsewhere after all

    assert [(own, 1, True), (own, 2, False)] == [row for row in revisions(engine) if row[0] == own]
    assert [(1, 1), (2, 1)] == rows(
        engine,
        "SELECT revision, count(*) FROM turns WHERE conversation_id = $id GROUP BY ALL ORDER BY ALL",
        {"id": own},
    )


def test_a_history_links_anew_when_its_middle_arrives_late(engine: Engine) -> None:
    first, second, third = traces_of(speak_genai(CHAIN).spans)
    feed(engine, *first)
    feed(engine, *third)

    feed(engine, *second)

    ((_, name),) = stored_conversations(engine)
    assert first[0].trace_id == name
    assert ["Which hotel?", "How much?", "Book it."] == [
        turn.query for turn in stored_conversations(engine)["", name].turns
    ]
    assert [(1, True), (2, True), (3, False)] == [row[1:] for row in revisions(engine)]


def test_a_history_that_arrives_backwards_ends_as_one_conversation(engine: Engine) -> None:
    first, second, third = traces_of(speak_genai(CHAIN).spans)
    vanished = [feed(engine, *trace).vanished for trace in (third, second, first)]

    ((_, name),) = stored_conversations(engine)
    assert first[0].trace_id == name
    assert [set(), {("", third[0].trace_id)}, {("", second[0].trace_id)}] == vanished


def test_equal_beginnings_stay_apart_and_are_counted_even_after_a_later_rebuild(engine: Engine) -> None:
    # Two attempts begin with the same messages and end at the same moment: the third trace continues either.
    begun, goes_on, _ = traces_of(speak_genai(CHAIN).spans)
    rival = [replace(item, trace_id="f" * 32) for item in begun]
    feed(engine, *begun, *rival, *goes_on)
    assert 3 == len(stored_conversations(engine))
    counted = "SELECT count(*) FROM conversations WHERE ambiguous_link AND NOT superseded"
    assert [(1,)] == rows(engine, counted)

    key = ("", goes_on[0].trace_id)
    touched = engine.rebuilder.read([])
    engine.store.write(lambda con: con.execute("UPDATE conversations SET closed_by = NULL"))
    engine.rebuilder.rebuild(replace(touched, keys=frozenset({key})), lambda _: "idle")

    assert [(1,)] == rows(engine, counted)


@settings(max_examples=settings().max_examples // 10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_however_spans_arrive_the_conversations_are_the_same(
    open_engine: OpenEngine, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    script = (
        AgentRunScript()
        .ask("Which hotel?")
        .calls(scripted_call("search", {"q": "hotels"}, result=["Ritz"]))
        .answers("The Ritz.")
    )
    spans = [*speak_genai(script).spans, *speak_genai(CHAIN, start_ns=NOON_NS + 3600 * SECOND_NS).spans]
    at_once = open_engine(tmp_path_factory.mktemp("a") / "t.duckdb")
    feed(at_once, *spans)
    shuffled = data.draw(st.permutations([*spans, *spans[::3]]))
    cuts = sorted(data.draw(st.lists(st.integers(1, len(shuffled) - 1), max_size=3)))
    bit_by_bit = open_engine(tmp_path_factory.mktemp("b") / "t.duckdb")
    for first, last in zip([0, *cuts], [*cuts, len(shuffled)], strict=True):
        feed(bit_by_bit, *shuffled[first:last])

    def conversations_of(engine: Engine) -> dict[Any, Any]:
        return {key: replace(result, revision=1) for key, result in stored_conversations(engine).items()}

    assert conversations_of(at_once) == conversations_of(bit_by_bit)


class Stubborn(Reader):
    """Cannot read one trace; counts the traces that it was asked to read."""

    bad = ""
    reads = 0

    def read_all(self, spans: Iterable[Span], logs: Mapping[tuple[str, str], Sequence[LogRecord]]) -> list[Reading]:
        result = list(spans)
        self.reads += 1
        if result[0].trace_id == self.bad:
            raise ArithmeticError("unforeseen")
        return super().read_all(result, logs)


def test_an_unforeseen_trace_does_not_hold_up_the_others(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    own = engine.settings.conversations
    reader = Stubborn(Reader.from_settings(own)._dialects, own)
    bad = reader.bad = HOTEL[0].trace_id
    rebuilder = Rebuilder(engine.store, SegmentReader(engine.store, reader), own)
    others = [speak_genai(ask_hotel(f"c-{number}"), start_ns=NOON_NS + number * SECOND_NS) for number in range(4)]
    engine.store.accept(batch(*HOTEL, *others))

    with caplog.at_level(logging.INFO):
        rebuilt = rebuilder.rebuild(rebuilder.read(rebuilder.pending()), lambda _: "end_of_input")

    assert rebuilt.left_out == (
        f"trace '{bad}' is stored but cannot be rebuilt (ArithmeticError: unforeseen); please report it",
    )
    assert {bad: rebuilt.left_out[0]} == {item: entry.message for item, entry in rebuilder.not_rebuilt.items()}
    assert {f"c-{number}" for number in range(4)} == {name for _, name in stored_conversations(engine)}
    assert [rebuilt.left_out[0]] == [record.getMessage() for record in caplog.records]
    assert not caplog.records[0].exc_info
    assert [bad] == engine.rebuilder.pending()  # it is taken up again by a release that can read it


def stubborn_about(engine: Engine, bad: str) -> tuple[Rebuilder, Stubborn]:
    own = engine.settings.conversations
    reader = Stubborn(Reader.from_settings(own)._dialects, own)
    reader.bad = bad
    return Rebuilder(engine.store, SegmentReader(engine.store, reader), own), reader


NOT_REBUILT = "SELECT trace_id, environment, conversation_id, reason, first_at < last_at FROM not_rebuilt"


def test_what_cannot_be_rebuilt_is_recorded_until_it_can_be(engine: Engine) -> None:
    bad = HOTEL[0].trace_id
    engine.store.accept(batch(*HOTEL))

    for again in (False, True):  # also in a process that begins later
        rebuilder, reader = stubborn_about(engine, bad)
        rebuilder.read(rebuilder.pending())
        assert [(bad, "", None, "ArithmeticError: unforeseen", again)] == rows(engine, NOT_REBUILT)
    reader.bad = ""
    rebuilder.rebuild(rebuilder.read(rebuilder.pending()), lambda _: "end_of_input")

    assert ([], {}) == (rows(engine, NOT_REBUILT), dict(rebuilder.not_rebuilt))
    assert 1 == len(stored_conversations(engine))


def test_a_trace_that_failed_before_is_tried_alone(engine: Engine) -> None:
    rebuilder, reader = stubborn_about(engine, HOTEL[0].trace_id)
    others = [speak_genai(ask_hotel(f"c-{number}"), start_ns=NOON_NS + number * SECOND_NS) for number in range(31)]
    engine.store.accept(batch(*HOTEL, *others))
    traces = rebuilder.pending()

    rebuilder.read(traces)
    halving, reader.reads = reader.reads, 0
    rebuilder.read(traces)

    assert halving > len(traces)
    assert reader.reads == len(traces)


def test_a_conversation_that_cannot_be_put_together_leaves_the_others_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def assembled(rebuilder: Rebuilder, linked: Linked) -> tuple[Conversation, EndMark | None]:
        if linked.conversation_id == "bad":
            raise ArithmeticError("unforeseen")
        return assemble_open(linked, engine.settings.conversations)

    talks = [speak_genai(ask_hotel(name), start_ns=NOON_NS + SECOND_NS) for name in ("bad", "good")]
    with monkeypatch.context() as patch:
        patch.setattr(Rebuilder, "_assemble", assembled)
        rebuilt = feed(engine, *talks)

    assert (["good"], 1) == ([name for _, name in stored_conversations(engine)], len(rebuilt.left_out))
    assert [(None, "", "bad", "ArithmeticError: unforeseen", False)] == rows(engine, NOT_REBUILT)
    assert {"not_rebuilt": {"traces": 0, "conversations": 1}}.items() <= Commands(engine).report().items()

    feed(engine)  # taken up again

    assert {"bad", "good"} == {name for _, name in stored_conversations(engine)}
    assert [] == rows(engine, NOT_REBUILT)
    assert "not_rebuilt" not in Commands(engine).report()


@pytest.mark.parametrize("recent", [0, 1, 1000])
def test_a_trace_without_an_id_brings_in_its_rivals_and_not_all_that_happened_near_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, recent: int
) -> None:
    monkeypatch.setattr(links, "_RECENT", recent)  # whether the rows lie at the end of the table or before it
    first, second, third = traces_of(speak_genai(CHAIN).spans)
    rival = [replace(item, trace_id="f" * 32) for item in first]
    others = [
        speak_genai(ask_hotel(None, service=f"s{number % 2}"), start_ns=NOON_NS + number) for number in range(1, 20)
    ]
    feed(engine, *first, *rival, *second, *third, *others)

    with engine.store.read() as con:
        near = links.neighbourhood(con, {third[0].trace_id}, 300 * SECOND_NS)

    assert {trace[0].trace_id for trace in (first, rival, second, third)} == near


@pytest.mark.parametrize("linked", [(0, 1), (1, 0)], ids=["forward", "backward"])
def test_a_span_link_brings_in_a_trace_of_any_time(engine: Engine, linked: tuple[int, int]) -> None:
    day_ns = 24 * 3600 * SECOND_NS
    traces = [speak_genai(ask_hotel(None), start_ns=NOON_NS + day * day_ns).spans for day in range(2)]
    origin, target = (traces[index][0] for index in linked)
    engine.store.accept(batch(*(item for trace in traces for item in trace if item is not origin)))
    engine.store.accept(batch(replace(origin, links=(link_to(target),))))
    engine.rebuilder.read(engine.rebuilder.pending())

    for trace in traces:
        with engine.store.read() as con:
            near = links.neighbourhood(con, {trace[0].trace_id}, 300 * SECOND_NS)
        assert {item[0].trace_id for item in traces} == near


def test_a_conversation_without_an_id_is_loaded_completely_at_any_length(engine: Engine) -> None:
    feed(engine, *(item for trace in traces_of(speak_genai(CHAIN).spans) for item in trace))
    # Its traces are hours apart, as if a chain of others had held them together.
    engine.store.write(
        lambda con: con.execute(
            "UPDATE trace_links SET started_at = started_at + INTERVAL 6 HOUR, ended_at = ended_at + INTERVAL 6 HOUR "
            "WHERE trace_id <> conversation_id"
        )
    )

    for trace in traces_of(speak_genai(CHAIN).spans):
        with engine.store.read() as con:
            assert 3 == len(links.neighbourhood(con, {trace[0].trace_id}, 300 * SECOND_NS))


def test_a_trace_that_was_read_and_not_linked_is_taken_up_again(engine: Engine) -> None:
    engine.store.accept(speak_genai(ask_hotel(None)))
    engine.rebuilder.read(engine.rebuilder.pending())  # and then the process was killed

    assert 1 == len(feed(engine).saved)
    assert [] == engine.rebuilder.pending()


def test_bytes_and_maps_that_look_like_them_are_rebuilt(engine: Engine) -> None:
    hostile = [
        replace(item, attributes={**item.attributes, "x": {"$bytes": "no base64!"}, "y": b"\xff"}) for item in HOTEL
    ]

    assert 1 == len(feed(engine, *hostile).saved)
