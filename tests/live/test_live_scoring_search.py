"""A running collector searches only the conversations that closed since its last search for unscored ones."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import pytest

from otel_agentic.engine.engine import Engine
from otel_agentic.live.loops import ScoringLoop
from otel_agentic.testing import NOON_NS, SECOND_NS, speak_genai
from tests.builders import ask_hotel, rows
from tests.stores import settings_for

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.evaluation.batch import ScoredBatch
    from otel_agentic.store.table import Key


class Stage:
    """A scoring loop whose rounds the test runs, and the conversations that each round scored."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._scored: list[str] = []
        self.loop = ScoringLoop(engine, self._handle)

    def close(self, name: str, start_ns: int = NOON_NS) -> int:
        """Store a closed conversation, of which the loop is not notified; return its end, ns."""
        self._engine.store.accept(speak_genai(ask_hotel(name), start_ns=start_ns))
        rebuilder = self._engine.rebuilder
        result = rebuilder.rebuild(rebuilder.read(rebuilder.pending()), lambda _: "idle")
        (saved,) = result.saved
        return saved.ended_ns

    def round(self) -> list[str]:
        """Run one round; return the conversations that it scored."""
        self._scored.clear()
        self.loop._round()
        return sorted(self._scored)

    def _handle(self, batch: ScoredBatch, restated: AbstractSet[Key]) -> None:
        assert not restated
        self._scored += [name for _, name in batch.rows.keys]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Engine(settings_for(tmp_path / "t.duckdb"), create=True) as engine:
        yield Stage(engine)
        assert rows(engine, "SELECT count(*) - count(DISTINCT conversation_id) FROM results") == [(0,)]


def test_the_first_search_covers_what_an_earlier_process_left(stage: Stage) -> None:
    stage.close("left")
    assert stage.round() == ["left"]
    assert stage.round() == []


def test_later_searches_cover_conversations_from_the_earliest_one_that_closed(stage: Stage) -> None:
    stage.round()
    stage.close("older", NOON_NS)
    stage.loop.closed([])
    assert stage.round() == []
    newer_ns = stage.close("newer", NOON_NS + 100 * SECOND_NS)
    stage.loop.closed([newer_ns])
    assert stage.round() == ["newer"]
    stage.loop.wake()
    assert stage.round() == ["older"]


def test_what_a_round_leaves_is_searched_by_the_next_one(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.round()
    monkeypatch.setattr("otel_agentic.live.loops._ROUND", 1)
    monkeypatch.setattr("otel_agentic.live.loops._MIN_ROUND", 1)
    ended_ns = [stage.close(name, NOON_NS + number * SECOND_NS) for number, name in enumerate(("a", "b"))]
    stage.loop.closed(ended_ns)
    assert [stage.round(), stage.round(), stage.round()] == [["a"], ["b"], []]


def test_all_conversations_are_searched_from_time_to_time(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.round()
    stage.close("forgotten")
    assert stage.round() == []
    monkeypatch.setattr("otel_agentic.live.loops._SEARCH_ALL_S", 0.0)
    assert stage.round() == ["forgotten"]
