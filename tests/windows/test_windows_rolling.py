"""Rolling windows: names, ends, membership and the points that come out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.config import StatsSettings
from otel_agentic.errors import ConfigError
from otel_agentic.stats import PluginEstimator
from otel_agentic.windows import (
    ScoredConversation,
    Window,
    WindowPoint,
    current_end,
    parse_width,
    parse_window,
    parse_windows,
    results_of,
    roll,
    window_ends,
)
from tests.snapshots import raises
from tests.windows.rolled import ESTIMATORS, PLAIN, SECOND, SETTINGS, conversations, figures_of, scanned

HOUR = 3_600 * SECOND
DAY = 24 * HOUR
TIMES = st.integers(-(10**6), 10**6)


def at(*times_ns: int) -> list[ScoredConversation]:
    return [replace(PLAIN, conversation_id=str(index), ended_ns=time) for index, time in enumerate(times_ns)]


def points_of(scored: list[ScoredConversation], widths: list[str], ends: list[int]) -> list[WindowPoint]:
    table = roll(results_of(scored), widths, ends, estimators=[PluginEstimator()], settings=StatsSettings(), k=(1,))
    return table.points()


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("1h", 3_600), ("24h", 86_400), ("7d", 604_800)]
)
def test_widths_are_read_in_seconds_minutes_hours_and_days(text: str, seconds: int) -> None:
    assert parse_width(text) == seconds * SECOND


@pytest.mark.parametrize("text", ["", "24", "h", "0h", "-1h", "1.5h", "24 h", "24H", "1w", "n200", "1h\n", "٣h"])
def test_other_widths_are_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ConfigError, match="unit s, m, h or d"):
        parse_width(text)


def test_a_window_is_a_width_or_a_number_of_conversations() -> None:
    assert Window(name="24h", width_ns=DAY) == parse_window("24h")
    assert Window(name="n200", newest=200) == parse_window("n200")
    assert ("24h", "n5") == tuple(window.name for window in parse_windows(["24h", "n5", "24h"]))


@pytest.mark.parametrize("text", ["n0", "n", "n-1", "n2.5", "nn", "n200h", "n٣"])
def test_other_count_windows_are_refused_with_an_example(text: str) -> None:
    with raises(ConfigError, snapshot("give n and how many conversations, e.g. n200")):
        parse_window(text)


def test_a_window_holds_its_end_and_not_its_beginning() -> None:
    points = points_of(at(0, HOUR), ["1h"], [0, HOUR, 2 * HOUR])
    assert [(point.end_ns, point.summary.n) for point in points] == [(0, 1), (HOUR, 1)]


def test_each_width_and_subject_has_its_own_points_sorted_by_end_then_as_widths_are_given() -> None:
    scored = [*at(HOUR, 2 * HOUR), replace(PLAIN, agent="another", ended_ns=2 * HOUR, conversation_id="x")]
    points = points_of(scored, ["1h", "2h"], [HOUR, 2 * HOUR])
    assert [(p.end_ns // HOUR, p.window, p.summary.key.agent, p.summary.n) for p in points] == [
        (1, "1h", "booking", 1),
        (1, "2h", "booking", 1),
        (2, "1h", "another", 1),
        (2, "1h", "booking", 1),
        (2, "2h", "another", 1),
        (2, "2h", "booking", 2),
    ]
    assert {point.width_ns for point in points} == {HOUR, 2 * HOUR}


def test_an_empty_window_has_no_point() -> None:
    assert points_of(at(0), ["1h"], [2 * HOUR]) == []
    assert points_of([], ["1h"], [HOUR]) == []


def test_the_order_of_conversations_changes_nothing() -> None:
    scored = [replace(row, outcome="fail" if i % 3 else "pass") for i, row in enumerate(at(5, 3, 9, 1, 7, 3))]
    ends = list(window_ends(1, 9, 2))
    assert points_of(scored, ["1s"], ends) == points_of(scored[::-1], ["1s"], ends)


def test_current_end_is_the_smallest_multiple_that_is_not_before_now() -> None:
    assert [current_end(now, 60) for now in (-1, 0, 1, 59, 60, 61)] == [0, 0, 60, 60, 60, 120]


def test_ends_count_from_the_epoch_or_from_the_origin() -> None:
    assert list(window_ends(61, 119, 60)) == [120]
    assert list(window_ends(60, 120, 60)) == [60, 120]
    assert list(window_ends(61, 200, 60, origin_ns=1_000_001)) == [101, 161, 221]
    assert list(window_ends(200, 61, 60)) == []


@pytest.mark.parametrize("step", [0, -60])
def test_a_step_that_does_not_advance_is_refused(step: int) -> None:
    with pytest.raises(ConfigError, match="step"):
        window_ends(0, 10, step)
    with pytest.raises(ConfigError, match="step"):
        current_end(0, step)


@settings(deadline=None)
@given(TIMES, TIMES, st.integers(1, 5_000), TIMES)
def test_ends_are_multiples_from_the_origin_and_cover_every_time(a: int, b: int, step: int, origin: int) -> None:
    first, last = sorted((a, b))
    ends = window_ends(first, last, step, origin)
    assert all((end - origin) % step == 0 for end in (ends[0], ends[-1]))
    assert first <= ends[0] < first + step
    assert last <= ends[-1] < last + step


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 300), min_size=1, max_size=25), st.integers(1, 5))
def test_windows_as_wide_as_the_step_count_each_conversation_once(minutes: list[int], width: int) -> None:
    minute = 60 * SECOND
    scored = at(*(second * minute for second in minutes))
    ends = list(window_ends(min(minutes) * minute, max(minutes) * minute, width * minute))
    points = points_of(scored, [f"{width}m"], ends)
    assert sum(point.summary.n for point in points) == len(minutes)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 120), min_size=1, max_size=20), st.integers(1, 90), st.integers(1, 30))
def test_every_point_counts_what_a_plain_scan_counts(seconds: list[int], width: int, step: int) -> None:
    scored = at(*(second * SECOND for second in seconds))
    ends = list(window_ends(min(seconds) * SECOND, max(seconds) * SECOND, step * SECOND))
    counts = {point.end_ns: point.summary.n for point in points_of(scored, [f"{width}s"], ends)}
    for end in ends:
        expected = sum(end - width * SECOND < second * SECOND <= end for second in seconds)
        assert counts.get(end, 0) == expected


def counted(scored: list[ScoredConversation], widths: list[str], *hours: int) -> list[tuple[int, str, int]]:
    points = points_of(scored, widths, [hour * HOUR for hour in hours])
    return [(point.end_ns // HOUR, point.window, point.summary.n) for point in points]


def test_a_count_window_holds_the_newest_of_any_age() -> None:
    scored = at(1 * HOUR, 2 * HOUR, 50 * HOUR, 51 * HOUR)
    assert [(1, "n3", 1), (50, "n3", 3), (51, "n3", 3)] == counted(scored, ["n3"], 0, 1, 50, 51)


def test_a_count_window_counts_what_was_not_evaluated_too() -> None:
    scored = [replace(row, outcome="not_evaluated") if index else row for index, row in enumerate(at(1, 2, 3))]
    (point,) = points_of(scored, ["n2"], [10])
    assert (0, {"no_data": 2}, None) == (point.summary.n, point.summary.not_evaluated, point.width_ns)


def test_a_count_window_ends_when_its_newest_conversation_is_older_than_the_widest_window() -> None:
    assert [(3, "n5", 2), (3, "4h", 2), (5, "n5", 2), (5, "4h", 1)] == counted(at(0, 2 * HOUR), ["n5", "4h"], 3, 5, 6)
    assert [(167, "n5", 1)] == counted(at(0), ["n5"], 167, 168)


def test_of_conversations_that_ended_together_the_later_ids_are_the_newest() -> None:
    scored = [replace(row, outcome="fail" if index < 2 else "pass") for index, row in enumerate(at(5, 5, 5, 5))]
    assert [2] == [point.summary.c for point in points_of(scored[::-1], ["n2"], [5])]


def test_a_tag_has_windows_of_its_own_in_addition_to_the_total() -> None:
    scored = [replace(row, tags=("vip", "new") if index else ()) for index, row in enumerate(at(1, 2, 3))]
    table = roll(results_of(scored, ["v*"]), ["1s"], [5], estimators=ESTIMATORS, settings=SETTINGS, k=(1,))
    assert [(None, 3), ("vip", 2)] == [(point.summary.key.tag, point.summary.n) for point in table.points()]


def test_unequal_weights_move_the_rate_and_equal_ones_do_not() -> None:
    failed, passed = replace(PLAIN, outcome="fail"), replace(PLAIN, conversation_id="2")
    rates = [
        roll(results_of([first, second]), ["1s"], [0], estimators=[PluginEstimator()], settings=SETTINGS, k=(1,))
        .points()[0]
        .summary.estimates["plugin"]
        .pass_at_k[1]
        .value
        for first, second in (
            (failed, passed),
            (replace(failed, weight=4.0), replace(passed, weight=4.0)),
            (replace(failed, weight=4.0), passed),
        )
    ]
    assert [0.5, 0.5, pytest.approx(0.2)] == rates


def test_many_ends_are_counted_in_stretches_that_make_no_difference() -> None:
    scored = [replace(row, case_id=f"case {index % 3}", dataset="d") for index, row in enumerate(at(*range(0, 90, 7)))]
    at_once, in_stretches = (
        roll(
            results_of(scored),
            ["1s", "n4"],
            range(0, 120, 2),
            estimators=ESTIMATORS,
            settings=SETTINGS,
            k=SETTINGS.k,
            cells=cells,
        ).points()
        for cells in (10**6, 6)
    )
    assert [figures_of(point) for point in at_once] == [figures_of(point) for point in in_stretches]


def test_without_a_conversation_the_table_still_tells_what_was_asked() -> None:
    table = roll(results_of([]), ["1h", "n2"], [HOUR], estimators=ESTIMATORS, settings=SETTINGS, k=(3, 1))
    assert ([], ("1h", "n2"), (1, 3)) == (table.points(), tuple(table.widths), table.k)
    assert {"bayesian", "per_case"} == set(table.estimates)


@settings(max_examples=settings().max_examples // 3)
@given(
    conversations(weights=(1.0, 2.0, 10.0)),
    st.permutations(["5s", "17s", "n3", "n1"]),
    st.lists(st.integers(0, 80), min_size=1, max_size=6),
)
def test_every_point_says_what_a_scan_of_all_conversations_says(
    scored: list[ScoredConversation], widths: list[str], seconds: list[int]
) -> None:
    ends = sorted({second * SECOND for second in seconds})
    table = roll(
        results_of(scored, ("v*", "new")), widths, ends, estimators=ESTIMATORS, settings=SETTINGS, k=SETTINGS.k
    )
    slow = scanned(scored, widths, ends, ("v*", "new"))
    assert [figures_of(point) for point in slow] == [figures_of(point) for point in table.points()]
