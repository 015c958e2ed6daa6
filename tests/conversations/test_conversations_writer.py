"""Which dialect and which instrumentation scope a turn came from."""

from __future__ import annotations

from dataclasses import replace

from otel_agentic.spans.model import Scope
from otel_agentic.testing import batch, span
from tests.conversations.rebuilding import assistant, chat, run, turn_of, user


def test_a_turn_has_dialect_and_scope_of_its_run() -> None:
    root = replace(run(0, query="Which hotel?", answer="The Ritz."), scope=Scope(name="travel-lib"))
    inner = replace(chat(0.1, parent=root), scope=Scope(name="client-lib"))

    turn = turn_of(batch(root, inner))

    assert ("genai", "travel-lib") == (turn.dialect, turn.scope)


def test_where_the_root_says_nothing_the_first_event_speaks() -> None:
    request = span("POST /chat", scope="web-lib")
    model_call = chat(0.1, [user("Which hotel?")], [assistant("The Ritz.")], parent=request)

    turn = turn_of(request, replace(model_call, scope=Scope(name="client-lib")))

    assert request.span_id == turn.span_id
    assert ("genai", "client-lib") == (turn.dialect, turn.scope)
