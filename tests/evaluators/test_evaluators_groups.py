"""Failures by cause: each is in exactly one group, the groups add up, and nobody who joins them loses one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.config import Threshold
from otel_agentic.evaluators.failures import SEVERITIES, Cause, cause_of, group_failures, joined, merged, ordered
from otel_agentic.testing import NOON_NS, SECOND_NS
from tests.evaluators.failing import METRICS, MOOD, TONE, failure, moved, place, rules

if TYPE_CHECKING:
    from otel_agentic.evaluators.failures import ErrorGroup, Failure

BY_NAME: Final = rules().metrics
DAY_NS: Final = 24 * 3600 * SECOND_NS

PLACES: Final = st.builds(
    place, st.sampled_from(["c1", "c2", "c3"]), day=st.integers(0, 3), environment=st.sampled_from(["", "production"])
)
FAILURES: Final = st.lists(
    st.builds(
        failure,
        st.sampled_from([metric.name for metric in METRICS] + ["agentic.tool", "gone"]),
        st.sampled_from([None, "angry", "furious", "missing"]),
        st.sampled_from(SEVERITIES),
        place=PLACES,
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
    return Counter(one for group in groups for one in group.failures)


def test_failures_of_one_metric_label_tool_and_parameter_are_one_group() -> None:
    wrong = failure("agentic.tool", "wrong_parameters", "high", tool_name="book", parameter="city")
    other = failure("agentic.tool", "wrong_parameters", "high", tool_name="book", parameter="nights")
    found = groups_of([wrong, moved(wrong, "c2", 1), other, moved(wrong, "c2", 2)])
    assert [(group.title, len(group.failures), group.conversations, group.share) for group in found] == snapshot(
        [
            ("book was given a wrong city", 3, 2, 0.75),
            ("book was given a wrong nights", 1, 1, 0.25),
        ]
    )
    assert (Cause("agentic.tool", "wrong_parameters", "book", "city"),) == found[0].causes


def test_a_group_tells_when_it_was_seen_and_shows_its_newest_example() -> None:
    one = failure(explanation="old")
    (group,) = groups_of([moved(one, "c1", 3), moved(one, "c2", 7), moved(one, "c3", 5)])
    assert (NOON_NS + 3 * DAY_NS, NOON_NS + 7 * DAY_NS) == (group.first_seen_ns, group.last_seen_ns)
    assert "c2" == group.example.place.conversation_id
    assert ["c2", "c3", "c1"] == [each.place.conversation_id for each in group.failures]


def test_the_example_is_the_newest_of_the_worst_severity() -> None:
    low, high = failure(severity="low", place=place("new", day=9)), failure(severity="high", place=place("old"))
    (group,) = groups_of([low, high])
    assert ("high", "old") == (group.severity, group.example.place.conversation_id)


def test_the_same_conversation_in_two_environments_is_two() -> None:
    (group,) = groups_of([failure(place=place(environment=name)) for name in ("staging", "production", "production")])
    assert 2 == group.conversations


def test_the_worst_group_comes_first_then_the_one_with_most_conversations() -> None:
    rare = failure("agentic.tool", "forbidden", "critical", tool_name="drop")
    often = [failure("agentic.tool", "missing", "high", tool_name="book", place=place(f"c{n}")) for n in range(3)]
    thrice = [failure("agentic.answer", "wrong_answer", "high", turn_index=n) for n in range(5)]
    assert [group.title for group in groups_of([*thrice, *often, rare])] == snapshot([
        "drop was called though it is forbidden", "book was not called where it is expected", "the answer was wrong",
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("one", "title"),
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
def test_a_title_says_what_goes_wrong(one: Failure, title: str) -> None:
    assert [title] == [group.title for group in groups_of([one])]


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
    found = groups_of(failures)
    assert Counter(failures) == all_in(found)
    assert len(failures) == sum(len(group.failures) for group in found)
    assert len(found) == len({cause_of(one) for one in failures}) == len({group.causes for group in found})
    if failures:
        assert 1.0 == pytest.approx(sum(group.share for group in found))


@given(FAILURES, st.randoms(use_true_random=False))
def test_the_order_of_failures_changes_nothing(failures: list[Failure], random: object) -> None:
    shuffled = list(failures)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert groups_of(failures) == groups_of(shuffled)


@given(FAILURES)
def test_a_group_is_as_bad_as_its_worst_failure_and_groups_are_in_order(failures: list[Failure]) -> None:
    found = groups_of(failures)
    for group in found:
        assert max(SEVERITIES.index(one.severity) for one in group.failures) == SEVERITIES.index(group.severity)
        assert group.example in group.failures
        assert group.example.severity == group.severity
    assert found == ordered(reversed(found))


@given(FAILURES, st.data())
def test_joining_groups_keeps_every_failure_and_share(failures: list[Failure], data: st.DataObject) -> None:
    found = groups_of(failures)
    some = data.draw(st.lists(st.sampled_from(found), min_size=1, unique=True)) if found else []
    if not some:
        return
    one = joined(some, "the cause")
    rest = [group for group in found if group not in some]
    assert Counter(failures) == all_in([one, *rest])
    assert sum(group.share for group in some) == pytest.approx(one.share)
    assert {cause for group in some for cause in group.causes} == set(one.causes)
    assert "the cause" == one.title


@given(FAILURES, st.lists(st.one_of(st.text(max_size=20), st.from_regex(r"\d{1,2}(, ?\d{1,2}){0,4} = [a-z ]{0,9}"))))
def test_whatever_a_judge_says_no_failure_is_lost_or_counted_twice(failures: list[Failure], said: list[str]) -> None:
    found = groups_of(failures)
    after = merged(found, said)
    assert Counter(failures) == all_in(after)
    assert sorted(cause for group in found for cause in map(repr, group.causes)) == sorted(
        cause for group in after for cause in map(repr, group.causes)
    )
    assert after == ordered(after)


def test_groups_that_a_judge_puts_together_are_one_with_its_words() -> None:
    failures = [failure("agentic.tool", "missing", "high", tool_name=name) for name in ("a", "b", "c")]
    found = merged(groups_of(failures), ["1, 3 = nobody tells the agent of its tools"])
    assert [(group.title, len(group.failures)) for group in found] == snapshot(
        [("nobody tells the agent of its tools", 2), ("b was not called where it is expected", 1)]
    )


@pytest.mark.parametrize(
    "said",
    [
        [], ["1"], ["1 = alone"], ["1, 1 = twice itself"], ["1, 9 = of which one is not there"], ["0, 1 = so is this"],
        ["all of them"], ["1, 2"], ["1, 2: another sign"], ["-1, 2 = minus"], ["1, " + "9" * 5000 + " = long"], ["\u0661, \u0662 = digits of another script"],
    ],
)  # fmt: skip
def test_what_a_judge_says_wrongly_changes_nothing(said: list[str]) -> None:
    failures = [failure("agentic.tool", "missing", "high", tool_name=name) for name in ("a", "b", "c")]
    assert groups_of(failures) == merged(groups_of(failures), said)


def test_a_group_that_was_joined_once_is_not_joined_again() -> None:
    failures = [failure("agentic.tool", "missing", "high", tool_name=name) for name in ("a", "b", "c", "d")]
    found = merged(groups_of(failures), ["1, 2 = first", "2, 3, 4 = second", "1, 4 = third"])
    assert [("first", ["a", "b"]), ("second", ["c", "d"])] == [
        (group.title, sorted(one.tool_name or "" for one in group.failures)) for group in found
    ]


def test_joined_groups_without_words_of_a_judge_are_named_after_the_worst() -> None:
    low, high = failure(severity="low"), failure("agentic.tool", "forbidden", "critical", tool_name="drop")
    (one,) = merged(groups_of([low, high]), ["2, 1 = "])
    assert one.title == snapshot("drop was called though it is forbidden, and 1 alike")
    assert ("critical", MOOD.name) == (one.severity, one.causes[1].metric)
