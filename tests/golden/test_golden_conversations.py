"""Conversations as the command line exports them, against reviewed files.

`OTEL_AGENTIC_REWRITE_GOLDEN=1` rewrites the files; read the difference before you commit it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from otel_agentic.reports.conversations import conversation_json
from otel_agentic.testing import AgentRunScript, batch, scripted_call, speak_genai, speak_openinference
from tests.conversations.rebuilding import asks, assistant, chat, conversations, run, tool, tool_result, user

if TYPE_CHECKING:
    from otel_agentic.spans.model import SpanBatch

FOLDER: Final = Path(__file__).parent
REWRITE: Final = os.environ.get("OTEL_AGENTIC_REWRITE_GOLDEN") == "1"

HELPER: Final = (
    AgentRunScript(agent_name="booking", conversation_id="of its own")
    .ask("A table for two at eight")
    .calls(
        scripted_call(
            "book_table", {"people": 2, "time": "20:00", "options": {"seats": "window"}}, result={"id": "B-1"}
        )
    )
    .answers("Booked as B-1.")
)
DINNER: Final = (
    AgentRunScript(agent_name="concierge", conversation_id="dinner", environment="production")
    .ask("What is the weather in Zürich and 東京?")
    .calls(
        scripted_call("weather", {"city": "Zürich"}, result={"celsius": 11.5}),
        scripted_call("weather", {"city": "東京"}, error="TimeoutError: late"),
        text="Let me look.",
    )
    .calls(scripted_call("weather", {"city": "東京"}, result="18 °C"))
    .answers("11.5 °C and 18 °C.")
    .ask("A table for two, please.")
    .calls(scripted_call("ask_booking", {"request": "A table for two at eight"}, result="Booked as B-1.", agent=HELPER))
    .answers("You have a table 🍽️.")
    .ask("And a taxi?")
    .calls(scripted_call("taxi", {}, error="KeyError: 'city'"))
)


def bare_client() -> SpanBatch:
    """Return model calls of an application that drives the loop itself and names no conversation."""
    request = asks(("c1", "weather", {"city": "Bern"}))
    history = [user("Weather in Bern?"), request, tool_result("c1", "Error: no such city")]
    answered = [*history, assistant("I do not know."), user("Thanks")]
    return batch(
        chat(0, history[:1], [request], trace="a"),
        chat(2, history, [assistant("I do not know.")], trace="b"),
        chat(60, answered, [assistant("Bye.")], trace="c"),
    )


def resumed_run() -> SpanBatch:
    """Return a run that stopped to ask its user and continued in another trace."""
    request = asks(("c1", "pay", {"amount": 90}))
    first = run(0, 2, id="trip", trace="a", query="Pay the hotel", agent="travel")
    second = run(300, 304, id="trip", trace="b", agent="travel")
    history = [user("Pay the hotel"), request, tool_result("c1", {"paid": True})]
    return batch(
        first,
        chat(1, history[:1], [request], parent=first),
        second,
        tool(301, "pay", call_id="c1", arguments='{"amount": 90}', result='{"paid": true}', parent=second),
        chat(303, history, [assistant("Paid.")], parent=second),
    )


STORIES: Final[dict[str, SpanBatch]] = {
    "genai_text": speak_genai(DINNER),
    "genai_without_content": speak_genai(DINNER, "none"),
    "openinference": speak_openinference(DINNER),
    "bare_client": bare_client(),
    "resumed_run": resumed_run(),
}


@pytest.mark.parametrize("story", STORIES)
def test_a_story_is_exported_as_reviewed(story: str) -> None:
    rebuilt = [conversation_json(item) for item in conversations(STORIES[story])]
    path = FOLDER / f"{story}.json"
    if REWRITE:
        path.write_text(json.dumps(rebuilt, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    assert json.loads(path.read_text(encoding="utf-8")) == json.loads(json.dumps(rebuilt))
