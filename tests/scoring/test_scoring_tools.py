from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest
from inline_snapshot import snapshot

from otel_agentic.config import ScoringSettings
from otel_agentic.conversations.model import CallKind, ToolCall
from otel_agentic.scoring import ActualCall, Scope, ToolRules, ToolScore, score_tools
from otel_agentic.scoring.compile import compiled
from otel_agentic.scoring.dimensions import score_calls
from otel_agentic.scoring.scope import effect_of
from otel_agentic.truth import Case, ToolExpectation

MISSING = object()
NO_WEIGHT_OF_USE = {"selection": 0.25, "parameters": 0.25, "sequence": 0.25, "utilization": 0.25}


def recorded(
    name: str,
    arguments: dict[str, Any] | None = None,
    *,
    step: int = 1,
    result: Any = None,
    error: str | None = None,
    kind: CallKind = "tool",
    captured: bool = True,
    flag: bool | None = None,
    turn: int = 0,
) -> ActualCall:
    call = ToolCall(
        name=name,
        kind=kind,
        step=step,
        position=step - 1,
        arguments=(arguments or {}) if captured else None,
        result=result,
        result_captured=captured,
        error=error,
        call_id=None,
        trace_id="t",
        span_id=f"span{step}",
        parent_span_id=None,
        agent_name=None,
        source="span",
        used_flag=flag,
    )
    return ActualCall(turn_index=turn, call=call)


def expectation(*calls: dict[str, Any], **fields: Any) -> ToolExpectation:
    return ToolExpectation.model_validate_json(json.dumps({"calls": calls, **fields}))


def expected(name: str, parameters: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {"tool_name": name, "parameters": parameters or {}, **fields}


def score(
    requested: ToolExpectation, *calls: ActualCall, answer: str = "", turn: int | None = 0, **rules: Any
) -> ToolScore:
    scope = Scope(
        turn_index=turn,
        calls=tuple(sorted(calls, key=lambda call: call.location)),
        answers=((0, answer),),
        queries=("please",),
        captured=True,
    )
    settings: dict[str, Any] = {
        "threshold": 1.0,
        "weights": NO_WEIGHT_OF_USE,
        "effects": (),
        "count_errors": False,
        "numbers_as_text": False,
    }
    return score_tools(requested, scope, ToolRules(**{**settings, **rules}))


def kinds(result: ToolScore) -> list[str]:
    return [fault.kind for fault in result.faults]


SEARCH = {"q": "rome", "n": 3}
BOOK = {"name": "Ada", "time": "20:00"}
LADDER = expectation(expected("search", SEARCH), expected("book", BOOK), order="relative")


def test_a_wrong_parameter_is_a_row_with_both_values_and_a_sentence() -> None:
    result = score(LADDER, recorded("search", SEARCH), recorded("book", {"name": "Ada", "seat": 1}, step=2))
    assert [(fault.parameter, fault.expected, fault.actual) for fault in result.faults] == [
        ("seat", None, 1),
        ("time", "20:00", None),
    ]
    assert result.explanation == snapshot(
        "book in turn 1, step 2: parameter seat = 1 was not expected; "
        'book in turn 1, step 2: parameter time was not given, expected "20:00"'
    )


def test_a_call_that_answered_with_an_error_was_not_made_unless_errors_count() -> None:
    failing = recorded("search", SEARCH, error="Error: no seat")
    requested = expectation(expected("search", SEARCH))
    assert kinds(score(requested, failing)) == ["missing", "errored"]
    assert kinds(score(requested, failing, recorded("search", SEARCH, step=2))) == ["errored"]
    assert score(requested, failing, recorded("search", SEARCH, step=2)).outcome == "pass"
    assert score(requested, failing, count_errors=True).outcome == "pass"


@pytest.mark.parametrize(
    ("rule", "selection", "outcome"), [("allow", 1.0, "pass"), ("penalize", 0.5, "fail"), ("forbid", 0.5, "fail")]
)
def test_extra_calls_are_allowed_penalized_or_forbidden(rule: str, selection: float, outcome: str) -> None:
    result = score(expectation(expected("a"), extra_calls=rule), recorded("a"), recorded("b", step=2))
    assert (result.dimensions["selection"], result.outcome) == (selection, outcome)


def test_a_forbidden_extra_call_fails_at_any_threshold() -> None:
    calls = (recorded("a"), recorded("b", step=2))
    assert score(expectation(expected("a"), extra_calls="penalize"), *calls, threshold=0.5).outcome == "pass"
    assert score(expectation(expected("a"), extra_calls="forbid"), *calls, threshold=0.5).outcome == "fail"
    forbidden = score(expectation(expected("a"), extra_calls="allow", forbidden=["b*"]), *calls, threshold=0.0)
    assert (forbidden.outcome, kinds(forbidden)) == ("fail", ["forbidden"])


def test_reads_may_be_free_and_writes_forbidden_by_the_most_specific_pattern() -> None:
    requested = expectation(expected("book"), extra_calls={"read": "allow", "write": "forbid"})
    case_effects = {"get_*": "read", "get_money": "write"}
    rules: dict[str, Any] = {"effects": (case_effects, {"get_money": "read", "look": "read"})}
    assert (
        score(requested, recorded("book"), recorded("get_user", step=2), recorded("look", step=3), **rules).outcome
        == "pass"
    )
    assert score(requested, recorded("book"), recorded("get_money", step=2), **rules).outcome == "fail"
    assert score(requested, recorded("book"), recorded("unknown", step=2), **rules).outcome == "fail"
    assert score(requested, recorded("book"), recorded("book", step=2), **rules).outcome == "fail"


def test_no_expected_call_means_no_call_beyond_what_is_allowed() -> None:
    assert score(expectation()).outcome == "pass"
    assert score(expectation(), recorded("a")).dimensions["selection"] == 0.0
    assert score(expectation(extra_calls="allow"), recorded("a")).dimensions["selection"] == 1.0
    assert score(expectation(), recorded("a", error="failed")).outcome == "pass"


def test_an_optional_call_is_excused_only_if_its_parameters_match() -> None:
    requested = expectation(expected("book"), expected("look", {"x": 1}, required=False))
    assert score(requested, recorded("book")).overall == 1.0
    assert score(requested, recorded("book"), recorded("look", {"x": 1}, step=2)).overall == 1.0
    assert kinds(score(requested, recorded("book"), recorded("look", {"x": 2}, step=2))) == ["spurious"]


def test_required_calls_are_paired_before_optional_ones_of_the_same_name() -> None:
    requested = expectation(expected("a", {"x": 1}, required=False), expected("a", {"x": 2}))
    assert kinds(score(requested, recorded("a", {"x": 1}))) == ["wrong_parameters"]
    assert score(requested, recorded("a", {"x": 1}), recorded("a", {"x": 2}, step=2)).outcome == "pass"


def test_an_optional_call_is_left_over_for_whichever_order_the_calls_came_in() -> None:
    requested = expectation(expected("a", ignore_extra_parameters=True), expected("a", {"x": 1}, required=False))
    first, other = {"x": 1}, {"y": 2}
    assert score(requested, recorded("a", first), recorded("a", other, step=2)).outcome == "pass"
    assert score(requested, recorded("a", other), recorded("a", first, step=2)).outcome == "pass"


def test_the_best_alternative_counts() -> None:
    requested = expectation(
        expected("bus"), alternatives=[{"calls": [expected("train")]}, {"calls": [expected("taxi")]}]
    )
    assert score(requested, recorded("train")).outcome == "pass"
    assert kinds(score(requested, recorded("plane"))) == ["missing", "spurious"]


def test_transfers_and_agents_count_only_where_they_are_named() -> None:
    handoff = recorded("to_human", kind="transfer")
    assert score(expectation(), handoff).outcome == "pass"
    assert score(expectation(expected("to_human")), handoff).outcome == "pass"
    assert score(expectation(forbidden=["to_*"]), handoff).outcome == "fail"


@pytest.mark.parametrize(("order", "sequence"), [("relative", 1.0), ("exact", 1 / 3)])
def test_equal_steps_are_a_parallel_group(order: str, sequence: float) -> None:
    requested = expectation(expected("a", step=5), expected("b", step=5), expected("c", step=9), order=order)
    together = score(requested, recorded("b"), recorded("a"), recorded("c", step=2))
    assert together.dimensions["sequence"] == 1.0
    apart = score(requested, recorded("b"), recorded("a", step=2), recorded("c", step=3))
    assert apart.dimensions["sequence"] == pytest.approx(1.0 if order == "relative" else sequence)


def test_a_sequence_needs_an_order_and_two_required_calls() -> None:
    assert (
        score(expectation(expected("a"), expected("b")), recorded("b"), recorded("a", step=2)).dimensions["sequence"]
        is None
    )
    assert score(expectation(expected("a"), order="exact"), recorded("a")).dimensions["sequence"] is None


def test_expected_calls_without_actual_ones_is_a_failure_under_any_weights() -> None:
    result = score(expectation(expected("a")), weights={"sequence": 1.0})
    assert (result.outcome, result.overall) == ("fail", 0.0)


def test_no_applicable_weight_is_no_data() -> None:
    result = score(expectation(expected("a")), recorded("a"), weights={"sequence": 1.0})
    assert (result.outcome, result.reason, result.overall) == ("not_evaluated", "no_data", None)


def test_without_content_names_are_scored_and_shown_and_the_outcome_is_not_evaluated() -> None:
    result = score(expectation(expected("a", {"x": 1}), expected("b"), order="relative"), recorded("a", captured=False))
    assert (result.outcome, result.reason, result.overall) == ("not_evaluated", "content_not_captured", None)
    assert result.dimensions == {"selection": 0.5, "parameters": None, "sequence": 0.5, "utilization": None}
    assert kinds(result) == ["missing"]


def test_content_of_an_allowed_extra_call_is_not_needed() -> None:
    requested = expectation(expected("a"), extra_calls="allow")
    assert score(requested, recorded("a"), recorded("b", step=2, captured=False)).outcome == "pass"


def test_where_nothing_at_all_was_captured_a_missing_call_is_not_known_to_be_missing() -> None:
    scope = Scope(turn_index=None, calls=(), answers=(), queries=(), captured=False)
    rules = ToolRules(threshold=1.0, weights={"selection": 1.0}, effects=(), count_errors=False, numbers_as_text=False)
    assert score_tools(expectation(expected("a")), scope, rules).reason == "content_not_captured"


def test_a_parameter_that_only_a_judge_could_compare_leaves_the_outcome_open_unless_all_else_fails() -> None:
    requested = expectation(expected("a", {"x": "Rome", "y": 1}, match={"x": "judge"}))
    assert score(requested, recorded("a", {"x": "Rome", "y": 1})).outcome == "pass"
    open_one = score(requested, recorded("a", {"x": "Roma", "y": 1}))
    assert (open_one.outcome, open_one.reason, open_one.dimensions["parameters"]) == ("not_evaluated", "no_data", None)
    assert score(requested, recorded("a", {"x": "Roma", "y": 2})).outcome == "fail"


def test_weights_are_normalised_over_what_applies() -> None:
    requested = expectation(expected("a", {"x": 1}))
    result = score(requested, recorded("a", {"x": 2}), weights={"selection": 3, "parameters": 1})
    assert result.overall == 0.75
    assert (
        score(requested, recorded("a", {"x": 2}), weights={"selection": 3, "parameters": 1}, threshold=0.75).outcome
        == "pass"
    )


WEATHER = expectation(expected("weather"))


@pytest.mark.parametrize(
    ("result", "answer", "expected_score"),
    [
        ({"temperature": 11.46}, "It is 11.5 degrees.", 1.0),
        ({"temperature": 11.46}, "The temperature is 20 degrees.", 0.0),
        ({"temperature": 11.46}, "It is nice.", None),
        ('{"code": "HAT136", "seats": 3, "price": 241, "stops": 0}', "You fly with HAT136.", 1.0),
        ({"sky": "cloudy"}, "Expect cloudy weather.", 1.0),
        (255.0, "That makes 255.", 1.0),
        ("please", "please", None),
    ],
)
def test_use_of_a_result_is_inferred_from_the_answer(result: Any, answer: str, expected_score: float | None) -> None:
    assert score(WEATHER, recorded("weather", result=result), answer=answer).dimensions["utilization"] == expected_score


def test_use_of_a_result_is_inferred_from_a_later_expected_call() -> None:
    requested = expectation(expected("find"), expected("book", {"code": "HAT136"}))
    match = score(requested, recorded("find", result={"code": "HAT136"}), recorded("book", {"code": "HAT136"}, step=2))
    assert match.dimensions["utilization"] == 1.0
    assert [(item["tool"], item["found_tool"], item["value"]) for item in match.evidence["utilization"]] == [
        ("find", "book", "HAT136")
    ]


def test_an_unused_result_fails_a_turn_and_never_a_conversation_unless_the_data_say_so() -> None:
    unused = recorded("weather", result={"temperature": 11})
    stated = "The temperature is 20 degrees."
    assert kinds(score(WEATHER, unused, answer=stated)) == ["unused_result"]
    assert score(WEATHER, unused, answer=stated).outcome == "fail"
    full = score(WEATHER, unused, answer=stated, turn=None)
    assert (full.outcome, full.dimensions["utilization"]) == ("pass", 0.0)
    assert score(WEATHER, recorded("weather", flag=False), turn=None).outcome == "fail"
    assert score(WEATHER, recorded("weather", flag=True), answer=stated).overall == 1.0


def test_many_calls_of_one_name_are_paired_by_their_parameters() -> None:
    requested = expectation(*(expected("a", {"x": index}) for index in range(40)))
    calls = [recorded("a", {"x": 39 - index}, step=index + 1) for index in range(40)]
    assert score(requested, *calls).overall == 1.0


def test_calls_of_a_sub_agent_count_like_those_of_the_agent_itself() -> None:
    inner = recorded("search", SEARCH, step=2)
    inner = replace(inner, call=replace(inner.call, parent_span_id="span1", agent_name="helper"))
    result = score(expectation(expected("search", SEARCH)), recorded("helper", kind="agent"), inner)
    assert (result.outcome, result.overall) == ("pass", 1.0)


def test_a_forbidden_call_is_one_fault_even_where_it_is_extra_too() -> None:
    result = score(expectation(expected("a"), forbidden=["b*", "bb"]), recorded("a"), recorded("bb", {"x": 1}, step=2))
    assert [(fault.kind, fault.note, fault.actual) for fault in result.faults] == [("forbidden", "b*", {"x": 1})]
    assert (result.outcome, result.dimensions["selection"]) == ("fail", 0.5)


def test_a_forbidden_call_that_answered_with_an_error_was_not_made() -> None:
    result = score(expectation(expected("a"), forbidden=["b"]), recorded("a"), recorded("b", step=2, error="refused"))
    assert (result.outcome, kinds(result)) == ("pass", ["errored"])


def test_an_errored_call_that_counts_is_paired_and_still_shown() -> None:
    requested = expectation(expected("a"), expected("b"), order="exact")
    failing = recorded("a", error="late", flag=True)
    result = score(requested, failing, recorded("b", step=2), count_errors=True)
    assert (result.outcome, result.dimensions["sequence"], kinds(result)) == ("pass", 1.0, ["errored"])
    assert result.dimensions["utilization"] is None
    again = score(requested, failing, recorded("a", step=2), recorded("b", step=3))
    assert (again.outcome, again.dimensions["sequence"]) == ("pass", 1.0)


def test_an_excused_call_takes_no_rank_in_an_exact_order() -> None:
    requested = expectation(expected("a"), expected("look", required=False), expected("b"), order="exact")
    for calls in (
        [recorded("a"), recorded("b", step=2)],
        [recorded("a"), recorded("look", step=2), recorded("b", step=3)],
    ):
        assert score(requested, *calls).overall == 1.0


def test_the_order_of_a_conversation_goes_by_turns_then_steps() -> None:
    requested = expectation(expected("a"), expected("b"), expected("c"), order="exact")
    calls = [recorded("a", step=2), recorded("b", turn=1), recorded("c", step=2, turn=1)]
    assert score(requested, *calls, turn=None).overall == 1.0
    late = [recorded("a", turn=1), recorded("b", step=2), recorded("c", step=2, turn=1)]
    assert [(fault.tool_name, fault.expected, fault.actual) for fault in score(requested, *late, turn=None).faults] == [
        ("b", 2, 1),
        ("a", 1, 2),
    ]


def test_a_call_in_the_wrong_place_names_a_neighbour_that_is_in_its_place() -> None:
    requested = expectation(*map(expected, "abcd"), order="relative")
    calls = [recorded("d"), recorded("a", step=2), recorded("c", step=3), recorded("b", step=4)]
    result = score(requested, *calls)
    assert result.dimensions["sequence"] == 0.5
    assert [(fault.tool_name, fault.expected) for fault in result.faults] == [("d", "after b"), ("c", "after b")]
    early = score(requested, recorded("b"), recorded("c", step=2), recorded("a", step=3), recorded("d", step=4))
    assert [(fault.tool_name, fault.expected) for fault in early.faults] == [("a", "before b")]


@pytest.mark.parametrize(
    ("weights", "overall"),
    [
        ({"selection": 0.0, "parameters": 1.0}, 0.5),
        ({"selection": 1.0, "parameters": 0.0, "sequence": 5.0}, 1.0),
        ({"selection": 1e-320, "parameters": 1e-320, "utilization": 1e308}, 0.75),
        ({"selection": 1e308, "parameters": 1e308}, 0.75),
        ({}, None),
    ],
)
def test_weights_of_any_size_count_over_what_applies(weights: dict[str, float], overall: float | None) -> None:
    result = score(expectation(expected("a", {"x": 1, "y": 1})), recorded("a", {"x": 1, "y": 2}), weights=weights)
    assert result.overall == overall


def test_a_threshold_is_reached_up_to_what_rounding_takes() -> None:
    third = {"selection": 0.1, "parameters": 0.2, "sequence": 0.7}
    requested = expectation(expected("a"), expected("b"), expected("c"), order="relative")
    two = score(requested, recorded("a"), recorded("b", step=2), threshold=2 / 3, weights=third)
    assert two.outcome == "pass"
    assert (
        score(requested, recorded("a"), recorded("b", step=2), threshold=2 / 3 + 1e-6, weights=third).outcome == "fail"
    )


def test_among_alternatives_the_highest_overall_score_counts_even_where_it_trespasses() -> None:
    trespassing = {"calls": [expected("a")], "extra_calls": "allow", "forbidden": ["b"]}
    requested = expectation(expected("a"), expected("c"), alternatives=[trespassing])
    result = score(requested, recorded("a"), recorded("b", step=2), threshold=0.3)
    assert (result.outcome, result.overall, kinds(result)) == ("fail", 1.0, ["forbidden"])
    among_equals = expectation(**{**trespassing, "calls": ()}, alternatives=[{"calls": [], "extra_calls": "allow"}])
    assert score(among_equals, recorded("b")).outcome == "pass"


def test_an_alternative_that_could_not_be_evaluated_might_have_been_right() -> None:
    other = {"calls": [expected("b", {"x": "Rome"}, match={"x": "judge"})]}
    result = score(expectation(expected("a"), alternatives=[other]), recorded("b", {"x": "Roma"}))
    assert (result.outcome, result.reason) == ("not_evaluated", "no_data")
    assert score(expectation(expected("b"), alternatives=[other]), recorded("b")).outcome == "pass"


def test_parameters_are_not_shown_if_one_of_the_calls_was_not_recorded() -> None:
    requested = expectation(expected("a", {"x": 1}), expected("a", {"x": 2}))
    result = score(requested, recorded("a", {"x": 2}), recorded("a", captured=False, step=2))
    assert (result.reason, result.dimensions["parameters"], result.faults) == ("content_not_captured", None, ())


@pytest.mark.parametrize(
    ("tables", "effect"),
    [
        ([{"get_*": "read"}], "read"),
        ([{"get_*": "write", "get_user": "read"}], "read"),
        ([{"*": "write", "get_*": "read"}], "read"),
        ([{"get_*": "read", "*_user": "write"}], "write"),
        ([{"get_*": "read", "*_usr?": "read", "get_[a-z]*": "write"}], "write"),
        ([{"other": "read"}, {"*": "read"}], "read"),
        ([{"*": "write"}, {"get_user": "read"}], "write"),
        ([], "write"),
    ],
)
def test_the_most_specific_pattern_of_the_first_table_that_fits_says_what_a_tool_does(
    tables: list[dict[str, Any]], effect: str
) -> None:
    assert effect_of("get_user", tables) == effect


def test_an_expectation_is_compiled_once_for_equal_rules() -> None:
    requested = expectation(expected("a"))
    rules = ToolRules.of(Case(case_id="x"), ScoringSettings())
    item = compiled(requested, rules)
    assert compiled(requested, ToolRules.of(Case(case_id="y"), ScoringSettings())) is item
    assert compiled(requested, replace(rules, threshold=0.5)) is not item
    assert compiled(expectation(expected("a")), rules) is not item


def test_calls_alone_score_as_a_scope_does_that_says_nothing_more() -> None:
    requested = expectation(expected("a", {"x": 1}), expected("b"), order="relative", alternatives=[{"calls": []}])
    calls = [recorded("b", flag=False), recorded("a", {"x": 2}, step=2, flag=True), recorded("c", step=3)]
    rules = ToolRules.of(Case(case_id="x"), ScoringSettings())
    result = score_calls(compiled(requested, rules), calls, turn_index=0)
    scope = Scope(turn_index=0, calls=tuple(calls), answers=(), queries=(), captured=True)
    assert result._replace(uses=()) == score_tools(requested, scope, rules)._replace(uses=())
    assert result.dimensions["utilization"] == 0.5
    assert hash(result) == hash(score_calls(compiled(requested, rules), calls, turn_index=0))


def test_a_score_tells_the_calls_that_it_was_made_from() -> None:
    requested = expectation(expected("a"), expected("look", required=False), extra_calls="allow", forbidden=["x"])
    result = score(
        requested,
        recorded("a", {"p": 1}),
        recorded("look", step=2),
        recorded("x", step=3),
        recorded("a", step=4, error="no"),
    )
    calls = result.calls
    assert calls is not None
    assert [(pair.actual_index, pair.expected.name, pair.agreement) for pair in calls.pairs] == [
        (0, "a", (0.0, ("p",)))
    ]
    assert [(pair.actual_index, pair.expected.name) for pair in calls.excused] == [(1, "look")]
    assert (calls.extra, calls.forbidden, [item.call.error for item in calls.errored]) == ([(2, "allow")], [2], ["no"])


@pytest.mark.parametrize(("rule", "outcome"), [("penalize", "not_evaluated"), ("allow", "pass")])
def test_an_optional_call_that_only_a_judge_could_compare_may_be_an_extra_one(rule: str, outcome: str) -> None:
    optional = expected("b", {"x": "Rome"}, match={"x": "judge"}, required=False)
    result = score(
        expectation(expected("a"), optional, extra_calls=rule), recorded("a"), recorded("b", {"x": "Roma"}, step=2)
    )
    assert result.outcome == outcome


def test_a_score_survives_pickling_without_what_it_was_made_from() -> None:
    result = score(expectation(expected("a"), forbidden=["b"]), recorded("a", {"x": 1}))
    again = pickle.loads(pickle.dumps(result))  # noqa: S301 — our own
    assert (again, again.explanation, again.calls) == (result, result.explanation, None)
