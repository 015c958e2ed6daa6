"""Through the store: batches in any cut and order, sent twice, rebuilt in between, give the same conversations."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_agentic.config import StoreSettings
from otel_agentic.engine.rebuild import Rebuilder
from otel_agentic.store import Store
from otel_agentic.store.conversations import load_conversations
from otel_agentic.store.queries.conversations import all_conversations
from otel_agentic.store.selection import Selection
from otel_agentic.testing import (
    NOON_NS,
    SECOND_NS,
    AgentRunScript,
    batch,
    link_to,
    scripted_call,
    span,
    speak_genai,
    speak_openinference,
)
from tests.conversations.rebuilding import READER, SETTINGS, assistant, at, chat, conversations, run, user
from tests.conversations.scripts import scripts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from random import Random

    from otel_agentic.conversations import Conversation
    from otel_agentic.spans.model import LogRecord, Span, SpanBatch

_FILES: Final = count()


class Kept:
    """A store with its rebuilder."""

    def __init__(self, folder: Path) -> None:
        self.clock_ns = NOON_NS
        self._store = Store(StoreSettings(db=folder / f"{next(_FILES)}.duckdb"), READER, clock=self._tick)
        self._rebuilder = Rebuilder(self._store, READER, SETTINGS)

    def accept(self, *items: Span | LogRecord | SpanBatch) -> None:
        self._store.accept(batch(*items))

    def rebuild(self, *, closed: bool) -> list[Conversation]:
        """Rebuild what is pending; return what was saved."""
        touched = self._rebuilder.read(self._rebuilder.pending())
        saved = self._rebuilder.rebuild(touched, lambda _: "idle" if closed else None).saved
        keys = {item.key for item in saved}
        return [found for found in self.conversations() if found.key in keys]

    def conversations(self) -> list[Conversation]:
        with self._store.read() as con:
            return load_conversations(con, all_conversations(con, Selection()))

    def close(self) -> None:
        self._store.close()

    def _tick(self) -> int:
        self.clock_ns += SECOND_NS
        return self.clock_ns


def said(found: Sequence[Conversation]) -> list[Conversation]:
    """Return conversations in an order of their own, without how often they were rebuilt and what closed them."""
    plain = [replace(item, revision=1, closed_by=None) for item in found]
    return sorted(plain, key=lambda item: item.key)


def bare_clients() -> list[Span]:
    """Return model calls without ids: two that begin alike, one that goes on, one that a web session names."""
    hi, hello = [user("Hi")], [assistant("Hello!")]
    request = span("POST /chat", trace="web", start_ns=at(0), end_ns=at(9), attributes={"session.id": "s1"})
    return [
        chat(0, hi, hello, trace="a"),
        chat(3, hi, hello, trace="b"),
        chat(60, [*hi, *hello, user("More")], [assistant("More!")], trace="c"),
        chat(90, [*hi, *hello, user("More"), assistant("More!"), user("?")], [assistant("!")], trace="d"),
        request,
        chat(1, hi, hello, parent=request),
        run(400, 401, trace="e", query="Go on", links=[link_to(chat(3, hi, hello, trace="b"))]),
    ]


#: One temporary folder serves all examples of a test: each makes a file of its own.
in_one_folder: Final = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
styles: Final = st.sampled_from(("text", "logs", "per_message"))
randoms: Final = st.randoms(use_true_random=False)
short: Final = scripts(max_turns=2)


@given(first=short, second=scripts(max_turns=2, conversation_id=None), style=styles, random=randoms)
@settings(in_one_folder, max_examples=4)
def test_shuffled_duplicated_and_rebatched_spans_give_the_same_conversations(
    tmp_path: Path, first: AgentRunScript, second: AgentRunScript, style: str, random: Random
) -> None:
    check_arrival(tmp_path, first, second, style, random)


@pytest.mark.slow
@given(first=scripts(), second=scripts(conversation_id=None), style=styles, random=randoms)
@settings(in_one_folder, max_examples=40)
def test_long_ones_shuffled_duplicated_and_rebatched_give_the_same_conversations(
    tmp_path: Path, first: AgentRunScript, second: AgentRunScript, style: str, random: Random
) -> None:
    check_arrival(tmp_path, first, second, style, random)


def check_arrival(folder: Path, first: AgentRunScript, second: AgentRunScript, style: str, random: Random) -> None:
    """Check that two conversations, and what bare clients say, are found whatever way their spans arrive."""
    spoken = batch(
        speak_genai(first, style),  # type: ignore[arg-type]  # sampled_from knows no Literal
        speak_openinference(second, start_ns=at(3600)),
        *bare_clients(),
    )
    items: list[Span | LogRecord] = [*spoken.spans, *spoken.logs]
    expected = said(conversations(spoken))
    # A log record has no id of its own, so that only spans can be told from their duplicates.
    items += random.sample(spoken.spans, k=len(spoken.spans) // 3)
    random.shuffle(items)

    kept = Kept(folder)
    try:
        while items:
            size = random.randint(1, max(len(items) // 2, 1))
            kept.accept(*items[:size])
            items = items[size:]
            if random.random() < 0.6:
                kept.rebuild(closed=random.random() < 0.3)
        kept.rebuild(closed=True)
        assert expected == said(kept.conversations())
        assert [] == kept.rebuild(closed=True)
    finally:
        kept.close()


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


SCRIPT: Final = (
    AgentRunScript().ask("Which?").calls(scripted_call("search", {"q": "x"}, result=["Ritz"])).answers("The Ritz.")
)


def test_what_comes_back_from_the_store_is_what_was_rebuilt(kept: Kept) -> None:
    kept.accept(speak_genai(SCRIPT))

    kept.rebuild(closed=True)

    assert said(conversations(speak_genai(SCRIPT))) == said(kept.conversations())
    kept.close()


def test_a_late_tool_span_makes_a_second_revision_and_a_repeated_one_does_not(kept: Kept) -> None:
    *others, late = sorted(speak_genai(SCRIPT, "none").spans, key=lambda item: "gen_ai.tool.name" in item.attributes)
    kept.accept(*others)
    (before,) = kept.rebuild(closed=True)

    kept.accept(late)
    (after,) = kept.rebuild(closed=False)
    kept.accept(late)

    assert [(1, 0), (2, 1)] == [(item.revision, len(item.turns[0].calls)) for item in (before, after)]
    assert "idle" == after.closed_by
    assert [] == kept.rebuild(closed=True)
    assert [after] == kept.conversations()
    kept.close()


def test_a_conversation_that_turns_out_to_be_part_of_another_vanishes(kept: Kept) -> None:
    hi, hello = [user("Hi")], [assistant("Hello!")]
    kept.accept(chat(60, [*hi, *hello, user("More")], [assistant("More!")], trace="b"))
    (alone,) = kept.rebuild(closed=False)

    kept.accept(chat(0, hi, hello, trace="a"))
    (joined,) = kept.rebuild(closed=False)

    assert (1, 2) == (len(alone.turns), len(joined.turns))
    assert [joined.key] == [item.key for item in kept.conversations()]
    kept.close()


def test_a_session_that_arrives_late_names_the_conversation(kept: Kept) -> None:
    request = span("POST /chat", start_ns=at(0), end_ns=at(9), attributes={"session.id": "s1"})
    kept.accept(chat(1, [user("Hi")], [assistant("Hello!")], parent=request))
    kept.rebuild(closed=False)

    kept.accept(request)
    kept.rebuild(closed=False)

    assert ["s1"] == [item.conversation_id for item in kept.conversations()]
    kept.close()
