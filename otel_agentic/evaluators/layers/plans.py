"""The reasoning layer: plans of agents, structured or as text, compared with the expected plan and the calls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from otel_agentic.conversations.tree import is_answer_tool
from otel_agentic.evaluators.base import (
    BuiltInEvaluator,
    MetricScore,
    Missing,
    Subject,
    calls_in_order,
    expectations_of,
    first_missing,
    is_subsequence,
    listed,
    none_of,
    none_of_all,
)
from otel_agentic.evaluators.layers.calls import ExpectedCalls, SortedScope, expected_calls
from otel_agentic.evaluators.layers.plan_texts import (
    DONE,
    DROPPED,
    MAX_DEPTH,
    STATE_KEYS,
    STEP_LISTS,
    ToolNames,
    is_in,
    is_steps,
    json_in,
    stated_plan,
    tools_named,
)
from otel_agentic.scoring.scope import by_identity
from otel_agentic.scoring.state import CAPTURE
from otel_agentic.scoring.values import json_text, read

if TYPE_CHECKING:
    from otel_agentic.conversations.model import ToolCall, Turn

#: Maximum number of names of a sequence that are compared: the time grows with their square.
MAX_LENGTH: Final = 200


def in_order(names: Sequence[str], groups: Sequence[Sequence[str]]) -> int:
    """Return the length of the longest common subsequence of names and a sequence of groups of names.

    The names of a group may occur in any order. With groups of one name each, the result is the plain longest common
    subsequence; with a single group, it is the size of the intersection as multisets. Only the first `MAX_LENGTH`
    names, and names of groups, are compared.

    Ref: R. Wagner, M. Fischer (1974), The string-to-string correction problem.

    >>> in_order(["a", "c", "b"], [["a"], ["b"], ["c"]]), in_order(["a", "c", "b"], [["a"], ["b", "c"]])
    (2, 3)
    >>> in_order([], [["a"]]), in_order(["a", "a"], [["a"]])
    (0, 1)
    """
    names, remaining = names[:MAX_LENGTH], MAX_LENGTH
    best = [0] * (len(names) + 1)  # best[p]: the length for the groups so far and the first p names
    for group in groups:
        matched = group[:remaining]
        remaining -= len(matched)
        best = _with_one(names, matched[0], best) if len(matched) == 1 else _with_several(names, matched, best)
    return best[-1]


def common(names: Sequence[str], others: Sequence[str]) -> int:
    """Return how many names two sequences have in common, as multisets.

    >>> common(["a", "a", "b"], ["a", "b", "b"])
    2
    """
    return (Counter(names) & Counter(others)).total()


def _with_one(names: Sequence[str], expected: str, previous: Sequence[int]) -> list[int]:
    best = [previous[0]]
    for index, name in enumerate(names):
        best.append(max(previous[index + 1], best[index], previous[index] + (name == expected)))
    return best


def _with_several(names: Sequence[str], expected: Sequence[str], previous: Sequence[int]) -> list[int]:
    best = list(previous)
    for start, length in enumerate(previous):
        remaining, size = Counter(expected), 0
        for index in range(start, len(names)):
            if remaining[names[index]] > 0:
                remaining[names[index]] -= 1
                size += 1
                best[index + 1] = max(best[index + 1], length + size)
                if size == len(expected):
                    break
    return list(accumulate(best, max))


_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
#: Words in the names of tools that record a plan, and of tools whose result is a plan.
_PLANNING: Final = frozenset({"plan", "plans", "planner", "planning", "todo", "todos"})
_MAKING: Final = frozenset({"plan", "planner", "planning", "make", "create", "generate", "draft"})
#: Words in the names of tools that record a thought, and the arguments with its text.
_THINKING: Final = ("think", "thinking")
_THOUGHT_KEYS: Final = ("thought", "thoughts", "reasoning", "reflection")
#: Number of cached tool names, and of conversations whose plans are cached: two evaluators read them one after the other.
_CACHED_NAMES: Final = 1024
_CACHED_SUBJECTS: Final = 4
#: Characters of all plans of a conversation that are read.
_READ: Final = 200_000


#: Each turn with plans, and its plans.
PlansByTurn: TypeAlias = "Sequence[tuple[Turn, Sequence[Any]]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPlan:
    """The plan of a conversation: the tools that it names, in order, and its parts as written, by turn index."""

    tools: tuple[str, ...]
    parts: tuple[tuple[int, Any], ...]


def written_plan(subject: Subject, plans_by_turn: PlansByTurn, expected: Sequence[str] = ()) -> WrittenPlan:
    """Return the plan that the agent recorded.

    Plans come from plan spans (`Turn.plans`), from texts of the model with the form of a plan (see `stated_plan`), and from
    calls that record a plan (see `plan_in`). Within a turn, a later
    plan replaces an earlier one, unless it only omits steps of it, as a list of remaining steps does; steps that it
    cancels are no longer planned. The plans of several turns are concatenated; a step that a later plan resumes before
    it was done, or declares done, counts once.

    Args:
        subject: the conversation.
        plans_by_turn: its plans, from `plans_of`; at least one.
        expected: names of tools that may occur in a plan, in addition to defined and called tools.
    """
    names = _tool_names(subject, expected)
    tools: list[str] = []
    parts: list[tuple[int, Any]] = []
    for turn, plans in plans_by_turn:
        turn_tools, turn_plan = _current_plan(plans, names)
        parts.append((turn.index, turn_plan))
        done = Counter(tools_named(_steps_in_state(plans[0], DONE), names)) & Counter(tools)
        turn_tools = _without(turn_tools, done)
        open_steps = Counter(tools) - Counter(_called_before(subject, turn))
        tools = [*reversed(_without(tools[::-1], open_steps & Counter(turn_tools))), *turn_tools]
    # A tool that gives the answer is no call.
    called = {call.name for turn in subject.conversation.turns for call in turn.calls}
    tools = [name for name in tools if name in called or not is_answer_tool(name)]
    return WrittenPlan(tools=tuple(tools), parts=tuple(parts))


def _current_plan(plans: Sequence[Any], names: ToolNames) -> tuple[list[str], Any]:
    """Return the tools of the current plan after all plans of one turn, and that plan."""
    tools: list[str] = []
    current_plan: Any = None
    for plan in plans:
        plan_tools = tools_named(plan, names)
        # A plan that only leaves out steps of the one before does not replace it.
        if current_plan is None or (plan_tools and not is_subsequence(plan_tools, tools)):
            tools, current_plan = list(plan_tools), plan
        else:
            tools = _without(tools, Counter(tools_named(_steps_in_state(plan, DROPPED), names)))
    return tools, current_plan


def _steps_in_state(plan: Any, states: frozenset[str], depth: int = MAX_DEPTH) -> list[Any]:
    """Return the steps of a plan that declare one of some states, as a plan of their own.

    >>> _steps_in_state('[{"tool": "search", "status": "completed"}, {"tool": "book"}]', DONE)
    [{'tool': 'search'}]
    """
    content = json_in(plan) if isinstance(plan, str) else plan
    if depth <= 0:
        return []
    if isinstance(content, (list, tuple)):
        return [step for element in content for step in _steps_in_state(element, states, depth - 1)]
    if not isinstance(content, Mapping):
        return []
    if is_in(content, states):
        return [{key: value for key, value in content.items() if key not in STATE_KEYS}]
    return [step for key in STEP_LISTS for step in _steps_in_state(content.get(key), states, depth - 1)]


def _without(tools: Sequence[str], without: Counter[str]) -> list[str]:
    """Return tools without as many of the first ones of each name as `without` counts."""
    to_remove, remaining = Counter(without), []
    for name in tools:
        if to_remove[name] > 0:
            to_remove[name] -= 1
        else:
            remaining.append(name)
    return remaining


def _called_before(subject: Subject, turn: Turn) -> Iterator[str]:
    for other in subject.conversation.turns:
        if other.index < turn.index:
            yield from (call.name for call in other.calls)


def expected_plan(subject: Subject, expected: ExpectedCalls | Missing) -> list[tuple[str, ...]]:
    """Return the tools of the expected plan as groups in order; those of one group may occur in any order.

    They come from the case's `plan`, or else from its required calls: in the order of their steps if the expectation
    has an order, in any order if it has no order, or if both turns and the conversation expect calls.
    """
    case = subject.case
    if case is not None and case.plan is not None:
        names = _tool_names(subject, [step for step in case.plan if " " not in step])
        return [
            (tool,) for step in case.plan for tool in ([step] if step in names.exact else names.within(step) or [step])
        ]
    if not isinstance(expected, ExpectedCalls):
        return []
    groups = [group for scope in expected.scopes for group in _groups(scope)]
    mixed = len({scope.is_whole for scope in expected.scopes}) > 1
    return [tuple(name for group in groups for name in group)] if mixed and groups else groups


def executed(subject: Subject) -> list[tuple[str, ...]]:
    """Return the names of all calls, including failed ones, grouped by step."""
    steps: dict[tuple[int, int], list[str]] = {}
    for turn in subject.conversation.turns:
        for call in calls_in_order(turn):
            steps.setdefault((turn.index, call.step), []).append(call.name)
    return [tuple(names) for names in steps.values()]


def plan_in(call: ToolCall) -> Any | None:
    """Return the plan that a call records, or None.

    A call records a plan if a word of its tool's name is plan, planner, planning or todo (`write_todos`, `update_plan`,
    `TodoWrite`), and its arguments contain steps under `plan`, `steps`, `todos`, `tasks` or a similar key: a list, an
    object, or a text of several lines or at least eight words (`cancel_plan(plan="Premium")` is about another kind of
    plan). A call also records a plan if its tool's name means making a plan (`planner`, `make_plan`,
    `create_travel_plan`), and its result is a list, contains steps, or is such a text. The steps need not name any
    tools.
    """
    words = _words_of(call.name)
    if call.error is not None or not _PLANNING.intersection(words):
        return None
    steps = _steps_in(call.arguments)
    if steps is None and _MAKING.intersection((words[0], words[-1] if words[-1] != "plan" else "")):
        result = read(call.result)
        steps = (
            result
            if isinstance(result, list) and result
            else _steps_in(result if isinstance(result, Mapping) else {"plan": result})
        )
    return steps


def thought_in(call: ToolCall) -> str | None:
    """Return the reasoning that a call of a thinking tool (`think`, `sequentialthinking`) records, or None."""
    words = _words_of(call.name)
    if not words or not (words[0] in _THINKING or words[-1].endswith(_THINKING)):
        return None
    arguments = call.arguments or {}
    return next((text for key in _THOUGHT_KEYS if isinstance(text := arguments.get(key), str) and text.strip()), None)


@lru_cache(maxsize=_CACHED_NAMES)
def _words_of(name: str) -> tuple[str, ...]:
    """Return the words of a tool's name, in lower case."""
    return tuple(word.lower() for word in _WORD.findall(name))


def texts_of(turn: Turn) -> list[str]:
    """Return the texts of a turn in which the agent may state a plan: reasoning, text next to calls, recorded thoughts."""
    return [*turn.reasoning, *filter(None, map(thought_in, calls_in_order(turn)))]


def planning_tools(subject: Subject) -> frozenset[str]:
    """Return the tools of a conversation whose calls only record a plan or a thought; not those that the case requires."""
    calls = [call for turn in subject.conversation.turns for call in turn.calls]
    names = {call.name for call in calls if plan_in(call) is not None or thought_in(call) is not None}
    if subject.case is None:
        return frozenset(names)
    options = (option for tools in expectations_of(subject.case) for option in (tools, *tools.alternatives))
    required = {call.tool_name for option in options for call in option.calls if call.required}
    return frozenset(names - required - set(subject.case.plan or ()))


def _steps_in(record: Any) -> Any | None:
    if not isinstance(record, Mapping):
        return None
    return next((steps for key in STEP_LISTS if is_steps(steps := record.get(key))), None)


@by_identity(_CACHED_SUBJECTS)
def plans_of(subject: Subject) -> PlansByTurn:
    """Return each turn with plans, and its plans."""
    return tuple(_plans_by_turn(subject.conversation.turns))


def _plans_by_turn(turns: Sequence[Turn]) -> Iterator[tuple[Turn, list[Any]]]:
    """Yield each turn with plans, and its plans; the plans of all turns have about `_READ` characters at most."""
    remaining = _READ
    for turn in turns:
        plans: list[Any] = []
        for plan in _plans(turn):
            if remaining <= 0:
                break
            remaining -= len(plan) if isinstance(plan, str) else len(json_text(plan))
            plans.append(plan)
        if plans:
            yield turn, plans


def _plans(turn: Turn) -> Iterator[Any]:
    yield from turn.plans
    yield from filter(None, map(stated_plan, texts_of(turn)))
    for call in calls_in_order(turn):
        plan = plan_in(call)
        if plan is not None:
            yield plan


def _tool_names(subject: Subject, expected: Sequence[str]) -> ToolNames:
    conversation = subject.conversation
    calls = [call for turn in conversation.turns for call in turn.calls]
    planning = {call.name for call in calls if plan_in(call) is not None}
    called = {call.name for call in calls} | set(conversation.tool_definitions or ())
    return ToolNames((called - planning) | set(expected))


def _groups(scope: SortedScope) -> Iterator[tuple[str, ...]]:
    expectation = scope.calls.expectation
    required = [call for call in expectation.calls if call.required]
    if expectation.order == "any":
        yield from [tuple(call.name for call in required)] if required else []
        return
    for group in sorted({call.group for call in required}):
        yield tuple(call.name for call in required if call.group == group)


QUALITY: Final = "agentic.layers.plan_quality"
ADHERENCE: Final = "agentic.layers.plan_adherence"


class Reasoning(BuiltInEvaluator):
    """Plan quality and plan adherence."""

    name = "layers.reasoning"
    version = "2"

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return both scores of a conversation."""
        plans_by_turn = plans_of(subject)
        if not plans_by_turn:
            return none_of_all(self.metrics, *no_plan(subject))
        expected = expected_plan(subject, expected_calls(subject))
        expected_names = [name for group in expected for name in group]
        plan = written_plan(subject, plans_by_turn, expected_names)
        return [_quality(subject, plan, expected, expected_names), _adherence(subject, plan)]


_NO_PLAN: Final = (
    "no plan was recorded: neither a plan span, nor a call that writes steps down (write_todos, update_plan …), nor a list"
    " of steps in the model's reasoning"
)


def no_plan(subject: Subject) -> Missing:
    """Return the reason why a conversation has no plan: whether one was stated is unknown without content."""
    if subject.conversation.content_captured == "none":
        return "content_not_captured", f"plans are content, which was not recorded; {CAPTURE}"
    free_text = any(texts_of(turn) for turn in subject.conversation.turns)
    return "no_data", f"{_NO_PLAN}; `plan_quality_judged` looks for one in its other texts" if free_text else _NO_PLAN


_NO_TOOL: Final = "the plan names no tool that is defined, called or expected; `{name}_judged` reads it as people do"


def _quality(
    subject: Subject, plan: WrittenPlan, expected: Sequence[Sequence[str]], expected_names: Sequence[str]
) -> MetricScore:
    if not expected_names:
        case_missing = first_missing(subject, ("case",))
        explanation = "the case expects no plan and requires no call; annotate `plan` or `tools`"
        return none_of(QUALITY, *(case_missing or ("no_data", explanation)))
    if not plan.tools:
        return none_of(QUALITY, "no_data", _NO_TOOL.format(name="plan_quality"))
    length = in_order(plan.tools, expected)
    missing = Counter(expected_names) - Counter(plan.tools)
    order_text = "" if length == common(plan.tools, expected_names) else "; not in the expected order"
    missing_text = f"; not planned: {listed(missing)}" if missing else ""
    return MetricScore(
        name=QUALITY,
        value=length / min(len(expected_names), MAX_LENGTH),
        explanation=f"{length} of {len(expected_names)} expected steps are planned in their order{missing_text}{order_text}",
        details={"planned": list(plan.tools), "expected": list(expected_names)},
    )


def _adherence(subject: Subject, plan: WrittenPlan) -> MetricScore:
    if not plan.tools:
        return none_of(ADHERENCE, "no_data", _NO_TOOL.format(name="plan_adherence"))
    planned = set(plan.tools)
    steps = [
        planned_names
        for step in executed(subject)
        if (planned_names := tuple(name for name in step if name in planned))
    ]
    executed_steps = [name for step in steps for name in step]
    length = in_order(plan.tools, steps)
    skipped = Counter(plan.tools) - Counter(executed_steps)
    order_text = "" if length == common(plan.tools, executed_steps) else "; not in the planned order"
    skipped_text = f"; planned and not called: {listed(skipped)}" if skipped else ""
    return MetricScore(
        name=ADHERENCE,
        value=length / min(len(plan.tools), MAX_LENGTH),
        explanation=f"{length} of {len(plan.tools)} planned steps were executed in their order{skipped_text}{order_text}",
        details={"planned": list(plan.tools), "executed": executed_steps},
    )
