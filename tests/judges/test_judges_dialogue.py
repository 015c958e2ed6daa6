"""Dialogues with a judge: rounds of questions, their order, and what happens to those that remain unanswered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from otel_agentic.judges.base import Question, Verdict
from otel_agentic.judges.dialogue import Answer, Dialogue, run_dialogues, together


def question(text: str) -> Question:
    return Question(query=text, expected="", answer="", threshold=0.5)


def texts(answers: Sequence[Answer]) -> list[str]:
    return [answer.reasoning for answer in answers if isinstance(answer, Verdict)]


class Script:
    """Answers each question with its text, last question first, except those in `unanswered`; records the rounds."""

    def __init__(self, *unanswered: str) -> None:
        self.unanswered = unanswered
        self.rounds: list[list[str]] = []

    def __call__(self, questions: Sequence[Question]) -> Iterator[tuple[int, Answer]]:
        self.rounds.append([item.query for item in questions])
        for number in reversed(range(len(questions))):
            if questions[number].query not in self.unanswered:
                yield number, Verdict(score=1.0, reasoning=questions[number].query)


def dialogue(*rounds: str, closed: list[str] | None = None) -> Dialogue[list[str]]:
    """Return a dialogue that asks each of the rounds, a question per name, and returns all answers."""
    answers: list[str] = []
    try:
        for names in rounds:
            answers += texts((yield [question(name) for name in names.split()]))
    except GeneratorExit:
        if closed is not None:
            closed.append(rounds[0])
        raise
    return answers


def test_each_dialogue_has_its_answers_in_the_order_of_its_questions() -> None:
    script = Script()
    results = dict(run_dialogues([dialogue("a b", "c"), dialogue("b a"), dialogue(), dialogue("d", "", "a")], script))
    assert {0: ["a", "b", "c"], 1: ["b", "a"], 2: [], 3: ["d", "a"]} == results
    assert [["a", "b", "d"], ["c", "a"]] == script.rounds


def test_a_dialogue_with_an_unanswered_question_has_no_result_and_is_closed() -> None:
    closed: list[str] = []
    results = dict(run_dialogues([dialogue("a b", closed=closed), dialogue("c", closed=closed)], Script("b")))
    assert ({1: ["c"]}, ["a b"]) == (results, closed)


def test_a_run_that_ends_early_closes_every_dialogue() -> None:
    closed: list[str] = []
    run = run_dialogues([dialogue(), *(dialogue(name, closed=closed) for name in "abc")], Script())
    assert (0, []) == next(run)
    run.close()  # type: ignore[attr-defined]  # a generator
    assert [] == closed  # the others were not started yet
    run = run_dialogues([dialogue(name, closed=closed) for name in "abc"], Script())
    assert (2, ["c"]) == next(run)
    run.close()  # type: ignore[attr-defined]  # a generator
    assert ["a", "b"] == closed


def test_an_error_of_the_judge_ends_the_run_and_closes_every_dialogue() -> None:
    closed: list[str] = []

    def ask(_: Sequence[Question]) -> Iterator[tuple[int, Answer]]:
        raise TimeoutError
        yield  # a generator

    with pytest.raises(TimeoutError):
        list(run_dialogues([dialogue("a", closed=closed), dialogue("b", closed=closed)], ask))
    assert ["a", "b"] == closed


def test_dialogues_together_ask_round_by_round() -> None:
    script = Script()
    parts = [dialogue("a b", "c"), dialogue("a"), dialogue()]
    assert [(0, [["a", "b", "c"], ["a"], []])] == list(run_dialogues([together(parts)], script))
    assert [["a", "b"], ["c"]] == script.rounds
