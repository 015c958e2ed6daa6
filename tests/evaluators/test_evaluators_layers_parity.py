"""The layers compared with the functions of the Agent Surface pages: the same numbers, but where theirs have a fault."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from otel_agentic.evaluators.layers import Outcome, Parameters, Reasoning, Tools
from otel_agentic.testing import conversation, tool_call, turn
from otel_agentic.truth import Case
from otel_agentic.truth.values import schema_faults
from tests.evaluators.ragas_subjects import scores_of, subject

Entry = dict[str, Any]


def talk(*names: str, **changes: Any) -> Any:
    return conversation(turn("go", "done", *(tool_call(name, {}) for name in names)), **changes)


def case(**fields: Any) -> Case:
    return Case.model_validate({"case_id": "c", "turns": [{"query": "go"}], **fields})


def tools(names: list[str]) -> Entry:
    return {"calls": [{"tool_name": name} for name in names], "extra_calls": "penalize"}


def plan_quality(entry: Entry) -> float | None:
    steps = [{"tool": name} if name else {"description": "think"} for name in entry["plan"]]
    actual = conversation(turn("go", "done", plans=(json.dumps(steps),)))
    about = subject(actual, case(plan=entry["expected_tools"]))
    return scores_of(Reasoning(), about)["plan_quality"].value


def routing(entry: Entry) -> float | None:
    about = subject(talk(*entry["calls"]), case(tools=tools(entry["expected_tools"])))
    return scores_of(Tools(), about)["tool_routing_accuracy"].value


def parameters(entry: Entry) -> tuple[bool, float | None]:
    valid = not schema_faults(entry["arguments"], entry["schema"])
    if entry["reference_args"] is None:
        return valid, None
    call = {"tool_name": "t", "parameters": entry["reference_args"], "ignore_extra_parameters": True}
    actual = conversation(turn("go", "done", tool_call("t", entry["arguments"])))
    scores = scores_of(Parameters(), subject(actual, case(tools={"calls": [call]})))
    return valid, scores["parameter_semantics"].value


def efficiency(entry: Entry) -> float | None:
    actual = talk(*["t"] * max(0, entry["actual_steps"]))
    about = subject(actual, case(minimum_steps=entry["minimum_steps"] or None))
    return scores_of(Outcome(), about)["step_efficiency"].value


def completion(entry: Entry) -> float | None:
    about = subject(talk(final_state=entry["actual_state"]), case(expected_state=entry["expected_state"]))
    return scores_of(Outcome(), about)["task_completion"].value


METRICS: Final[dict[str, Callable[[Entry], Any]]] = {
    "plan_quality": plan_quality,
    "tool_routing_accuracy": routing,
    "parameter_correctness": parameters,
    "step_efficiency": efficiency,
    "task_completion": completion,
}
SAME: Final = (
    "as-000", "as-002", "as-006", "as-008", "as-010", "as-012", "as-014", "as-016", "as-018", "as-020", "as-022", "as-034",
    "as-040", "as-042", "as-050", "as-052", "as-060", "as-062", "as-064", "as-066",
)  # fmt: skip
#: Where the default differs: its value, and the limit of the metric that states it.
DIFFERENT: Final[dict[str, tuple[Any, str]]] = {
    "as-004": (None, "nothing expected of the plan is no data"),
    "as-024": (0.25, "three calls too many cost"),
    "as-026": (0.2, "two of three are missing, two are too many"),
    "as-028": (0.0, "three calls where none is expected"),
    "as-030": (2 / 3, "order is another metric, and a call too many costs"),
    "as-032": (0.6, "as multisets three of five"),
    "as-036": (0.75, "as multisets three of three, and one too many"),
    "as-038": (0.0, "three calls where none is expected"),
    "as-044": ((False, None), "a parameter that is not required has a type, too"),
    "as-046": ((False, None), "no reference is no data"),
    "as-048": ((False, 0.0), "true is no integer, and not 1"),
    "as-054": (None, "no call is no data"),
    "as-056": (None, "no minimum is no data"),
    "as-058": (None, "no call is no data"),
}


def expected_value(entry: Entry) -> Any:
    expected = entry["expected"]
    if entry["metric"] == "parameter_correctness":
        return expected["schema_valid"], expected["semantic_score"]
    return float(expected)


def test_the_default_differs_from_the_pages_only_where_its_limits_say_so(shared_dir: Path) -> None:
    entries = {
        item["id"]: item for item in json.loads((shared_dir / "parity" / "agent_surface.json").read_text())["cases"]
    }

    for name in SAME:
        assert pytest.approx(expected_value(entries[name])) == METRICS[entries[name]["metric"]](entries[name]), name
    for name, (ours, _) in DIFFERENT.items():
        entry = entries[name]
        assert pytest.approx(ours) == METRICS[entry["metric"]](entry), name
        assert ours != expected_value(entry), name
