"""Facts in the store: written and read back, each list of tools once; exported, imported, removed, redacted."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.cli.store import find_files, receive, send
from otel_agentic.commands import Client, Commands
from otel_agentic.engine.retention import RetentionPass
from otel_agentic.results.store import FilePiece
from otel_agentic.store.conversations import Built, content_hash, save_conversations
from otel_agentic.testing import NOON_NS, SECOND_NS, conversation, tool_call, turn
from tests.builders import feed, revisions, rows, stored_conversations
from tests.conversations.rebuilding import act, assistant, chat, conversation_of, run, tool, user
from tests.engine.retention_engine import Clock, retaining_engine

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.engine.engine import Engine
    from otel_agentic.spans.model import Span

SEARCH = {"name": "search", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}
STATE = {"booked": [1, 2], "paid": None}
SECRET = "hunter22-" + "geheim"


def chat_spans(name: str, tools: list[dict[str, Any]] | None, **more: Any) -> list[Span]:
    """Return the spans of a conversation with all kinds of facts, `tools` among them; `more` goes onto its run."""
    given = {} if tools is None else {"gen_ai.tool.definitions": json.dumps(tools)}
    top = run(
        0,
        9,
        id=name,
        trace=name,
        query="hi",
        answer="hello",
        attributes={**given, "agentic.final_state": json.dumps(STATE), **more},
    )
    counts = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 3, "gen_ai.request.model": "m1"}
    plan = act("plan", 1, attributes={"gen_ai.output.messages": [assistant("Search first.")]}, parent=top)
    return [top, plan, chat(2, [user("hi")], [assistant("hello")], attributes=counts, parent=top), tool(4, parent=top)]


class Local(Client):
    """A client of an engine that the test holds."""

    def __init__(self, engine: Engine) -> None:
        self._commands = Commands(engine)

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Return a command's result."""
        return getattr(self._commands, name)(**arguments)

    def stream(self, name: str, /, **arguments: Any) -> Generator[Any]:
        """Yield what a command yields."""
        yield from self.call(name, **arguments)

    def close(self) -> None:
        """Leave the engine open."""


def nothing(*_: Any) -> None:
    """Show no progress."""


@pytest.fixture
def clock() -> Clock:
    """Noon."""
    return Clock()


@pytest.fixture
def engine(tmp_path: Path, clock: Clock) -> Iterator[Engine]:
    """A store that keeps everything by default."""
    with retaining_engine(tmp_path / "t.duckdb", clock, retention={"keep": None}) as result:
        yield result


def only(engine: Engine) -> Conversation:
    (result,) = stored_conversations(engine).values()
    return result


def tools_kept(engine: Engine) -> list[tuple[Any, ...]]:
    return rows(engine, "SELECT name, parameters ->> '$.type' FROM tool_definitions ORDER BY ALL")


def test_what_is_written_is_read_back(engine: Engine) -> None:
    feed(engine, *chat_spans("c-1", [SEARCH, {"name": "book"}]))

    result = only(engine)

    assert {"search": SEARCH["parameters"], "book": None} == result.tool_definitions
    assert STATE == result.final_state
    (turn_found,) = result.turns
    assert ("Search first.",) == turn_found.plans
    assert [("m1", 1, 10, 3, 1)] == [
        (use.model, use.calls, use.input_tokens, use.output_tokens, use.priced_calls) for use in turn_found.models
    ]
    assert [SECOND_NS] == [(call.ended_ns or 0) - (call.started_ns or 0) for call in turn_found.calls]


@pytest.mark.parametrize("tools", [None, []])
def test_no_tools_and_unknown_tools_stay_two_things(engine: Engine, tools: list[dict[str, Any]] | None) -> None:
    feed(engine, *chat_spans("c-1", tools))

    assert only(engine).tool_definitions == (None if tools is None else {})
    assert [] == tools_kept(engine)


def test_a_list_of_tools_is_kept_once_however_many_were_given_it(engine: Engine) -> None:
    for number in range(3):
        feed(engine, *chat_spans(f"c-{number}", [SEARCH]))
    feed(engine, *chat_spans("c-4", [{"name": "book"}, SEARCH]), *chat_spans("c-5", [SEARCH, {"name": "book"}]))

    assert [("book", None), ("search", "object"), ("search", "object")] == tools_kept(engine)
    assert 2 == rows(engine, "SELECT count(DISTINCT definitions_hash) FROM conversations")[0][0]


def test_spans_that_change_nothing_make_no_revision_and_new_facts_do(engine: Engine) -> None:
    spans = chat_spans("c-1", [SEARCH])
    feed(engine, *spans)
    feed(engine, *spans)
    assert [("c-1", 1, False)] == revisions(engine)

    late = act("plan", 3, attributes={"gen_ai.output.messages": [assistant("Then book.")]}, parent=spans[0])
    feed(engine, late)

    assert [("c-1", 1, True), ("c-1", 2, False)] == revisions(engine)
    assert ("Search first.", "Then book.") == only(engine).turns[0].plans


def test_a_conversation_without_facts_is_the_same_as_before_they_were_kept() -> None:
    """The hash is that of the release before; times of calls are those of spans that it knew already."""
    call = replace(tool_call("search", {"q": 1}), started_ns=NOON_NS, ended_ns=NOON_NS + SECOND_NS)
    bare = conversation(turn("hi", "hello", call))

    assert "6224c203a46e614479e7c29e3a0e2883" == content_hash(bare)
    assert content_hash(bare) != content_hash(replace(bare, tool_definitions={}))
    changes: list[dict[str, Any]] = [
        {"final_state": STATE},
        {"user_hash": 1},
        {"session_hash": 1},
        {"slices": ("tier=gold",)},
        {"turns": (replace(bare.turns[0], agent_name="other"),)},
    ]
    for change in changes:
        assert content_hash(bare) != content_hash(replace(bare, **change)), change


def test_a_late_span_that_only_names_the_agent_of_a_turn_is_no_repetition(engine: Engine) -> None:
    """Until the span between comes, the call of the model is outside of the run."""
    top = run(0, 9, id="c-1", query="hi", answer="hello")
    between = act("step", 1, 8, parent=top)
    answer = chat(2, [user("hi")], [assistant("hello")], parent=between)
    feed(engine, top, answer)
    assert [None] == [turn.agent_name for turn in only(engine).turns]
    feed(engine, between)

    assert ["travel"] == [turn.agent_name for turn in only(engine).turns]
    assert conversation_of(top, between, answer).turns == only(engine).turns


def test_a_conversation_of_an_older_release_gets_a_revision_only_where_there_are_facts(engine: Engine) -> None:
    """Such a store has no facts; a span comes that changes nothing but has both rebuilt."""
    feed(engine, run(0, 9, id="bare", trace="a", query="hi", answer="hello"), *chat_spans("c-1", [SEARCH]))
    before = [
        replace(stored_conversation, tool_definitions=None, final_state=None)
        for stored_conversation in stored_conversations(engine).values()
    ]
    before = [
        replace(item, turns=tuple(replace(entry, models=(), plans=(), reasoning=()) for entry in item.turns))
        for item in before
    ]
    engine.store.write(
        lambda con: save_conversations(
            con, [Built(conversation=item, ambiguous_link=False) for item in before], NOON_NS
        )
    )

    feed(
        engine,
        act("embeddings", 1, trace="a", attributes={"gen_ai.conversation.id": "bare"}),
        act("embeddings", 1, trace="c-1", attributes={"gen_ai.conversation.id": "c-1"}),
    )

    assert [("bare", 1, False), ("c-1", 1, True), ("c-1", 2, False)] == revisions(engine)


def test_the_definitions_of_an_import_without_their_table_are_unknown(engine: Engine) -> None:
    feed(engine, *chat_spans("c-1", [SEARCH]))
    engine.store.write(lambda con: con.execute("DELETE FROM tool_definitions"))

    assert only(engine).tool_definitions is None


def test_facts_are_exported_and_imported(engine: Engine, tmp_path: Path, clock: Clock) -> None:
    feed(engine, *chat_spans("c-1", [SEARCH]))
    receive(tmp_path / "out", Local(engine).stream_of(FilePiece, "store_export"), nothing)
    files = find_files(tmp_path / "out")

    with retaining_engine(tmp_path / "target.duckdb", clock, retention={"keep": None}) as target:
        send(Local(target), files, nothing)
        assert only(engine) == only(target)
        assert tools_kept(engine) == tools_kept(target)

    old = {table: paths for table, paths in files.items() if table != "tool_definitions"}
    with retaining_engine(tmp_path / "old.duckdb", clock, retention={"keep": None}) as target:
        send(Local(target), old, nothing)
        assert replace(only(engine), tool_definitions=None) == only(target)


def test_tools_go_with_the_last_conversation_that_was_given_them(engine: Engine, clock: Clock) -> None:
    feed(engine, *chat_spans("c-1", [SEARCH]), *chat_spans("c-2", [{"name": "book"}]))
    later = [
        replace(span, start_ns=span.start_ns + 10**13, end_ns=span.end_ns + 10**13)
        for span in chat_spans("c-3", [SEARCH])
    ]
    clock.at(3)
    feed(engine, *later)

    RetentionPass(engine, keep_ns=3600 * SECOND_NS).run()

    assert [("c-3", 1, False)] == revisions(engine)
    assert [("search", "object")] == tools_kept(engine)


def test_plans_and_states_are_redacted_as_all_that_comes_in(engine: Engine) -> None:
    spans = chat_spans("c-1", None, **{"agentic.final_state": json.dumps({"note": f"password={SECRET}"})})
    plan = act(
        "plan", 3, attributes={"gen_ai.output.messages": [assistant(f"Log in with password={SECRET}")]}, parent=spans[0]
    )
    feed(engine, *spans, plan)

    result = only(engine)

    assert SECRET not in repr(result)
    assert "redacted" in repr(result.final_state)
    assert "redacted" in result.turns[0].plans[-1]
