"""Operations: tokens, cost, latency, retries, loops and recovery, worked out by hand; what success costs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.config import EvaluatorSettings
from otel_agentic.config.quality import Price
from otel_agentic.conversations.model import Conversation, ModelUse, ToolCall, Turn
from otel_agentic.evaluators.base import Evaluator, Member, MetricScore
from otel_agentic.evaluators.operations import Calls, Cost, Latency, Tokens, Totals, price_of
from otel_agentic.evaluators.recovery import Recovery
from otel_agentic.testing import NOON_NS, SECOND_NS, conversation, tool_call, turn
from tests.conversations.rebuilding import conversations
from tests.evaluators.ragas_subjects import scores_of, subject
from tests.golden.comparing import batches
from tests.shared import SHARED, why_absent

if TYPE_CHECKING:
    from otel_agentic.scoring.scope import Outcome

CAPTURES: Final = SHARED / "captures"


def used(
    calls: int = 1, given: int | None = 10, selected: int | None = 3, model: str | None = "m1", **more: Any
) -> ModelUse:
    priced = more.pop("priced", calls)
    return ModelUse(model=model, calls=calls, input_tokens=given, output_tokens=selected, priced_calls=priced, **more)


def with_usage(*uses: ModelUse) -> Conversation:
    """Return a conversation with a turn for each use of a model."""
    return conversation(*(turn("go", "done", models=(use,)) for use in uses))


def called(*calls: ToolCall) -> Conversation:
    return conversation(turn("go", "done", *calls, models=(used(),)))


def scores(evaluator: Evaluator, about: Conversation) -> dict[str, MetricScore]:
    return scores_of(evaluator, subject(about, None))


def value_and_explanation(evaluator: Evaluator, about: Conversation, name: str) -> tuple[float | None, str]:
    """Return value and explanation, or reason and explanation."""
    results = scores(evaluator, about)[name]
    return (results.value, results.explanation)


def cost(prices: dict[str, tuple[float, float]]) -> Cost:
    table = {name: {"input_usd": given, "output_usd": selected} for name, (given, selected) in prices.items()}
    return Cost.from_settings(EvaluatorSettings.model_validate({"prices": table}))


# Tokens and cost.


def test_tokens_are_summed_over_turns_and_models() -> None:
    results = scores(Tokens(), with_usage(used(2, 100, 20), used(1, 50, 5, "m2"), used(1, 7, 1)))

    assert (157.0, 26.0) == (results["input_tokens"].value, results["output_tokens"].value)
    assert results["input_tokens"].explanation == snapshot("157 tokens in 4 calls of models")


def test_a_part_of_the_tokens_is_not_shown_as_all_of_them() -> None:
    """100 of them are known; of one call of each model nothing is."""
    results = scores(Tokens(), with_usage(used(2, 100, 20, priced=1), used(1, None, None, None, priced=0)))

    assert {(score.reason, score.explanation.partition(";")[0]) for score in results.values()} == snapshot(
        {
            (
                "tokens_not_recorded",
                "token usage is missing for 1 of 1 calls to a model without a name, 1 of 2 calls to 'm1'",
            )
        }
    )


def test_a_failed_request_without_tokens_hides_nothing() -> None:
    assert value_and_explanation(Tokens(), with_usage(used(2, failed=1)), "input_tokens") == snapshot(
        (10.0, "10 tokens in 2 calls of models")
    )


def test_without_a_recorded_model_call_nothing_is_known() -> None:
    about = conversation(turn("go", "done", works()))
    for evaluator in (Tokens(), cost({"*": (1, 1)})):
        assert {"model_calls_not_recorded"} == {score.reason for score in scores(evaluator, about).values()}
    results = scores(Calls(), about)
    assert {"model_calls", "retries"} == {name for name, score in results.items() if score.reason is not None}
    assert {"model_calls_not_recorded", None} == {score.reason for score in results.values()}


def test_the_cost_is_tokens_times_price_by_model() -> None:
    """(1,000,000 x 2 + 100,000 x 8) / million + (500,000 x 1 + 0) / million = 2.8 + .5."""
    about = with_usage(used(3, 1_000_000, 100_000, "big"), used(1, 500_000, 0, "small"))

    results = scores(cost({"big": (2, 8), "small*": (1, 4)}), about)["cost"]

    assert pytest.approx(3.3) == results.value
    assert results.explanation == snapshot("'big' 2.800000 USD, 'small' 0.500000 USD")


def test_a_model_without_a_price_is_named_and_no_partial_cost_is_reported() -> None:
    about = with_usage(used(1, 10, 3, "big"), used(1, 10, 3, "unknown"), used(1, 10, 3, None))

    results = scores(cost({"big": (2, 8)}), about)["cost"]

    assert (None, "price_not_set") == (results.value, results.reason)
    assert results.explanation == snapshot(
        "[evaluators.prices] has no price for a model without a name, 'unknown'; add it by name or glob"
    )


def test_a_model_whose_requests_all_failed_needs_no_price() -> None:
    about = with_usage(used(1, 500_000, 0, "big"), used(2, None, None, "down", failed=2))

    assert pytest.approx(1.0) == scores(cost({"big": (2, 8)}), about)["cost"].value


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-5-mini", "gpt-5-mini"),
        ("gpt-5-mini-2026-01-01", "gpt-5-mini*"),
        ("gpt-5", "gpt-5*"),
        ("openai/gpt-5", "*"),
        (None, "*"),
    ],
)
def test_the_most_specific_price_counts(model: str | None, expected: str) -> None:
    names = ("*", "gpt-5*", "gpt-5-mini*", "gpt-5-mini")
    prices = {name: Price(input_usd=number, output_usd=0) for number, name in enumerate(names)}

    assert prices[expected] is price_of(model, prices)
    assert prices[expected] is price_of(model, dict(reversed(prices.items())))
    assert price_of(model, {"claude*": prices["*"]}) is None


def test_what_a_glob_leaves_open_is_not_spelled_out() -> None:
    family, exact = Price(input_usd=1, output_usd=1), Price(input_usd=2, output_usd=2)

    assert exact is price_of("claude-3-5-sonnet", {"claude-[0-9]*": family, "claude-3-5*": exact})


@given(
    uses=st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from("abc")), min_size=1, max_size=6
    )
)
def test_the_cost_of_two_conversations_is_that_of_one_that_holds_both(uses: list[tuple[int, int, str]]) -> None:
    prices = cost({"a": (1, 2), "b": (3, 4), "*": (5, 6)})
    parts = [with_usage(used(1, *use)) for use in uses]
    total = with_usage(*(used(1, *use) for use in uses))

    values = [next(iter(prices.evaluate(subject(part, None)))).value for part in (*parts, total)]

    assert pytest.approx(sum(value or 0.0 for value in values[:-1])) == values[-1]


# Latency.


def test_the_latency_of_each_turn_is_in_seconds() -> None:
    timed = turn("go", "done", started_ns=NOON_NS, ended_ns=NOON_NS + 5 * SECOND_NS // 2)
    instant = turn("on", "done", started_ns=NOON_NS, ended_ns=NOON_NS)

    results = scores(Latency(), conversation(timed, instant))

    assert {"latency[0]": 2.5, "latency[1]": 0.0} == {name: score.value for name, score in results.items()}
    assert "turn 1 took 2.500 s" == results["latency[0]"].explanation


def test_a_turn_that_ends_before_it_starts_has_no_latency() -> None:
    results = scores(Latency(), conversation(turn("on", "done", started_ns=NOON_NS, ended_ns=NOON_NS - SECOND_NS)))

    assert (None, "incomplete") == (results["latency[0]"].value, results["latency[0]"].reason)


@pytest.mark.parametrize(
    "turns",
    [
        [turn("a row of a dataset", span_id="", started_ns=NOON_NS, ended_ns=NOON_NS)],
        [turn("no time at all", started_ns=0, ended_ns=0)],
        # Conversations that were given as JSON: each turn has the times of the whole.
        [turn("one"), turn("two")],
    ],
)
def test_without_times_of_its_own_a_turn_has_no_latency(turns: list[Turn]) -> None:
    about = conversation(*turns, started_ns=turns[0].started_ns, ended_ns=turns[0].ended_ns)

    results = scores(Latency(), about)

    assert {(None, "times_not_recorded")} == {(score.value, score.reason) for score in results.values()}


# Calls.


def test_calls_and_errors_of_tools_are_counted_at_any_depth_and_transfers_are_not() -> None:
    about = called(
        tool_call("search", {}),
        tool_call("search", {"q": 2}, error="down"),
        tool_call("book", {}, parent_span_id="ab"),
        tool_call("transfer_to_b", {}, kind="transfer"),
        tool_call("ask_b", {}, kind="agent"),
    )

    assert value_and_explanation(Calls(), about, "tool_calls") == snapshot((3.0, "1 of 'book', 2 of 'search'"))
    assert (1.0, "1 of 'search'") == value_and_explanation(Calls(), about, "tool_errors")


def test_model_calls_are_counted_by_model() -> None:
    assert (3.0, "2 of 'm1', 1 of 'm2'") == value_and_explanation(
        Calls(), with_usage(used(2, failed=1), used(1, 1, 1, "m2")), "model_calls"
    )


def fails(name: str = "a", step: int | None = None, **arguments: Any) -> ToolCall:
    return tool_call(name, arguments, error="down", **({} if step is None else {"step": step}))


def works(name: str = "a", step: int | None = None, result: Any = "ok", **arguments: Any) -> ToolCall:
    return tool_call(name, arguments, result=result, **({} if step is None else {"step": step}))


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([works(), works()], 0),
        ([fails(), works()], 1),
        ([fails(), fails(), works(), works()], 2),
        # Another tool is no retry, and one after it still is.
        ([fails(), works("b"), works()], 1),
        # Of one response: neither can be a retry of the other; both of the next are.
        ([fails(step=1), works(step=1, x=1), works(step=2), works(step=2, x=1)], 2),
    ],
)
def test_a_retry_is_a_call_of_a_tool_after_its_error(calls: list[ToolCall], expected: int) -> None:
    assert float(expected) == scores(Calls(), called(*calls))["retries"].value


def test_a_tool_that_failed_in_the_turn_before_is_not_retried() -> None:
    about = conversation(turn("go", "no", fails()), turn("again", "yes", works(), models=(used(),)))
    assert 0.0 == scores(Calls(), about)["retries"].value


def silent(name: str = "a", **more: Any) -> ToolCall:
    """Return a call that reports no error, and whose result was not recorded."""
    return tool_call(name, {}, result=None, result_captured=False, **more)


@pytest.mark.parametrize(
    ("calls", "unknown"),
    [
        ([works(), fails("b")], set()),
        ([silent()], {"tool_errors", "steps_to_recovery", "recovered"}),
        # A part of the errors is not shown as all of them.
        ([fails("b"), silent()], {"tool_errors", "steps_to_recovery", "recovered"}),
        # Whether the first call failed decides whether the second retries it.
        ([silent(), works()], {"tool_errors", "retries", "steps_to_recovery", "recovered"}),
        # Calls of one step do not retry one another, nor does another tool.
        ([silent(step=1), works(step=1, x=1)], {"tool_errors", "steps_to_recovery", "recovered"}),
        ([silent(), works("b")], {"tool_errors", "steps_to_recovery", "recovered"}),
        ([silent(kind="agent"), works()], set()),
    ],
)
def test_without_its_result_it_is_unknown_whether_a_call_failed(calls: list[ToolCall], unknown: set[str]) -> None:
    results = scores(Calls(), called(*calls)) | scores(Recovery(), called(*calls))
    del results["loops"]  # it has its own rule

    assert unknown == {name for name, score in results.items() if score.reason == "content_not_captured"}
    assert {None} >= {results[name].value for name in unknown}


def test_without_any_content_no_recorded_call_does_not_mean_that_none_was_made() -> None:
    bare = turn(None, None, query_captured=False, answer_captured=False, models=(used(),))

    results = scores(Calls(), conversation(bare))

    unknown = {name for name, score in results.items() if score.reason == "content_not_captured"}
    assert {"tool_calls", "tool_errors", "retries"} == unknown
    assert 0.0 == scores(Calls(), called())["tool_calls"].value


def test_failed_requests_to_models_are_retries() -> None:
    about = conversation(turn("go", "done", fails(), works(), models=(used(3, failed=2),)))

    assert value_and_explanation(Calls(), about, "retries") == snapshot((3.0, "1 of 'a', 2 failed requests to models"))


@pytest.mark.parametrize(
    ("calls", "longest", "repeats"),
    [
        ([works(), works(x=1), works(x=2)], 0, 0),
        ([works(), works()], 1, 1),
        ([works(n=5), works(n=5.0), works(n=5)], 2, 2),
        # From the first a to the second a new call came between; from then on nothing is new.
        ([works(), works("b"), works()], 0, 0),
        ([works(), works("b"), works(), works("b"), works()], 2, 2),
        # The state of the world changed: another result is new.
        # A status that is polled until it changes is no repeat; one that stays as it is, is.
        ([works(result="pending"), works(result="pending"), works(result="ready")], 0, 0),
        ([works(result="pending"), works(result="ready"), works(result="ready")], 1, 1),
        ([works(result=1), works(result=2), works(result=1)], 0, 0),
        ([works(result=1), works(result=True)], 0, 0),
        ([works(result={"n": 1, "m": 2}), works(result={"m": 2.0, "n": 1})], 1, 1),
        # A result that was not recorded is asked for only where it decides.
        ([tool_call("a", {}, result_captured=False), works("b"), tool_call("a", {}, result_captured=False)], 0, 0),
        # A retry that works brings something new; one that fails the same way does not, from the second retry on.
        ([fails(), works()], 0, 0),
        ([fails(), fails()], 0, 0),
        ([fails(), fails(), fails(), works()], 0, 0),
        ([fails(), fails(), fails(), fails()], 2, 2),
        ([works(), works(), works("c"), works("d"), works("d"), works("d")], 2, 3),
        ([tool_call("go_to", {}, kind="transfer"), tool_call("go_to", {}, kind="transfer")], 0, 0),
    ],
)
def test_a_loop_is_a_run_of_calls_that_bring_nothing_new(calls: list[ToolCall], longest: int, repeats: int) -> None:
    results = scores(Calls(), called(*calls))["loops"]

    assert (float(longest), repeats) == (results.value, results.details.get("repeats", 0))


def test_a_loop_is_reported_with_its_turn_and_tool() -> None:
    about = conversation(turn("one", "x", works()), turn("two", "y", works("b"), works("b"), works("b")))

    results = scores(Calls(), about)["loops"]

    assert results.explanation == snapshot("turn 2: 2 calls in a row brought nothing new, the last of 'b'")
    assert "b" == results.tool_name


@pytest.mark.parametrize(
    ("calls", "lacks"),
    [
        ([tool_call("a", {}, result_captured=False)] * 2, "results"),
        ([works(), tool_call("a", {}, result_captured=False)], "results"),
        # Round and round: whether the second a brought something new decides whether the second b repeats the first.
        ([tool_call("a", {}, result_captured=False), tool_call("b", {}, result_captured=False)] * 3, "results"),
        ([tool_call("a", {}, result_captured=False), works("b")] * 2, "results"),
    ],
)
def test_whether_unrecorded_calls_repeat_others_is_unknown(calls: list[ToolCall], lacks: str) -> None:
    results = scores(Calls(), called(*calls))["loops"]

    assert ("content_not_captured", f"the {lacks} of 'a', called again in turn 1, were not recorded") == (
        results.reason,
        results.explanation,
    )


@given(calls=st.lists(st.sampled_from([works(), works("b"), works(x=1), fails(), works(result=2)]), max_size=8))
def test_repeats_are_at_most_the_calls_and_doubling_all_calls_adds_some(calls: list[ToolCall]) -> None:
    def loops(actual: list[ToolCall]) -> tuple[float, int]:
        results = {score.name: score for score in Calls().evaluate(subject(called(*actual), None))}
        loop = results["agentic.operations.loops"]
        return loop.value or 0.0, loop.details.get("repeats", 0)

    longest, repeats = loops(calls)
    assert longest <= repeats <= max(0, len(calls) - 1)
    assert 0 == loops(calls[:1])[1]
    if calls and calls[-1].error is None:
        assert repeats + 1 == loops([*calls, calls[-1]])[1]


# Recovery.


@pytest.mark.parametrize(
    ("calls", "steps", "recovered"),
    [
        ([works()], None, None),
        ([fails(), works()], 1.0, 1.0),
        ([fails(), fails(), works("b"), works()], 3.0, 1.0),
        # Two errors of one episode, then one more of another: 2 steps, and 1.
        ([fails(), fails(), works(), fails(), works()], 2.0, 1.0),
        ([fails(), works("b")], None, 0.0),
        ([fails(), works(), fails("b")], 1.0, 0.0),
        # A call of the same response does not come after it.
        ([fails(step=1), works(step=1, x=1)], None, 0.0),
        ([works(step=1, x=1), fails(step=1), works(step=2)], 1.0, 1.0),
    ],
)
def test_recovery_is_counted_in_steps(calls: list[ToolCall], steps: float | None, recovered: float | None) -> None:
    results = scores(Recovery(), called(*calls))

    assert (steps, recovered) == (results["steps_to_recovery"].value, results["recovered"].value)


def test_steps_go_on_over_turns() -> None:
    about = conversation(turn("go", "no", works("b"), fails()), turn("again", "yes", works("b"), works()))

    assert value_and_explanation(Recovery(), about, "steps_to_recovery") == snapshot(
        (2.0, "'a' failed in turn 1 and worked 2 steps later")
    )


def test_a_tool_that_never_worked_again_is_named() -> None:
    results = scores(Recovery(), called(fails(), works("b")))

    assert {results[name].explanation for name in ("steps_to_recovery", "recovered")} == snapshot(
        {"never worked again: 'a' (failed in turn 1)"}
    )
    assert ("no_data", "a") == (results["steps_to_recovery"].reason, results["recovered"].tool_name)


# Groups.


def member(outcome: Outcome | None, **values: float | list[float] | None) -> Member:
    results: dict[str, list[MetricScore]] = defaultdict(list)
    for name, value in values.items():
        for item in value if isinstance(value, list) else [value]:
            score = MetricScore(
                name=f"agentic.operations.{name}", value=item, reason="no_data" if item is None else None
            )
            results[score.name].append(score)
    return Member(outcome=outcome, scores=results)


def totals(*members: Member) -> dict[str, MetricScore]:
    return {score.name.rpartition(".")[2]: score for score in Totals().evaluate_group(members)}


def test_success_costs_what_failures_cost_too() -> None:
    """(1 + 2 + 3) / 2 passed; tokens (10 + 5 + 20 + 5 + 30 + 5) / 2."""
    results = totals(
        member("pass", cost=1.0, input_tokens=10.0, output_tokens=5.0),
        member("fail", cost=2.0, input_tokens=20.0, output_tokens=5.0),
        member("pass", cost=3.0, input_tokens=30.0, output_tokens=5.0),
    )

    assert (3.0, 37.5) == (results["cost_per_success"].value, results["tokens_per_success"].value)
    assert results["cost_per_success"].explanation == snapshot("6 over 3 conversations, 2 of which passed")


def test_what_has_no_cost_or_no_outcome_is_left_out_and_counted() -> None:
    results = totals(
        member("pass", cost=1.0),
        member("pass", cost=None),
        member("fail", cost=2.0),
        member("not_evaluated", cost=9.0),
        member(None),
    )["cost_per_success"]

    assert 3.0 == results.value
    assert results.explanation == snapshot(
        "3 over 2 conversations, 1 of which passed; 2 not evaluated left out; 1 without cost left out"
    )


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([member("fail", cost=1.0)], "none of 1 conversations passed"),
        ([member("pass")], "cost known of no evaluated conversation; 1 without cost left out"),
        ([], "cost known of no evaluated conversation"),
    ],
)
def test_without_a_success_there_is_no_cost_of_one(members: list[Member], expected: str) -> None:
    results = totals(*members)["cost_per_success"]

    assert (None, "no_data", expected) == (results.value, results.reason, results.explanation)


def test_percentiles_are_those_of_all_turns() -> None:
    """Of 0, 1, …, 100 the median is 50 and the 95th percentile 95."""
    results = totals(
        member("pass", latency=[float(second) for second in range(0, 101, 2)]),
        member(None, latency=[float(second) for second in range(1, 101, 2)]),
    )

    assert (50.0, 95.0) == (results["latency_p50"].value, results["latency_p95"].value)
    assert 4.0 == totals(member("pass", latency=[4.0]))["latency_p95"].value
    assert "no_data" == totals()["latency_p50"].reason


# A real agent.


@pytest.mark.skipif(why_absent(CAPTURES) is not None, reason=str(why_absent(CAPTURES)))
def test_the_numbers_of_a_recorded_agent_are_those_of_its_spans() -> None:
    """39 requests of openai-agents, 50 tokens in and 10 out each, according to the file; prices of 2 and 8 USD a million."""
    results = conversations(*batches(CAPTURES / "genai-openai-agents-responses"))
    evaluators = (Tokens(), cost({"gpt-4o-2024*": (2, 8)}), Calls())
    values: dict[str, float] = defaultdict(float)
    for result in results:
        for evaluator in evaluators:
            for name, score in scores(evaluator, result).items():
                values[name] += score.value or 0.0

    assert (39.0, 1950.0, 390.0) == (values["model_calls"], values["input_tokens"], values["output_tokens"])
    assert pytest.approx(39 * (50 * 2 + 10 * 8) / 1e6) == values["cost"]
    assert (
        sum(call.kind == "tool" for result in results for item in result.turns for call in item.calls)
        == values["tool_calls"]
    )
