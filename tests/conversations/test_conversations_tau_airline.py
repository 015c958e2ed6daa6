"""Two hundred real conversations, and twenty of them in four other dresses."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from otel_agentic import plugins
from otel_agentic.config import Settings
from otel_agentic.testing import CallOutline, Outline, outline
from tests.conversations.rebuilding import conversations
from tests.shared import SHARED, why_absent

if TYPE_CHECKING:
    from otel_agentic.conversations import Conversation

FOLDER = SHARED / "data" / "tau-airline"
pytestmark = pytest.mark.skipif(why_absent(FOLDER) is not None, reason=str(why_absent(FOLDER)))


@cache
def read(name: str) -> dict[str, Conversation]:
    reader = plugins.get("collectors", "files").load().from_settings(Settings())
    rebuilt = conversations(*(chunk.batch for chunk in reader.read([FOLDER / f"{name}.jsonl.gz"])))
    return {str(item.conversation_id): item for item in rebuilt}


def calls(result: Outline) -> list[CallOutline]:
    return [call for turn in result.turns for call in turn.calls]


@pytest.mark.slow  # of every capture: tests/conversations/test_conversations_captures.py
def test_every_turn_and_call_is_rebuilt() -> None:
    result = [outline(item) for item in read("spans").values()]
    actual = [call for item in result for call in calls(item)]

    assert (200, 1341, 1164, 73) == (
        len(result),
        sum(len(item.turns) for item in result),
        len(actual),
        sum(call.failed for call in actual),
    )


def test_everything_in_them_was_captured_and_named() -> None:
    result = read("spans").values()

    assert {("full", "explicit", "end_of_input")} == {
        (item.content_captured, item.link_method, item.closed_by) for item in result
    }
    assert 50 == len({item.case_id for item in result} - {None})


@pytest.mark.slow  # of small conversations: test_conversations_metamorphic.py
@pytest.mark.parametrize("notation", ["structured", "sibling", "openinference"])
def test_the_same_conversations_in_another_notation_are_the_same(notation: str) -> None:
    dressed = read(f"variant-{notation}")

    assert 20 == len(dressed)
    for name, item in dressed.items():
        plain = read("spans")[name]
        assert outline(plain) == outline(item)
        assert plain.case_id == item.case_id


def test_without_content_the_structure_stays_and_nothing_is_made_up() -> None:
    bare = read("variant-nocontent")

    assert 20 == len(bare)
    for name, item in bare.items():
        plain = read("spans")[name]
        assert "none" == item.content_captured
        assert [[(call.name, call.step) for call in turn.calls] for turn in plain.turns] == [
            [(call.name, call.step) for call in turn.calls] for turn in item.turns
        ]
        assert {(None, None)} == {(turn.query, turn.answer) for turn in item.turns}
