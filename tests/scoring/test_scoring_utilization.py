"""Whether a result was used: what proves it, what disproves it, and what proves nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.judges.exact.facts import extract
from otel_agentic.scoring.scope import scope_of
from otel_agentic.scoring.utilization import Use, agrees, evidence_of, use_of
from otel_agentic.scoring.values import MAX_VALUES, READ_CHARACTERS, Texts, key_text, values_of
from otel_agentic.testing import conversation, tool_call, turn
from tests.snapshots import ending, opening

if TYPE_CHECKING:
    from otel_agentic.conversations.model import ToolCall, Turn

FLIGHT = {"code": "HAT136", "seats": 3, "price": 241.5, "stops": 0, "departs": "2024-05-20", "gate": "B4"}


def uses(*turns: Turn) -> list[Use]:
    """Return the use of each call that worked, with all calls as witnesses."""
    scope = scope_of(conversation(*turns).turns, turn_index=None)
    texts = Texts(scope)
    return [
        use_of(actual, [other for other in scope.calls if other.location > actual.location], texts)
        for actual in scope.calls
        if actual.call.error is None
    ]


def use(result: Any, answer: str | None, query: str = "Please look.", **call: Any) -> Use:
    """Return the use of the only call of a turn."""
    (match,) = uses(turn(query, answer, look_up(result, **call)))
    return match


def look_up(result: Any, arguments: dict[str, Any] | None = None, **fields: Any) -> ToolCall:
    return tool_call("look_up", arguments or {"q": "it"}, result=result, span_id="s1", **fields)


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        (FLIGHT, "You fly with HAT136."),
        (FLIGHT, "It costs $241.50."),
        (FLIGHT, "It costs about 242 dollars."),
        (FLIGHT, "You leave on May 20th."),
        (FLIGHT, "Go to gate B4."),
        (json.dumps(FLIGHT), "You fly with hat136."),
        ([{"type": "text", "text": json.dumps(FLIGHT)}], "You fly with HAT136."),
        ({"temperature": 11.46}, "It is 11.5 degrees."),
        ({"temp_c": 20, "wind": 4, "sky": "clear", "uv": 1}, "It is 68\u00b0F."),
        ({"temp_c": 25}, "The temp is 77 fahrenheit."),
        ({"duration_minutes": 90, "stops": 1, "legs": 2, "meals": 0}, "It takes 1.5 hours."),
        ({"rate": 0.15}, "The rate is 15%."),
        ({"population": 3_769_495}, "Some 3.77 million people live there."),
        ({"total": "1,234.50"}, "You pay 1234.5 dollars."),
        ("228.0", "That makes $228."),
        ({"departs": "18:30:00", "seats": 4, "rows": 2, "doors": 1}, "It leaves at 6:30 pm."),
        ({"sky": "cloudy"}, "Expect cloudy weather."),
        ({"name": {"first": "Aarav", "last": "Ahmed"}, "age": 3, "level": 2}, "Hello Aarav!"),
        ("The capital of Australia is Canberra, which was founded in 1913.", "It is Canberra."),
        ("The tower stands 330 metres tall and was finished in 1889 by Gustave Eiffel.", "It is 330 m tall."),
        ("Guests may bring one small dog free of charge.", "Yes: guests may bring one small dog."),
        ({"status": "delayed", "reason": "weather", "gate": 7, "row": 2}, "It is delayed because of the weather."),
        ({"cabin": "economy", "rows": 20, "seats": 3, "doors": 2}, "Your cabin is economy."),
        ({"seats": 3, "price": 241.5, "stops": 0, "doors": 2}, "Seats: 3"),
        ({"total": 1234.56}, "El total es 1.234,56 \u20ac"),
        ({"departs": "2024-05-06", "seats": 3}, "Der Flug geht am 6. Mai 2024."),
    ],
)
def test_what_an_answer_says_of_a_result_proves_its_use(result: Any, answer: str) -> None:
    match = use(result, answer)
    assert (1.0, "answer") == (match.score, match.how)
    assert match.proof is not None
    assert match.proof.matching_text.strip("\u2026 ").lower() in " ".join(
        answer.replace("\u00b0", " \u00b0").lower().split()
    )


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        ({"temperature": 11.46}, "The temperature is 20 degrees."),
        ({"temperature": 11}, "The temperature is 25\u00b0C."),
        ({"total": 327}, "Your total is $330."),
        ({"total": 327}, "**Total:** $330"),
        ({"total_price": 120, "currency": "USD"}, "The total price is $150, nothing more."),
        ({"balance": 12}, "Your balance is not 12 but 15."),
        ({"rating": 4.5, "city": "Bern"}, "The rating is 3.9 stars."),
        ({"distance_km": 12}, "The distance is 15 km."),
        ({"departure_date": "2024-05-20"}, "Your departure date is May 21st."),
        ({"confirmation_number": "ABC123"}, "Your confirmation number is ABC124."),
        ({"departure_time": "06:00"}, "The departure time is 07:15."),
        ({"balance": 100}, "Your balance is about 150."),
        ({"temperature": 12, "city": "Zürich"}, "Zürich's temperature is 25 degrees."),
        ({"results": [{"price": 120}]}, "The price is $80."),
    ],
)
def test_another_value_stated_for_a_key_of_the_result_disproves_it(result: Any, answer: str) -> None:
    match = use(result, answer)
    assert (0.0, "contradiction") == (match.score, match.how)
    assert opening(match.evidence) == snapshot("the answer of turn 1 says ")


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        (FLIGHT, "I have found a flight for you."),
        (FLIGHT, "Do you want to book 3 tickets?"),
        (FLIGHT, None),
        ({}, "There is nothing."),
        ([], "There is nothing."),
        (None, "Done."),
        ("", "Done."),
        ("done", "Done, anything else?"),
        ({"status": "success", "ok": True}, "That was a success."),
        ({"cabin": "business", "rows": 20, "seats": 3, "doors": 2}, "The refund takes 7 business days."),
        ({"recorded": "2024-05-20", "rows": 20, "seats": 3, "doors": 2}, "It was in May 2024."),
        # What could be another key, another thing, another unit, or something worked out.
        ({"price": 120}, "The base price is $80."),
        ({"total": 327}, "Total: 3 passengers."),
        ({"total": 327}, "If your total is $330, you get a discount."),
        ({"total": 327}, "Is your total $330?"),
        ({"price": 120}, "The price would be $150."),
        ({"price": 120}, "The price is between $80 and $200."),
        ({"price": 120}, "The price is 80-200 dollars."),
        ({"price": 120}, "Economy price is $80, the business price is $200."),
        ({"price": 120}, "1. Price: $80. 2. Price: $90."),
        ({"price": 100, "tax": 20}, "The price is $120."),
        ({"price": 100, "nights": 3}, "The price is $300."),
        ({"price": 100, "discount_percent": 10}, "The price is $90."),
        ({"price": 97}, "The price is about $100."),
        ({"price": 120, "currency": "USD"}, "The price is under $100."),
        ({"price_usd": 120}, "The price is \u20ac110."),
        ({"duration": 90}, "The duration is 1.5 hours."),
        ({"departure_time": "06:00"}, "The departure time is 09:00 in Rome."),
        ({"flights": [{"price": 120}, {"price": 130}]}, "The price is $80."),
        ({"id": 17}, "The id is 18."),
        ({"price": None, "free": True}, "The price is $80."),
        # Another kind of value, another time zone, a sign in words.
        ({"departure_time": "2024-05-06T14:30:00"}, "Departure time: 14:30"),
        ({"created_at": 1716206400}, "Created at May 20, 2024."),
        ({"departure_date": "2024-05-06T23:30:00Z"}, "The departure date is May 7."),
        ({"balance": -50}, "Your balance is $50 overdrawn."),
        # Cents, shares, halves; digits grouped in other ways.
        ({"price": 32700}, "The price is $327.00."),
        ({"score": 0.82}, "The score is 82 out of 100."),
        ({"rating": 4.4}, "The rating is 4.5 stars."),
        ({"total": 1234}, "Total: 1.234 \u20ac"),
        ({"total": 1234.5}, "Total: 1 234,50 \u20ac"),
        ({"total": 123456}, "Your total: \u20b91,23,456"),
        # Altered by the rest of the sentence, or of another time.
        ({"total": 327}, "The total is $330 including the $3 fee."),
        ({"price": 120}, "The price is $118 with your 2 dollar coupon."),
        ({"price": 120}, "The price is $118 after the discount."),
        ({"price": 120}, "The price is $240 for both of you."),
        ({"total": 327}, "As of yesterday the total was $330."),
        ({"total": 327}, "You said the total is $330."),
    ],
)
def test_what_leaves_another_reading_open_is_unknown(result: Any, answer: str | None) -> None:
    assert None is use(result, answer).score


@pytest.mark.parametrize(
    ("query", "arguments"),
    [
        ("Is HAT136 at $241.50 from gate B4 free on May 20th?", {"q": "flight"}),
        ("Look.", {"flight": "HAT136", "price": 241.5, "gate": "B4", "when": "2024-05-20"}),
        ("Is it $241.50?", {"text": "flight HAT136, gate B4, on 2024-05-20"}),
    ],
)
def test_values_that_the_user_or_the_call_itself_brought_in_prove_nothing(
    query: str, arguments: dict[str, Any]
) -> None:
    answer = "HAT136 leaves on 2024-05-20 from gate B4 for $241.50."
    assert None is use(FLIGHT, answer, query, arguments=arguments).score


def test_what_the_user_stated_or_another_call_found_is_no_contradiction() -> None:
    assert None is use({"price": 120}, "The price is $80.", "Is the price $80?").score
    assert None is use({"price": 120}, "The price is $80.", arguments={"limit": 80}).score
    two = turn("Both?", "The price is $80.", look_up({"price": 120}), look_up({"price": 80}))
    assert [None, 1.0] == [item.score for item in uses(two)]


def of_last_turn(*turns: Turn) -> Use:
    """Return the use of the only call of the last turn, compared with that turn alone."""
    *earlier, last = conversation(*turns).turns
    scope = scope_of([last], turn_index=last.index, earlier=earlier)
    return use_of(scope.calls[0], [], Texts(scope))


def test_what_earlier_turns_brought_up_is_known_to_a_turn() -> None:
    asks = turn("Look again", "The price is $80.", look_up({"price": 120}))
    assert 0.0 == of_last_turn(turn("Hi", "Hello"), asks).score
    assert None is of_last_turn(turn("Mine was $80", "I see"), asks).score
    assert None is of_last_turn(turn("Hi", "Others cost $80."), asks).score
    assert None is of_last_turn(turn("Hi", "Hello", look_up({"price": 80})), asks).score
    tells = turn("Look", "HAT136 it is.", look_up(FLIGHT))
    assert 1.0 == of_last_turn(turn("Hi", "HAT136 is nice."), tells).score
    assert None is of_last_turn(turn("I want HAT136", "I see"), tells).score


def test_a_value_that_the_user_repeats_after_the_agent_remains_a_proof() -> None:
    (result,) = uses(turn("Find one", "Take HAT136.", look_up(FLIGHT)), turn("HAT136 it is", "HAT136 is booked."))
    assert (1.0, 0) == (result.score, result.proof and result.proof.turn_index)
    (late,) = uses(turn("Find one", "Which one?", look_up(FLIGHT)), turn("HAT136", "HAT136 is booked."))
    assert None is late.score


def test_an_answer_of_a_later_turn_proves_use_and_disproves_nothing() -> None:
    later = uses(turn("Find it", "One moment.", look_up({"temperature": 11})), turn("And?", "It has 11 degrees."))
    assert [(1.0, 1)] == [(first.score, first.proof and first.proof.turn_index) for first in later]
    other = uses(turn("Find it", "Wait.", look_up({"temperature": 11})), turn("And?", "The temperature is 20."))
    assert [None] == [first.score for first in other]


@pytest.mark.parametrize(
    ("result", "arguments", "argument"),
    [
        (FLIGHT, {"flight": "HAT136"}, "flight"),
        (FLIGHT, {"sum": 241.5}, "sum"),
        (FLIGHT, {"expression": "2 * 241.50"}, "expression"),
        (FLIGHT, {"body": "Dear Ada, you fly with HAT136 tomorrow."}, "body"),
        ({"table_id": 4, "seats": 2, "size": 3, "floor": 1}, {"table_id": 4}, "table_id"),
        ({"rooms": ["Blue Room", "Red Room"]}, {"booking": [{"place": "blue room"}]}, "place"),
    ],
)
def test_a_value_given_to_a_later_call_proves_use(result: Any, arguments: dict[str, Any], argument: str) -> None:
    first, _ = uses(turn("Go", "Done.", look_up(result), tool_call("book", arguments, result="", span_id="s2")))
    assert (1.0, "argument") == (first.score, first.how)
    assert first.proof is not None
    assert argument == first.proof.argument
    assert ending(first.evidence, argument=repr(argument)) == snapshot(
        "is in argument <argument> of the later call book in turn 1, step 2"
    )


@pytest.mark.parametrize(
    ("result", "arguments"),
    [
        (FLIGHT, {"seats": 3}),
        (FLIGHT, {"stops": 0}),
        (FLIGHT, {"note": "nothing of it"}),
        ({"cabin": "business", "rows": 20, "seats": 3, "doors": 2}, {"note": "refund in 7 business days"}),
        ({"table_id": 4, "seats": 2, "size": 3, "floor": 1}, {"table_id": "four"}),
    ],
)
def test_what_a_later_call_shares_by_chance_proves_nothing(result: Any, arguments: dict[str, Any]) -> None:
    first, _ = uses(turn("Go", "Done.", look_up(result), tool_call("book", arguments, result="")))
    assert None is first.score


def test_a_flag_in_the_data_settles_it() -> None:
    used, unused = (use(FLIGHT, "Nothing of it.", used_flag=flag) for flag in (True, False))
    assert [(1.0, False), (0.0, False)] == [(item.score, item.inferred) for item in (used, unused)]
    assert unused.evidence == snapshot("the data flag its result as unused")


def test_a_result_that_was_not_captured_is_unknown() -> None:
    result = use(None, "HAT136", result_captured=False)
    assert (result.score, result.evidence) == snapshot((None, "its result was not captured"))


def test_evidence_is_a_flat_record_that_says_which_value_was_found_where() -> None:
    book = tool_call("book", {"flight": "HAT136"}, result={"total": 327}, span_id="s2")
    scope = scope_of(conversation(turn("Go", "Your total is $327.", look_up(FLIGHT), book)).turns, turn_index=0)
    first, second = scope.calls
    texts = Texts(scope)
    match = [(first, use_of(first, [second], texts)), (second, use_of(second, [], texts))]
    assert evidence_of(match)["utilization"] == snapshot(
        [
            {
                "tool": "look_up",
                "turn_index": 0,
                "position": 0,
                "span_id": "s1",
                "score": 1.0,
                "how": "argument",
                "explanation": "code 'HAT136' is in argument 'flight' of the later call book in turn 1, step 2",
                "key": "code",
                "value": "HAT136",
                "found_text": "HAT136",
                "found_turn_index": 0,
                "found_tool": "book",
                "found_argument": "flight",
                "found_position": 1,
                "found_span_id": "s2",
            },
            {
                "tool": "book",
                "turn_index": 0,
                "position": 1,
                "span_id": "s2",
                "score": 1.0,
                "how": "answer",
                "explanation": "the answer of turn 1 says 'Your total is $327.', as the result does: total 327",
                "key": "total",
                "value": 327,
                "found_text": "Your total is $327.",
                "found_turn_index": 0,
            },
        ]
    )
    assert {} == evidence_of([(first, Use(score=None))])


def test_a_huge_result_is_read_in_part_and_then_contradicts_nothing() -> None:
    many = {f"key {number}": number for number in range(MAX_VALUES)}
    assert values_of(many).complete
    assert not values_of({**many, "balance": 17}).complete
    assert None is use({"balance": 17, **many}, "The balance is 99999.").score
    far = "word " * READ_CHARACTERS + "HAT136"
    assert None is use(FLIGHT, far).score


def test_deep_and_strange_results_are_read() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    strange: Any
    for strange in (deep, [[]] * 9, 10**400, float("nan"), {"n": float("inf")}, {1: b"x"}, "[" * 100_000, "{"):
        assert None is use(strange, "nothing").score


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("totalPrice", "total price"),
        ("temp_c", "temp"),
        ("id", None),
        ("start-day", "start day"),
        ("price_min", "price min"),
    ],
)
def test_a_key_is_recognised_by_its_words(key: str, words: str | None) -> None:
    assert words == key_text(key)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


@given(JSON, st.text(max_size=60), st.text(max_size=60), st.dictionaries(st.text(max_size=4), JSON, max_size=3))
@settings(max_examples=80)
def test_any_json_has_a_use_or_none(result: Any, answer: str, query: str, arguments: dict[str, Any]) -> None:
    later = tool_call("next", arguments, result=result)
    for item in uses(turn(query, answer, look_up(result), later)):
        assert item.score in {None, 0.0, 1.0}
        assert item.evidence


@given(st.dictionaries(st.sampled_from(["price", "total", "balance", "rating"]), st.integers(0, 500), min_size=1))
def test_an_answer_that_states_the_result_is_never_held_against_it(result: dict[str, int]) -> None:
    answer = ". ".join(f"The {key} is {value}" for key, value in result.items())
    assert 0.0 != use(result, answer).score


def test_a_day_two_days_from_a_timestamp_contradicts_it() -> None:
    assert 0.0 == use({"departure_date": "2024-05-06T23:30:00Z"}, "The departure date is May 8.").score


def test_values_of_different_kinds_do_not_contradict_each_other() -> None:
    day, number, code = (extract(text).all[0] for text in ("2024-05-20", "17", "HAT136"))
    assert agrees(day, number)
    assert agrees(code, day)
