"""The functions printed on the Agent Surface pages, with snake_case names.

`docs/compat.md` lists the reproduced parts, faults included.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from otel_agentic.compat.javascript import type_of
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.evaluators.base import Overlap, failure_runs, harmonic_mean, step_ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterGrade:
    """Whether arguments fit the schema, their errors, and the share of reference arguments that are present."""

    schema_valid: bool
    schema_errors: tuple[str, ...]
    semantic_score: float


def plan_quality(plan: Sequence[str | None], expected_tools: Sequence[str]) -> float:
    """Return the share of expected tools found in the plan, each searched for after the one found before it.

    A tool that is not found exhausts the plan, so that no later tool is found. Steps without a tool are None. This is
    the page's definition; `evaluators.layers` uses the longest common subsequence, which a missing tool does not cut
    short.

    >>> plan_quality(["a", "x", "b"], ["a", "b"]), plan_quality(["b", "c"], ["a", "b", "c"])
    (1.0, 0.0)
    """
    remaining = iter([tool for tool in plan if tool is not None])
    return sum(tool in remaining for tool in expected_tools) / len(expected_tools) if expected_tools else 1.0


def tool_routing_accuracy(calls: Sequence[str], expected_tools: Sequence[str]) -> float:
    """Return the share of expected tools that are called at the same index; further calls are ignored.

    This is the page's definition; `evaluators.layers` pairs calls at any position, and extra calls lower the score.

    >>> tool_routing_accuracy(["a", "b"], ["a", "b"]), tool_routing_accuracy(["x", "a", "b"], ["a", "b"])
    (1.0, 0.0)
    """
    right = sum(call == tool for call, tool in zip(calls, expected_tools, strict=False))
    return right / len(expected_tools) if expected_tools else 1.0


def parameter_correctness(
    arguments: Mapping[str, Any], schema: Mapping[str, Any], reference_args: Mapping[str, Any] | None = None
) -> ParameterGrade:
    """Return the grade of one call's arguments.

    Only required fields that the schema also lists under `properties` are checked, and of the types only "string". An
    absent argument equals a reference argument of null. Without reference arguments, the semantic score is 1. This is
    the page's definition; `evaluators.layers` validates calls by the whole JSON Schema, and parameters by their match
    modes.

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
    matches = sum(arguments.get(name) == value for name, value in (reference_args or {}).items())
    return ParameterGrade(
        schema_valid=not errors,
        schema_errors=tuple(errors),
        semantic_score=matches / len(reference_args) if reference_args else 1.0,
    )


def task_completion(expected_state: Mapping[str, Any], actual_state: Mapping[str, Any]) -> bool:
    """Return whether every expected field has its value in the state; an absent field equals an expected null.

    This is the page's definition, by Python's `==`; in `evaluators.layers`, objects may have more fields at any depth,
    true is not 1, and null is not absent.

    >>> task_completion({"status": "sent"}, {"status": "sent", "id": 4}), task_completion({"error": None}, {})
    (True, True)
    """
    return all(actual_state.get(name) == value for name, value in expected_state.items())


def step_efficiency(actual_steps: float, minimum_steps: float) -> float:
    """Return the minimum divided by the actual steps, 0 without steps; above 1 if the minimum was too high.

    >>> step_efficiency(4, 2), step_efficiency(1, 2), step_efficiency(0, 0)
    (0.5, 2.0, 0.0)
    """
    return step_ratio(actual_steps, minimum_steps) or 0.0


def passat_k(results: Sequence[bool]) -> float:
    """Return the share of runs that pass, 0 without runs; in spite of the name there is no k.

    >>> passat_k([True, False])
    0.5
    """
    return sum(results) / len(results) if results else 0.0


def passcaret_k(results: Sequence[bool]) -> float:
    """Return 1 if all runs pass, also without runs, else 0.

    >>> passcaret_k([]), passcaret_k([True, False])
    (1.0, 0.0)
    """
    return 1.0 if all(results) else 0.0


#: A call with `name` and `arguments`.
Call = Mapping[str, Any]
#: A JSON Schema with `properties` and `required`.
Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolF1:
    """Precision, recall and their harmonic mean, each in [0, 1]."""

    precision: float
    recall: float
    f1: float


def calculate_pass_at_k(results: Sequence[bool], k: int) -> int:
    """Return 1 if any of the first k runs passes, in the order of `results`, else 0.

    This is the page's definition; `otel_agentic.stats` estimates pass@k from all runs.

    Raises:
        UsageError: there are fewer than k runs.

    >>> calculate_pass_at_k([False, True], 2), calculate_pass_at_k([False, True], 1)
    (1, 0)
    """
    return int(any(_first(results, k)))


def calculate_pass_caret_k(results: Sequence[bool], k: int) -> int:
    """Return 1 if all of the first k runs pass, in the order of `results`, else 0.

    This is the page's definition; `otel_agentic.stats` estimates pass^k from all runs.

    Raises:
        UsageError: there are fewer than k runs.

    >>> calculate_pass_caret_k([True, False], 1), calculate_pass_caret_k([True, False], 2)
    (1, 0)
    """
    return int(all(_first(results, k)))


def _first(results: Sequence[bool], k: int) -> Sequence[bool]:
    if len(results) < k:
        raise UsageError(f"k={k} needs at least {k} runs, got {len(results)}")
    return results[:k]


def calculate_tool_f1(expected: Collection[str], actual: Collection[str]) -> ToolF1:
    """Return precision, recall and F1 of tool names as *sets*; precision is 1 if no tool was called.

    `evaluators.layers` counts every call, as multisets, and precision is undefined if no tool was called.

    >>> calculate_tool_f1(["search", "read"], ["search", "search", "read"]).f1
    1.0
    >>> calculate_tool_f1(["search"], [])
    ToolF1(precision=1.0, recall=0.0, f1=0.0)
    """
    required, called = set(expected), set(actual)
    overlap = Overlap(common=len(required & called), actual=len(called), expected=len(required))
    precision, recall = overlap.precision(empty=1.0), overlap.recall(empty=1.0)
    return ToolF1(precision=precision, recall=recall, f1=harmonic_mean(precision, recall))


def conformance_rate(calls: Sequence[Call], schemas: Mapping[str, Schema]) -> float:
    """Return the share of calls with all required arguments and no unknown or mistyped one; 1 without calls.

    Types are compared with JavaScript's `typeof`: "integer" and "array" never fit, an array fits "object". A call of a
    tool without a schema does not conform. This is the page's definition; `evaluators.layers` validates by JSON Schema
    and leaves out calls without a schema.

    Raises:
        BadInputError: a schema lacks a part that the page's function reads.

    >>> schemas = {"search": {"properties": {"q": {"type": "string"}, "n": {"type": "integer"}}, "required": ["q"]}}
    >>> conformance_rate([{"name": "search", "arguments": {"q": "x", "n": 5}}], schemas)
    0.0
    """
    conforming = sum(_conforms(call, schemas[call["name"]]) for call in calls if schemas.get(call["name"]) is not None)
    return conforming / len(calls) if calls else 1.0


def hallucination_rate(calls: Sequence[Call], available_tools: Collection[str], schemas: Mapping[str, Schema]) -> float:
    """Return the share of calls of unknown tools or without a required argument; 0 without calls.

    Wrong types and unknown arguments do not count. This is the page's definition; in `evaluators.layers`, a call with a
    missing argument is invalid but not hallucinated, and a tool that answered exists.

    Raises:
        BadInputError: a tool that exists has no schema, or one without `required`.

    >>> hallucination_rate([{"name": "delete", "arguments": {}}], {"search"}, {})
    1.0
    """
    invented = 0
    for call in calls:
        if call["name"] not in available_tools:
            invented += 1
        elif schemas.get(call["name"]) is None:
            raise BadInputError(f"schemas: none for the available tool {call['name']!r}")
        else:
            invented += not _has_required(call, schemas[call["name"]])
    return invented / len(calls) if calls else 0.0


def _conforms(call: Call, schema: Schema) -> bool:
    complete, arguments = _has_required(call, schema), _arguments(call)
    properties = _part(call, schema, "properties") if arguments else {}
    return complete and all(_fits(properties.get(name), value) for name, value in arguments.items())


def _has_required(call: Call, schema: Schema) -> bool:
    required, arguments = _part(call, schema, "required"), _arguments(call)
    return all(name in arguments for name in required)


def _arguments(call: Call) -> Mapping[str, Any]:
    arguments = call.get("arguments")
    if not isinstance(arguments, Mapping):
        raise BadInputError(f"call of {call['name']!r}: arguments are {arguments!r}; allowed: an object")
    return arguments


def _fits(spec: Any, value: Any) -> bool:
    return isinstance(spec, Mapping) and spec.get("type") == type_of(value)


def _part(call: Call, schema: Schema, name: str) -> Any:
    if schema.get(name) is None:
        raise BadInputError(f"schemas.{call['name']}: no {name!r}; the page's function needs it")
    return schema[name]


def mttr(attempts: Sequence[Mapping[str, Any]]) -> float:
    """Return the mean number of attempts from a first failure to the next success, 0 without a recovery.

    In steps; timestamps are ignored. A failure without a recovery does not count. `evaluators.recovery` reports the
    longest wait of a conversation instead of the mean.

    >>> mttr([{"success": False}, {"success": False}, {"success": True}, {"success": False}])
    2.0
    """
    runs = failure_runs([bool(attempt["success"]) for attempt in attempts])
    waits = [end - start for start, end in runs if end is not None]
    return sum(waits) / len(waits) if waits else 0.0


def cost_per_task(executions: Sequence[Mapping[str, Any]]) -> float:
    """Return the cost of all executions over the number of successful ones, infinite without any.

    This is the page's definition, added one by one; `evaluators.operations` adds without rounding, leaves out
    executions that were not evaluated, and abstains without a success.

    >>> cost_per_task([{"success": True, "tokenCost": 2, "judgeCost": 0.5}, {"success": False, "tokenCost": 1}])
    3.5
    """
    successes = sum(bool(execution["success"]) for execution in executions)
    cost = 0.0
    for execution in executions:
        cost = cost + execution["tokenCost"] + (execution.get("judgeCost") or 0)
    return cost / successes if successes else math.inf


def percentile(values: Sequence[float], p: float) -> float | None:
    """Return the nearest-rank percentile; None without values, or for p above 100.

    This is the page's definition; `evaluators.operations` interpolates between ranks.

    >>> percentile([3, 1, 2], 50), percentile([100, 200, 1000], 95), percentile([], 50)
    (2, 1000, None)
    """
    index = max(0, math.ceil((p / 100) * len(values)) - 1)
    return sorted(values)[index] if index < len(values) else None
