"""Questions with several accepted answers, and verdicts that do not decide."""

from __future__ import annotations

from dataclasses import replace

from otel_agentic.judges.base import Question, question_key

ONE = Question(query="2+2?", expected="4", answer="four", threshold=0.7)


def test_the_key_of_a_question_with_one_accepted_answer_is_the_one_under_which_its_paid_verdict_is_stored() -> None:
    assert question_key("v", ONE) == "a007209fb0945c5e3f1232840f132f169ab5d90419350f1edea2e4c23b3cab34"


def test_the_key_holds_every_accepted_answer_and_their_order() -> None:
    several = [replace(ONE, also_accepted=others) for others in ((), ("four",), ("four", "IV"), ("IV", "four"))]
    assert len({question_key("v", each) for each in several}) == len(several)
    assert several[2].accepted_answers == ("4", "four", "IV")
