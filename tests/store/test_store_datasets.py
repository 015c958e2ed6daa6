"""Datasets have versions: the cases of each stay known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from otel_agentic.store.truth import current_datasets, dataset_version, list_datasets, save_cases
from otel_agentic.truth import parse_cases
from tests.store.store_queries import rows

if TYPE_CHECKING:
    from otel_agentic.store import Store

MEMBERS = """
SELECT m.case_id, k.definition->>'$.goal' FROM dataset_members m
JOIN cases k ON k.dataset = m.dataset AND k.case_id = m.case_id AND k.version = m.case_version
WHERE m.dataset = ? AND m.version = ? ORDER BY ALL
"""


def given(store: Store, *lines: str, file: str = "travel.jsonl", now_ns: int = 1) -> None:
    cases = parse_cases(file, "\n".join(lines)).require()
    store.write(lambda con: save_cases(con, cases, file, now_ns))


def history(store: Store, dataset: str | None = None) -> list[dict[str, Any]]:
    with store.read() as con:
        return list_datasets(con, dataset)


A = '{"case_id": "a", "goal": "x"}'
A_CHANGED = '{"case_id": "a", "goal": "y"}'
B = '{"case_id": "b"}'


def test_each_change_of_a_dataset_is_a_version_and_the_past_ones_stay(store: Store) -> None:
    given(store, A, now_ns=1)
    given(store, A, B, now_ns=2)
    given(store, A_CHANGED, B, now_ns=3)

    versions = history(store)
    assert [("travel", 2, True), ("travel", 2, False), ("travel", 1, False)] == [
        (row["dataset"], row["cases"], row["current"]) for row in versions
    ]
    newest, middle, oldest = (row["version"] for row in versions)
    assert 3 == len({newest, middle, oldest})
    assert [("a", "y"), ("b", None)] == rows(store, MEMBERS, ["travel", newest])
    assert [("a", "x"), ("b", None)] == rows(store, MEMBERS, ["travel", middle])
    assert [("a", "x")] == rows(store, MEMBERS, ["travel", oldest])


def test_a_file_given_twice_makes_no_version(store: Store) -> None:
    given(store, A, B)
    given(store, B, A, now_ns=2)
    assert 1 == len(history(store))


def test_a_dataset_that_changes_back_is_its_old_version_again(store: Store) -> None:
    for number, line in enumerate((A, A_CHANGED, A), start=1):
        given(store, line, now_ns=number)
    versions = history(store)
    assert [True, False, False] == [row["current"] for row in versions]
    assert versions[0]["version"] == versions[2]["version"] != versions[1]["version"]
    assert [("a", "x")] == rows(store, MEMBERS, ["travel", versions[0]["version"]])


def test_a_dataset_of_several_files_is_one(store: Store) -> None:
    given(store, '{"case_id": "a", "dataset": "d"}', file="one.jsonl")
    given(store, '{"case_id": "b", "dataset": "d"}', '{"case_id": "c", "dataset": "e"}', file="two.jsonl", now_ns=2)
    assert [("d", 2, "two.jsonl"), ("d", 1, "one.jsonl"), ("e", 1, "two.jsonl")] == [
        (row["dataset"], row["cases"], row["source"]) for row in history(store)
    ]
    assert ["e"] == [row["dataset"] for row in history(store, "e")]


def test_a_dataset_whose_last_case_goes_is_empty_not_forgotten(store: Store) -> None:
    given(store, '{"case_id": "a", "dataset": "d"}', B, file="one.jsonl")
    given(store, B, file="one.jsonl", now_ns=2)
    assert [(0, True), (1, False)] == [(row["cases"], row["current"]) for row in history(store, "d")]
    with store.read() as con:
        assert {"one"} == current_datasets(con).keys()


def test_the_current_version_is_a_hash_of_the_content_in_any_order(store: Store) -> None:
    given(store, A, B)
    with store.read() as con:
        held = con.execute("SELECT case_id, version FROM cases").fetchall()
        assert {"travel": dataset_version(reversed(held))} == current_datasets(con)
    assert dataset_version([("a", "1"), ("b", "2")]) != dataset_version([("a", "1b"), ("", "2")])


def test_a_draft_differs_from_a_reviewed_case(store: Store) -> None:
    given(store, '{"case_id": "a", "reviewed": false}', B)
    assert [("a", False), ("b", True)] == rows(store, "SELECT case_id, reviewed FROM cases ORDER BY case_id")
