from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from otel_agentic.compat import agent_surface
from otel_agentic.errors import BadInputError, UsageError
from tests.snapshots import raises

names = st.lists(st.sampled_from("abc"), max_size=5)


@given(tools=names)
def test_the_expected_tools_themselves_score_1(tools: list[str]) -> None:
    assert agent_surface.plan_quality(tools, tools) == 1.0
    assert agent_surface.tool_routing_accuracy(tools, tools) == 1.0
    assert agent_surface.calculate_tool_f1(tools, tools).recall == 1.0


@given(values=st.lists(st.integers(-9, 9), min_size=1), p=st.integers(0, 100))
def test_a_percentile_is_one_of_the_values(values: list[int], p: int) -> None:
    assert agent_surface.percentile(values, p) in values


def test_too_few_runs_are_refused() -> None:
    with raises(UsageError, snapshot("k=3 needs at least 3 runs, got 1")):
        agent_surface.calculate_pass_at_k([True], 3)


@pytest.mark.parametrize(
    "complaint",
    [
        lambda: agent_surface.hallucination_rate([{"name": "a", "arguments": {}}], ["a"], {}),
        lambda: agent_surface.hallucination_rate([{"name": "a", "arguments": {}}], ["a"], {"a": {}}),
        lambda: agent_surface.conformance_rate([{"name": "a"}], {"a": {"required": []}}),
        lambda: agent_surface.conformance_rate([{"name": "a", "arguments": {"x": 1}}], {"a": {"required": []}}),
        lambda: agent_surface.parameter_correctness({"x": 1}, {"properties": {"x": {}}, "required": ["x"]}),
    ],
)
def test_a_schema_or_call_on_which_the_pages_fail_is_refused(complaint: Any) -> None:
    with pytest.raises(BadInputError):
        complaint()


class TestFaultsOfAgentSurface:
    """The smallest example of each fault; `docs/compat.md` lists the most consequential ones."""

    def test_one_call_too_early_makes_every_later_call_wrong(self) -> None:
        assert agent_surface.tool_routing_accuracy(["x", "a", "b"], ["a", "b"]) == 0.0

    def test_calls_beyond_the_expected_ones_cost_nothing(self) -> None:
        assert agent_surface.tool_routing_accuracy(["a", "delete_all"], ["a"]) == 1.0

    def test_a_first_tool_that_is_missing_makes_the_plan_worthless(self) -> None:
        assert agent_surface.plan_quality(["b", "c"], ["a", "b", "c"]) == 0.0

    def test_only_texts_are_checked_and_only_required_ones(self) -> None:
        schema = {"properties": {"n": {"type": "integer"}, "note": {"type": "string"}}, "required": ["n"]}
        assert agent_surface.parameter_correctness({"n": "many", "note": 5}, schema).schema_valid

    def test_an_integer_never_conforms(self) -> None:
        schemas = {"a": {"properties": {"n": {"type": "integer"}}, "required": []}}
        assert agent_surface.conformance_rate([{"name": "a", "arguments": {"n": 5}}], schemas) == 0.0

    def test_pass_at_k_looks_at_the_first_k_runs_alone(self) -> None:
        assert agent_surface.calculate_pass_at_k([False, True, True], 1) == 0
        assert agent_surface.calculate_pass_caret_k([True, False], 1) == 1

    def test_no_run_at_all_is_consistent(self) -> None:
        assert agent_surface.passcaret_k([]) == 1.0

    def test_an_agent_that_never_recovers_has_the_best_time_to_recovery(self) -> None:
        assert agent_surface.mttr([{"success": False}] * 3) == 0.0

    def test_efficiency_is_not_bounded(self) -> None:
        assert agent_surface.step_efficiency(1, 4) == 4.0

    def test_without_a_success_a_task_costs_infinitely_much(self) -> None:
        assert agent_surface.cost_per_task([{"success": False, "tokenCost": 1}]) == math.inf
