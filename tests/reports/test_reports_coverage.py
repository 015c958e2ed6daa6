"""Coverage: recorded content, missing content, and the setting that would record it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.reports.conversations import by_framework, of_conversations, of_view
from otel_agentic.store.queries.conversations import coverage
from otel_agentic.testing import AgentRunScript, conversation, scripted_call, speak_genai, tool_call, turn
from tests.builders import ask_hotel, feed, stored_conversations
from tests.snapshots import opening

if TYPE_CHECKING:
    from otel_agentic.conversations.model import ToolCall, Turn
    from otel_agentic.engine.engine import Engine
    from otel_agentic.results.store import Coverage

_FROM_ADK = {"dialect": "adk", "scope": "gcp.vertex.agent"}


def bare(*calls: Any, **changes: Any) -> Turn:
    """Return a turn of Google ADK of which nothing was captured."""
    nothing = {"query_captured": False, "answer_captured": False}
    return turn(None, None, *calls, **{**_FROM_ADK, **nothing, **changes})


def silent(**changes: Any) -> ToolCall:
    """Return a call of which nothing was captured."""
    return replace(tool_call(), **{"arguments": None, "result": None, "result_captured": False, **changes})


def covered(*turns: Turn, **changes: Any) -> Coverage:
    (row,) = by_framework(of_conversations([conversation(*turns, **changes)]))
    return row


def test_content_that_is_off_names_the_setting_of_the_framework() -> None:
    row = covered(bare(silent()), bare())

    assert ("google-adk", 2, 1) == (row.framework, row.turns, row.calls)
    assert [("queries", 0, 2), ("answers", 0, 2), ("arguments", 0, 1), ("results", 0, 1)] == [
        (item.what, item.have, item.of) for item in row.missing
    ]
    (advice,) = {item.advice for item in row.missing}
    assert opening(advice) == snapshot(
        "content capture is off: set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY"
    )


def test_content_that_is_there_in_part_says_where_the_limits_stand() -> None:
    (missing,) = covered(turn(**_FROM_ADK), turn(answer=None, answer_captured=False, **_FROM_ADK)).missing

    assert ("answers", 1, 2) == (missing.what, missing.have, missing.of)
    assert opening(missing.advice) == snapshot("recorded in part: set OTEL_INSTRUMENTATION_")
    assert missing.advice.endswith("docs/frameworks/google-adk.md")


@pytest.mark.parametrize(
    "lacking",
    [
        turn(**_FROM_ADK),
        turn(answer=None, answer_captured=False, error="it broke", **_FROM_ADK),
        turn("q", "a", silent(arguments={}, error="it broke"), **_FROM_ADK),
        turn("q", "a", silent(kind="transfer"), **_FROM_ADK),
    ],
    ids=["no calls", "failed turn", "failed call", "transfer"],
)
def test_where_there_is_nothing_to_record_nothing_is_missing(lacking: Turn) -> None:
    row = covered(lacking)

    assert [] == row.missing
    assert row.results is None


def test_an_error_is_no_content() -> None:
    row = covered(bare(silent(error="it broke"), error="it broke"))

    assert {item.advice.split(":")[0] for item in row.missing} == snapshot({"content capture is off"})


def test_conversations_without_an_id_get_a_hint_how_to_set_one() -> None:
    (missing,) = covered(turn(**_FROM_ADK), link_method="history").missing

    assert ("conversation ids", 0, 1) == (missing.what, missing.have, missing.of)
    assert opening(missing.advice) == snapshot("no span has one: pass the session to runner.run_async(..., session_id=")


def test_scopes_of_one_framework_are_one_row_and_dialects_are_not() -> None:
    rows = by_framework(
        of_conversations(
            [
                conversation(
                    turn(dialect="openinference", scope="a"),
                    turn(dialect="openinference", scope="b"),
                    turn(dialect="genai", scope="b"),
                    turn(),
                )
            ]
        )
    )

    assert [
        ("None", "unknown", 1, []),
        ("genai", "genai", 1, ["b"]),
        ("openinference", "openinference", 2, ["a", "b"]),
    ] == [(str(row.dialect), row.framework, row.turns, row.scopes) for row in rows]


def test_the_view_counts_as_the_conversations_do(engine: Engine) -> None:
    failing = (
        AgentRunScript(conversation_id="c2").ask("Again?").calls(scripted_call("search", {"q": "x"}, error="it broke"))
    )
    feed(
        engine,
        speak_genai(ask_hotel("c1")),
        speak_genai(failing.calls(scripted_call("search", {"q": "y"}, result="z")).answers("Yes."), start_ns=1),
        speak_genai(ask_hotel(None), start_ns=2),
    )
    with engine.store.read() as con:
        recorded = by_framework(of_view(coverage(con)))

    assert recorded == by_framework(of_conversations(stored_conversations(engine).values()))
    (row,) = recorded
    assert ("concierge", "genai", 3, 4) == (row.service, row.dialect, row.turns, row.calls)
    assert (1.0, 2 / 3) == (row.results, row.conversation_id)
