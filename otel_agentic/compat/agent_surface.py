"""The functions printed on the Agent Surface pages, with snake_case names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from otel_agentic.compat.javascript import type_of
from otel_agentic.errors import BadInputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterGrade:
    """Whether arguments fit the schema, their errors, and the share of reference arguments that are present."""

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


#: `name` and `arguments`.
Call = Mapping[str, Any]
#: `properties` and `required`.
Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolF1:
    """Precision, recall and their harmonic mean, each in [0, 1]."""

    precision: float
    recall: float
    f1: float


def calculate_pass_at_k(results: Sequence[bool], k: int) -> int:
    """Return 1 where any of the first k runs passes, else 0: the first k, in the order given.

    Raises:
        UsageError: there are fewer than k runs.

    >>> calculate_pass_at_k([False, True], 2), calculate_pass_at_k([False, True], 1)
    (1, 0)
    """
    return int(any(_first(results, k)))


def calculate_pass_caret_k(results: Sequence[bool], k: int) -> int:
    """Return 1 where all of the first k runs pass, else 0: the first k, in the order given.

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
    """Return precision, recall and F1 of tool names as *sets*; precision is 1 where nothing was called.

    >>> calculate_tool_f1(["search", "read"], ["search", "search", "read"]).f1
    1.0
    >>> calculate_tool_f1(["search"], [])
    ToolF1(precision=1.0, recall=0.0, f1=0.0)
    """
    required, called = set(expected), set(actual)
    common = len(required & called)
    precision = common / len(called) if called else 1.0
    recall = common / len(required) if required else 1.0
    both = precision + recall
    return ToolF1(precision=precision, recall=recall, f1=2 * (precision * recall) / both if both else 0.0)


def conformance_rate(calls: Sequence[Call], schemas: Mapping[str, Schema]) -> float:
    """Return the share of calls with all required arguments and no unknown or mistyped one; 1 without calls.

    Types are compared with JavaScript's `typeof`: "integer" and "array" never fit, an array fits "object". A call of a
    tool without a schema does not conform.

    Raises:
        BadInputError: a schema lacks a part that the page's function reads.

    >>> schemas = {"search": {"properties": {"q": {"type": "string"}, "n": {"type": "integer"}}, "required": ["q"]}}
    >>> conformance_rate([{"name": "search", "arguments": {"q": "x", "n": 5}}], schemas)
    0.0
    """
    conforming = sum(_conforms(call, schemas[call["name"]]) for call in calls if schemas.get(call["name"]) is not None)
    return conforming / len(calls) if calls else 1.0


def hallucination_rate(calls: Sequence[Call], available_tools: Collection[str], schemas: Mapping[str, Schema]) -> float:
    """Return the share of calls of a tool that does not exist or without a required argument; 0 without calls.

    Wrong types and unknown arguments do not count.

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

    In steps; timestamps are ignored. A failure without a recovery does not count.

    >>> mttr([{"success": False}, {"success": False}, {"success": True}, {"success": False}])
    2.0
    """
    waits: list[int] = []
    failed_at: int | None = None
    for index, attempt in enumerate(attempts):
        if not attempt["success"]:
            failed_at = index if failed_at is None else failed_at
        elif failed_at is not None:
            waits.append(index - failed_at)
            failed_at = None
    return sum(waits) / len(waits) if waits else 0.0


def cost_per_task(executions: Sequence[Mapping[str, Any]]) -> float:
    """Return the cost of all executions over the number of successful ones, infinite without any.

    >>> cost_per_task([{"success": True, "tokenCost": 2, "judgeCost": 0.5}, {"success": False, "tokenCost": 1}])
    3.5
    """
    successes = sum(bool(execution["success"]) for execution in executions)
    cost = 0.0
    for item in executions:
        cost = cost + item["tokenCost"] + (item.get("judgeCost") or 0)
    return cost / successes if successes else math.inf


def percentile(values: Sequence[float], p: float) -> float | None:
    """Return the nearest-rank percentile; None without values, or for p above 100.

    >>> percentile([3, 1, 2], 50), percentile([100, 200, 1000], 95), percentile([], 50)
    (2, 1000, None)
    """
    index = max(0, math.ceil((p / 100) * len(values)) - 1)
    return sorted(values)[index] if index < len(values) else None
