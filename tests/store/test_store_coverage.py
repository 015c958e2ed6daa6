"""Coverage by dialect and instrumentation scope, and the view that counts by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.store.conversations import Built, content_hash, load_conversations, save_conversations
from otel_agentic.testing import NOON_NS, conversation, tool_call, turn
from tests.store.store_queries import rows, value

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.store import Store


def save(store: Store, *conversations: Conversation) -> None:
    built = [Built(conversation=item, ambiguous_link=False) for item in conversations]
    store.write(lambda con: save_conversations(con, built, NOON_NS))


def test_dialect_and_scope_of_a_turn_come_back(store: Store) -> None:
    mixed = conversation(turn(dialect="genai", scope="pydantic-ai"), turn())
    save(store, mixed)

    with store.read() as con:
        assert [mixed] == load_conversations(con, [(mixed.environment, str(mixed.conversation_id))])


def test_a_turn_and_a_call_that_begin_before_the_first_event_come_back(store: Store) -> None:
    early = turn(calls=(tool_call(started_ns=NOON_NS - 9),), started_ns=NOON_NS - 5)
    saved = [conversation(early, started_ns=NOON_NS), conversation(turn(started_ns=NOON_NS), conversation_id="c2")]
    save(store, *saved)

    with store.read() as con:
        for item in saved:
            assert [item] == load_conversations(con, [(item.environment, str(item.conversation_id))])


def test_another_reader_of_the_same_content_makes_no_revision() -> None:
    assert content_hash(conversation(turn())) == content_hash(conversation(turn(dialect="genai", scope="x")))


def test_the_view_has_a_row_for_each_service_dialect_and_scope(store: Store) -> None:
    save(
        store,
        conversation(turn(dialect="genai", scope="a"), turn(dialect="genai", scope="b")),
        conversation(turn(dialect="genai", scope="a"), conversation_id="c2", service="other", link_method="trace"),
    )

    assert [
        ("concierge", "genai", "a", 1, 1.0),
        ("concierge", "genai", "b", 1, 1.0),
        ("other", "genai", "a", 1, 0.0),
    ] == (rows(store, "SELECT service, dialect, scope, turns, conversation_id FROM v_coverage ORDER BY ALL"))


def test_what_failed_lacks_nothing_and_a_transfer_is_no_call(store: Store) -> None:
    failed = tool_call(error="it broke", result_captured=False)
    handed = tool_call("transfer_to_agent", kind="transfer", result_captured=False)
    save(store, conversation(turn("q", None, tool_call(), failed, handed, answer_captured=False, error="it broke")))

    assert [(1, 1, 2, 1, None, 1.0, 1.0)] == rows(
        store, "SELECT turns, failed_turns, calls, failed_calls, answer, arguments, results FROM v_coverage"
    )


def test_a_closed_conversation_without_a_score_is_shown_as_not_scored(store: Store) -> None:
    save(store, conversation(turn(), closed_by="idle"), conversation(turn(), conversation_id="open", closed_by=None))

    assert [("conversation-1", None, "not_scored"), ("open", None, None)] == rows(
        store, "SELECT conversation_id, outcome, reason FROM v_conversations ORDER BY ALL"
    )


def test_the_view_of_an_empty_file_is_empty(store: Store) -> None:
    assert 0 == value(store, "SELECT count(*) FROM v_coverage")
