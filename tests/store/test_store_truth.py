"""Cases and labels: the current content of a file counts, its past versions stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_agentic.store.annotations import load_labels, save_labels
from otel_agentic.store.truth import case_versions, load_cases, save_case, save_cases
from otel_agentic.truth import parse_cases, parse_labels
from tests.store.store_queries import rows

if TYPE_CHECKING:
    from otel_agentic.store import Store

A = '{"case_id": "a", "turns": [{"query": "Which hotel?", "answer": "The Ritz."}]}'
A_CHANGED = A.replace("Ritz", "Savoy")
B = (
    '{"case_id": "b", "tags": ["t"], "tools": {"calls": [{"tool_name": "search", "parameters": {"q": 1}}]}, '
    '"turns": [{"query": "q", "tools": {"calls": [{"tool_name": "book", "parameters": {}}]}}]}'
)


def given_cases(store: Store, *lines: str, file: str = "cases.jsonl", now_ns: int = 1) -> int:
    cases = parse_cases(file, "\n".join(lines)).require()
    return store.write(lambda con: save_cases(con, cases, file, now_ns))


def given_labels(store: Store, *lines: str, file: str = "labels.csv", now_ns: int = 1) -> None:
    labels = parse_labels(file, "conversation_id,verdict\n" + "\n".join(lines), reward_threshold=1.0).require()
    store.write(lambda con: save_labels(con, labels, file, now_ns))


def in_force(store: Store) -> list[str]:
    with store.read() as con:
        return [case.case_id for case in load_cases(con)]


def verdicts(store: Store) -> dict[str, bool | None]:
    with store.read() as con:
        return {name: label.verdict for name, label in load_labels(con).items()}


def tables(store: Store) -> dict[str, list[tuple[object, ...]]]:
    names = ("cases", "case_turns", "expected_calls", "labels")
    return {name: rows(store, f"SELECT * FROM {name} ORDER BY ALL") for name in names}  # noqa: S608 — names from above


def test_a_file_given_twice_changes_nothing(store: Store) -> None:
    given_cases(store, A, B)
    given_labels(store, "c-1,pass", "c-2,fail")
    before = tables(store)

    assert 0 == given_cases(store, A, B, now_ns=2)
    given_labels(store, "c-1,pass", "c-2,fail", now_ns=2)

    assert before == tables(store)


def test_cases_come_back_as_they_were_read(store: Store) -> None:
    given_cases(store, A, B)

    with store.read() as con:
        assert list(parse_cases("cases.jsonl", f"{A}\n{B}").require()) == load_cases(con)
    assert [(None, 0, "search", '{"q":1}'), (0, 0, "book", "{}")] == rows(
        store, "SELECT turn_index, call_index, tool_name, parameters FROM expected_calls ORDER BY tool_name DESC"
    )


def test_accepted_answers_are_stored_with_the_turn_and_come_back(store: Store) -> None:
    several = A.replace('"The Ritz."', '["The Ritz.", "Ritz Paris"]')
    given_cases(store, several, B)

    with store.read() as con:
        assert list(parse_cases("cases.jsonl", f"{several}\n{B}").require()) == load_cases(con)
    assert [("The Ritz.", ["Ritz Paris"]), (None, [])] == rows(
        store, "SELECT answer, also_accepted FROM case_turns ORDER BY case_id"
    )


def test_a_changed_case_is_a_new_version_and_the_old_one_stays_retired(store: Store) -> None:
    given_cases(store, A, B)

    assert 1 == given_cases(store, A_CHANGED, B)
    assert [(False, "The Ritz."), (True, "The Savoy.")] == rows(
        store,
        "SELECT k.current, t.answer FROM cases k JOIN case_turns t USING (dataset, case_id, version) "
        "WHERE case_id = 'a' ORDER BY ALL",
    )


def test_a_case_that_changes_back_is_its_old_version_again(store: Store) -> None:
    given_cases(store, A)
    given_cases(store, A_CHANGED)

    assert 0 == given_cases(store, A)
    assert [(True,), (False,)] == rows(store, "SELECT current FROM cases ORDER BY definition")


def test_a_case_that_its_file_no_longer_holds_is_retired(store: Store) -> None:
    given_cases(store, A, B)
    given_cases(store, A)

    assert ["a"] == in_force(store)


def test_another_file_leaves_the_cases_of_the_first_alone(store: Store) -> None:
    given_cases(store, A)
    given_cases(store, B, file="more.jsonl")

    assert ["a", "b"] == in_force(store)


def test_a_label_that_its_file_no_longer_holds_goes(store: Store) -> None:
    given_labels(store, "c-1,pass", "c-2,fail")
    given_labels(store, "c-3,pass", file="more.csv")
    given_labels(store, "c-1,pass")

    assert {"c-1": True, "c-3": True} == verdicts(store)


def test_the_newest_label_of_a_conversation_counts(store: Store) -> None:
    given_labels(store, "c-1,pass")
    given_labels(store, "c-1,fail", file="more.csv")

    assert {"c-1": False} == verdicts(store)
    assert [("more.csv:2",)] == rows(store, "SELECT source FROM labels")


def corrected(store: Store, line: str, author: str = "ana") -> None:
    (case,) = parse_cases("cases.jsonl", line).require()
    store.write(lambda con: save_case(con, case, author, 2))


def answers(store: Store) -> list[str | None]:
    with store.read() as con:
        return [case.turns[0].first_answer for case in load_cases(con)]


def test_a_correction_survives_the_file_that_it_corrects(store: Store) -> None:
    given_cases(store, A, B)
    corrected(store, A_CHANGED)
    given_cases(store, A, B, now_ns=3)  # as at each start of a collector

    assert answers(store) == ["The Savoy.", None]


def test_a_new_version_in_the_file_replaces_a_correction(store: Store) -> None:
    given_cases(store, A)
    corrected(store, A_CHANGED)
    given_cases(store, A.replace("Ritz", "Plaza"), now_ns=3)
    assert answers(store) == ["The Plaza."]

    given_cases(store, A, now_ns=4)  # the file went back
    assert answers(store) == ["The Ritz."]


def test_a_corrected_case_leaves_with_its_file(store: Store) -> None:
    given_cases(store, A, B)
    corrected(store, A_CHANGED)
    given_cases(store, B, now_ns=3)

    assert in_force(store) == ["b"]


def test_a_restored_version_is_current_again_and_all_versions_stay(store: Store) -> None:
    given_cases(store, A)
    corrected(store, A_CHANGED)
    corrected(store, A, "ben")
    with store.read() as con:
        versions = case_versions(con, "cases", "a")

    assert [(row.current, row.author) for row in versions] == [(True, "ben"), (False, "ana")]
    assert answers(store) == ["The Ritz."]
    assert rows(store, "SELECT DISTINCT dataset FROM dataset_versions") == [("cases",)]
