"""Through the store: batches in any cut and order, sent twice, rebuilt in between, give the same conversations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_agentic.config import StoreSettings
from otel_agentic.engine.rebuild import Rebuilder
from otel_agentic.engine.segments import SegmentReader
from otel_agentic.store import Store
from otel_agentic.store.conversations import load_conversations
from otel_agentic.store.queries.conversations import all_conversations
from otel_agentic.store.table import Selection
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
    from random import Random

    from otel_agentic.conversations import Conversation
    from otel_agentic.spans.model import LogRecord, Span, SpanBatch

_FILES: Final = count()


class RebuiltStore:
    """A store with its rebuilder."""

    def __init__(self, folder: Path) -> None:
        self.clock_ns = NOON_NS
        self._store = Store(StoreSettings(db=folder / f"{next(_FILES)}.duckdb"), READER, clock=self._tick)
        self._rebuilder = Rebuilder(self._store, SegmentReader(self._store, READER), SETTINGS)

    def accept(self, *items: Span | LogRecord | SpanBatch) -> None:
        self._store.accept(batch(*items))

    def rebuild(self, *, closed: bool) -> list[Conversation]:
        """Rebuild the pending conversations; return the saved ones."""
        touched = self._rebuilder.read(self._rebuilder.pending())
        saved = self._rebuilder.rebuild(touched, lambda _: "idle" if closed else None).saved
        keys = {item.key for item in saved}
        return [conversation for conversation in self.conversations() if conversation.key in keys]

    def conversations(self) -> list[Conversation]:
        with self._store.read() as con:
            return load_conversations(con, all_conversations(con, Selection()))

    def close(self) -> None:
        self._store.close()

    def _tick(self) -> int:
        self.clock_ns += SECOND_NS
        return self.clock_ns


def normalised(result: Sequence[Conversation]) -> list[Conversation]:
    """Return conversations in an order of their own, without how often they were rebuilt and what closed them."""
    plain = [replace(item, revision=1, closed_by=None) for item in result]
    return sorted(plain, key=lambda item: item.key)


def bare_clients() -> list[Span]:
    """Return model calls without ids: two with the same beginning, one that continues, one that a web session names."""
    hi, hello = [user("Hi")], [assistant("Hello!")]
    request = span("POST /chat", trace="web", start_ns=at(0), end_ns=at(9), attributes={"session.id": "s1"})
    return [
        chat(0, hi, hello, trace="a"),
        chat(3, hi, hello, trace="b"),
        chat(60, [*hi, *hello, user("More")], [assistant("More!")], trace="c"),
        chat(90, [*hi, *hello, user("More"), assistant("More!"), user("?")], [assistant("!")], trace="d"),
        request,
        chat(1, hi, hello, parent=request),
        run(400, 401, trace="e", query="And then?", links=[link_to(chat(3, hi, hello, trace="b"))]),
    ]


#: One temporary folder serves all examples of a test: each makes a file of its own.
in_one_folder: Final = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
styles: Final = st.sampled_from(("text", "logs", "per_message"))
randoms: Final = st.randoms(use_true_random=False)
short: Final = scripts(max_turns=2)


@given(first=short, second=scripts(max_turns=2, conversation_id=None), style=styles, random=randoms)
@settings(in_one_folder, max_examples=2)
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
    """Check that two conversations, and those of bare clients, are the same however their spans arrive."""
    spoken = batch(
        speak_genai(first, style),  # type: ignore[arg-type]  # sampled_from knows no Literal
        speak_openinference(second, start_ns=at(3600)),
        *bare_clients(),
    )
    items: list[Span | LogRecord] = [*spoken.spans, *spoken.logs]
    expected = normalised(conversations(spoken))
    # A log record has no id of its own, so that only spans can be distinguished from their duplicates.
    items += random.sample(spoken.spans, k=len(spoken.spans) // 3)
    random.shuffle(items)

    remaining = RebuiltStore(folder)
    try:
        while items:
            size = random.randint(1, max(len(items) // 2, 1))
            remaining.accept(*items[:size])
            items = items[size:]
            if random.random() < 0.6:
                remaining.rebuild(closed=random.random() < 0.3)
        remaining.rebuild(closed=True)
        assert expected == normalised(remaining.conversations())
        assert [] == remaining.rebuild(closed=True)
    finally:
        remaining.close()


@pytest.fixture
def rebuilt_store(tmp_path: Path) -> RebuiltStore:
    return RebuiltStore(tmp_path)


SCRIPT: Final = (
    AgentRunScript().ask("Which?").calls(scripted_call("search", {"q": "x"}, result=["Ritz"])).answers("The Ritz.")
)


def test_what_comes_back_from_the_store_is_what_was_rebuilt(rebuilt_store: RebuiltStore) -> None:
    rebuilt_store.accept(speak_genai(SCRIPT))

    rebuilt_store.rebuild(closed=True)

    assert normalised(conversations(speak_genai(SCRIPT))) == normalised(rebuilt_store.conversations())
    rebuilt_store.close()


def test_a_late_tool_span_makes_a_second_revision_and_a_repeated_one_does_not(rebuilt_store: RebuiltStore) -> None:
    *others, late = sorted(speak_genai(SCRIPT, "none").spans, key=lambda item: "gen_ai.tool.name" in item.attributes)
    rebuilt_store.accept(*others)
    (before,) = rebuilt_store.rebuild(closed=True)

    rebuilt_store.accept(late)
    (after,) = rebuilt_store.rebuild(closed=False)
    rebuilt_store.accept(late)

    assert [(1, 0), (2, 1)] == [(item.revision, len(item.turns[0].calls)) for item in (before, after)]
    assert "idle" == after.closed_by
    assert [] == rebuilt_store.rebuild(closed=True)
    assert [after] == rebuilt_store.conversations()
    rebuilt_store.close()


def test_a_conversation_that_turns_out_to_be_part_of_another_vanishes(rebuilt_store: RebuiltStore) -> None:
    hi, hello = [user("Hi")], [assistant("Hello!")]
    rebuilt_store.accept(chat(60, [*hi, *hello, user("More")], [assistant("More!")], trace="b"))
    (alone,) = rebuilt_store.rebuild(closed=False)

    rebuilt_store.accept(chat(0, hi, hello, trace="a"))
    (joined,) = rebuilt_store.rebuild(closed=False)

    assert (1, 2) == (len(alone.turns), len(joined.turns))
    assert [joined.key] == [item.key for item in rebuilt_store.conversations()]
    rebuilt_store.close()


def test_a_session_that_arrives_late_names_the_conversation(rebuilt_store: RebuiltStore) -> None:
    request = span("POST /chat", start_ns=at(0), end_ns=at(9), attributes={"session.id": "s1"})
    rebuilt_store.accept(chat(1, [user("Hi")], [assistant("Hello!")], parent=request))
    rebuilt_store.rebuild(closed=False)

    rebuilt_store.accept(request)
    rebuilt_store.rebuild(closed=False)

    assert ["s1"] == [item.conversation_id for item in rebuilt_store.conversations()]
    rebuilt_store.close()
