"""Failures by cause: each is in exactly one group, the groups add up, and joining them loses none."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.config import Threshold
from otel_agentic.evaluators.failures import Cause, ErrorGroup, cause_of, group_failures, joined, merged, ordered
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


def groups_of(failures: list[Failure]) -> list[ErrorGroup]:
    return group_failures(failures, BY_NAME)


def all_in(groups: list[ErrorGroup]) -> Counter[Failure]:
    return Counter(item for group in groups for item in group.failures)


def test_failures_of_one_metric_label_tool_and_parameter_are_one_group() -> None:
    invalid = failure("agentic.tool", "wrong_parameters", "high", tool_name="book", parameter="city")
    other = failure("agentic.tool", "wrong_parameters", "high", tool_name="book", parameter="nights")
    groups = groups_of([invalid, moved(invalid, "c2", 1), other, moved(invalid, "c2", 2)])
    assert [(group.title, len(group.failures), group.conversations, group.share) for group in groups] == snapshot(
        [
            ("book was given a wrong city", 3, 2, 0.75),
            ("book was given a wrong nights", 1, 1, 0.25),
        ]
    )
    assert (Cause("agentic.tool", "wrong_parameters", "book", "city"),) == groups[0].causes


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
    often = [failure("agentic.tool", "missing", "high", tool_name="book", location=location(f"c{n}")) for n in range(3)]
    thrice = [failure("agentic.answer", "wrong_answer", "high", turn_index=n) for n in range(5)]
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
def test_each_failure_is_in_exactly_one_group_and_the_counts_add_up(failures: list[Failure]) -> None:
    groups = groups_of(failures)
    assert Counter(failures) == all_in(groups)
    assert len(failures) == sum(len(group.failures) for group in groups)
    assert len(groups) == len({cause_of(item) for item in failures}) == len({group.causes for group in groups})
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
        assert group.example.severity == group.severity
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
    failures = [failure("agentic.tool", "missing", "high", tool_name=name) for name in ("a", "b", "c")]
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
    failures = [failure("agentic.tool", "missing", "high", tool_name=name) for name in ("a", "b", "c")]
    assert groups_of(failures) == merged(groups_of(failures), stated)


def test_a_group_that_was_joined_once_is_not_joined_again() -> None:
    failures = [failure("agentic.tool", "missing", "high", tool_name=name) for name in ("a", "b", "c", "d")]
    results = merged(groups_of(failures), ["1, 2 = first", "2, 3, 4 = second", "1, 4 = third"])
    assert [("first", ["a", "b"]), ("second", ["c", "d"])] == [
        (group.title, sorted(item.tool_name or "" for item in group.failures)) for group in results
    ]


def test_joined_groups_without_words_of_a_judge_are_named_after_the_worst() -> None:
    low, high = failure(severity="low"), failure("agentic.tool", "forbidden", "critical", tool_name="drop")
    (item,) = merged(groups_of([low, high]), ["2, 1 = "])
    assert item.title == snapshot("drop was called though it is forbidden, and 1 similar")
    assert ("critical", MOOD.name) == (item.severity, item.causes[1].metric)
