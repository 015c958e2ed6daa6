"""Tool correctness compared with fair-forge: the function alone, and a whole run over one turn."""

from __future__ import annotations

from typing import Any

import pytest

from otel_agentic.compat.fair_forge import Agentic, ToolCorrectnessScore, tool_correctness
from otel_agentic.errors import BadInputError

PARITY_SCHEMA = "otel_agentic.parity.tool_correctness/1"


class Sure:
    """A chat model that finds everything right: answers are not compared here."""

    def invoke(self, _messages: Any) -> Any:
        class Reply:
            content = '{"correctness_score": 1.0, "reasoning": "right"}'

        return Reply()


def test_tool_correctness_equals_fair_forge(parity_case: Any) -> None:
    case, expected = parity_case.case, parity_case.case.get("expected_direct", {"skipped": "not called"})
    if "skipped" in expected:
        return  # it was not called there
    if "error" in expected:
        with pytest.raises(BadInputError):
            tool_correctness(case["agentic"], case["ground_truth_agentic"], **options(case, ""))
    else:
        score = tool_correctness(case["agentic"], case["ground_truth_agentic"], **options(case, ""))
        assert numbers(score) == close_to(expected, parity_case)


def test_a_run_over_one_turn_equals_fair_forge(parity_case: Any) -> None:
    case, expected = parity_case.case, parity_case.case.get("expected_via_run", {"skipped": "not run"})
    if "skipped" in expected:
        return
    turn = {"qa_id": "1", "query": "q", "assistant": "a", "ground_truth_assistant": "a"}
    turn |= {field: case[field] for field in ("agentic", "ground_truth_agentic") if field in case}
    data = [{"session_id": "s", "assistant_id": "a", "context": "", "conversation": [turn]}]
    if "error" in expected:
        with pytest.raises(BadInputError):
            Agentic.run(data, k=1, model=Sure(), **options(case, "tool_"))
        return
    [result] = Agentic.run(data, k=1, model=Sure(), **options(case, "tool_"))
    assert result.is_fully_correct is expected["is_fully_correct"]
    [score] = result.tool_correctness_scores
    assert (score and numbers(score)) == close_to(expected["tool_correctness"], parity_case)


def options(case: dict[str, Any], prefix: str) -> dict[str, Any]:
    given = {f"{prefix}{name}": case.get(f"tool_{name}") for name in ("weights", "threshold")}
    return {name: value for name, value in given.items() if value is not None}


def numbers(score: ToolCorrectnessScore) -> dict[str, Any]:
    return score.model_dump(exclude={"reasoning"})


def close_to(expected: dict[str, Any] | None, parity_case: Any) -> Any:
    if expected is None:
        return None
    return pytest.approx(expected, abs=parity_case.document["absolute_tolerance"], rel=0)
