"""`v_state_changes`: what each conversation changed wrongly, by the stored faults of tools that write."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.conversations.model import ConversationId
from otel_agentic.testing import tool_call, turn
from tests.store.asking import rows
from tests.store.test_store_failing import asked, book, find, save, talk

if TYPE_CHECKING:
    from otel_agentic.store import Store

DROP = tool_call("drop", {})
LOOK = tool_call("look", {})
#: One a class: `find` and `book` are expected in this order and write, `look` reads.
MADE = (
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
    save(store, MADE)
    return store


def test_each_conversation_is_of_one_class_by_its_faults(trips: Store) -> None:
    found = {row["conversation_id"]: row for row in asked(trips, "v_state_changes")}

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
        for name, row in found.items()
    }
    row = found["wrong"]
    assert ("travel", "2.0", "production", "trip", "fail") == tuple(
        row[column] for column in ("agent", "agent_version", "environment", "case_id", "outcome")
    )


def test_tools_that_read_are_no_state_changes(store: Store) -> None:
    save(store, MADE, effects={"find": "read", "drop": "read"})

    # What reads may be called beyond the expected calls, too: the dropping one is right.
    assert {"right": 2, "missing": 1, "extra": 0, "wrong_arguments": 2} == {
        name: sum(row["state_changes"] == name for row in asked(store, "v_state_changes"))
        for name in ("right", "missing", "extra", "wrong_arguments")
    }
    assert {("book", "write"), ("find", "read")} == {
        (tool, effect) for tool, effect in rows(store, "SELECT DISTINCT tool_name, effect FROM tool_faults")
    }


def test_what_is_not_known_has_no_class(store: Store) -> None:
    unrecorded = talk("unrecorded", *(replace(call, arguments=None) for call in (find(), book())))
    save(store, [unrecorded, MADE[1]], {"unrecorded": False, "missing": False})
    classes: dict[str, Any] = {row["conversation_id"]: row["state_changes"] for row in asked(store, "v_state_changes")}
    assert {"unrecorded": None, "missing": "missing"} == classes

    # Faults of earlier releases do not tell what their tools do.
    store.write(lambda con: con.execute("UPDATE tool_faults SET effect = NULL"))
    assert {None} == {row["state_changes"] for row in asked(store, "v_state_changes")}


def test_calls_that_nobody_could_have_seen_are_not_missing(store: Store) -> None:
    said = turn(None, None, query_captured=False, answer_captured=False)
    silent = replace(MADE[1], conversation_id=ConversationId("silent"), turns=(said,))
    save(store, [silent, MADE[1]], {"silent": False})
    assert {"silent": None, "missing": "missing"} == {
        row["conversation_id"]: row["state_changes"] for row in asked(store, "v_state_changes")
    }


def test_the_arithmetic_of_another_system_tells_no_faults_and_so_no_class(trips: Store) -> None:
    other = '{"compat": "agent-surface"}'
    trips.write(lambda con: con.execute("UPDATE evaluations SET settings = ?::JSON", [other]))
    assert {None} == {row["state_changes"] for row in asked(trips, "v_state_changes")}


def test_superseded_scores_and_conversations_without_expected_tools_are_left_out(trips: Store) -> None:
    trips.write(lambda con: con.execute("UPDATE conversation_scores SET superseded = conversation_id = 'right'"))
    assert 6 == len(asked(trips, "v_state_changes"))
    trips.write(lambda con: con.execute("DELETE FROM tool_scores WHERE conversation_id = 'wrong'"))
    assert 5 == len(asked(trips, "v_state_changes"))
