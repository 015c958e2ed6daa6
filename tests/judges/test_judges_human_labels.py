"""Verdicts of people, read from CSV: every problem with its line, nothing guessed."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from otel_agentic.errors import CaseError
from otel_agentic.judges.calibration import parse_human_labels


def read(text: str) -> list[tuple[str, str | None, int | None, bool]]:
    result = parse_human_labels("l.csv", text).require().labels
    return [(label.conversation_id, label.environment, label.turn_index, label.verdict) for label in result]


def problems(text: str) -> tuple[str, ...]:
    return parse_human_labels("l.csv", text).problems


def test_a_row_with_a_turn_is_about_the_turn_and_one_without_about_the_conversation() -> None:
    text = "conversation_id,turn,verdict\nc1,1,pass\nc1,2,fail\nc1,,FAIL\n"
    assert [("c1", None, 0, True), ("c1", None, 1, False), ("c1", None, None, False)] == read(text)


def test_turns_count_from_one_as_people_count_and_from_zero_as_the_store_does() -> None:
    assert read("conversation_id,turn,verdict\nc1,1,1\n") == read("conversation_id,turn_index,verdict\nc1,0,1\n")


def test_a_reward_is_a_verdict_and_the_environment_may_be_named() -> None:
    text = "\ufeffconversation_id,reward,environment\nc1,1.0,staging\nc1,0.99,production\nc2,1,\n"
    assert [("c1", "staging", None, True), ("c1", "production", None, False), ("c2", None, None, True)] == read(text)


def test_a_labels_file_of_evaluate_fits_and_so_does_a_sheet_with_what_people_look_at() -> None:
    assert [("c1", None, None, True)] == read("conversation_id,case_id,reward\nc1,case-1,1.0\n")
    sheet = 'conversation_id,turn,query,expected,answer,agent,notes,verdict\nc1,2,"Why, oh why?",so,so,clerk,,fail\n'
    assert [("c1", None, 1, False)] == read(sheet)


def test_rows_without_a_label_are_counted_and_left_out() -> None:
    result = parse_human_labels("l.csv", "conversation_id,turn,verdict\nc1,1,\nc1,2,pass\n,,\n").require()
    assert (1, 2) == (len(result.labels), result.blank)


def test_the_same_verdict_twice_is_one_and_the_other_verdict_is_a_problem() -> None:
    assert 1 == len(read("conversation_id,verdict\nc1,pass\nc1,true\n"))
    assert problems("conversation_id,turn,verdict\nc1,4,pass\nc1,4,fail\n") == snapshot(
        ("l.csv:3: turn 4 of conversation 'c1' has the other verdict at l.csv:2; keep one of them",)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "l.csv:1: conversation_id: column missing, found no columns; allowed: conversation_id[,turn]"),
        ("conversation_id,verdict,grade\n", "l.csv:1: grade: unknown column; allowed: conversation_id[,turn]"),
        ("conversation_id,turn\n", "l.csv:1: verdict: column missing; a person's verdict belongs in verdict or reward"),
        ("conversation_id,verdict,reward\n", "l.csv:1: verdict, reward: both columns are present; keep one"),
        ("conversation_id,turn,turn_index,verdict\n", "l.csv:1: turn, turn_index: both columns are present; keep one"),
        ("conversation_id,verdict,verdict\n", "l.csv:1: verdict: duplicate column; keep one"),
        ("conversation_id,verdict\nc1,maybe\n", "l.csv:2: verdict: found 'maybe'; allowed: pass, true, 1, fail"),
        ("conversation_id,reward\nc1,nan\n", "l.csv:2: reward: found 'nan'; allowed: a number"),
        ("conversation_id,verdict\n,pass\n", "l.csv:2: conversation_id: empty; every row needs a conversation"),
        ("conversation_id,verdict\nc1,pass,x\n", "l.csv:2: more cells than columns in the header; quote a cell"),
        (
            "conversation_id,turn,verdict\nc1,0,pass\n",
            "l.csv:2: turn: found '0'; allowed: a whole number from 1 (a column turn_index counts from 0), or empty",
        ),
        (
            "conversation_id,turn_index,verdict\nc1,one,pass\n",
            "l.csv:2: turn_index: found 'one'; allowed: a whole number from 0 (a column turn counts from 1), or empty",
        ),
        ('conversation_id,verdict\n"c1,pass\nc2,fail\n', "l.csv:2: not readable as CSV: unexpected end of data"),
    ],
)
def test_a_problem_names_file_line_column_and_what_is_allowed(text: str, message: str) -> None:
    (problem,) = problems(text)
    assert problem.startswith(message)


def test_all_problems_are_reported_together() -> None:
    text = "conversation_id,verdict\nc1,maybe\nc2,pass\nc3,perhaps\n"
    with pytest.raises(CaseError, match=r"l\.csv:2: .*\nl\.csv:4: "):
        parse_human_labels("l.csv", text).require()
