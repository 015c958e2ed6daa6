"""Open conversations have provisional outcomes, and a selection without closed conversations has a reason and a next step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from otel_agentic.commands.registry import Commands
from otel_agentic.engine.engine import Engine
from otel_agentic.evaluation.scope import TruthFile
from otel_agentic.testing import NOON_NS, SECOND_NS, AgentRunScript, batch, scripted_call, speak_genai
from tests.builders import CASE
from tests.cli.running import done, on_terminal, run
from tests.stores import settings_for

if TYPE_CHECKING:
    from collections.abc import Sequence

DB = Path("t.duckdb")
LONG_CASE = (
    '{"case_id": "long", "turns": [{"query": "Which inn?", "answer": "The Ritz."},'
    ' {"query": "And breakfast?", "answer": "Yes."}]}'
)


def script(name: str, query: str, searched: str) -> AgentRunScript:
    """Return a conversation of one query, one call and one answer."""
    request = AgentRunScript(conversation_id=name).ask(query)
    return request.calls(scripted_call("search", {"q": searched}, result=["Ritz"])).answers("The Ritz.")


SCRIPTS = (
    script("right", "Which hotel?", "hotels"),
    script("wrong", "Which hotel?", "hostels"),
    script("first turn of two", "Which inn?", "inns"),
    script("without a case", "Which museum?", "museums"),
)


def arrive(
    scripts: Sequence[AgentRunScript], *, cases: str = f"{CASE}\n{LONG_CASE}", collecting: bool = False
) -> Engine:
    """Return an engine whose conversations are rebuilt, as a minute after their last spans, and open."""
    clock = lambda: NOON_NS + 120 * SECOND_NS  # noqa: E731 — one moment
    engine = Engine(settings_for(DB), create=True, collecting=collecting, clock=clock)
    if cases:
        engine.runner.remember([TruthFile(name="cases.jsonl", text=cases)], [])
    engine.store.accept(batch(*map(speak_genai, scripts)))
    engine.rebuilder.rebuild(engine.rebuilder.read(engine.rebuilder.pending()), lambda _: None)
    return engine


def test_a_failure_is_certain_at_once_and_a_success_is_not() -> None:
    with arrive(SCRIPTS) as engine:
        commands = Commands(engine)
        before = commands.call("conversations_list", {})
        result = commands.run("conversations_open", {"scored": True})
        assert commands.call("conversations_list", {}) == before  # nothing is stored
        assert commands.call("report", {})["groups"] == []

    outcomes = {item.conversation_id: (item.outcome, item.reason, item.case_id) for item in result.conversations}
    assert outcomes == {
        "right": ("no failure so far", None, "hotel"),
        "wrong": ("failed already", "tool_fault", "hotel"),
        "first turn of two": ("no failure so far", "incomplete", "long"),
        "without a case": ("not evaluated", "unmatched", None),
    }
    assert [fault.parameter for item in result.conversations for fault in item.faults] == ["q"]


def test_a_collector_names_when_the_first_conversation_closes() -> None:
    with arrive(SCRIPTS[:1], collecting=True) as engine:
        result = Commands(engine).run("conversations_open", {})

    assert (result.open, result.arriving, result.collecting, result.conversations) == (1, None, True, [])
    assert result.first_closes_at == "2026-05-29T12:32:00.000000000Z"  # received at 12:02, idle for half an hour


def test_open_conversations_are_counted_listed_and_explained() -> None:
    arrive(SCRIPTS).close()

    printed = {
        command: "\n".join(on_terminal(120, *command.split(), "--db", DB, "--open"))
        for command in ("report", "conversations list", "tools failing")
    }

    assert printed == snapshot(
        {
            "report": """\
no closed conversations in this selection
Open conversations (provisional: in no rate, window or tier)
agent   version  open  failed already  no failure so far  not evaluated
───────────────────────────────────────────────────────────────────────
travel  —           4               1                  2              1
4 conversations are open; no collector runs on this store, so nothing closes them: start `otel-agentic serve`, or close
them with `otel-agentic evaluate --close-open`\
""",
            "conversations list": """\
Open conversations (provisional: in no rate, window or tier)
conversation       agent   case   so far             because                                                            \n\
────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
first turn of two  travel  long   no failure so far
right              travel  hotel  no failure so far
without a case     travel  —      not evaluated      no case belongs to it
wrong              travel  hotel  failed already     search in turn 1, step 1: parameter q was "hostels", expected
                                                     "hotels"
4 conversations are open; no collector runs on this store, so nothing closes them: start `otel-agentic serve`, or close
them with `otel-agentic evaluate --close-open`\
""",
            "tools failing": """\
no tool faults: no closed conversations in this selection
Tool faults of open conversations (provisional: in no rate)
tool    fault               faults  for example                                                             conversation
────────────────────────────────────────────────────────────────────────────────────────────────────────────────────────
search  wrong_parameters q       1  search in turn 1, step 1: parameter q was "hostels", expected "hotels"  wrong
4 conversations are open; no collector runs on this store, so nothing closes them: start `otel-agentic serve`, or close
them with `otel-agentic evaluate --close-open`\
""",
        }
    )
    rows = done("conversations", "list", "--db", DB, "--open", "--format", "json").json
    assert {row["conversation_id"] for row in rows} == {"right", "wrong", "first turn of two", "without a case"}


@pytest.mark.parametrize(
    "command",
    [
        "report",
        "evaluate",
        *(pytest.param(other, marks=pytest.mark.slow) for other in ("tools failing", "failures", "conversations list")),
    ],
)
def test_an_empty_store_names_the_ways_to_fill_it(command: str) -> None:
    Engine(settings_for(DB), create=True).close()

    out = done(*command.split(), "--db", DB).out

    assert "the store has no spans: run your agent with `otel-agentic run -- COMMAND`" in out


def test_without_closed_conversations_the_reason_and_the_next_step_are_named() -> None:
    arrive(SCRIPTS[:1], cases="").close()

    out = done("report", "--db", DB).out

    assert "1 conversation is open; no collector runs on this store, so nothing closes them" in out
    assert "no cases are loaded, so no outcome can be computed" in out
    assert "1 conversation scored" in done("evaluate", "--close-open", "--db", DB).out
    other_time = done("report", "--db", DB, "--since", "2100-01-01").out
    assert "1 other conversation of the store: not in this selection" in other_time


def test_provisional_outcomes_are_in_no_rate() -> None:
    ran = run("report", "--db", DB, "--open", "--format", "json")

    assert ran.code == 2
    assert "provisional outcomes are in no rate" in ran.err


def test_conversations_that_arrived_just_now_are_counted_before_they_are_rebuilt() -> None:
    with Engine(settings_for(DB), create=True) as engine:
        engine.store.accept(batch(*map(speak_genai, SCRIPTS[:2])))
        unread = Commands(engine).run("conversations_open", {"arriving": True})
        engine.rebuilder.read(engine.rebuilder.pending())
        read = Commands(engine).run("conversations_open", {"arriving": True})

    assert [(result.open, result.arriving) for result in (unread, read)] == [(0, 2), (0, 2)]
    assert "2 conversations are open" in done("report", "--db", DB).out


def test_without_open_conversations_the_answer_is_not_empty() -> None:
    arrive(SCRIPTS).close()
    done("evaluate", "--close-open", "--db", DB)
    assert "no open conversations in this selection\n" == done("conversations", "list", "--db", DB, "--open").out
