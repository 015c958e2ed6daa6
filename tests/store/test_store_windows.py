"""Window rows: written once, replaced when their figures change, deleted when their window is empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from otel_agentic.config import StatsSettings
from otel_agentic.stats import BayesianEstimator, Estimator, PerCaseEstimator
from otel_agentic.store.windows import newest_end, save_windows, stored_ends
from otel_agentic.testing import NOON_NS, SECOND_NS
from otel_agentic.windows import ScoredConversation, results_of, roll
from tests.store.store_queries import rows, value

if TYPE_CHECKING:
    from otel_agentic.store import Store

MINUTE_NS = 60 * SECOND_NS
ENDS = [NOON_NS, NOON_NS + MINUTE_NS]
LATER = NOON_NS + 60 * MINUTE_NS
SETTINGS = StatsSettings(k=(1, 2))
ESTIMATORS: list[Estimator] = [BayesianEstimator.from_settings(SETTINGS), PerCaseEstimator.from_settings(SETTINGS)]
ROW = ScoredConversation(
    environment="prod",
    conversation_id="c-1",
    revision=1,
    agent="desk",
    agent_version=None,
    service="concierge",
    ended_ns=NOON_NS - SECOND_NS,
    dataset="shop",
    case_id="case-1",
    tags=(),
    outcome="pass",
    reason=None,
)
#: Two attempts at each of two cases: one passes all of its own, the other none.
FOUR = [
    replace(ROW, conversation_id="c-1", case_id="a"),
    replace(ROW, conversation_id="c-2", case_id="a"),
    replace(ROW, conversation_id="c-3", case_id="b", outcome="fail"),
    replace(ROW, conversation_id="c-4", case_id="b", outcome="fail"),
]


def save(store: Store, scored: Sequence[ScoredConversation], now_ns: int = 1, ends: Sequence[int] = ENDS) -> int:
    table = roll(results_of(scored), ["1h"], ends, estimators=ESTIMATORS, settings=SETTINGS, k=SETTINGS.k)
    return store.write(lambda con: save_windows(con, table, ends, now_ns))


def test_a_row_is_written_for_each_end_estimator_and_k(store: Store) -> None:
    assert 2 * 2 * 2 == save(store, FOUR)
    assert [("bayesian", 1), ("bayesian", 2), ("per_case", 1), ("per_case", 2)] == rows(
        store, 'SELECT estimator, k FROM windows WHERE "end" = make_timestamp_ns(?) ORDER BY ALL', [NOON_NS]
    )


def test_the_same_windows_again_change_nothing(store: Store) -> None:
    save(store, FOUR, now_ns=1)
    before = rows(store, "SELECT * FROM windows ORDER BY ALL")

    assert 0 == save(store, FOUR, now_ns=2)
    assert before == rows(store, "SELECT * FROM windows ORDER BY ALL")


def test_a_window_with_one_conversation_more_is_restated(store: Store) -> None:
    save(store, FOUR, now_ns=LATER)

    assert 8 == save(store, [*FOUR, replace(ROW, conversation_id="late")], now_ns=LATER + 1)
    assert [(2, 5, 3, LATER + 1)] == rows(store, "SELECT DISTINCT revision, n, c, epoch_ns(computed_at) FROM windows")


def test_what_comes_while_a_window_is_filling_is_no_restatement(store: Store) -> None:
    save(store, FOUR, now_ns=NOON_NS - 2)

    assert 8 == save(store, [*FOUR, replace(ROW, conversation_id="next")], now_ns=NOON_NS - 1)
    assert [(1, 5, NOON_NS - 1)] == rows(store, "SELECT DISTINCT revision, n, epoch_ns(computed_at) FROM windows")


def test_a_window_where_other_conversations_pass_is_restated_though_as_many_do(store: Store) -> None:
    save(store, FOUR, now_ns=LATER)
    # One attempt of each case passes now: the counts are as before, pass@2 over cases is not.
    swapped = [replace(FOUR[0], outcome="fail"), FOUR[1], replace(FOUR[2], outcome="pass"), FOUR[3]]

    save(store, swapped, now_ns=LATER)

    assert [(1.0, 2)] == rows(
        store, "SELECT DISTINCT pass_at_k, revision FROM windows WHERE estimator = 'per_case' AND k = 2"
    )


def test_a_subject_that_left_a_window_leaves_no_row_there(store: Store) -> None:
    save(store, [replace(ROW, agent=None)])

    save(store, [ROW])  # the late root span named the agent

    assert [("desk", 1)] == rows(store, "SELECT DISTINCT agent, revision FROM windows")


def test_rows_of_other_ends_widths_and_estimators_stay(store: Store) -> None:
    save(store, [replace(ROW, agent="other")])
    store.write(lambda con: con.execute("UPDATE windows SET \"window\" = '24h' WHERE estimator = 'per_case'"))

    save(store, [ROW], ends=ENDS[1:])

    assert [("desk", "1h", 4), ("other", "1h", 2), ("other", "24h", 4)] == rows(
        store, 'SELECT agent, "window", count(*) FROM windows GROUP BY ALL ORDER BY ALL'
    )


@pytest.mark.parametrize(
    ("first", "last", "limit", "expected"),
    [(0, 2**62, 10, ENDS), (NOON_NS + 1, 2**62, 10, ENDS[1:]), (0, NOON_NS, 10, ENDS[:1]), (0, 2**62, 1, ENDS[1:])],
)
def test_the_newest_ends_of_a_range_are_found(
    store: Store, first: int, last: int, limit: int, expected: list[int]
) -> None:
    save(store, FOUR)

    with store.read() as con:
        assert expected == stored_ends(con, ["1h", "24h"], first, last, limit=limit)
        assert [] == stored_ends(con, ["24h"], first, last, limit=limit)


def test_a_subject_without_environment_or_version_is_one_row_too(store: Store) -> None:
    nameless = replace(ROW, agent=None, agent_version=None, service=None, environment="")

    save(store, [nameless])
    save(store, [nameless])

    assert 8 == value(store, "SELECT count(*) FROM windows")


def test_where_no_conversation_is_left_rows_of_what_was_computed_go(store: Store) -> None:
    save(store, FOUR)
    store.write(lambda con: con.execute("UPDATE windows SET k = 7 WHERE k = 2"))

    assert 0 == save(store, [], ends=ENDS[:1])

    assert [(NOON_NS, 7, 2), (ENDS[1], 1, 2), (ENDS[1], 7, 2)] == rows(
        store, 'SELECT epoch_ns("end"), k, count(*) FROM windows GROUP BY ALL ORDER BY ALL'
    )


def test_rows_that_differ_by_the_rounding_of_a_sum_say_the_same(store: Store) -> None:
    save(store, FOUR)
    store.write(lambda con: con.execute("UPDATE windows SET pass_at_k = pass_at_k + 1e-12"))

    assert 0 == save(store, FOUR)


def test_undefined_rates_and_reasons_are_null_and_json(store: Store) -> None:
    open_case = [replace(ROW, outcome="not_evaluated", reason=reason) for reason in ("judge_error", "ambiguous", None)]
    scored = [replace(row, conversation_id=str(index)) for index, row in enumerate(open_case)]

    save(store, scored)
    save(store, scored)

    assert [(0, None, 0.0, 0.0, 1.0, '{"ambiguous":1,"judge_error":1,"no_data":1}')] == rows(
        store, "SELECT DISTINCT n, pass_at_k, coverage, lower_bound, upper_bound, not_evaluated FROM windows"
    )


def test_the_newest_end_on_a_grid_is_found(store: Store) -> None:
    save(store, FOUR)

    with store.read() as con:
        assert [ENDS[1], ENDS[0], None] == [
            newest_end(con, MINUTE_NS, ENDS[1]),
            newest_end(con, 2 * MINUTE_NS, ENDS[1]),
            newest_end(con, MINUTE_NS, NOON_NS - 1),
        ]
