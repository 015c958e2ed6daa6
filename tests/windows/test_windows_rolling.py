"""Rolling windows: widths, ends, membership and the points that come out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_agentic.config import StatsSettings
from otel_agentic.errors import ConfigError
from otel_agentic.stats import PluginEstimator
from otel_agentic.windows import ScoredConversation, WindowPoint, current_end, parse_width, roll, window_ends

SECOND = 1_000_000_000
HOUR = 3_600 * SECOND
PLAIN = ScoredConversation(
    environment="production",
    conversation_id="1",
    revision=1,
    agent="booking",
    agent_version=None,
    service=None,
    ended_ns=0,
    dataset=None,
    case_id=None,
    tags=(),
    outcome="pass",
    reason=None,
)
TIMES = st.integers(-(10**6), 10**6)


def at(*times_ns: int) -> list[ScoredConversation]:
    return [replace(PLAIN, conversation_id=str(index), ended_ns=time) for index, time in enumerate(times_ns)]


def points_of(scored: list[ScoredConversation], widths: list[str], ends: list[int]) -> list[WindowPoint]:
    return roll(scored, widths, ends, estimators=[PluginEstimator()], settings=StatsSettings(), k=(1,))


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("1h", 3_600), ("24h", 86_400), ("7d", 604_800)]
)
def test_widths_are_read_in_seconds_minutes_hours_and_days(text: str, seconds: int) -> None:
    assert parse_width(text) == seconds * SECOND


@pytest.mark.parametrize("text", ["", "24", "h", "0h", "-1h", "1.5h", "24 h", "24H", "1w", "n200", "1h\n", "٣h"])
def test_other_widths_are_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ConfigError, match="unit s, m, h or d"):
        parse_width(text)


def test_a_window_holds_its_end_and_not_its_beginning() -> None:
    points = points_of(at(0, HOUR), ["1h"], [0, HOUR, 2 * HOUR])
    assert [(point.end_ns, point.summary.n) for point in points] == [(0, 1), (HOUR, 1)]


def test_each_width_and_subject_has_its_own_points_sorted_by_end() -> None:
    scored = [*at(HOUR, 2 * HOUR), replace(PLAIN, agent="another", ended_ns=2 * HOUR, conversation_id="x")]
    points = points_of(scored, ["2h", "1h"], [HOUR, 2 * HOUR])
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
    scored = [replace(one, outcome="fail" if i % 3 else "pass") for i, one in enumerate(at(5, 3, 9, 1, 7, 3))]
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
    scored = at(*(one * minute for one in minutes))
    ends = list(window_ends(min(minutes) * minute, max(minutes) * minute, width * minute))
    points = points_of(scored, [f"{width}m"], ends)
    assert sum(point.summary.n for point in points) == len(minutes)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 120), min_size=1, max_size=20), st.integers(1, 90), st.integers(1, 30))
def test_every_point_counts_what_a_plain_scan_counts(seconds: list[int], width: int, step: int) -> None:
    scored = at(*(one * SECOND for one in seconds))
    ends = list(window_ends(min(seconds) * SECOND, max(seconds) * SECOND, step * SECOND))
    found = {point.end_ns: point.summary.n for point in points_of(scored, [f"{width}s"], ends)}
    for end in ends:
        expected = sum(end - width * SECOND < one * SECOND <= end for one in seconds)
        assert found.get(end, 0) == expected
