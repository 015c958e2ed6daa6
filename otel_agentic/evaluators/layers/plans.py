"""The plan that an agent wrote down, the one that its case expects, and what was executed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.layers.plan_text import (
    DONE,
    DROPPED,
    MAX_DEPTH,
    STATE_KEYS,
    STEP_LISTS,
    ToolNames,
    is_in,
    json_in,
    tools_named,
)
from otel_agentic.evaluators.layers.scopes import ExpectedCalls
from otel_agentic.scoring.results import json_text, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_agentic.conversations.model import ToolCall, Turn
    from otel_agentic.evaluators.base import Subject
    from otel_agentic.evaluators.layers.scopes import SortedScope
    from otel_agentic.evaluators.needs import Missing

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
#: Words in the name of a tool that writes a plan down; of one that is given something and makes a plan of it.
_PLANNING: Final = frozenset({"plan", "plans", "planner", "planning", "todo", "todos"})
_MAKING: Final = frozenset({"plan", "planner", "planning", "make", "create", "generate", "draft"})
#: Characters of all plans of a conversation that are read.
_READ: Final = 200_000
#: A text of fewer words on a single line is the name of a plan.
_FEWEST_WORDS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPlan:
    """The plan of a conversation: the tools that it names, in order, and its parts as the agent wrote them, a turn each."""

    tools: tuple[str, ...]
    parts: tuple[tuple[int, Any], ...]


def written_plan(subject: Subject, expected: Sequence[str] = ()) -> WrittenPlan | None:
    """Return the plan that the agent wrote down, None where it wrote none.

    It is in the spans of the plan (`Turn.plans`), and in calls that are shaped like one, see `plan_in`. Of a turn the plan in
    force at its end counts: a later plan takes the place of an earlier one, unless it only leaves out steps of it, as a list
    of what is left to do does; a step that it cancels is planned no more. The plans of several turns follow each other; a
    step that a later one takes up again before it was done, or says to be done, is the same step.

    Args:
        subject: the conversation.
        expected: names of tools that may stand in a plan, beside those that are defined or were called.
    """
    written = list(_written(subject.conversation.turns))
    if not written:
        return None
    names = _known(subject, expected)
    tools: list[str] = []
    parts: list[tuple[int, Any]] = []
    for turn, plans in written:
        force, held = _in_force(plans, names)
        parts.append((turn.index, held))
        done = Counter(tools_named(_steps_in_state(plans[0], DONE), names)) & Counter(tools)
        force = _less(force, done)
        open_steps = Counter(tools) - Counter(_called_before(subject, turn))
        tools = [*reversed(_less(tools[::-1], open_steps & Counter(force))), *force]
    return WrittenPlan(tools=tuple(tools), parts=tuple(parts))


def _in_force(plans: Sequence[Any], names: ToolNames) -> tuple[list[str], Any]:
    """Return the tools of the plan in force after some plans of one turn, and that plan."""
    force: list[str] = []
    held: Any = None
    for plan in plans:
        named = tools_named(plan, names)
        if held is None or (named and not _is_rest(named, force)):
            force, held = list(named), plan
        else:
            force = _less(force, Counter(tools_named(_steps_in_state(plan, DROPPED), names)))
    return force, held


def _steps_in_state(plan: Any, states: frozenset[str], depth: int = MAX_DEPTH) -> list[Any]:
    """Return the steps of a plan that say to be in one of some states, as a plan of their own.

    >>> _steps_in_state('[{"tool": "search", "status": "completed"}, {"tool": "book"}]', DONE)
    [{'tool': 'search'}]
    """
    held = json_in(plan) if isinstance(plan, str) else plan
    if depth <= 0:
        return []
    if isinstance(held, (list, tuple)):
        return [step for one in held for step in _steps_in_state(one, states, depth - 1)]
    if not isinstance(held, Mapping):
        return []
    if is_in(held, states):
        return [{key: value for key, value in held.items() if key not in STATE_KEYS}]
    return [step for key in STEP_LISTS for step in _steps_in_state(held.get(key), states, depth - 1)]


def _less(tools: Sequence[str], without: Counter[str]) -> list[str]:
    """Return tools without some of them, the first ones of each name."""
    left, kept = Counter(without), []
    for name in tools:
        if left[name] > 0:
            left[name] -= 1
        else:
            kept.append(name)
    return kept


def _called_before(subject: Subject, turn: Turn) -> Iterator[str]:
    for other in subject.conversation.turns:
        if other.index < turn.index:
            yield from (call.name for call in other.calls)


def expected_plan(subject: Subject, found: ExpectedCalls | Missing) -> list[tuple[str, ...]]:
    """Return the tools of the plan that is expected, in order; those of one group may come in any order.

    They are those of the case's `plan`, else the required calls: in the order of their steps where the expectation has an
    order, in any order where it has none (or where calls of turns and of the conversation stand side by side).
    """
    case = subject.case
    if case is not None and case.plan is not None:
        names = _known(subject, [item for item in case.plan if " " not in item])
        return [
            (tool,) for item in case.plan for tool in ([item] if item in names.exact else names.within(item) or [item])
        ]
    if not isinstance(found, ExpectedCalls):
        return []
    groups = [group for scope in found.scopes for group in _groups(scope)]
    mixed = len({scope.is_whole for scope in found.scopes}) > 1
    return [tuple(name for group in groups for name in group)] if mixed and groups else groups


def executed(subject: Subject) -> list[tuple[str, ...]]:
    """Return the names of all calls, also of those that failed; calls of one step stand together."""
    steps: dict[tuple[int, int], list[str]] = {}
    for turn in subject.conversation.turns:
        for call in sorted(turn.calls, key=lambda call: (call.step, call.position)):
            steps.setdefault((turn.index, call.step), []).append(call.name)
    return [tuple(names) for names in steps.values()]


def plan_in(call: ToolCall) -> Any | None:
    """Return the plan that a call writes down, None where it writes none.

    A call does when a word of its tool's name is plan, planner, planning or todo (`write_todos`, `update_plan`, `TodoWrite`),
    and its arguments hold steps under `plan`, `steps`, `todos`, `tasks` or the like: a list, an object, or a text of several
    lines or at least eight words (`cancel_plan(plan="Premium")` is about another kind of plan). So does one whose name says
    that it makes a plan (`planner`, `make_plan`, `create_travel_plan`), and whose result is a list, holds steps, or is such
    a text. Whether steps name any tools is another question.
    """
    name = [word.lower() for word in _WORD.findall(call.name)]
    if call.error is not None or not _PLANNING.intersection(name):
        return None
    held = _steps_in(call.arguments)
    if held is None and _MAKING.intersection((name[0], name[-1] if name[-1] != "plan" else "")):
        made = read(call.result)
        held = (
            made
            if isinstance(made, list) and made
            else _steps_in(made if isinstance(made, Mapping) else {"plan": made})
        )
    return held


def _steps_in(holder: Any) -> Any | None:
    if not isinstance(holder, Mapping):
        return None
    return next((held for key in STEP_LISTS if _is_steps(held := holder.get(key))), None)


def _is_steps(held: Any) -> bool:
    if isinstance(held, str):
        return "\n" in held.strip() or len(held.split()) >= _FEWEST_WORDS
    return isinstance(held, (list, Mapping)) and bool(held)


def _written(turns: Sequence[Turn]) -> Iterator[tuple[Turn, list[Any]]]:
    """Yield each turn with plans, and the plans of it that are read."""
    left = _READ
    for turn in turns:
        plans: list[Any] = []
        for plan in _plans(turn):
            if left <= 0:
                break
            left -= len(plan) if isinstance(plan, str) else len(json_text(plan))
            plans.append(plan)
        if plans:
            yield turn, plans


def _plans(turn: Turn) -> Iterator[Any]:
    yield from turn.plans
    for call in sorted(turn.calls, key=lambda call: (call.step, call.position)):
        plan = plan_in(call)
        if plan is not None:
            yield plan


def _known(subject: Subject, expected: Sequence[str]) -> ToolNames:
    conversation = subject.conversation
    calls = [call for turn in conversation.turns for call in turn.calls]
    planning = {call.name for call in calls if plan_in(call) is not None}
    called = {call.name for call in calls} | set(conversation.tool_definitions or ())
    return ToolNames((called - planning) | set(expected))


def _is_rest(named: Sequence[str], before: Sequence[str]) -> bool:
    """Return whether a plan only leaves out steps of the one before."""
    steps = iter(before)
    return all(name in steps for name in named)


def _groups(scope: SortedScope) -> Iterator[tuple[str, ...]]:
    expectation = scope.calls.expectation
    required = [call for call in expectation.calls if call.required]
    if expectation.order == "any":
        yield from [tuple(call.name for call in required)] if required else []
        return
    for group in sorted({call.group for call in required}):
        yield tuple(call.name for call in required if call.group == group)
