"""Entire conversations compared with fair-forge: scripted judges that answer, fail and return malformed replies."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from otel_agentic.compat.fair_forge import Agentic, AgenticMetric, BayesianMode, conversation_level

PARITY_SCHEMA = "otel_agentic.parity.conversations/1"


@dataclass
class ScriptedModel:
    """A chat model that replies as scripted: a score, a raw text, or an exception."""

    replies: list[dict[str, Any]]
    calls: int = field(default=0)

    def invoke(self, _messages: Any) -> SimpleNamespace:
        self.calls += 1
        reply = self.replies[self.calls - 1]
        if "raise" in reply:
            raise RuntimeError(reply["raise"])
        if "text" in reply:
            return SimpleNamespace(content=reply["text"])
        return SimpleNamespace(content=json.dumps({"correctness_score": reply["score"], "reasoning": "so"}))


@pytest.mark.filterwarnings("ignore:use_structured_output")
def test_conversations_equal_fair_forge(parity_case: Any) -> None:
    model, results = run(parity_case.case)
    assert len(results) == len(parity_case.case["expected"])
    for result, expected in zip(results, parity_case.case["expected"], strict=True):
        message = result.model_dump(include=set(expected))
        for score in filter(None, message.get("tool_correctness_scores", [])):
            del score["reasoning"]
        assert_close(message, expected, parity_case.document["absolute_tolerance"])
    assert model.calls == parity_case.case.get("judge_calls", model.calls)


@pytest.mark.filterwarnings("ignore:use_structured_output")
def test_the_conversation_level_equals_the_papers_definition(parity_case: Any) -> None:
    _, results = run(parity_case.case)
    message = asdict(conversation_level(results, parity_case.case["settings"]["k"]))
    expected = {
        name: value for name, value in parity_case.case.get("conversation_level", {}).items() if name in message
    }
    message = {name: message[name] for name in expected}
    assert_close(message, expected, parity_case.document["absolute_tolerance"])


def run(case: dict[str, Any]) -> tuple[ScriptedModel, list[AgenticMetric]]:
    options = dict(case["settings"])
    bayesian = options.pop("bayesian", None)
    if bayesian is not None:
        options["statistical_mode"] = BayesianMode(**bayesian)
    model = ScriptedModel(
        replies=[reply for conversation in case["conversations"] for t in conversation for reply in t.get("judge", [])]
    )
    data = [
        {
            "session_id": f"conv-{index}",
            "assistant_id": "agent",
            "context": "",
            "conversation": [interaction(turn, number) for number, turn in enumerate(turns)],
        }
        for index, turns in enumerate(case["conversations"])
    ]
    return model, Agentic.run(data, model=model, **options)


def interaction(turn: dict[str, Any], number: int) -> dict[str, Any]:
    texts = {"qa_id": str(number), "query": "q", "assistant": "a", "ground_truth_assistant": "a"}
    return texts | {name: value for name, value in turn.items() if name != "judge"}


def assert_close(message: Any, expected: Any, tolerance: float) -> None:
    """Numbers to the tolerance at any depth; everything else exactly."""
    if isinstance(expected, dict):
        assert message.keys() == expected.keys()
        for name, value in expected.items():
            assert_close(message[name], value, tolerance)
    elif isinstance(expected, list):
        assert len(message) == len(expected)
        for first, other in zip(message, expected, strict=True):
            assert_close(first, other, tolerance)
    elif isinstance(expected, float):
        assert message == pytest.approx(expected, abs=tolerance, rel=0)
    else:
        assert message == expected
