"""Signals of users: repeated requests, rejections, thanks and abandoned conversations, from messages alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from otel_agentic.evaluators.user_signals import ABANDONED, REJECTION, REPEATED_REQUEST, THANKS, UserSignals
from otel_agentic.testing import conversation, tool_call, turn
from tests.evaluators.ragas_subjects import subject

if TYPE_CHECKING:
    from otel_agentic.conversations.model import Conversation
    from otel_agentic.evaluators.base import MetricScore


def scores(about: Conversation, name: str) -> list[MetricScore]:
    return [score for score in UserSignals().evaluate(subject(about, None)) if score.name == name]


def labels(name: str, *queries: str | None) -> list[str | None]:
    return [score.label for score in scores(conversation(*(turn(query, "Well.") for query in queries)), name)]


REQUEST = "Where is my order 17? It should be here since Monday."


@pytest.mark.parametrize(
    ("message", "label"),
    [
        (REQUEST, "repeated"),
        ("Where is my order 17?? It should be here since monday!", "repeated"),
        ("Where is my order 18? It should be here since Monday.", "new"),
        ("Where is my order 17? It should not be here since Monday.", "new"),
        ("Please cancel the subscription of my brother instead.", "new"),
    ],
)
def test_a_request_in_the_same_or_similar_words_is_repeated(message: str, label: str) -> None:
    assert [label] == labels(REPEATED_REQUEST, REQUEST, message)


COUNT = "Could you check again? I need the total number of suitcases in numeric form, please."


@pytest.mark.parametrize(
    ("message", "label"),
    [
        ("I really need the total number of suitcases in numeric form. Could you double-check it?", "rephrased"),
        ("Could you check again? I need to know whether my brother may bring a dog.", "new"),
    ],
)
def test_a_formula_alone_repeats_no_request(message: str, label: str) -> None:
    assert [label] == labels(REPEATED_REQUEST, COUNT, message)


@pytest.mark.parametrize(
    "message",
    [
        "Wo ist meine Bestellung 17? Sie sollte seit Montag hier sein.",
        "Où est ma commande 17 ? Elle devrait être ici depuis lundi.",
        "注文番号17はどこですか。月曜日に届くはずでした。",
        "Где мой заказ 17? Он должен был прийти в понедельник.",
    ],
)
def test_repetition_needs_no_word_list_of_a_language(message: str) -> None:
    assert ["new", "repeated"] == labels(REPEATED_REQUEST, "Hello, I need help with an order.", message, message)[-2:]


@pytest.mark.parametrize(
    "message",
    [
        "Yes, please go ahead with the cancellation of the order.",
        "No, I do not want travel insurance for the flight.",
        "Thank you for the help with the order of my brother.",
        "Order please",
        '[{"role": "user", "content": "a serialised history with the same keys every time"}]',
        "x" * 3000,
    ],
)
def test_an_answer_a_farewell_and_what_a_program_wrote_are_no_request(message: str) -> None:
    assert [] == labels(REPEATED_REQUEST, message, message)


@pytest.mark.parametrize(
    ("message", "label"),
    [
        ("No, that's wrong. I want the other one.", "rejected"),
        ("Well, this is not what I asked for", "rejected"),
        ("I already gave you my user id: 7.", "rejected"),
        ("You misunderstood me.", "rejected"),
        ("I think there might have been a misunderstanding.", "rejected"),
        ("Nein, das stimmt nicht.", "rejected"),
        ("Non, ce n'est pas ça.", "rejected"),
        ("No, eso no es lo que pedí.", "rejected"),
        ("No, that's not necessary, thanks.", "none"),
        ("No, that's all.", "none"),
        ("Is that wrong?", "none"),
        ("If that is wrong, write to me.", "none"),
        ("I gave the wrong id, sorry: it is 8.", "none"),
        ("That is not right now possible for me, let us do it later", "none"),
    ],
)
def test_a_rejection_states_that_the_agent_was_wrong(message: str, label: str) -> None:
    assert [label] == labels(REJECTION, "Hi", message)


@pytest.mark.parametrize(
    "message", ["Thanks a lot!", "Great, thank you.", "Vielen Dank", "ありがとうございます", "谢谢你"]
)
def test_thanks_are_a_signal_of_their_own(message: str) -> None:
    assert ["thanks", "none"] == labels(THANKS, "Thanks in advance", message, "And a taxi?")


FAILED: dict[str, Any] = {"error": "no seats", "result": None}


@pytest.mark.parametrize(
    ("last", "label"),
    [
        (turn("Book it", "Booked."), "completed"),
        (turn("Book it", None), "unanswered"),
        (turn("Connect me with a person", None, tool_call("transfer")), "completed"),
        (turn("Thank you, goodbye!", None), "completed"),
        (turn("Book it", None, error="TimeoutError"), "after_error"),
        (turn("Book it", "There are no seats.", tool_call("book", **FAILED)), "after_error"),
        (turn("Book it", "Booked.", tool_call("book", **FAILED), tool_call("book")), "completed"),
    ],
)
def test_a_conversation_is_abandoned_without_an_answer_or_after_an_error(last: Any, label: str) -> None:
    (score,) = scores(conversation(turn("Hi", "Hello."), last), ABANDONED)
    assert (label, None) == (score.label, score.reason)


def test_missing_data_is_no_signal() -> None:
    unknown = conversation(turn("Hi", "Hello."), turn(None, None, query_captured=False, answer_captured=False))
    assert {"content_not_captured"} == {
        score.reason for score in UserSignals().evaluate(subject(unknown, None)) if score.abstained
    }
    assert 4 == sum(score.abstained for score in UserSignals().evaluate(subject(unknown, None)))
    (score,) = scores(replace(conversation(turn("Hi", "Hello.")), closed_by=None), ABANDONED)
    assert "no_data" == score.reason


def test_the_signals_are_chosen_by_name_and_do_not_run_by_default() -> None:
    assert not UserSignals.default
    assert {REPEATED_REQUEST, REJECTION, THANKS, ABANDONED} == {metric.name for metric in UserSignals.metrics}
