"""Baselines of gates in the store: a name refers to the baseline last saved under it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_agentic.store.table import Selection, Table
from otel_agentic.store.truth import evaluations_of, list_baselines, load_baseline, metric_means, save_baseline

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from otel_agentic.store import Store


def save(store: Store, name: str, definition: str, now_ns: int, conversations: int = 2) -> None:
    store.write(
        lambda con: save_baseline(
            con, name, definition, conversations=conversations, evaluations=("e1", "e2"), now_ns=now_ns
        )
    )


def test_the_newest_of_a_name_is_given_back(store: Store) -> None:
    save(store, "main", '{"n": 1}', 10)
    save(store, "release", '{"n": 2}', 20, 5)
    save(store, "main", '{"n": 3, "quote": "\'"}', 30, 7)

    with store.read() as con:
        assert {"n": 3, "quote": "'"} == load_baseline(con, "main")
        assert {"n": 2} == load_baseline(con, "release")
        assert load_baseline(con, "other") is None
        assert [("main", 30, 7, ["e1", "e2"]), ("release", 20, 5, ["e1", "e2"])] == [
            tuple(row.values()) for row in list_baselines(con)
        ]


@pytest.fixture
def scored(store: Store) -> Store:
    """A store with scores: of two turns of a conversation, of the core, without a value, superseded, and no number."""

    def write(con: DuckDBPyConnection) -> None:
        con.execute(
            "INSERT INTO conversations (environment, conversation_id, revision, superseded, agent, started_at, ended_at, window_time, "
            "closed_by, turn_count, call_count, link_method, ambiguous_link, content_captured, content_hash, bucket, built_at) SELECT '', unnest(['c1', 'c2', 'open']), 1, false, "
            "'clerk', make_timestamp_ns(1), make_timestamp_ns(2), make_timestamp_ns(2), unnest(['end_mark', 'idle', NULL]), 1, 0, 'explicit', false, 'full', "
            "'hash', 1, make_timestamp_ns(3)"
        )
        given = [
            ("c1", "helpful", 2.0, "e", False),
            ("c1", "helpful", 5.0, "e", False),
            ("c1", "agentic.outcome", 1.0, None, False),
            ("c1", "helpful", 1.0, "e", True),
            ("c2", "helpful", None, "e", False),
            ("c2", "quick", float("nan"), "e", False),
            ("open", "helpful", 1.0, "e", False),
        ]
        ids, names, values, evaluators, superseded = zip(*given, strict=True)
        same = {"evaluation_id": "e1", "environment": "", "revision": 1, "explanation": "", "target": "turn"}
        Table(con, "scores").insert(
            con,
            {
                "conversation_id": ids,
                "name": names,
                "value": values,
                "evaluator": evaluators,
                "superseded": superseded,
                **{name: [value] * len(given) for name, value in same.items()},
            },
        )

    store.write(write)
    return store


def test_means_are_of_the_newest_values_of_evaluators_by_conversation(scored: Store) -> None:
    with scored.read() as con:
        assert [("", "c1", "helpful", 3.5)] == metric_means(con, Selection())
        assert [] == metric_means(con, Selection(agent="porter"))


def test_without_scores_there_is_no_evaluation(scored: Store) -> None:
    with scored.read() as con:
        assert () == evaluations_of(con, Selection())
