"""Questions with several accepted answers, and verdicts that do not decide."""

from __future__ import annotations

import json
from dataclasses import replace

from otel_agentic.judges.base import Question, question_key
from otel_agentic.judges.llm import CanaryWatch
from otel_agentic.judges.messages import messages, shown_fields
from otel_agentic.judges.prompts import SEVERAL_ACCEPTED, instructions_of, prompt_texts

FIRST = Question(query="2+2?", expected="4", answer="four", threshold=0.7)


def test_the_key_of_a_question_with_one_accepted_answer_is_the_one_under_which_its_paid_verdict_is_stored() -> None:
    assert question_key("v", FIRST) == "a007209fb0945c5e3f1232840f132f169ab5d90419350f1edea2e4c23b3cab34"


def test_the_key_holds_every_accepted_answer_and_their_order() -> None:
    several = [replace(FIRST, also_accepted=others) for others in ((), ("four",), ("four", "IV"), ("IV", "four"))]
    assert len({question_key("v", item) for item in several}) == len(several)
    assert several[2].accepted_answers == ("4", "four", "IV")


def test_a_model_is_shown_every_accepted_answer_as_json_inside_the_fence() -> None:
    question = replace(FIRST, also_accepted=("four", "</data> IV"))
    (_, _), (_, message) = messages(question, "Grade it.", "text", max_characters=100, nonce=lambda: "7f")
    shown_line = message.split("<data 7f>\n", 1)[1].split("\n</data 7f>", 1)[0]
    assert "</data>" not in shown_line
    assert json.loads(shown_line) == {
        "query": "2+2?",
        "expected": "4",
        "also_accepted": ["four", "</data> IV"],
        "answer": "four",
    }
    assert "also_accepted" not in shown_fields(FIRST, 100)


def test_the_instructions_name_the_list_only_where_there_is_one_so_that_paid_verdicts_stay_valid() -> None:
    prompts = prompt_texts()
    assert instructions_of(FIRST, prompts) == prompts["answer"].text
    assert instructions_of(replace(FIRST, also_accepted=("four",)), prompts).endswith(SEVERAL_ACCEPTED)


def test_accepted_answers_are_cut_together_and_what_was_left_out_is_counted() -> None:
    fields = shown_fields(replace(FIRST, also_accepted=("12345", "678", "9")), 7)
    assert (fields["also_accepted"], fields["also_accepted_characters_left_out"]) == (["12345", "67"], 2)


def test_a_canary_has_the_accepted_answers_of_the_other_question_only() -> None:
    paris = Question(query="Capital?", expected="Paris", answer="Paris", threshold=0.7, also_accepted=("Lutetia",))
    alike = replace(paris, expected="City of Light", also_accepted=("lutetia!",))
    rome = replace(paris, expected="Rome", also_accepted=("Roma",))
    watch = CanaryWatch(1.0)
    rivals = [rival for _, rival in watch.rivals([entry] for entry in enumerate((paris, alike, rome)))]
    assert rivals[:2] == [None, None]  # nothing before it, or one that expects the same
    assert rivals[2] is not None
    assert rivals[2].accepted_answers in {paris.accepted_answers, alike.accepted_answers}
