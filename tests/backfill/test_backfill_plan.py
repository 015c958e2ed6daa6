"""Which window ends a backfill computes, and how many windows hold a conversation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.backfill.dry_run import count_points
from otel_agentic.backfill.plan import MANY_ENDS, MAX_ENDS, BackfillRequest, moment, parts_of, plan_of, run_id_of
from otel_agentic.errors import ConfigError, UsageError

S = 1_000_000_000
HOUR = 3_600 * S
DAY = 24 * HOUR
#: 2026-03-02T09:00:00Z
NINE = 1_772_442_000 * S
REQUEST = BackfillRequest(windows=("24h",), step_ns=HOUR, k=(1, 3))
LATER = NINE + 1_000 * DAY


def ends(requested: BackfillRequest, first: int, last: int, now: int = LATER) -> list[int]:
    return list(plan_of(requested.checked(), (first, last), now).ends)


def test_without_a_range_every_conversation_lies_in_the_step_of_some_end() -> None:
    assert [NINE + HOUR, NINE + 2 * HOUR] == ends(REQUEST, NINE + 1, NINE + HOUR + 1)
    assert [NINE] == ends(REQUEST, NINE, NINE)


def test_ends_are_counted_from_since_where_it_is_given() -> None:
    requested = replace(REQUEST, since_ns=NINE + 7, step_ns=DAY)

    assert [NINE + 7, NINE + 7 + DAY, NINE + 7 + 2 * DAY] == ends(requested, NINE + HOUR, NINE + 7 + 2 * DAY)


def test_the_last_end_is_at_or_before_until() -> None:
    for until in (NINE + 2 * HOUR, NINE + 3 * HOUR - 1):
        assert [NINE + HOUR, NINE + 2 * HOUR] == ends(replace(REQUEST, until_ns=until), NINE + 1, NINE + DAY)


def test_a_conversation_of_a_clock_that_is_ahead_makes_no_end_beyond_the_one_that_fills() -> None:
    assert [NINE, NINE + HOUR, NINE + 2 * HOUR] == ends(REQUEST, NINE, NINE + 900 * DAY, now=NINE + HOUR + 1)


def test_untils_before_the_same_next_end_ask_the_same() -> None:
    for since in (None, NINE + 7):
        requested = replace(REQUEST, since_ns=since).checked()
        built = [replace(requested, until_ns=NINE + HOUR + 7 + more).last_end_ns for more in (0, 1, HOUR - 8, HOUR)]
        assert built[0] == built[1] == built[2]
        assert built[0] is not None
        assert built[0] + HOUR == built[3]
        assert ends(replace(requested, until_ns=built[0]), NINE, NINE + DAY) == ends(
            replace(requested, until_ns=NINE + HOUR + 8), NINE, NINE + DAY
        )
    assert REQUEST.last_end_ns is None


def test_until_may_lie_behind_the_last_conversation() -> None:
    requested = replace(REQUEST, since_ns=NINE, until_ns=NINE + 3 * HOUR)

    assert [NINE, NINE + HOUR, NINE + 2 * HOUR, NINE + 3 * HOUR] == ends(requested, NINE + 1, NINE + 2)


def test_an_until_that_has_not_come_is_cut_at_now_with_a_note() -> None:
    requested = replace(REQUEST, until_ns=NINE + DAY).checked()
    plan = plan_of(requested, (NINE, NINE + DAY), NINE + HOUR + 1)

    assert [NINE, NINE + HOUR] == list(plan.ends)
    assert list(plan.notes) == snapshot(
        ["--until 2026-03-03T09:00:00Z is in the future: the last window ends at or before now"]
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"since_ns": NINE, "until_ns": NINE - 1}, "--until 2026-03-02T08:59:59Z is before --since 2026-03-02T09"),
        ({"step_ns": 0}, "--step 0: the step between window ends must be above 0"),
        ({"k": (0,)}, "k=0"),
        ({"windows": ("1x",)}, "1x"),
        ({"since_ns": LATER + DAY}, "--since .* is in the future"),
        ({"since_ns": None, "until_ns": NINE - DAY}, "no window ends by .* give a later --until"),
        (
            {"step_ns": S, "until_ns": NINE + DAY * 30},
            r"more than 200,000 in one backfill.*--step 5m has about 8,640",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_to_do(changes: dict[str, object], message: str) -> None:
    with pytest.raises((UsageError, ConfigError), match=message):
        ends(replace(REQUEST, **changes), NINE + 1, NINE + 30 * DAY)  # type: ignore[arg-type]  # each is of its field's type


def test_many_ends_are_computed_with_advice() -> None:
    requested = replace(REQUEST, step_ns=60 * S)
    plan = plan_of(requested.checked(), (NINE, NINE + 20 * DAY), LATER)

    assert MANY_ENDS < len(plan.ends) < MAX_ENDS
    assert list(plan.notes) == snapshot(["28,801 window ends; --step 5m has about 5,761"])


def test_the_widest_window_of_the_first_end_says_how_far_back_conversations_count() -> None:
    plan = plan_of(replace(REQUEST, windows=("1h", "7d")).checked(), (NINE, NINE), LATER)

    assert NINE - 7 * DAY == plan.reach_ns


def test_windows_of_the_newest_reach_back_however_far() -> None:
    assert plan_of(replace(REQUEST, windows=("1h", "n200")).checked(), (NINE, NINE), LATER).reach_ns is None


def test_the_id_changes_with_everything_that_decides_the_result() -> None:
    requested = replace(REQUEST, since_ns=NINE).checked()
    changes: list[dict[str, object]] = [
        {"since_ns": NINE + 1},
        {"until_ns": NINE + DAY},
        {"windows": ("7d",)},
        {"step_ns": DAY},
        {"k": (1,)},
        {"emit": "otlp"},
        {"emit": "otlp", "endpoint": "http://127.0.0.1:1"},
    ]
    built = {run_id_of(replace(requested, **change), {"mode": "bayesian"})[0] for change in changes}  # type: ignore[arg-type]

    assert len(changes) + 2 == len(
        built | {run_id_of(requested, {"mode": "bayesian"})[0], run_id_of(requested, {"mode": "other"})[0]}
    )


def test_what_is_asked_twice_or_in_another_order_is_asked_once() -> None:
    assert replace(REQUEST, k=(1, 3)).checked() == replace(REQUEST, k=(3, 1, 3), windows=("24h", "24h")).checked()


@given(size=st.integers(1, 9), count=st.integers(1, 40))
def test_parts_are_all_ends_in_order(size: int, count: int) -> None:
    complete = range(NINE, NINE + count * HOUR, HOUR)
    parts = list(parts_of(complete, size))

    assert list(complete) == [end for part in parts for end in part]
    assert max(map(len, parts)) <= size


def test_a_moment_is_formatted_in_utc() -> None:
    assert "2026-03-02T09:00:00Z" == moment(NINE)


@given(
    ended=st.lists(st.tuples(st.integers(0, 2), st.integers(-30, 60)), max_size=12),
    widths=st.lists(st.integers(1, 40), min_size=1, max_size=3, unique=True),
    step=st.integers(1, 7),
    count=st.integers(1, 12),
    newest=st.booleans(),
)
def test_window_points_are_counted_as_by_looking_at_every_window(
    ended: list[tuple[int, int]], widths: list[int], step: int, count: int, *, newest: bool
) -> None:
    windows = [f"{width}s" for width in widths] + ["n5"] * newest
    group = np.array([item[0] for item in ended], dtype=np.int64)
    times = np.array([item[1] for item in ended], dtype=np.int64) * S
    grid = range(0, count * step * S, step * S)
    recorded = [*widths, *[max(widths)] * newest]  # one of the newest lasts as long as the widest
    expected = sum(
        any(item == key and end - width * S < time <= end for item, time in zip(group, times, strict=True))
        for key in range(3)
        for width in recorded
        for end in grid
    )

    assert expected == count_points(group, times, windows, grid)
