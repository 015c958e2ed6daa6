"""A backfill brings scores and windows of the past up to date, and changes nothing that is right already."""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from inline_snapshot import snapshot

from otel_agentic.backfill.plan import BackfillRequest
from otel_agentic.backfill.run import BackfillContext, backfill
from otel_agentic.commands import Commands
from otel_agentic.engine.engine import Engine
from otel_agentic.errors import OverloadedError, UsageError
from otel_agentic.testing import NOON_NS
from tests.backfill.conftest import backfill_days
from tests.builders import (
    CASES,
    DAY_NS,
    HOUR_NS,
    HOURLY,
    backfill_events,
    contents,
    ends_of,
    feed,
    hotel_conversation,
    rows,
    run_backfill,
    window_rows,
    window_values,
)
from tests.snapshots import raises
from tests.stores import settings_for

if TYPE_CHECKING:
    from tests.backfill.conftest import DaysOf
    from tests.stores import OpenEngine, PreparedStore

REQUEST = BackfillRequest(windows=("6h", "24h"), step_ns=HOUR_NS, k=(1, 3)).checked()


def _window_values_of_one_run(prepared_store: PreparedStore) -> list[tuple[Any, ...]]:
    with Engine(settings_for(prepared_store(backfill_days))) as complete:
        return window_values(complete)


def test_everything_is_scored_and_every_window_that_holds_a_conversation_has_rows(days: Engine) -> None:
    engine = days
    done = run_backfill(engine)

    assert {"pass": 8, "fail": 4} == done["scoring"]["outcomes"]
    result = window_rows(engine)
    assert done["windows"]["rows_changed"] == len(result)
    first, last = ends_of(result)[0], ends_of(result)[-1]
    assert [first + timedelta(hours=hours) for hours in range(56)] == ends_of(result)
    assert 56 == done["windows"]["ends"]
    assert last == first + timedelta(hours=55)


def test_the_counts_of_a_window_are_those_of_the_conversations_that_ended_in_it(backfilled: Engine) -> None:
    engine = backfilled
    looked_at = """
    SELECT w.n, w.c, count(*), count(*) FILTER (s.outcome = 'pass')
    FROM windows w
    JOIN conversations v ON v.ended_at <= w."end" AND v.ended_at > w."end" - replace(w."window", 'h', ' hours')::INTERVAL
    JOIN conversation_scores s ON s.conversation_id = v.conversation_id
    GROUP BY w.rowid, w.n, w.c
    """
    stored = rows(engine, looked_at)

    assert len(window_rows(engine)) == len(stored)
    assert [(n, c) for n, c, *_ in stored] == [(n, c) for *_, n, c in stored]


def test_a_second_run_changes_nothing_at_all(backfilled: Engine) -> None:
    engine = backfilled
    before = window_rows(engine)
    again = run_backfill(engine)

    assert before == window_rows(engine)
    assert (0, True, 2) == (again["windows"]["rows_changed"], again["again"], again["windows"]["pass"])
    assert 0 == again["scoring"]["to_score"]


def test_a_conversation_that_came_late_restates_the_windows_that_hold_it_and_no_other(backfilled: Engine) -> None:
    engine = backfilled
    before = window_rows(engine)
    feed(engine, hotel_conversation(3, name="late", right=False))
    done = run_backfill(engine)

    after = window_rows(engine)
    changed = [row for row in after if row not in before]
    assert done["windows"]["rows_changed"] == len(changed) > 0
    ((ended,),) = rows(engine, "SELECT ended_at FROM conversations WHERE conversation_id = 'late'")
    assert all(ended <= row[6] < ended + timedelta(hours=24) for row in changed)
    assert {2} == {row[-4] for row in changed}


def test_rows_of_other_windows_and_other_k_stay(days_of: DaysOf) -> None:
    engine = days_of(4)
    run_backfill(engine)
    before = window_rows(engine)
    run_backfill(engine, windows=["7d"], k=[2])

    assert before == [row for row in window_rows(engine) if row[5] != "7d"]
    assert {2} == {row[7] for row in window_rows(engine) if row[5] == "7d"}


def test_only_what_lies_in_some_window_is_scored(days: Engine) -> None:
    engine = days
    since = NOON_NS + 2 * DAY_NS
    done = run_backfill(engine, since_ns=since, until_ns=since + HOUR_NS, windows=["6h"])

    scored = rows(engine, "SELECT min(ended_at), max(ended_at) FROM results")[0]
    assert [(done["scoring"]["scored"],)] == rows(engine, "SELECT count(*) FROM results")
    bounds = rows(
        engine,
        "SELECT make_timestamp_ns($since - $width), make_timestamp_ns($since + $width // 6)",
        {"since": since, "width": 6 * HOUR_NS},
    )[0]
    assert bounds[0] < scored[0]
    assert scored[1] <= bounds[1]


def test_windows_of_the_newest_score_what_came_before_however_long_ago(days: Engine) -> None:
    engine = days
    done = run_backfill(engine, since_ns=NOON_NS + 2 * DAY_NS, until_ns=NOON_NS + 2 * DAY_NS, windows=["n3"])

    assert 10 == done["scoring"]["scored"]
    assert {3} == {row[11] for row in window_rows(engine)}


def test_without_a_closed_conversation_there_is_nothing_to_do(engine: Engine) -> None:
    done = run_backfill(engine)

    assert (0, 0, False) == (done["windows"]["ends"], done["windows"]["rows_changed"], done["stopped"])
    assert [] == window_rows(engine)


def test_a_range_without_a_conversation_has_no_row(days_of: DaysOf) -> None:
    engine = days_of(2)
    done = run_backfill(engine, since_ns=NOON_NS + 50 * DAY_NS, until_ns=NOON_NS + 51 * DAY_NS)

    assert (25, 0) == (done["windows"]["ends"], done["windows"]["rows_changed"])


def test_cases_that_are_given_are_remembered(engine: Engine) -> None:
    feed(engine, hotel_conversation(1))
    run_backfill(engine, cases=CASES)

    assert [("pass",)] == rows(engine, "SELECT outcome FROM results")


def test_an_invalid_range_is_refused_before_anything_is_done(engine: Engine) -> None:
    with pytest.raises(UsageError, match="before --since"):
        run_backfill(engine, since_ns=2, until_ns=1)
    with raises(UsageError, snapshot("--emit otlp: pass --endpoint http(s)://host:port, or set emit.endpoint")):
        run_backfill(engine, emit="otlp")


def test_a_run_tells_its_stages_in_order_up_to_their_ends(days: Engine) -> None:
    engine = days
    steps = [event for event in backfill_events(engine) if "stage" in event]

    assert ["scoring", "windows"] == list(dict.fromkeys(event["stage"] for event in steps))
    ends = {event["stage"]: (event["done"], event["total"]) for event in steps}
    assert {"scoring": (12, 12), "windows": (56, 56)} == ends


def test_a_run_that_is_stopped_goes_on_behind_its_last_part(days: Engine, prepared_store: PreparedStore) -> None:
    engine = days
    stopped = Stopping(after=3)
    first = backfill(engine, REQUEST, context=stopped.around)
    assert first.stopped
    assert first.newest is not None
    position = first.newest.position_ns

    second = run_backfill(engine)

    assert position is not None
    assert (True, 1, False) == (second["resumed_after"] is not None, second["windows"]["pass"], second["stopped"])
    complete = _window_values_of_one_run(prepared_store)
    assert complete == window_values(engine)
    assert len(complete) == second["windows"]["rows_changed"]


def test_a_run_begins_anew_where_something_changed_behind_its_position(days: Engine) -> None:
    engine = days
    stopped = Stopping(after=5)
    backfill(engine, REQUEST, context=stopped.around)
    feed(engine, hotel_conversation(0, name="late"))

    done = run_backfill(engine)

    assert (None, 2) == (done["resumed_after"], done["windows"]["pass"])
    assert [(2,)] == rows(engine, 'SELECT DISTINCT n FROM windows WHERE "end" = (SELECT min("end") FROM windows)')


def test_a_run_goes_on_although_something_came_ahead_of_its_position(days: Engine) -> None:
    engine = days
    stopped = Stopping(after=3)
    backfill(engine, REQUEST, context=stopped.around)
    feed(engine, hotel_conversation(9, name="late"))

    done = run_backfill(engine)

    assert (True, 1) == (done["resumed_after"] is not None, done["windows"]["pass"])
    assert window_values(engine) == anew(engine)


def test_a_run_begins_anew_where_the_clock_was_set_back_meanwhile(
    days: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = days
    backfill(engine, REQUEST, context=Stopping(after=3).around)
    clock = engine.clock
    engine.clock = lambda: clock() - HOUR_NS
    monkeypatch.setattr(engine.store, "clock", engine.clock)
    feed(engine, hotel_conversation(0, name="late"))

    done = run_backfill(engine)

    assert (None, 2) == (done["resumed_after"], done["windows"]["pass"])
    assert window_values(engine) == anew(engine)


def test_a_run_begins_anew_where_one_of_other_settings_wrote_its_rows_meanwhile(
    days: Engine, open_engine: OpenEngine
) -> None:
    db = days.store.path
    with days as engine:
        backfill(engine, REQUEST, context=Stopping(after=3).around)
    with open_engine(db, stats={"level": 0.5}) as other:
        run_backfill(other)
    engine = open_engine(db)
    done = run_backfill(engine)

    assert (None, 2) == (done["resumed_after"], done["windows"]["pass"])
    assert [(0.95,)] == rows(engine, "SELECT DISTINCT level FROM windows")


def test_one_backfill_at_a_time_works_on_a_store(days_of: DaysOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_agentic.commands.evaluation._TURN_S", 0.01)
    engine = days_of(1)
    with engine.backfill_lock, raises(OverloadedError, snapshot("another backfill is running")):
        run_backfill(engine)

    assert run_backfill(engine)["finished"]


def anew(engine: Engine) -> list[tuple[Any, ...]]:
    """Return the values of the rows after all were computed again."""
    engine.store.write(lambda con: [con.execute(f"DELETE FROM {name}") for name in ("windows", "backfills")])  # noqa: S608
    run_backfill(engine)
    return window_values(engine)


class Stopping:
    """Asks for a stop after so many steps of the stage `windows`."""

    def __init__(self, after: int) -> None:
        self._left = after
        self.around = BackfillContext(progress=self.progress, stop=self.is_requested, part_rows=60)

    def progress(self, stage: str, _done: int, _total: int | None) -> None:
        self._left -= stage == "windows"

    def is_requested(self) -> bool:
        return self._left <= 0


def test_a_listener_that_goes_away_stops_the_run(days: Engine) -> None:
    engine = days
    running = Commands(engine).backfill(**{**HOURLY, "step_ns": HOUR_NS // 60})
    next(event for event in running if event.get("stage") == "windows")
    cast("Generator[Any]", running).close()

    ((position, state),) = rows(engine, "SELECT position, state FROM backfills")
    assert "running" == state
    assert position is not None


def test_a_dry_run_counts_what_the_run_then_does_and_writes_nothing(days: Engine) -> None:
    engine = days
    before = contents(engine)
    dry = run_backfill(engine, dry_run=True)

    assert before == contents(engine)
    done = run_backfill(engine)
    assert dry["windows"]["rows"] == done["windows"]["rows_changed"]
    assert dry["windows"]["ends"] == done["windows"]["ends"]
    assert (12, 12) == (dry["conversations"]["in_windows"], dry["conversations"]["to_score"])
    assert {"judge": "exact", "asks_a_model": False, "calls": 0} == {
        name: dry["judge"][name] for name in ("judge", "asks_a_model", "calls")
    }
    assert 0 == run_backfill(engine, dry_run=True)["conversations"]["to_score"]


def test_a_dry_run_with_cases_leaves_them_unremembered(engine: Engine) -> None:
    feed(engine, hotel_conversation(1))
    before = contents(engine)
    run_backfill(engine, dry_run=True, cases=CASES)

    assert before == contents(engine)
