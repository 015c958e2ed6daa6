"""Failures by root cause: each conversation is in exactly one group, and neither grouping nor joining loses a failure."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.config import Threshold
from otel_agentic.evaluators.failures import ErrorGroup, Symptom, group_failures, joined, merged, ordered
from otel_agentic.evaluators.root_causes import Cause, cause_of, diagnoses
from otel_agentic.evaluators.run import SEVERITIES, Failure
from otel_agentic.testing import NOON_NS, SECOND_NS
from tests.evaluators.failing import METRICS, MOOD, TONE, failure, location, moved, rules

BY_NAME: Final = rules().metrics
DAY_NS: Final = 24 * 3600 * SECOND_NS

LOCATIONS: Final = st.builds(
    location,
    st.sampled_from(["c1", "c2", "c3"]),
    day=st.integers(0, 3),
    environment=st.sampled_from(["", "production"]),
)
FAILURES: Final = st.lists(
    st.builds(
        failure,
        st.sampled_from([metric.name for metric in METRICS] + ["agentic.tool", "gone"]),
        st.sampled_from([None, "angry", "furious", "missing"]),
        st.sampled_from(SEVERITIES),
        location=LOCATIONS,
        tool_name=st.sampled_from([None, "book", ""]),
        parameter=st.sampled_from([None, "city"]),
        turn_index=st.sampled_from([None, 0, 1]),
        threshold=st.sampled_from([None, Threshold(min=3), Threshold(max=1), Threshold(min=0, max=1)]),
    ),
    max_size=12,
)


def missing_calls(*tools: str) -> list[Failure]:
    """Return one failure for each tool, each in a conversation of its own."""
    return [failure("agentic.tool", "missing", "high", tool_name=name, location=location(name)) for name in tools]


def groups_of(failures: list[Failure]) -> list[ErrorGroup]:
    return group_failures(failures, BY_NAME)


def all_in(groups: list[ErrorGroup]) -> Counter[Failure]:
    return Counter(item for group in groups for item in group.failures)


def test_failures_of_one_metric_label_tool_and_parameter_are_one_group() -> None:
    invalid = failure("agentic.tool", "wrong_parameters", "high", tool_name="book", parameter="city")
    other = failure("agentic.tool", "wrong_parameters", "high", tool_name="book", parameter="nights")
    again = moved(invalid, "c2", 1)
    groups = groups_of([invalid, again, again, moved(invalid, "c3", 2), moved(other, "c4", 1)])
    assert [(group.title, len(group.failures), group.conversations, group.share) for group in groups] == snapshot(
        [
            ("book was given a wrong city", 4, 3, 0.75),
            ("book was given a wrong nights", 1, 1, 0.25),
        ]
    )
    assert (Cause("agentic.tool", "wrong_parameters", "book", "city"),) == groups[0].causes
    assert () == groups[0].symptoms


#: Failures of one conversation: the root cause first, then its symptoms in causal order.
CAUSAL_ORDERS: Final = {
    "the earliest turn": [
        failure("agentic.answer", "wrong_answer", turn_index=0),
        failure("agentic.tool", "missing", turn_index=1, tool_name="book"),
    ],
    "the earliest step of a turn": [
        failure("agentic.tool", "wrong_parameters", turn_index=1, position=0, tool_name="find", parameter="city"),
        failure("agentic.tool", "spurious", turn_index=1, position=1, tool_name="pay"),
    ],
    "the kind within a step, then the end of the turn and of the conversation": [
        failure("agentic.tool", "missing", turn_index=1, tool_name="book"),
        failure("agentic.tool", "spurious", turn_index=1, position=0, tool_name="pay"),
        failure("agentic.tool", "wrong_parameters", turn_index=1, position=0, tool_name="find", parameter="city"),
        failure("agentic.tool", "wrong_order", turn_index=1, position=0, tool_name="find"),
        failure("agentic.tool", "unused_result", turn_index=1, position=0, tool_name="find"),
        failure("agentic.answer", "wrong_answer", turn_index=1),
        failure("agentic.layers.task_completion", None, "high", threshold=Threshold(min=1)),
        failure("agentic.conversation", "output_not_said"),
    ],
    "a recorded fault of any severity, a computed metric, a judged one, a bare verdict": [
        failure("agentic.tool", "unused_result", "low", turn_index=5, tool_name="find"),
        failure(MOOD.name, "angry", "low", turn_index=0),
        failure(TONE.name, None, "critical", turn_index=0),
        failure("agentic.conversation", "verdict", "high"),
    ],
    "the most severe of the judged": [
        failure(TONE.name, "rude", "critical", turn_index=4),
        failure(TONE.name, None, "low", turn_index=0),
    ],
    "a missing call without a turn was due at the begin": [
        failure("agentic.tool", "missing", tool_name="find", expected_index=0),
        failure("agentic.tool", "wrong_parameters", turn_index=3, tool_name="pay", parameter="sum", expected_index=1),
    ],
    "but not before a call that is expected earlier": [
        failure("agentic.tool", "wrong_parameters", turn_index=3, tool_name="pay", parameter="sum", expected_index=0),
        failure("agentic.tool", "missing", tool_name="book", expected_index=1),
    ],
    "a tool that did not work is why a call of it, and what follows, is missing": [
        failure("agentic.tool", "errored", turn_index=2, position=0, tool_name="book"),
        failure("agentic.tool", "missing", tool_name="book", expected_index=0),
        failure("agentic.tool", "missing", tool_name="pay", expected_index=1),
    ],
    "the end of a turn in an error is why calls of it are missing": [
        failure("agentic.operations.turn_end", "error", turn_index=2),
        failure("agentic.tool", "missing", turn_index=2, tool_name="book", expected_index=0),
    ],
    "but not those of an earlier turn": [
        failure("agentic.tool", "missing", turn_index=1, tool_name="book", expected_index=0),
        failure("agentic.operations.turn_end", "error", turn_index=2),
    ],
}


@pytest.mark.parametrize("expected", CAUSAL_ORDERS.values(), ids=CAUSAL_ORDERS)
def test_the_root_cause_of_a_conversation_is_what_may_have_caused_the_rest(expected: list[Failure]) -> None:
    (item,) = diagnoses(reversed(expected), {TONE.name})
    assert expected == list(item.failures)
    assert (expected[0], tuple(expected[1:])) == (item.root, item.symptoms)


def test_of_two_wrong_parameters_of_one_call_the_one_that_is_wrong_in_most_conversations_is_the_cause() -> None:
    city, nights = (failure("agentic.tool", "wrong_parameters", "high", parameter=name) for name in ("city", "nights"))
    groups = groups_of([city, nights, moved(nights, "c2", 1)])
    assert [("nights", 2)] == [(group.causes[0].parameter, group.conversations) for group in groups]


def test_symptoms_are_counted_in_the_group_of_their_root_cause_and_named_where_they_are_one_themselves() -> None:
    missing = failure("agentic.tool", "missing", "high", tool_name="book")
    output, low = failure("agentic.conversation", "output_not_said", "high"), failure(MOOD.name, "angry", "low")
    groups = groups_of([missing, output, low, moved(missing, "c2", 1), moved(low, "c2", 1), moved(low, "c3", 2)])
    assert [(group.title, group.conversations, len(group.elsewhere), group.severity) for group in groups] == snapshot(
        [("book was not called where it is expected", 2, 0, "high"), ("mood: angry", 1, 2, "low")]
    )
    assert [
        Symptom(cause=cause_of(low), title="mood: angry", failures=2, conversations=2),
        Symptom(
            cause=cause_of(output),
            title="an expected output is missing from the answers",
            failures=1,
            conversations=1,
        ),
    ] == list(groups[0].symptoms)


def test_a_root_cause_below_the_severity_still_names_the_group() -> None:
    root = failure("agentic.tool", "unused_result", "medium", turn_index=0, tool_name="find")
    symptom = failure("agentic.answer", "wrong_answer", "high", turn_index=0)
    (group,) = group_failures([root, symptom, moved(root, "c2", 1)], BY_NAME, least="high")
    assert ("the result of find was not used", [symptom], symptom, 1) == (
        group.title, list(group.failures), group.example, group.conversations,
    )  # fmt: skip


REFUNDS: Final = ["the answer promises a refund within days although the policy excludes a refund"] * 3
WEATHER: Final = [f"the weather forecast of {city} is that of yesterday" for city in ("Rome", "Oslo", "Bern")]


def test_answers_that_are_wrong_in_a_similar_way_are_one_group_and_others_remain() -> None:
    texts = [*REFUNDS, *WEATHER, "the name is misspelt", "an opening hour is absent"]
    failures = [
        failure("agentic.answer", "wrong_answer", "high", location=location(f"c{number}"), explanation=text)
        for number, text in enumerate(texts)
    ]
    groups = groups_of(failures)
    assert [(group.title, group.terms, group.conversations) for group in groups] == snapshot(
        [
            ("the answer was wrong, about: although, excludes, promises", ("although", "excludes", "promises"), 3),
            ("the answer was wrong, about: yesterday, forecast, weather", ("yesterday", "forecast", "weather"), 3),
            ("the answer was wrong", (), 2),
        ]
    )
    assert groups == groups_of(failures[::-1])
    assert 1 == len(groups_of(failures[:2] + failures[3:5])), "too few for a cluster"


def test_a_group_tells_when_it_was_seen_and_shows_its_newest_example() -> None:
    item = failure(explanation="old")
    (group,) = groups_of([moved(item, "c1", 3), moved(item, "c2", 7), moved(item, "c3", 5)])
    assert (NOON_NS + 3 * DAY_NS, NOON_NS + 7 * DAY_NS) == (group.first_seen_ns, group.last_seen_ns)
    assert "c2" == group.example.location.conversation_id
    assert ["c2", "c3", "c1"] == [entry.location.conversation_id for entry in group.failures]


def test_the_example_is_the_newest_of_the_worst_severity() -> None:
    low, high = (
        failure(severity="low", location=location("new", day=9)),
        failure(severity="high", location=location("old")),
    )
    (group,) = groups_of([low, high])
    assert ("high", "old") == (group.severity, group.example.location.conversation_id)


def test_the_same_conversation_in_two_environments_is_two() -> None:
    (group,) = groups_of(
        [failure(location=location(environment=name)) for name in ("staging", "production", "production")]
    )
    assert 2 == group.conversations


def test_the_worst_group_comes_first_then_the_one_with_most_conversations() -> None:
    rare = failure("agentic.tool", "forbidden", "critical", tool_name="drop")
    often = [
        failure("agentic.tool", "missing", "high", tool_name="book", location=location(f"c{n}")) for n in (2, 3, 4)
    ]
    thrice = [moved(failure("agentic.answer", "wrong_answer", "high", turn_index=n), "c5", 0) for n in range(5)]
    assert [group.title for group in groups_of([*thrice, *often, rare])] == snapshot([
        "drop was called though it is forbidden", "book was not called where it is expected", "the answer was wrong",
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("item", "title"),
    [
        (failure(), "mood: angry"),
        (failure(label="furious", tool_name="book"), "mood: furious (book)"),
        (failure(TONE.name, None, threshold=Threshold(min=3)), "tone is below 3"),
        (failure(TONE.name, None, threshold=Threshold(max=0.5), tool_name="book"), "tone is above 0.5 (book)"),
        (failure(TONE.name, None, threshold=Threshold(min=2, max=4)), "tone is not within 2 to 4"),
        (failure("gone.metric", None), "gone.metric does not meet its threshold"),
        (
            failure("agentic.tool", "errored", tool_name="book"),
            "book answered with an error, and was not called again with success",
        ),
        (failure("agentic.conversation", "missing_turn"), "an expected turn never came"),
    ],
)
def test_a_title_says_what_goes_wrong(item: Failure, title: str) -> None:
    assert [title] == [group.title for group in groups_of([item])]


def test_every_fault_and_reason_of_the_core_has_a_title_of_its_own() -> None:
    core = [
        (metric, label) for metric in BY_NAME.values() if metric.name.startswith("agentic.") for label in metric.labels
    ]
    titles = [groups_of([failure(metric.name, label, tool_name="t", parameter="p")])[0].title for metric, label in core]
    assert len(core) == len(set(titles))
    assert [] == [title for title in titles if ":" in title]


def test_nothing_is_no_group() -> None:
    assert [] == groups_of([])


@given(FAILURES)
def test_each_failing_conversation_is_in_exactly_one_group_and_the_counts_add_up(failures: list[Failure]) -> None:
    groups = groups_of(failures)
    assert Counter(failures) == all_in(groups)
    keys = Counter(item.key for group in groups for item in group.diagnoses)
    assert {1: len(keys)} == dict(Counter(keys.values())) if keys else not failures
    assert set(keys) == {(item.location.environment, item.location.conversation_id) for item in failures}
    assert len(keys) == sum(group.conversations for group in groups)
    assert len(groups) == len({(group.causes, group.terms) for group in groups})
    for group in groups:
        causes = Counter(cause_of(item) for item in group.failures)
        assert causes == Counter({part.cause: part.failures for part in group.symptoms}) + Counter(
            {cause: causes[cause] for cause in group.causes}
        )
    if failures:
        assert 1.0 == pytest.approx(sum(group.share for group in groups))


@given(FAILURES, st.randoms(use_true_random=False))
def test_the_order_of_failures_changes_nothing(failures: list[Failure], random: object) -> None:
    shuffled = list(failures)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert groups_of(failures) == groups_of(shuffled)


@given(FAILURES)
def test_a_group_is_as_bad_as_its_worst_failure_and_groups_are_in_order(failures: list[Failure]) -> None:
    groups = groups_of(failures)
    for group in groups:
        assert max(SEVERITIES.index(item.severity) for item in group.failures) == SEVERITIES.index(group.severity)
        assert group.example in group.failures
        assert cause_of(group.example) in group.causes
    assert groups == ordered(reversed(groups))


@given(FAILURES, st.data())
def test_joining_groups_keeps_every_failure_and_share(failures: list[Failure], data: st.DataObject) -> None:
    groups = groups_of(failures)
    some = data.draw(st.lists(st.sampled_from(groups), min_size=1, unique=True)) if groups else []
    if not some:
        return
    item = joined(some, "the cause")
    rest = [group for group in groups if group not in some]
    assert Counter(failures) == all_in([item, *rest])
    assert sum(group.share for group in some) == pytest.approx(item.share)
    assert {cause for group in some for cause in group.causes} == set(item.causes)
    assert sum(group.conversations for group in some) == item.conversations
    assert "the cause" == item.title


@given(FAILURES, st.lists(st.one_of(st.text(max_size=20), st.from_regex(r"\d{1,2}(, ?\d{1,2}){0,4} = [a-z ]{0,9}"))))
def test_no_reply_of_a_judge_loses_or_repeats_a_failure(failures: list[Failure], stated: list[str]) -> None:
    groups = groups_of(failures)
    after = merged(groups, stated)
    assert Counter(failures) == all_in(after)
    assert sorted(cause for group in groups for cause in map(repr, group.causes)) == sorted(
        cause for group in after for cause in map(repr, group.causes)
    )
    assert after == ordered(after)


def test_groups_that_a_judge_puts_together_are_one_with_its_words() -> None:
    failures = missing_calls("a", "b", "c")
    results = merged(groups_of(failures), ["1, 3 = the agent does not know its tools"])
    assert [(group.title, len(group.failures)) for group in results] == snapshot(
        [("the agent does not know its tools", 2), ("b was not called where it is expected", 1)]
    )


@pytest.mark.parametrize(
    "stated",
    [
        [], ["1"], ["1 = alone"], ["1, 1 = twice itself"], ["1, 9 = of which one is not there"], ["0, 1 = so is this"],
        ["all of them"], ["1, 2"], ["1, 2: another sign"], ["-1, 2 = minus"], ["1, " + "9" * 5000 + " = long"], ["\u0661, \u0662 = digits of another script"],
    ],
)  # fmt: skip
def test_what_a_judge_says_wrongly_changes_nothing(stated: list[str]) -> None:
    failures = missing_calls("a", "b", "c")
    assert groups_of(failures) == merged(groups_of(failures), stated)


def test_a_group_that_was_joined_once_is_not_joined_again() -> None:
    failures = missing_calls("a", "b", "c", "d")
    results = merged(groups_of(failures), ["1, 2 = first", "2, 3, 4 = second", "1, 4 = third"])
    assert [("first", ["a", "b"]), ("second", ["c", "d"])] == [
        (group.title, sorted(item.tool_name or "" for item in group.failures)) for group in results
    ]


def test_joined_groups_without_words_of_a_judge_are_named_after_the_worst() -> None:
    low = failure(severity="low", location=location("c2"))
    high = failure("agentic.tool", "forbidden", "critical", tool_name="drop")
    (item,) = merged(groups_of([low, high]), ["2, 1 = "])
    assert item.title == snapshot("drop was called though it is forbidden, and 1 similar")
    assert ("critical", MOOD.name) == (item.severity, item.causes[1].metric)
