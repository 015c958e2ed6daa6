"""Retention removes conversations beyond their age completely, and nothing else; spans that arrive too late are counted."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.backfill.plan import BackfillRequest, plan_of
from otel_agentic.commands import Commands
from otel_agentic.engine.engine import Engine, EngineListener
from otel_agentic.engine.retention import RemovalCounts, RetentionPass
from otel_agentic.errors import ConfigError, UsageError
from otel_agentic.live.loops import RetentionLoop, WindowLoop
from otel_agentic.store.conversations import retention_state
from otel_agentic.store.links import NotRebuilt, save_not_rebuilt
from otel_agentic.telemetry import Telemetry
from otel_agentic.testing import NOON_NS, batch, span
from tests.builders import CASE, feed, rows
from tests.engine.retention_engine import (
    DAY_NS,
    HOUR_NS,
    Clock,
    conversation_ids,
    retaining_engine,
    row_counts,
    store_talk,
    talk,
)
from tests.live.running_collector import ask, eventually, live_settings, running
from tests.snapshots import passage, raises

KEEP_NS = 2 * HOUR_NS


@pytest.fixture
def clock() -> Clock:
    """Noon."""
    return Clock()


class LateCounts(EngineListener):
    """Records the counts of late spans."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def late_spans(self, count: int) -> None:
        """Record a count."""
        self.counts.append(count)


@pytest.fixture
def late_counts() -> LateCounts:
    """The listener of the engine."""
    return LateCounts()


@pytest.fixture
def engine(tmp_path: Path, clock: Clock, late_counts: LateCounts) -> Iterator[Engine]:
    """An engine that keeps two hours."""
    with retaining_engine(tmp_path / "t.duckdb", clock, listener=late_counts) as opened:
        yield opened


def removed(engine: Engine, keep_ns: int = KEEP_NS, **options: Any) -> RemovalCounts:
    return RetentionPass(engine, keep_ns, **options).run()


def test_a_conversation_that_is_old_goes_whole_and_a_young_one_stays(engine: Engine, clock: Clock) -> None:
    store_talk(engine, "old", 0)
    store_talk(engine, "young", 1.5)
    Commands(engine).evaluate(cases=[("cases.jsonl", CASE)])
    before = row_counts(engine)
    clock.at(2.5)

    removed_counts = removed(engine)

    assert (1, 4, 2) == (removed_counts.conversations, removed_counts.spans, removed_counts.log_records)
    assert ["young"] == conversation_ids(engine)
    assert {table: count // 2 for table, count in before.items()} == row_counts(engine)


def test_ground_truth_stays(engine: Engine, clock: Clock) -> None:
    store_talk(engine, "old", 0)
    Commands(engine).evaluate(
        cases=[("c.jsonl", CASE)], labels=[("l.csv", "conversation_id,verdict\nold,pass\n")], metrics=["none"]
    )
    clock.at(5)

    removed(engine)

    tables = ("cases", "expected_calls", "labels", "evaluations", "dataset_versions")
    assert dict.fromkeys(tables, 1) == {
        table: rows(engine, f"SELECT count(*) FROM {table}")[0][0]  # noqa: S608 — the names above
        for table in tables
    }
    assert {} == row_counts(engine)


def test_a_conversation_that_is_open_stays_however_old_its_end(engine: Engine, clock: Clock) -> None:
    engine.store.accept(talk("open", 0))
    touched = engine.rebuilder.read(engine.rebuilder.pending())
    engine.rebuilder.rebuild(touched, lambda _: None)
    clock.at(1.9)

    removed(engine)

    assert ["open"] == conversation_ids(engine)


def test_an_open_conversation_loses_the_traces_that_are_too_old_and_keeps_the_others(
    engine: Engine, clock: Clock
) -> None:
    engine.store.accept(talk("open", 0))
    engine.store.accept(talk("open", 3))
    engine.rebuilder.rebuild(engine.rebuilder.read(engine.rebuilder.pending()), lambda _: None)
    clock.at(3.1)

    removed_counts = removed(engine)

    assert (0, 4) == (removed_counts.conversations, removed_counts.spans)
    assert ["open"] == conversation_ids(engine)
    assert [(4,)] == rows(engine, "SELECT count(*) FROM spans")
    assert [] == engine.rebuilder.pending()


def test_of_one_id_in_two_environments_only_the_old_one_goes(engine: Engine, clock: Clock) -> None:
    store_talk(engine, "1", 0, environment="staging")
    store_talk(engine, "1", 2, environment="production")
    clock.at(2.5)

    removed(engine)

    assert [("production",)] == rows(engine, "SELECT environment FROM conversations")
    assert [("production", 4)] == rows(engine, "SELECT environment, count(*) FROM spans GROUP BY ALL")


def test_all_revisions_go_with_the_last_one(engine: Engine, clock: Clock) -> None:
    store_talk(engine, "c", 0)
    store_talk(engine, "c", 1)
    assert [(1, True), (2, False)] == rows(engine, "SELECT revision, superseded FROM conversations ORDER BY ALL")

    clock.at(2.5)
    assert not removed(engine)
    clock.at(3.5)
    assert 1 == removed(engine).conversations
    assert {} == row_counts(engine)


def test_spans_of_no_conversation_go_by_their_own_age(engine: Engine, clock: Clock) -> None:
    feed(engine, span("http", start_ns=NOON_NS, end_ns=NOON_NS + 1))
    clock.at(1)
    feed(engine, span("http", start_ns=NOON_NS + HOUR_NS, end_ns=NOON_NS + HOUR_NS + 1))
    clock.at(2.5)

    assert 1 == removed(engine).spans
    assert [(1,)] == rows(engine, "SELECT count(*) FROM spans")


def test_a_time_in_the_future_is_no_way_to_stay_for_ever(engine: Engine, clock: Clock) -> None:
    store_talk(engine, "ahead", 1_000_000, ahead=True)
    clock.at(2.5)

    assert 1 == removed(engine).conversations
    assert {} == row_counts(engine)


def test_a_dry_run_counts_and_removes_nothing(engine: Engine, clock: Clock) -> None:
    store_talk(engine, "old", 0)
    feed(engine, span("http", start_ns=NOON_NS, end_ns=NOON_NS + 1))
    before = row_counts(engine)
    clock.at(5)

    removed_counts = removed(engine, dry_run=True)

    assert (1, 5) == (removed_counts.conversations, removed_counts.spans)
    assert before == row_counts(engine)
    assert 0 == engine_kept(engine)


def engine_kept(engine: Engine) -> int:
    with engine.store.read() as con:
        return retention_state(con).conversations_from_ns


def test_a_late_span_of_a_removed_conversation_is_counted_and_not_rebuilt_into_a_stump(
    late_counts: LateCounts, engine: Engine, clock: Clock
) -> None:
    late = late_counts.counts
    store_talk(engine, "old", 0)
    clock.at(2.5)
    removed(engine)
    run = talk("old", 0).spans[0]

    feed(engine, replace(run, span_id="ab" * 8, start_ns=clock.now_ns, end_ns=clock.now_ns + 1))
    store_talk(engine, "old", 2.6)

    assert [1, 4] == late
    assert [] == conversation_ids(engine)
    assert [] == engine.rebuilder.pending()
    assert [] == rows(engine, "SELECT * FROM trace_links WHERE conversation_id IS NOT NULL")


def test_once_it_is_forgotten_a_name_may_begin_anew(engine: Engine, clock: Clock) -> None:
    store_talk(engine, "again", 0)
    clock.at(2.5)
    removed(engine)
    clock.at(4.6)
    removed(engine)

    store_talk(engine, "again", 4.6)

    assert ["again"] == conversation_ids(engine)


def test_a_span_that_is_too_old_is_rejected_by_reason_also_when_it_was_stored_before(
    tmp_path: Path, clock: Clock
) -> None:
    with retaining_engine(tmp_path / "t.duckdb", clock) as engine:
        retaining = RetentionLoop(engine)
        first = engine.store.accept(retaining.without_expired(talk("old", 0)))
        clock.at(2.5)
        removed(engine)

        again = engine.store.accept(retaining.without_expired(talk("old", 0)))

        assert (6, 0, 0, {}) == (first.accepted, first.duplicate, first.rejected, dict(first.reasons))
        assert (0, 0, 6, {"expired": 6}) == (again.accepted, again.duplicate, again.rejected, dict(again.reasons))


_FILES = count()


@given(ends=st.lists(st.integers(0, 300), min_size=1, max_size=8, unique=True), now=st.integers(0, 600))
@settings(
    max_examples=settings().max_examples // 10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_what_is_left_is_what_is_younger(tmp_path: Path, empty_file: Path, ends: list[int], now: int) -> None:
    clock, db = Clock(), tmp_path / f"{next(_FILES)}.duckdb"
    shutil.copy(empty_file, db)
    with retaining_engine(db, clock) as engine:
        for minute in ends:
            store_talk(engine, f"c-{minute:03}", minute / 60)
        clock.at(now / 60)

        removed(engine)

        assert [f"c-{minute:03}" for minute in sorted(ends) if minute >= now - 120] == conversation_ids(engine)
        assert [] == rows(engine, "SELECT * FROM spans ANTI JOIN trace_links USING (trace_id)")


def test_window_ends_that_reach_back_to_what_was_removed_stay_as_they_are(tmp_path: Path, clock: Clock) -> None:
    with retaining_engine(tmp_path / "t.duckdb", clock) as engine:
        telemetry = Telemetry.from_settings(engine.settings.emit, run_id="test", trigger="online")
        store_talk(engine, "old", 0.9)
        Commands(engine).evaluate(cases=[("cases.jsonl", CASE)])
        clock.at(1.5)
        WindowLoop(engine, telemetry).store()
        store_talk(engine, "also", 0.95)
        before = rows(engine, 'SELECT "end", n, revision FROM windows ORDER BY ALL')
        clock.at(5.5)
        removed(engine)
        engine.store.write(
            lambda con: con.execute(
                "INSERT INTO window_changes VALUES (99, make_timestamp_ns($at), true)", {"at": NOON_NS + HOUR_NS}
            )
        )

        WindowLoop(engine, telemetry).store()

        assert before
        assert {1} == {n for _, n, _ in before}
        assert before == rows(
            engine,
            'SELECT "end", n, revision FROM windows WHERE "end" <= make_timestamp_ns($at) ORDER BY ALL',
            {"at": NOON_NS + int(1.6 * HOUR_NS)},
        )


def test_results_stay_as_long_as_a_window_that_is_still_restated_reaches(engine: Engine, clock: Clock) -> None:
    store_talk(engine, "old", 0)
    Commands(engine).evaluate(cases=[("cases.jsonl", CASE)])
    results = "SELECT conversation_id FROM results"

    clock.at(2.9)
    removed(engine)
    assert ([("old",)], []) == (rows(engine, results), conversation_ids(engine))
    clock.at(3.1)
    removed(engine)
    assert [] == rows(engine, results)


def test_a_count_window_keeps_its_newest_results_however_old(tmp_path: Path, clock: Clock) -> None:
    with retaining_engine(tmp_path / "t.duckdb", clock, windows={"widths": ["1h", "n2"]}) as engine:
        for number in range(4):
            store_talk(engine, f"c-{number}", number / 10)
        Commands(engine).evaluate(cases=[("cases.jsonl", CASE)])
        clock.at(10)

        removed(engine)

        assert [("c-2",), ("c-3",)] == rows(engine, "SELECT conversation_id FROM results ORDER BY ALL")


def test_results_of_which_the_evidence_for_an_objective_is_made_stay(tmp_path: Path, clock: Clock) -> None:
    objectives = {"objectives": [{"target": 0.9}]}
    with retaining_engine(tmp_path / "t.duckdb", clock, slo=objectives) as engine:
        store_talk(engine, "old", 0)
        Commands(engine).evaluate(cases=[("cases.jsonl", CASE)])
        clock.at(30)

        removed(engine)

        assert ([("old",)], []) == (rows(engine, "SELECT conversation_id FROM results"), conversation_ids(engine))


def test_a_backfill_of_what_was_removed_says_so_and_names_the_first_whole_window() -> None:
    held, now_ns = (NOON_NS, NOON_NS + 10 * DAY_NS), NOON_NS + 10 * DAY_NS
    requested = BackfillRequest(windows=("24h",), step_ns=HOUR_NS, k=(1,), since_ns=NOON_NS)

    with raises(
        UsageError,
        snapshot(
            "--since 2026-05-29T12:00:00Z: conversations that ended before 2026-05-31T12:00:00Z were removed (retention), so windows of 24h that end before 2026-06-01T12:00:00Z would be incomplete; use a later --since or narrower windows. Stored windows are not changed"
        ),
    ):
        plan_of(requested, held, now_ns, NOON_NS + 2 * DAY_NS)


def test_a_backfill_without_a_beginning_starts_with_the_first_whole_window() -> None:
    held, now_ns = (NOON_NS, NOON_NS + 10 * DAY_NS), NOON_NS + 10 * DAY_NS
    requested = BackfillRequest(windows=("24h",), step_ns=HOUR_NS, k=(1,))

    plan = plan_of(requested, held, now_ns, NOON_NS + 2 * DAY_NS)

    assert NOON_NS + 3 * DAY_NS == plan.first_ns
    assert passage(plan.notes[0]) == snapshot("were removed: the first window ends at 2026-06-01T12:00:00Z or later")


def test_an_invalid_age_is_reported_before_anything_listens(tmp_path: Path) -> None:
    with (
        raises(ConfigError, snapshot("'forever': give a whole number")),
        running(live_settings(tmp_path / "t.duckdb", retention={"keep": "forever"})),
    ):
        pass


def test_a_running_collector_removes_by_itself_and_counts_what_is_too_old(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    db = tmp_path / "t.duckdb"
    with retaining_engine(db, Clock(), retention={"keep": None}) as engine:
        store_talk(engine, "old", 0)
    result = live_settings(db, retention={"keep": "1h", "every_s": 0.05})
    with running(result) as (live, _):
        eventually(lambda: ask(result, "store_stats")["retention"]["spans_removed"], 4)
        receipt = live.accept(talk("old", 0))
        state = ask(result, "live")["collector"]

        assert {"expired": 6} == dict(receipt.reasons)
        assert (6, {"expired": 6}) == (state["received"]["rejected"], state["reasons"])
    assert passage(caplog.text) == snapshot("removed 1 conversations, 4 spans, 2 log records")


def test_what_could_not_be_rebuilt_is_forgotten_in_time(engine: Engine, clock: Clock) -> None:
    failures = [
        NotRebuilt(item=item, reason="unforeseen", first_ns=1, last_ns=clock() - age)
        for item, age in (("a" * 32, 0), (("", "c1"), KEEP_NS + 1))
    ]
    engine.store.write(lambda con: save_not_rebuilt(con, failures))
    assert {failure.item for failure in failures} == engine.rebuilder.not_rebuilt.keys()

    removed(engine)

    assert failures[:1] == list(engine.rebuilder.not_rebuilt.values())


def test_an_empty_batch_of_expired_spans_is_a_receipt_not_an_error(engine: Engine, clock: Clock) -> None:
    clock.at(9)
    old = batch(span("a", start_ns=NOON_NS, end_ns=NOON_NS + 1))

    receipt = engine.store.accept(RetentionLoop(engine).without_expired(old))

    assert (0, 1) == (receipt.accepted, receipt.rejected)
