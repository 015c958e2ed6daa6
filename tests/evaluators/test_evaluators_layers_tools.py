"""Tool routing, precision, recall, F1 and parameter semantics: numbers worked out by hand, and laws."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.evaluators.layers import Parameters, Tools
from otel_agentic.testing import conversation, tool_call, turn
from otel_agentic.truth import Case
from tests.evaluators.failing import subjects
from tests.evaluators.ragas_subjects import scores_of, subject

Values = tuple[float | None, ...]


def tools(*names: str, **more: Any) -> dict[str, Any]:
    return {"calls": [{"tool_name": name} for name in names], **more}


def case(expected: dict[str, Any] | None = None, **fields: Any) -> Case:
    turns = [{"query": "go"}]
    return Case.model_validate({"case_id": "c", "turns": turns, **({"tools": expected} if expected else {}), **fields})


def talk_with(*calls: Any) -> Any:
    return conversation(turn("go", "done", *(tool_call(call, {}) if isinstance(call, str) else call for call in calls)))


def values(expected: dict[str, Any], *calls: Any) -> Values:
    """Return routing accuracy, precision, recall and F1."""
    scores = scores_of(Tools(), subject(talk_with(*calls), case(expected)))
    return tuple(scores[f"tool_{name}"].value for name in ("routing_accuracy", "precision", "recall", "f1"))


A_B = tools("a", "b")


@pytest.mark.parametrize(
    ("expected", "actual", "worked_out"),
    [
        (A_B, "ab", (1.0, 1.0, 1.0, 1.0)),
        # Place by place nothing would be right; as multisets one of three is too many.
        (A_B, "xab", (2 / 3, 2 / 3, 1.0, 0.8)),
        (A_B, "ba", (1.0, 1.0, 1.0, 1.0)),
        (A_B, "a", (0.5, 1.0, 0.5, 2 / 3)),
        # Of three equal calls one is right and two are too many.
        (A_B, "aaab", (0.5, 0.5, 1.0, 2 / 3)),
        (A_B, "xy", (0.0, 0.0, 0.0, 0.0)),
        # Nothing was called: precision is a share of nothing.
        (A_B, "", (0.0, None, 0.0, 0.0)),
        (tools(), "", (1.0, None, None, 1.0)),
        (tools(), "x", (0.0, 0.0, None, 0.0)),
        (tools("a", extra_calls="allow"), "axy", (1.0, 1.0, 1.0, 1.0)),
        ({"calls": [{"tool_name": "a"}, {"tool_name": "o", "required": False}]}, "ao", (1.0, 1.0, 1.0, 1.0)),
        (tools("a", forbidden=["x"], extra_calls="allow"), "axy", (0.5, 0.5, 1.0, 2 / 3)),
        (tools("a", alternatives=[tools("b")]), "b", (1.0, 1.0, 1.0, 1.0)),
    ],
)
def test_tools_are_counted_as_multisets_of_names(expected: dict[str, Any], actual: str, worked_out: Values) -> None:
    assert tuple(item if item is None else pytest.approx(item) for item in worked_out) == values(expected, *actual)


def test_a_call_that_answered_with_an_error_was_not_made() -> None:
    assert (0.5, 1.0, 0.5, 2 / 3) == values(A_B, "a", tool_call("b", {}, error="no"))


def test_transfers_and_agents_used_as_tools_count_only_where_they_are_named() -> None:
    handed, agent = tool_call("to_billing", {}, kind="transfer"), tool_call("billing", {}, kind="agent")
    assert (1.0, 1.0, 1.0, 1.0) == values(A_B, "a", "b", handed, agent)
    assert (1.0, 1.0, 1.0, 1.0) == values(tools("a", "to_billing"), "a", handed, agent)


def test_calls_expected_of_turns_and_of_the_conversation_excuse_each_other() -> None:
    turns = [{"query": "one", "tools": tools("a")}, {"query": "two", "tools": tools("b")}]
    talk = conversation(
        turn("one", "ok", tool_call("a", {}), tool_call("c", {})), turn("two", "ok", tool_call("b", {}))
    )
    scores = scores_of(Tools(), subject(talk, case(tools("c"), turns=turns)))
    assert {1.0} == {score.value for score in scores.values()}
    # The call of the second turn made in the first is missing there, and too many here.
    early = conversation(turn("one", "ok", tool_call("a", {}), tool_call("b", {})), turn("two", "ok"))
    scores = scores_of(Tools(), subject(early, case(turns=turns)))
    assert (1 / 3, 0.5, 0.5, 0.5) == tuple(score.value for score in scores.values())


def test_a_turn_that_never_came_lacks_its_calls_once_the_conversation_has_ended() -> None:
    turns = [{"query": "one", "tools": tools("a")}, {"query": "two", "tools": tools("b")}]
    talk = conversation(turn("one", "ok", tool_call("a", {})), closed_by="end_mark")
    scores = scores_of(Tools(), subject(talk, case(turns=turns)))
    assert (0.5, 1.0, 0.5, 2 / 3) == tuple(score.value for score in scores.values())
    for unproven, reason in (
        (replace(talk, closed_by="idle"), "incomplete"),
        (replace(talk, closed_by="end_of_input"), "incomplete"),
        (replace(talk, closed_by="end_of_input", link_method="trace"), "no_conversation_id"),
    ):
        scores = scores_of(Tools(), subject(unproven, case(turns=turns)))
        assert {(None, reason)} == {(score.value, score.reason) for score in scores.values()}


def test_explanations_name_missing_and_unexpected_calls() -> None:
    scores = scores_of(Tools(), subject(talk_with("a", "x", "x"), case(A_B)))
    assert {score.explanation for score in scores.values()} == snapshot(
        {"1 of 2 required calls occurred; not called: b; not asked for: x (2 times)"}
    )


@pytest.mark.parametrize("evaluator", [Tools(), Parameters()])
def test_without_a_case_or_expected_tools_or_content_there_is_a_reason(evaluator: Any) -> None:
    assert {"unmatched"} == {score.reason for score in scores_of(evaluator, subject(talk_with("a"), None)).values()}
    assert {"no_data"} == {score.reason for score in scores_of(evaluator, subject(talk_with("a"), case())).values()}
    silent = conversation(turn(None, None, query_captured=False, answer_captured=False))
    scores = scores_of(evaluator, subject(silent, Case.model_validate({"case_id": "c", "tools": A_B})))
    assert {"content_not_captured"} == {score.reason for score in scores.values()}


SEARCH: dict[str, Any] = {"tool_name": "search", "parameters": {"q": "hotel", "n": 3}}
BOOK: dict[str, Any] = {"tool_name": "book", "parameters": {"name": "Ritz", "time": "20:00"}}
BOTH = {"calls": [SEARCH, BOOK]}


def semantics(expected: dict[str, Any], *calls: Any) -> Any:
    return scores_of(Parameters(), subject(talk_with(*calls), case(expected)))["parameter_semantics"]


@pytest.mark.parametrize(
    ("actual", "worked_out"),
    [
        ([SEARCH, BOOK], 1.0),
        # One of two parameters of the second call: (1 + 1/2) / 2.
        ([SEARCH, {**BOOK, "parameters": {"name": "Ritz", "time": "21:00"}}], 0.75),
        # A required call that was not made counts 0.
        ([SEARCH], 0.5),
        # An unexpected key: two of three agree.
        ([SEARCH, {**BOOK, "parameters": {**BOOK["parameters"], "pay": 1}}], (1 + 2 / 3) / 2),
        ([{**SEARCH, "parameters": {"q": "hotel", "n": 3.0}}, BOOK], 1.0),
        ([{**SEARCH, "parameters": {"q": "hotel", "n": "3"}}, BOOK], 0.75),
        # Calls of one name are paired as they agree best.
        ([{**SEARCH, "parameters": {"q": "bar", "n": 1}}, SEARCH, BOOK], 1.0),
    ],
)
def test_parameter_semantics_is_the_mean_agreement_of_required_calls(actual: list[Any], worked_out: float) -> None:
    calls = [tool_call(item["tool_name"], item["parameters"]) for item in actual]
    assert pytest.approx(worked_out) == semantics(BOTH, *calls).value


def test_a_wrong_parameter_is_named_with_both_values() -> None:
    score = semantics(BOTH, tool_call("search", SEARCH["parameters"]), tool_call("book", {"name": "Ritz", "time": "9"}))
    assert (score.tool_name, score.parameter, score.explanation) == snapshot(
        ("book", "time", "other arguments: book(time)")
    )
    assert [{"tool": "book", "turn_index": 0, "parameter": "time", "expected": "20:00", "made": "9"}] == score.details[
        "wrong"
    ]


def test_arguments_that_were_not_recorded_are_not_compared() -> None:
    score = semantics(BOTH, replace(tool_call("search"), arguments=None))
    assert (None, "content_not_captured") == (score.value, score.reason)


def test_a_parameter_for_a_judge_has_the_number_of_the_tool_score() -> None:
    judge_results = {"calls": [{**SEARCH, "match": {"q": "judge"}}]}
    talk = talk_with(tool_call("search", {"q": "inn", "n": 3}))
    assert "no_data" == scores_of(Parameters(), subject(talk, case(judge_results)))["parameter_semantics"].reason
    (scored,) = subjects([{"case_id": "c", "turns": [{"query": "go"}], "tools": {"calls": [SEARCH]}}], [talk])
    # As after a negative reply of a judge of parameters: the score knows one of two parameters.
    questions = replace(scored, case=case(judge_results))
    assert 0.5 == scores_of(Parameters(), questions)["parameter_semantics"].value


EXPECTED = st.lists(st.sampled_from("abc"), max_size=4)
CALLED = st.lists(st.sampled_from("abcd"), max_size=5)


@given(expected=EXPECTED, actual=CALLED, at=st.integers(0, 5))
def test_an_unexpected_call_never_raises_a_score(expected: list[str], actual: list[str], at: int) -> None:
    before = values(tools(*expected), *actual)
    after = values(tools(*expected), *actual[:at], "unrelated", *actual[at:])
    for old, new in zip(before, after, strict=True):
        assert (old is None) or (new is not None and new <= old)


@given(expected=EXPECTED, actual=CALLED, random=st.randoms(use_true_random=False))
def test_the_order_of_calls_and_of_expectations_changes_nothing(
    expected: list[str], actual: list[str], random: Any
) -> None:
    before = values(tools(*expected), *actual)
    random.shuffle(expected)
    random.shuffle(actual)
    assert before == values(tools(*expected), *actual)


@given(expected=EXPECTED, actual=CALLED)
def test_f1_is_the_harmonic_mean_of_precision_and_recall(expected: list[str], actual: list[str]) -> None:
    _, precision, recall, f1 = values(tools(*expected), *actual)
    if precision and recall:
        assert pytest.approx(2 * precision * recall / (precision + recall)) == f1
    elif expected or actual:
        assert 0.0 == f1


@given(actual=CALLED)
def test_identical_calls_are_perfect_with_any_repetition(actual: list[str]) -> None:
    assert set(values(tools(*actual), *actual)) <= {1.0, None}
