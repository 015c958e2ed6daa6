"""The functions of the evaluation page: plans, calls and outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_agentic.errors import BadInputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterGrade:
    """Whether arguments fit the schema, what is wrong with them, and the share of reference arguments that were made."""

    schema_valid: bool
    schema_errors: tuple[str, ...]
    semantic_score: float


def plan_quality(plan: Sequence[str | None], expected_tools: Sequence[str]) -> float:
    """Return the share of expected tools found in the plan, each searched for behind the one found before it.

    A tool that is not found uses up the rest of the plan. Steps without a tool are None.

    >>> plan_quality(["a", "x", "b"], ["a", "b"]), plan_quality(["b", "c"], ["a", "b", "c"])
    (1.0, 0.0)
    """
    rest = iter([tool for tool in plan if tool is not None])
    return sum(tool in rest for tool in expected_tools) / len(expected_tools) if expected_tools else 1.0


def tool_routing_accuracy(calls: Sequence[str], expected_tools: Sequence[str]) -> float:
    """Return the share of expected tools called at the very place; further calls cost nothing.

    >>> tool_routing_accuracy(["a", "b"], ["a", "b"]), tool_routing_accuracy(["x", "a", "b"], ["a", "b"])
    (1.0, 0.0)
    """
    right = sum(call == tool for call, tool in zip(calls, expected_tools, strict=False))
    return right / len(expected_tools) if expected_tools else 1.0


def parameter_correctness(
    arguments: Mapping[str, Any], schema: Mapping[str, Any], reference_args: Mapping[str, Any] | None = None
) -> ParameterGrade:
    """Return the grade of one call's arguments.

    Only required fields that the schema also lists under `properties` are looked at, and of types only "string". A
    reference argument of null is met by an absent one. Without reference arguments the semantic score is 1.

    Raises:
        BadInputError: a required field's schema has no type, where the page's function raises KeyError.

    >>> schema = {"properties": {"id": {"type": "string"}, "n": {"type": "integer"}}, "required": ["id", "n"]}
    >>> parameter_correctness({"id": "x", "n": "many"}, schema).schema_valid
    True
    """
    required = schema.get("required", [])
    errors = []
    for name, spec in schema.get("properties", {}).items():
        if name not in required:
            continue
        if name not in arguments:
            errors.append(f"Missing required field: {name}")
        elif "type" not in spec:
            raise BadInputError(f"schema.properties.{name}: no type; the page's function needs one")
        elif spec["type"] == "string" and not isinstance(arguments[name], str):
            errors.append(f"Wrong type for {name}: expected string")
    met = sum(arguments.get(name) == value for name, value in (reference_args or {}).items())
    return ParameterGrade(
        schema_valid=not errors,
        schema_errors=tuple(errors),
        semantic_score=met / len(reference_args) if reference_args else 1.0,
    )


def task_completion(expected_state: Mapping[str, Any], actual_state: Mapping[str, Any]) -> bool:
    """Return whether every expected field has its value in the state; an expected null is met by an absent field.

    >>> task_completion({"status": "sent"}, {"status": "sent", "id": 4}), task_completion({"error": None}, {})
    (True, True)
    """
    return all(actual_state.get(name) == value for name, value in expected_state.items())


def step_efficiency(actual_steps: float, minimum_steps: float) -> float:
    """Return minimum over actual steps, 0 without a step; above 1 where the minimum was too high.

    >>> step_efficiency(4, 2), step_efficiency(1, 2), step_efficiency(0, 0)
    (0.5, 2.0, 0.0)
    """
    return minimum_steps / actual_steps if actual_steps > 0 else 0.0


def passat_k(results: Sequence[bool]) -> float:
    """Return the share of runs that pass, 0 without runs: it has no k.

    >>> passat_k([True, False])
    0.5
    """
    return sum(results) / len(results) if results else 0.0


def passcaret_k(results: Sequence[bool]) -> float:
    """Return 1 where all runs pass, also without runs, else 0.

    >>> passcaret_k([]), passcaret_k([True, False])
    (1.0, 0.0)
    """
    return 1.0 if all(results) else 0.0
