"""When a conversation counts: at its end, but no later than its arrival allows, so that one wrong clock moves no window."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from otel_agentic.commands import Commands
from otel_agentic.engine.engine import Engine
from otel_agentic.testing import NOON_NS, speak_genai
from tests.builders import CASE, ask_hotel, feed, rows
from tests.engine.retention_engine import DAY_NS, HOUR_NS, Clock
from tests.stores import settings_for

YEARS_NS: Final = 3000 * DAY_NS
TOLERANCE_NS: Final = 300_000_000_000


@pytest.fixture
def clock() -> Clock:
    """Noon."""
    return Clock()


@pytest.fixture
def engine(tmp_path: Path, clock: Clock) -> Iterator[Engine]:
    """A store without a collector."""
    with Engine(settings_for(tmp_path / "t.duckdb"), create=True, clock=clock) as opened:
        yield opened


def say(engine: Engine, name: str, start_ns: int, **changes: Any) -> None:
    """Store a conversation and rebuild it."""
    feed(engine, speak_genai(ask_hotel(name, **changes), start_ns=start_ns))


def times(engine: Engine, name: str) -> tuple[int, int]:
    """Return when the newest revision ended, and when it counts, ns."""
    sql = "SELECT epoch_ns(ended_at), epoch_ns(window_time) FROM conversations WHERE NOT superseded AND conversation_id = $name"
    ((ended_ns, window_ns),) = rows(engine, sql, {"name": name})
    return ended_ns, window_ns


#: Start, and whether the window time is capped.
STARTS: Final = {
    "an old recording": (NOON_NS - 900 * DAY_NS, False),
    "live": (NOON_NS - HOUR_NS, False),
    "a clock that is a little ahead": (NOON_NS + TOLERANCE_NS - HOUR_NS // 60, False),
    "a clock that is six minutes ahead": (NOON_NS + TOLERANCE_NS + HOUR_NS // 60, True),
    "a clock that is years ahead": (NOON_NS + YEARS_NS, True),
}


def test_a_conversation_counts_at_its_end_unless_that_is_long_after_its_arrival(engine: Engine) -> None:
    feed(engine, *(speak_genai(ask_hotel(name), start_ns=start_ns) for name, (start_ns, _) in STARTS.items()))

    actual = {name: times(engine, name) for name in STARTS}
    assert dict.fromkeys(STARTS, True) == {name: actual[name][0] >= start_ns for name, (start_ns, _) in STARTS.items()}
    assert actual == {
        name: (actual[name][0], NOON_NS + TOLERANCE_NS if capped else actual[name][0])
        for name, (_, capped) in STARTS.items()
    }


def test_neither_a_resend_nor_a_later_revision_changes_the_first_arrival(engine: Engine, clock: Clock) -> None:
    say(engine, "c", NOON_NS + YEARS_NS)
    clock.at(2)
    say(engine, "c", NOON_NS + YEARS_NS)  # the same spans
    assert (NOON_NS + TOLERANCE_NS) == times(engine, "c")[1]

    say(engine, "c", NOON_NS + YEARS_NS + DAY_NS)  # another turn
    assert 2 == rows(engine, "SELECT max(revision) FROM conversations")[0][0]
    assert (NOON_NS + TOLERANCE_NS) == times(engine, "c")[1]


def test_a_conversation_that_lasts_for_hours_counts_at_its_last_turn(engine: Engine, clock: Clock) -> None:
    say(engine, "c", NOON_NS - HOUR_NS)
    clock.at(3)
    say(engine, "c", NOON_NS + 2 * HOUR_NS)

    ended_ns, window_ns = times(engine, "c")
    assert ended_ns == window_ns > NOON_NS + 2 * HOUR_NS
    assert [] == Commands(engine).report()["wrong_clocks"]


@pytest.fixture(scope="module")
def scored_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with twelve conversations of the last hours, and one that its sender dated years ahead."""
    db = tmp_path_factory.mktemp("scored") / "t.duckdb"
    with Engine(settings_for(db), create=True, clock=Clock()) as engine:
        hours = (ask_hotel(f"c{number}") for number in range(12))
        recent = [
            speak_genai(script, start_ns=NOON_NS - number * HOUR_NS // 2)
            for number, script in enumerate(hours, start=1)
        ]
        feed(engine, *recent, speak_genai(ask_hotel("future", service="skewed"), start_ns=NOON_NS + YEARS_NS))
        Commands(engine).evaluate(cases=[("cases.jsonl", CASE)], metrics=["none"])
    return db


@pytest.fixture
def scored(scored_file: Path, tmp_path: Path, clock: Clock) -> Iterator[Engine]:
    """An engine on a copy of that store."""
    with Engine(settings_for(Path(shutil.copy(scored_file, tmp_path / "scored.duckdb"))), clock=clock) as opened:
        yield opened


def test_a_wrong_clock_does_not_empty_a_window_and_is_named(scored: Engine) -> None:
    (group,) = Commands(scored).report(window="24h")["groups"]
    assert 12 == group["n"]  # the window ends at the newest conversation whose clock was right

    (clocks,) = Commands(scored).report()["wrong_clocks"]
    assert ("skewed", 1) == (clocks["service"], clocks["conversations"])
    assert Commands(scored).store_summary()["wrong_clocks"] == Commands(scored).live()["wrong_clocks"] == [clocks]


def test_a_gate_looks_at_the_same_window(scored: Engine) -> None:
    gate_result = Commands(scored).gate(window="24h", conditions={"min_success": 0.9})
    assert gate_result["passed"]
    assert 12 == gate_result["conversations"]
    assert any("skewed" in note for note in gate_result["notes"])


def test_a_gate_does_not_pass_on_a_handful_of_conversations_unless_min_n_allows_it(scored: Engine) -> None:
    assert not Commands(scored).gate(window="n2", conditions={"min_success": 0.9})["passed"]
    assert Commands(scored).gate(window="n2", conditions={"min_success": 0.9, "min_n": 1})["passed"]


def test_time_filters_mean_when_a_conversation_counts(scored: Engine) -> None:
    since_ns = NOON_NS + HOUR_NS
    assert [] == Commands(scored).conversations_list(
        since_ns=since_ns, until_ns=None, agent=None, outcome=None, limit=50
    )
    assert [] == Commands(scored).report(since_ns=since_ns)["groups"]


def test_windows_of_a_collector_end_at_its_clock(tmp_path: Path, clock: Clock) -> None:
    with Engine(settings_for(tmp_path / "t.duckdb"), create=True, collecting=True, clock=clock) as engine:
        say(engine, "c", NOON_NS - HOUR_NS)
        assert [1] == [sum(g["not_evaluated"].values()) for g in Commands(engine).report(window="24h")["groups"]]
        clock.at(48)
        assert [] == Commands(engine).report(window="24h")["groups"]


def test_results_and_windows_hold_the_window_time(scored: Engine, clock: Clock) -> None:
    (row,) = rows(
        scored, "SELECT epoch_ns(window_time), ended_at > window_time FROM results WHERE conversation_id = 'future'"
    )
    assert (pytest.approx(NOON_NS + TOLERANCE_NS, abs=1000), True) == row  # every commit has a time of its own
    clock.at(2)
    first_ns, last_ns = NOON_NS - DAY_NS, NOON_NS + DAY_NS
    assert list(Commands(scored).backfill(windows=["24h"], step_ns=HOUR_NS, since_ns=first_ns, until_ns=last_ns))
    sql = 'SELECT service, max(n) FROM windows WHERE "end" > make_timestamp_ns($noon) GROUP BY service ORDER BY service'
    assert [("concierge", 12), ("skewed", 1)] == rows(scored, sql, {"noon": NOON_NS})
