"""tau-bench tasks: the goal of the simulated user, the actions that reach the expected end state, and required outputs.

The reward compares the end state of a database, so only actions that write are required; reading is always allowed. Both are
distinguished by the name of the tool. Tasks of tau2-bench are read as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

from pydantic import Field

from otel_agentic.truth.formats.base import Format, Reading
from otel_agentic.truth.formats.foreign import (
    Call,
    Id,
    Listed,
    Record,
    calls_of_conversation,
    literal_arguments,
)
from otel_agentic.truth.model import Name  # noqa: TC001 — pydantic reads it at run time

if TYPE_CHECKING:
    from otel_agentic.truth.formats.located import Item
    from otel_agentic.truth.model import Case

#: Tools that read, by name; all others write.
READS: Final = ("get_*", "find_*", "list_*", "search_*", "calculate", "think", "transfer_to_human_agents")
#: An action that is a message to the user, not a tool call.
_RESPOND: Final = "respond"
#: Instructions for the user of tau2-bench, in narrative order.
_STORY: Final = ("reason_for_call", "known_info", "unknown_info", "task_instructions")


class _Action(Call):
    """An action; in tau2-bench it may name the arguments to compare, so that others are ignored."""

    compare_args: list[Name] | None = None

    def as_expected(self) -> dict[str, Any]:
        """Return the action as an expected call."""
        compared = {key: value for key, value in self.args.items() if key in (self.compare_args or ())}
        return {
            "tool_name": self.name,
            "parameters": self.args if self.compare_args is None else compared,
            "required": not is_read(self.name),
            **({} if self.compare_args is None else {"ignore_extra_parameters": True}),
        }


class _Task(Record):
    """A task; `id` and `dataset` are extensions that tau-bench ignores."""

    instruction: str
    actions: Annotated[list[_Action], Listed]
    outputs: Annotated[list[Name | int | float], Listed] = Field(default_factory=list)
    user_id: str | None = None
    id: Id | None = None
    dataset: Name | None = None
    no_place: ClassVar[frozenset[str]] = frozenset({"user_id"})
    ignored: ClassVar[frozenset[str]] = frozenset({"annotator"})


class _Criteria(Record):
    """The reward criteria of a tau2-bench task."""

    actions: Annotated[list[_Action], Listed] = Field(default_factory=list)
    communicate_info: Annotated[list[Name | int | float], Listed] = Field(default_factory=list)
    ignored: ClassVar[frozenset[str]] = frozenset({"reward_basis"})


class _Scenario(Record):
    """The goal of the simulated user of tau2-bench: a text, or narrative fields."""

    instructions: str | dict[str, Any] | None = None

    @property
    def story(self) -> str:
        """The instructions as one text."""
        if not isinstance(self.instructions, dict):
            return self.instructions or ""
        texts = [self.instructions.get(name) for name in _STORY]
        return "\n\n".join(text.strip() for text in texts if isinstance(text, str) and text.strip())


class _Task2(Record):
    """A task of tau2-bench."""

    id: Id
    user_scenario: _Scenario | None = None
    evaluation_criteria: _Criteria | None = None
    ignored: ClassVar[frozenset[str]] = frozenset({"annotations", "description"})


class TauBench(Format):
    """tau-bench tasks, as one JSON list."""

    name = "tau-bench"

    def fits(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record is a task of either benchmark."""
        return ("instruction" in record and "actions" in record) or "evaluation_criteria" in record

    def reading(self, item: Item, number: int) -> Reading:
        """Return a task as a case; without an id, the case id is the 0-based index."""
        if "evaluation_criteria" in item.value:
            return _read_tau2_task(item.value)
        task = _Task.of(item.value)
        fields = _fields(task.id or str(number), task.instruction, task.actions, task.outputs)
        if task.dataset:
            fields["dataset"] = task.dataset
        return Reading(fields=fields, left_out=tuple(task.left_out()))

    def document(self, cases: Sequence[Case]) -> str:
        """Return the cases as a JSON list of tasks."""
        return json.dumps([_task(case) for case in cases], indent=2, ensure_ascii=False) + "\n"


def is_read(tool_name: str) -> bool:
    """Return whether a tool only reads, according to its name.

    >>> is_read("get_user_details"), is_read("cancel_reservation")
    (True, False)
    """
    return any(fnmatchcase(tool_name, pattern) for pattern in READS)


def _read_tau2_task(value: Mapping[str, Any]) -> Reading:
    criteria = value["evaluation_criteria"]
    if isinstance(criteria, dict) and isinstance(criteria.get("actions"), list):
        # The simulated user's own tool calls are not calls of the agent.
        actions = [
            action
            for action in criteria["actions"]
            if not (isinstance(action, dict) and action.get("requestor") == "user")
        ]
        value = {**value, "evaluation_criteria": {**criteria, "actions": actions}}
    task = _Task2.of(value)
    reward = task.evaluation_criteria or _Criteria()
    story = task.user_scenario.story if task.user_scenario is not None else ""
    fields = _fields(task.id, story, reward.actions, reward.communicate_info)
    return Reading(fields=fields, left_out=tuple(task.left_out()))


def _fields(case_id: str, goal: str, actions: Iterable[_Action], outputs: Sequence[str | float]) -> dict[str, Any]:
    calls = [action.as_expected() for action in actions if action.name != _RESPOND]
    return {
        "case_id": case_id,
        **({"goal": goal} if goal else {}),
        "tools": {"calls": calls, "extra_calls": {"read": "allow", "write": "forbid"}},
        "outputs": list(outputs),
        "effects": dict.fromkeys(READS, "read"),
    }


def _task(case: Case) -> dict[str, Any]:
    calls = calls_of_conversation(case) or ()
    return {
        "id": case.case_id,
        "dataset": case.dataset,
        "user_id": "",
        "instruction": case.goal or "",
        "actions": [
            {"name": call.tool_name, "kwargs": literal_arguments(call)}
            for call in calls
            if call.required or is_read(call.tool_name)
        ],
        "outputs": [str(output) for output in case.outputs],
    }
