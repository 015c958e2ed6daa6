"""An expected answer: one text, or a list of accepted ones."""

from __future__ import annotations

import json

import pytest

from otel_agentic.truth.formats import read_document
from otel_agentic.truth.model import Case, CaseTurn

ALLOWED = "allowed: a text that is not empty, or a list of "


def case(answer: object) -> Case:
    return Case.model_validate({"case_id": "a", "turns": [{"query": "q", "answer": answer}]})


def test_a_single_answer_keeps_the_version_that_stored_scores_name_however_it_is_written() -> None:
    assert [case(answer).version for answer in ("x", ["x"], ["x", "x"])] == ["1373c81f4834636d"] * 3


def test_every_accepted_answer_and_the_first_one_are_content() -> None:
    several = [case(answer).version for answer in ("x", ["x", "y"], ["y", "x"], ["x", "y", "z"])]
    assert len(set(several)) == len(several)


def test_equal_answers_are_merged_in_their_order() -> None:
    assert CaseTurn(answer=("b", "a", "b")).accepted_answers == ("b", "a")
    assert CaseTurn().accepted_answers == ()


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        ([], "answer"),
        ([""], "answer.0"),
        (["x", ""], "answer.1"),
        (["x", 5], "answer.1"),
        ("", "answer"),
        (5, "answer"),
    ],
)
def test_an_answer_that_is_none_is_refused_in_one_sentence_that_says_what_is_allowed(
    answer: object, field: str
) -> None:
    text = json.dumps({"case_id": "a", "turns": [{"query": "q"}, {"query": "r", "answer": answer}]})
    (problem,) = read_document("f.jsonl", text).problems
    assert problem.startswith(f"f.jsonl:1: turns.1.{field}: found ")
    assert ALLOWED in problem


@pytest.mark.parametrize(
    ("cell", "accepted"),
    [
        ('["Paris", "City of Light"]', ("Paris", "City of Light")),
        (' ["Paris"]', ("Paris",)),
        ("Paris", ("Paris",)),
        ('["[\\"a\\"]"]', ('["a"]',)),
        ("[17, 18]", ("[17, 18]",)),
        ("[]", ("[]",)),
        ('[{"id": 1}]', ('[{"id": 1}]',)),
        ("[Paris", ("[Paris",)),
    ],
)
def test_a_cell_of_csv_is_a_list_where_it_is_a_json_list_of_texts(cell: str, accepted: tuple[str, ...]) -> None:
    quoted = cell.replace('"', '""')
    (result,) = read_document("f.csv", f'case_id,query,answer\na,q,"{quoted}"\n').require()
    assert result.turns[0].accepted_answers == accepted


def test_a_list_with_something_else_than_texts_names_the_column_and_the_line() -> None:
    (problem,) = read_document("f.csv", 'case_id,answer\na,x\nb,"[""x"", 1]"\n').problems
    assert problem.startswith("f.csv:3: answer.1: found 1; ")


def test_an_outcome_style_case_takes_a_list_and_numbers_in_it() -> None:
    text = '[{"id": "a", "input": "2+2?", "expected_outcome": {"answer": ["four", 4]}}]'
    (result,) = read_document("f.json", text).require()
    assert result.turns[0].accepted_answers == ("four", "4")
