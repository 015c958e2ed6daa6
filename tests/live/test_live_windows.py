"""Windows of a running collector: the ends that are due, and the rows that are stored, restated and shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.config import StatsSettings
from otel_agentic.conversations.model import Conversation, ConversationId
from otel_agentic.engine.engine import Engine, stored_estimators
from otel_agentic.errors import ConfigError
from otel_agentic.live import loops
from otel_agentic.live.loops import MOST_ENDS, DueEnds, WindowLoop
from otel_agentic.store.conversations import supersede
from otel_agentic.store.results import results_for
from otel_agentic.store.windows import Changes, save_windows
from otel_agentic.telemetry import Telemetry
from otel_agentic.testing import NOON_NS, SECOND_NS, conversation
from otel_agentic.windows import parse_windows, roll, window_ends
from tests.builders import rows, save_revisions, save_scored, scored_as
from tests.snapshots import raises
from tests.stores import CopyOf, settings_for

MINUTE_NS = 60 * SECOND_NS
STEP_NS = 5 * MINUTE_NS
WINDOWS: dict[str, Any] = {"widths": ["7m", "30m"], "step_s": 300}


class Clock:
    """The present, as the test has it."""

    def __init__(self) -> None:
        self.now_ns = NOON_NS

    def __call__(self) -> int:
        """Return it."""
        return self.now_ns


@pytest.fixture
def clock() -> Clock:
    """Noon."""
    return Clock()


@pytest.fixture
def engine(tmp_path: Path, clock: Clock) -> Iterator[Engine]:
    """An engine whose present is the clock's."""
    with Engine(settings_for(tmp_path / "t.duckdb", windows=WINDOWS), create=True, clock=clock) as opened:
        yield opened


def windowing(engine: Engine) -> WindowLoop:
    telemetry = Telemetry.from_settings(engine.settings.emit, run_id="test", trigger="online")
    return WindowLoop(engine, telemetry)


def conversation_number(number: int = 1, minute: float = 0, **changes: Any) -> Conversation:
    ended_ns = NOON_NS + int(minute * MINUTE_NS)
    return conversation(conversation_id=ConversationId(f"c-{number}"), ended_ns=ended_ns, **changes)


def settle(engine: Engine, *result: Conversation, outcome: Any = "pass") -> None:
    save_revisions(engine.store, *result)
    save_scored(engine.store, *(scored_as(item, outcome) for item in result))


def stored(engine: Engine) -> list[tuple[int, str, int, int]]:
    """Return end (minutes after noon), window, conversations and revision of the stored windows."""
    result = rows(engine, 'SELECT DISTINCT epoch_ns("end"), "window", n, revision FROM windows ORDER BY ALL')
    return [((end_ns - NOON_NS) // MINUTE_NS, window, n, revision) for end_ns, window, n, revision in result]


def test_the_filling_end_is_stored_at_once_and_every_end_that_passes(engine: Engine, clock: Clock) -> None:
    windows = windowing(engine)
    settle(engine, conversation_number(minute=-1))
    clock.now_ns = NOON_NS + MINUTE_NS
    windows.store()
    first = stored(engine)
    clock.now_ns = NOON_NS + 11 * MINUTE_NS
    windows.store()

    assert [(0, "30m", 1, 1), (0, "7m", 1, 1), (5, "30m", 1, 1), (5, "7m", 1, 1)] == first
    assert [(0, "30m"), (0, "7m"), (5, "30m"), (5, "7m"), (10, "30m"), (15, "30m")] == [
        row[:2] for row in stored(engine)
    ]


@pytest.mark.parametrize("minutes", [5, 90])  # few ends, which the database counts, and many
def test_windows_of_unchanged_results_do_not_count_as_a_change(engine: Engine, clock: Clock, minutes: int) -> None:
    windows = windowing(engine)

    def changes() -> int:
        return engine.store.commits - windows.commits_by_time

    settle(engine, conversation_number(1, minute=-1))
    before = changes()
    windows.refresh()
    changed, rows_before = changes(), len(stored(engine))
    clock.now_ns += minutes * MINUTE_NS
    windows.refresh()

    assert changed > before
    assert len(stored(engine)) > rows_before
    assert changes() == changed
    settle(engine, conversation_number(2, minute=2))
    windows.refresh()
    assert changes() > changed


def test_a_late_conversation_restates_the_windows_that_hold_it_and_no_other(engine: Engine, clock: Clock) -> None:
    windows = windowing(engine)
    settle(engine, conversation_number(1, minute=-1))
    clock.now_ns = NOON_NS + 40 * MINUTE_NS
    windows.store()
    before = stored(engine)
    settle(engine, conversation_number(2, minute=12))
    clock.now_ns += MINUTE_NS

    windows.store()

    assert {(0, "7m", 1, 1), (25, "30m", 1, 1)} <= set(before)
    assert {
        (0, "7m", 1, 1),
        (10, "30m", 1, 1),
        (15, "7m", 1, 1),
        (15, "30m", 2, 2),
        (25, "30m", 2, 2),
        (40, "30m", 1, 1),
    } < set(stored(engine))


def test_a_conversation_that_moves_is_restated_where_it_was_and_where_it_is(engine: Engine, clock: Clock) -> None:
    windows = windowing(engine)
    settle(engine, conversation_number(1), conversation_number(2))
    clock.now_ns = NOON_NS + 50 * MINUTE_NS
    windows.store()

    settle(engine, conversation_number(2, minute=45, revision=2))
    windows.store()

    narrow = [row for row in stored(engine) if row[1] == "7m"]
    assert [(0, "7m", 1, 2), (5, "7m", 1, 2), (45, "7m", 1, 1), (50, "7m", 1, 1)] == narrow


def test_windows_that_are_emptied_have_no_rows(engine: Engine, clock: Clock) -> None:
    windows = windowing(engine)
    settle(engine, conversation_number())
    clock.now_ns += MINUTE_NS
    windows.store()
    before = stored(engine)
    engine.store.write(lambda con: supersede(con, [("production", "c-1")]))

    windows.store()

    assert ([(0, "30m", 1, 1), (0, "7m", 1, 1), (5, "30m", 1, 1), (5, "7m", 1, 1)], []) == (before, stored(engine))


def test_a_closed_conversation_that_is_not_scored_is_in_no_window(engine: Engine, clock: Clock) -> None:
    windows = windowing(engine)
    save_revisions(engine.store, conversation_number())
    clock.now_ns += MINUTE_NS

    assert [] == windows.refresh().points()
    assert [] == stored(engine)


def test_gauges_are_of_now_and_not_of_the_filling_end(engine: Engine, clock: Clock) -> None:
    windows = windowing(engine)
    settle(engine, conversation_number(1), conversation_number(2, minute=4))
    clock.now_ns = NOON_NS + 7 * MINUTE_NS - 1
    before = {(point.window, point.summary.n) for point in windows.show().points()}
    clock.now_ns += 1

    assert {("7m", 2), ("30m", 2)} == before
    assert {("7m", 1), ("30m", 2)} == {(point.window, point.summary.n) for point in windows.show().points()}


def test_after_a_downtime_the_ends_that_passed_are_caught_up(engine: Engine, clock: Clock) -> None:
    settle(engine, conversation_number())
    clock.now_ns = NOON_NS + MINUTE_NS
    windowing(engine).store()
    clock.now_ns = NOON_NS + 22 * MINUTE_NS

    windowing(engine).store()

    assert [0, 5, 10, 15, 20, 25] == [row[0] for row in stored(engine) if row[1] == "30m"]


def test_what_a_stop_leaves_of_many_ends_is_computed_at_the_next_start(engine: Engine, clock: Clock) -> None:
    settle(engine, *(conversation_number(number, minute=25 * number) for number in range(44)))
    clock.now_ns = NOON_NS + 25 * 44 * MINUTE_NS
    stopped = windowing(engine)
    stopped.stop()

    stopped.store()
    before = len({row[0] for row in stored(engine)})
    windowing(engine).store()

    assert (200, 221) == (before, len({row[0] for row in stored(engine)}))


def test_what_files_brought_makes_no_past_but_what_is_stored_of_it_is_restated(engine: Engine, clock: Clock) -> None:
    windows = windowing(engine)
    clock.now_ns = NOON_NS + 20 * MINUTE_NS
    settle(engine, conversation_number(1, closed_by="end_of_input"))
    windows.store()
    first = stored(engine)
    settle(engine, conversation_number(2, minute=20))
    clock.now_ns = NOON_NS + 31 * MINUTE_NS
    windows.store()
    settle(engine, conversation_number(3, minute=-8, closed_by="end_of_input"))

    windows.store()

    assert [(20, "30m", 1, 1)] == first
    assert [(20, "30m", 3, 3), (25, "30m", 2, 1)] == [row for row in stored(engine) if row[1] == "30m"][:2]


def test_gauges_are_refreshed_soon_after_a_long_computation(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "_SHARE", 1e9)  # any computation is a long one
    monkeypatch.setattr(loops, "_REFRESH_S", 0.01)
    telemetry = Telemetry.from_settings(engine.settings.emit, run_id="test", trigger="online")
    times_ns: SimpleQueue[int] = SimpleQueue()
    windows = WindowLoop(engine, telemetry, on_shown=times_ns.put)
    windows.start()
    try:
        for _ in range(3):
            times_ns.get(timeout=60)
    finally:
        windows.stop()


def test_nothing_new_writes_nothing(engine: Engine, clock: Clock) -> None:
    windows = windowing(engine)
    settle(engine, conversation_number())
    clock.now_ns += MINUTE_NS
    written = windows.store()

    assert 0 < written
    assert [0, 0] == [windows.store(), windowing(engine).store()]


def test_no_window_is_refused(tmp_path: Path) -> None:
    with (
        Engine(settings_for(tmp_path / "t.duckdb", windows={"widths": []}), create=True) as engine,
        raises(ConfigError, snapshot("windows.widths is empty")),
    ):
        windowing(engine)


@pytest.mark.parametrize("newest", [(), ("n3",)])
def test_the_ends_of_a_change_are_those_whose_windows_hold_it(engine: Engine, newest: tuple[str, ...]) -> None:
    scheduled = DueEnds(parse_windows(["7m", *newest]), STEP_NS)
    changes = Changes(upto=1, live_ns=(NOON_NS + 1,), other_ns=())
    with engine.store.read() as con:
        ends = scheduled.ends(con, changes, NOON_NS + 21 * MINUTE_NS)

    reach = (5, 10, 15, 20, 25) if newest else (5, 25)
    assert [NOON_NS + minute * MINUTE_NS for minute in reach] == ends


def test_of_too_many_ends_the_newest_are_due(engine: Engine) -> None:
    scheduled = DueEnds(parse_windows(["365d"]), SECOND_NS)
    with engine.store.read() as con:
        ends = scheduled.ends(con, Changes(upto=1, live_ns=(0,), other_ns=()), 10 * MOST_ENDS * SECOND_NS)

    assert (MOST_ENDS, 10 * MOST_ENDS * SECOND_NS) == (len(ends), ends[-1])


Happening = tuple[str, int, int]


@settings(
    max_examples=settings().max_examples // 10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.tuples(st.sampled_from(["pass", "fail", "dissolve", "wait", "wait"]), st.integers(1, 4), st.integers(0, 60)),
        max_size=12,
    )
)
def test_after_late_conversations_the_rows_are_those_of_the_finished_store(
    tmp_path_factory: pytest.TempPathFactory, happenings: Sequence[Happening]
) -> None:
    clock = Clock()
    db = tmp_path_factory.mktemp("replay") / "t.duckdb"
    own = {**WINDOWS, "widths": ["7m", "30m", "n2"]}
    with Engine(settings_for(db, windows=own), create=True, clock=clock) as engine:
        windows = windowing(engine)
        windows.store()
        live = _replay(engine, clock, windows, happenings)

        assert _finished(engine, own["widths"], clock.now_ns) == live


def _replay(
    engine: Engine, clock: Clock, windows: WindowLoop, happenings: Sequence[Happening]
) -> list[tuple[Any, ...]]:
    revisions: dict[int, int] = {}
    for does, number, minutes in happenings:
        if does == "wait":
            clock.now_ns += minutes * MINUTE_NS // 2
        elif does == "dissolve":
            engine.store.write(lambda con, number=number: supersede(con, [("production", f"c-{number}")]))  # type: ignore[misc]
        else:
            revisions[number] = revisions.get(number, 0) + 1
            ended = (clock.now_ns - NOON_NS) / MINUTE_NS - minutes / 4  # up to a quarter of an hour late
            settle(
                engine, conversation_number(number, minute=max(0.0, ended), revision=revisions[number]), outcome=does
            )
        if number % 2:
            windows.store()
    windows.store()
    return _rows_of_windows(engine)


def _rows_of_windows(engine: Engine) -> list[tuple[Any, ...]]:
    # The tier is claimed from all conversations up to the end: late ones change the tier of the ends whose windows hold them.
    return rows(engine, "SELECT * EXCLUDE (revision, computed_at, tier) FROM windows ORDER BY ALL")


def test_windows_of_any_width_hold_the_tier_of_everything_up_to_their_end(engine: Engine, clock: Clock) -> None:
    for number in range(40):
        settle(engine, conversation_number(number, minute=number), outcome="pass")
    clock.now_ns = NOON_NS + 45 * MINUTE_NS
    windowing(engine).store()

    sql = 'SELECT DISTINCT minute("end"), tier, leaning FROM windows WHERE leaning IS NOT NULL ORDER BY ALL'
    result = rows(engine, sql)
    # 36 of 36 suffice, in windows that hold fewer by then.
    assert {"insufficient_evidence"} == {tier for minute, tier, _ in result if 0 < minute < 30}
    assert {"ready"} == {tier for minute, tier, _ in result if minute in (40, 45)}
    assert len({leaning for minute, _, leaning in result if minute == 20}) > 1  # by the width of the window


def _finished(engine: Engine, widths: Sequence[str], now_ns: int) -> list[tuple[Any, ...]]:
    ends = window_ends(NOON_NS, now_ns, STEP_NS)
    stats = engine.settings.stats
    with engine.store.read() as con:
        results = results_for(con, parse_windows(widths), ends)
    table = roll(results, widths, ends, estimators=stored_estimators(engine), settings=stats, k=stats.k)
    engine.store.write(lambda con: con.execute("DELETE FROM windows"))
    engine.store.write(lambda con: save_windows(con, table, ends, now_ns))
    return _rows_of_windows(engine)


@pytest.mark.slow  # the command line is tested with the same table
def test_tau_airline_passes_what_its_labels_say_in_every_other_window(copy_of: CopyOf, labelled_file: Path) -> None:
    hour_ns = 3_600 * SECOND_NS
    since_ns = 1_772_442_000 * SECOND_NS  # 2026-03-02T09:00:00Z
    with copy_of(labelled_file).store.read() as con:
        ((last_ns,),) = con.execute("SELECT epoch_ns(max(ended_at)) FROM results").fetchall()
        ends = window_ends(since_ns + 48 * hour_ns, last_ns, 24 * hour_ns, origin_ns=since_ns)
        results = results_for(con, parse_windows(["48h"]), ends)
    table = roll(results, ["48h"], ends, estimators=[], settings=StatsSettings(), k=(1,))

    every_second = [(point.summary.c, point.summary.n) for point in table.points()[::2]]
    assert [(21, 50), (22, 50), (20, 50), (21, 50)] == every_second
