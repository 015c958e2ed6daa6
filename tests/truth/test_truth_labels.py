from __future__ import annotations

import pytest

from otel_agentic.errors import CaseError
from otel_agentic.truth import Label, parse_labels

ALLOWED = "allowed: conversation_id[,case_id][,verdict|reward]"


def problems_of(text: str) -> tuple[str, ...]:
    return parse_labels("l.csv", text).problems


def test_verdicts_and_rewards_are_read_and_empty_cells_say_nothing() -> None:
    verdicts = parse_labels("l.csv", "\ufeffconversation_id,verdict\na,PASS\nb,0\nc,true\nd,\ne\n\n").require()
    assert {key: label.verdict for key, label in verdicts.items()} == {
        "a": True,
        "b": False,
        "c": True,
        "d": None,
        "e": None,
    }
    rewards = parse_labels("l.csv", "conversation_id,case_id,reward\na,x,1.0\nb,,0.9\n").require()
    assert rewards["a"] == Label(conversation_id="a", case_id="x", verdict=True, line=2)
    assert rewards["b"] == Label(conversation_id="b", case_id=None, verdict=False, line=3)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", f"l.csv:1:conversation_id: column missing, found no columns; {ALLOWED}"),
        ("id,verdict\n", f"l.csv:1:conversation_id: column missing, found id,verdict; {ALLOWED}"),
        ("conversation_id,score\n", f"l.csv:1:score: unknown column; {ALLOWED}"),
        ("conversation_id,verdict,reward\n", "l.csv:1:verdict, reward: both columns are present; keep one"),
        ("conversation_id,case_id,case_id\n", "l.csv:1:case_id: duplicate column; keep one"),
        (
            "conversation_id,verdict\na,maybe\n",
            "l.csv:2:verdict: found 'maybe'; allowed: pass, true, 1, fail, false, 0, or empty",
        ),
        ("conversation_id,reward\na,nan\n", "l.csv:2:reward: found 'nan'; allowed: a number, or empty"),
        ("conversation_id,reward\n,1\n", "l.csv:2:conversation_id: empty; every row needs a conversation"),
        (
            "conversation_id,reward\na,1,2\n",
            "l.csv:2: 3 cells, but 2 columns in the header; quote a cell that contains a comma",
        ),
        (
            "conversation_id,reward\na,1\nb,1\na,0\n",
            "l.csv:4:conversation_id: 'a' is labelled differently on line 2; keep one of them",
        ),
    ],
)
def test_an_invalid_labels_file_is_reported_with_file_line_and_column(text: str, problem: str) -> None:
    assert problems_of(text) == (problem,)


def test_a_row_repeated_word_for_word_is_no_contradiction() -> None:
    assert problems_of("conversation_id,reward\na,1\na,1.0\n") == ()


def test_problems_are_raised_together() -> None:
    with pytest.raises(CaseError, match=r"(?s)l\.csv:2:.*l\.csv:3:"):
        parse_labels("l.csv", "conversation_id,reward\na,x\nb,y\n").require()
