"""Outcome-style evaluation cases: a task, and an expected outcome of called tools and fields of the end state.

Cases are graded by the outcome, not by the path: an expected tool without arguments accepts any arguments, calls may
come in any order, and other calls are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AliasChoices, Discriminator, Field, Tag, model_validator

from otel_agentic.truth.formats.base import Format, Reading
from otel_agentic.truth.formats.foreign import (
    NOTHING,
    Arguments,
    Id,
    Listed,
    Record,
    TextOrNumber,
    calls_of_conversation,
    first_of,
    literal_arguments,
)
from otel_agentic.truth.model import Name  # noqa: TC001 — pydantic reads it at run time

if TYPE_CHECKING:
    from otel_agentic.truth.formats.located import Item
    from otel_agentic.truth.model import Case, ExpectedCall

#: Names of the field with the task, in the case or in one of its inputs.
_TASKS: Final = ("query", "input", "task", "question", "prompt", "message", "user_input")
_INPUTS: Final = ("inputs", "input")


class _Called(Record):
    """A tool that should be called; if `arguments` is missing, any are accepted."""

    name: Name
    arguments: Arguments | None = None

    @model_validator(mode="before")
    @classmethod
    def _one_form(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"name": value}
        if not isinstance(value, dict):
            return value
        aliases = ("name", "tool_name", "tool", "arguments", "args", "parameters")
        name, arguments = first_of(value, *aliases[:3]), first_of(value, *aliases[3:])
        return {
            **{key: field for key, field in value.items() if key not in aliases},
            **({} if name is None else {"name": name}),
            **({} if arguments is None else {"arguments": arguments}),
        }


class _Expected(Record):
    """The outcome; undeclared fields are fields of the end state."""

    tools_called: list[_Called] | None = None
    tools_not_called: Annotated[list[Name], Listed] = Field(default_factory=list)
    answer: (
        Annotated[
            Annotated[TextOrNumber, Tag("[text]")] | Annotated[list[TextOrNumber], Tag("[list]")],
            Discriminator(lambda value: "[list]" if isinstance(value, list) else "[text]"),
        ]
        | None
    ) = Field(default=None, validation_alias=AliasChoices("answer", "response", "final_answer", "final_response"))
    outputs: Annotated[list[Name | int | float], Listed] = Field(default_factory=list)
    final_state: dict[str, Any] | None = Field(
        default=None, validation_alias=AliasChoices("final_state", "state", "expected_state")
    )
    goal: str | None = None

    @property
    def state(self) -> dict[str, Any] | None:
        """The expected end state, or None if the outcome has no state."""
        extra_fields = self.model_extra or {}
        return {**(self.final_state or {}), **extra_fields} if extra_fields or self.final_state is not None else None


def _form(value: Any) -> str:
    return "[text]" if isinstance(value, str) else "[object]"


class _Outcome(Record):
    """A case."""

    expected_outcome: Annotated[
        Annotated[str, Tag("[text]")] | Annotated[_Expected, Tag("[object]")], Discriminator(_form)
    ]
    id: Id | None = Field(default=None, validation_alias=AliasChoices("id", "case_id", "name"))
    description: str | None = None
    tags: Annotated[list[Name], Listed] = Field(default_factory=list)
    agent: Name | None = None
    minimum_steps: Annotated[int, Field(ge=1)] | None = None
    dataset: Name | None = None

    def task(self) -> str | None:
        """Return the task of the agent."""
        return next((text for _, text in self._tasks()), None)

    def _tasks(self) -> Iterator[tuple[str, str]]:
        """Yield the name and text of each field that contains a task; the first one is used."""
        extra_fields = self.model_extra or {}
        for name in _TASKS:
            if isinstance(extra_fields.get(name), str):
                yield name, extra_fields[name]
        for input_name in _INPUTS:
            input_value = extra_fields.get(input_name)
            if isinstance(input_value, str):
                yield input_name, input_value
            elif isinstance(input_value, dict):
                yield from (
                    (f"{input_name}.{name}", input_value[name])
                    for name in _TASKS
                    if isinstance(input_value.get(name), str)
                )

    def metadata(self) -> dict[str, Any]:
        """Return the fields that are no expectations, such as preconditions, grader and source, without the task."""
        task = next(self._tasks(), ("", ""))[0]
        fields: dict[str, Any] = {}
        for name, value in (self.model_extra or {}).items():
            is_inputs = name in _INPUTS and isinstance(value, dict)
            remaining = {key: inner for key, inner in value.items() if f"{name}.{key}" != task} if is_inputs else value
            if name != task and remaining not in NOTHING:
                fields[name] = remaining
        return fields

    def left_out(self, path: str = "") -> Iterator[str]:
        """Yield the fields of expected calls that cases do not have."""
        for called in getattr(self.expected_outcome, "tools_called", None) or ():
            yield from called.left_out(f"{path}expected_outcome.tools_called.")


class Outcome(Format):
    """Outcome-style evaluation cases, as one JSON list."""

    name = "outcome"

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record has an expected outcome."""
        return "expected_outcome" in record

    def reading(self, item: Item, number: int) -> Reading:
        """Return a case."""
        outcome_case = _Outcome.of(item.value)
        expected = outcome_case.expected_outcome
        outcome = _Expected(goal=expected) if isinstance(expected, str) else expected
        turn = {name: text for name, text in (("query", outcome_case.task()), ("answer", outcome.answer)) if text}
        fields = {
            "case_id": outcome_case.id or f"case-{number + 1}",
            "dataset": outcome_case.dataset,
            "notes": outcome_case.description,
            "tags": outcome_case.tags,
            "agent": outcome_case.agent,
            "minimum_steps": outcome_case.minimum_steps,
            "goal": outcome.goal,
            "turns": [turn] if turn else [],
            "outputs": outcome.outputs,
            "expected_state": outcome.state,
            "tools": _tools(outcome),
            "metadata": outcome_case.metadata(),
        }
        present = {name: value for name, value in fields.items() if value is not None}
        return Reading(fields=present, left_out=tuple(outcome_case.left_out()))

    def document(self, cases: Sequence[Case]) -> str:
        """Return the cases as a JSON list."""
        return json.dumps([_outcome(case) for case in cases], indent=2, ensure_ascii=False) + "\n"


def _tools(outcome: _Expected) -> dict[str, Any] | None:
    if outcome.tools_called is None and not outcome.tools_not_called:
        return None
    calls = [
        {"tool_name": called.name, "ignore_extra_parameters": True}
        if called.arguments is None
        else {"tool_name": called.name, "parameters": called.arguments}
        for called in outcome.tools_called or ()
    ]
    return {"calls": calls, "extra_calls": "allow", "forbidden": outcome.tools_not_called}


def _outcome(case: Case) -> dict[str, Any]:
    turn = case.turns[0] if case.turns else None
    calls = calls_of_conversation(case)
    expected = {
        "tools_called": None if calls is None else [_called(call) for call in calls if call.required],
        "tools_not_called": list(case.tools.forbidden) if case.tools is not None and case.tools.forbidden else None,
        "answer": turn.answer if turn is not None and len(case.turns) == 1 else None,
        "outputs": list(case.outputs) or None,
        "final_state": case.expected_state,
        "goal": case.goal,
    }
    fields = {
        "id": case.case_id,
        "dataset": case.dataset,
        "description": case.notes,
        "tags": list(case.tags) or None,
        "agent": case.agent,
        "minimum_steps": case.minimum_steps,
        **_inputs(case, turn.query if turn is not None else None),
    }
    present = {name: value for name, value in fields.items() if value is not None}
    return {
        **case.metadata,
        **present,
        "expected_outcome": {name: value for name, value in expected.items() if value is not None},
    }


def _inputs(case: Case, task: str | None) -> dict[str, Any]:
    """Return the fields with the task, which are read before any other text of the metadata that looks like a task."""
    if task is None:
        return {}
    inputs = case.metadata.get("inputs", {})
    if not isinstance(inputs, dict) or not case.metadata.keys().isdisjoint(_TASKS):
        return {_TASKS[0]: task}
    name = "task" if inputs.keys().isdisjoint(_TASKS) else _TASKS[0]
    return {"inputs": {**inputs, name: task}}


def _called(call: ExpectedCall) -> str | dict[str, Any]:
    if call.ignore_extra_parameters and not call.parameters:
        return call.tool_name
    return {"name": call.tool_name, "arguments": literal_arguments(call)}
