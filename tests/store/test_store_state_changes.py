"""`v_state_changes`: what each conversation changed wrongly, by the stored faults of tools that write."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.conversations.model import ConversationId
from otel_agentic.testing import tool_call, turn
from tests.store.store_queries import rows
from tests.store.test_store_failing import book, find, save, talk, view_rows

if TYPE_CHECKING:
    from otel_agentic.store import Store

DROP = tool_call("drop", {})
LOOK = tool_call("look", {})
#: One a class: `find` and `book` are expected in this order and write, `look` reads.
CONVERSATIONS = (
    talk("right", find(), LOOK, book()),
    talk("missing", find(), book("Oslo", error="full")),
    talk("extra", find(), book(), DROP, DROP),
    talk("both", book("Oslo"), DROP),
    talk("wrong", find(), book("Oslo"), day=1, version="2.0"),
    talk("other", find(), book(), answer="No."),
    talk("order", book(), find()),
)


@pytest.fixture
def trips(store: Store) -> Store:
    save(store, CONVERSATIONS)
    return store


def test_each_conversation_is_of_one_class_by_its_faults(trips: Store) -> None:
    by_conversation = {row["conversation_id"]: row for row in view_rows(trips, "v_state_changes")}

    assert {
        "right": ("right", 0, 0, 0),
        "missing": ("missing", 1, 0, 0),
        "extra": ("extra", 0, 2, 0),
        "both": ("missing_and_extra", 1, 1, 1),
        "wrong": ("wrong_arguments", 0, 0, 1),
        # It failed, and not by what it changed.
        "other": ("other", 0, 0, 0),
        "order": ("other", 0, 0, 0),
    } == {
        name: tuple(row[column] for column in ("state_changes", "missing", "extra", "wrong_arguments"))
        for name, row in by_conversation.items()
    }
    row = by_conversation["wrong"]
    assert ("travel", "2.0", "production", "trip", "fail") == tuple(
        row[column] for column in ("agent", "agent_version", "environment", "case_id", "outcome")
    )


def test_tools_that_read_are_no_state_changes(store: Store) -> None:
    save(store, CONVERSATIONS, effects={"find": "read", "drop": "read"})

    # What reads may be called beyond the expected calls, too: the dropping one is right.
    assert {"right": 2, "missing": 1, "extra": 0, "wrong_arguments": 2} == {
        name: sum(row["state_changes"] == name for row in view_rows(store, "v_state_changes"))
        for name in ("right", "missing", "extra", "wrong_arguments")
    }
    assert {("book", "write"), ("find", "read")} == {
        (tool, effect) for tool, effect in rows(store, "SELECT DISTINCT tool_name, effect FROM tool_faults")
    }


def test_what_is_not_known_has_no_class(store: Store) -> None:
    unrecorded = talk("unrecorded", *(replace(call, arguments=None) for call in (find(), book())))
    save(store, [unrecorded, CONVERSATIONS[1]], {"unrecorded": False, "missing": False})
    classes: dict[str, Any] = {
        row["conversation_id"]: row["state_changes"] for row in view_rows(store, "v_state_changes")
    }
    assert {"unrecorded": None, "missing": "missing"} == classes

    # Faults of earlier releases lack the effect of their tools.
    store.write(lambda con: con.execute("UPDATE tool_faults SET effect = NULL"))
    assert {None} == {row["state_changes"] for row in view_rows(store, "v_state_changes")}


def test_calls_without_captured_content_are_not_missing(store: Store) -> None:
    silent_turn = turn(None, None, query_captured=False, answer_captured=False)
    silent = replace(CONVERSATIONS[1], conversation_id=ConversationId("silent"), turns=(silent_turn,))
    save(store, [silent, CONVERSATIONS[1]], {"silent": False})
    assert {"silent": None, "missing": "missing"} == {
        row["conversation_id"]: row["state_changes"] for row in view_rows(store, "v_state_changes")
    }


def test_the_arithmetic_of_another_system_tells_no_faults_and_so_no_class(trips: Store) -> None:
    other = '{"compat": "agent-surface"}'
    trips.write(lambda con: con.execute("UPDATE evaluations SET settings = ?::JSON", [other]))
    assert {None} == {row["state_changes"] for row in view_rows(trips, "v_state_changes")}


def test_superseded_scores_and_conversations_without_expected_tools_are_left_out(trips: Store) -> None:
    trips.write(lambda con: con.execute("UPDATE scores SET superseded = conversation_id = 'right'"))
    assert 6 == len(view_rows(trips, "v_state_changes"))
    trips.write(
        lambda con: con.execute("DELETE FROM scores WHERE name = 'agentic.tool.overall' AND conversation_id = 'wrong'")
    )
    assert 5 == len(view_rows(trips, "v_state_changes"))
