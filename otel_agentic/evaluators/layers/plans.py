"""The reasoning layer: plans that agents write, in structured form or text, compared with the expected plan and the calls."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.evaluators.base import (
    BuiltInEvaluator,
    MetricScore,
    Missing,
    Subject,
    calls_in_order,
    first_missing,
    is_subsequence,
    listed,
    none_of,
    none_of_all,
)
from otel_agentic.evaluators.layers.calls import ExpectedCalls, SortedScope, expected_calls
from otel_agentic.scoring.values import json_text, read

if TYPE_CHECKING:
    from otel_agentic.conversations.model import ToolCall, Turn

#: Names of a sequence that are looked at: the time grows with the square of them.
MAX_LENGTH: Final = 200


def in_order(names: Sequence[str], groups: Sequence[Sequence[str]]) -> int:
    """Return the length of the longest common subsequence of some names and some groups of names, one after the other.

    The names of a group may come in any order among themselves; with groups of one name each it is the plain longest common
    subsequence, with a single group the size of the intersection as multisets. Only the first `MAX_LENGTH` names, and names
    of groups, are looked at.

    Ref: R. Wagner, M. Fischer (1974), The string-to-string correction problem.

    >>> in_order(["a", "c", "b"], [["a"], ["b"], ["c"]]), in_order(["a", "c", "b"], [["a"], ["b", "c"]])
    (2, 3)
    >>> in_order([], [["a"]]), in_order(["a", "a"], [["a"]])
    (0, 1)
    """
    names, left = names[:MAX_LENGTH], MAX_LENGTH
    best = [0] * (len(names) + 1)  # best[p]: what the groups so far have in common with the first p names
    for group in groups:
        matched = group[:left]
        left -= len(matched)
        best = _with_one(names, matched[0], best) if len(matched) == 1 else _with_several(names, matched, best)
    return best[-1]


def common(names: Sequence[str], others: Sequence[str]) -> int:
    """Return how many names two sequences have in common, as multisets.

    >>> common(["a", "a", "b"], ["a", "b", "b"])
    2
    """
    return (Counter(names) & Counter(others)).total()


def _with_one(names: Sequence[str], expected: str, before: Sequence[int]) -> list[int]:
    best = [before[0]]
    for index, name in enumerate(names):
        best.append(max(before[index + 1], best[index], before[index] + (name == expected)))
    return best


def _with_several(names: Sequence[str], expected: Sequence[str], before: Sequence[int]) -> list[int]:
    best = list(before)
    for start, result in enumerate(before):
        left, size = Counter(expected), 0
        for index in range(start, len(names)):
            if left[names[index]] > 0:
                left[names[index]] -= 1
                size += 1
                best[index + 1] = max(best[index + 1], result + size)
                if size == len(expected):
                    break
    return list(accumulate(best, max))


#: Limits of reading a plan: characters of its text, steps, and nesting of lists.
_CHARACTERS: Final = 50_000
_STEPS: Final = 300
MAX_DEPTH: Final = 6
#: Tools that are searched for, and characters of a name.
_NAMES: Final = 1_000
_NAME_CHARACTERS: Final = 256
_CACHED: Final = 64

#: Under which keys an object holds its steps,
STEP_LISTS: Final = (
    "plan", "plans", "steps", "plan_steps", "todos", "todo_list", "tasks", "subtasks", "items", "actions",
)  # fmt: skip
#: a step the tool that it is to use: of the first ones any name is meant as one, of the others a known one,
_SURE_KEYS: Final = ("tool", "tool_name", "toolName")
_TOOL_KEYS: Final = (*_SURE_KEYS, "function", "action", "name")
#: its description,
_TEXT_KEYS: Final = ("content", "step", "description", "task", "title", "text")
#: and its state; some states mean that it is dropped or done.
STATE_KEYS: Final = ("status", "state")
DROPPED: Final = frozenset({"cancelled", "canceled", "skipped", "dropped"})
DONE: Final = frozenset({"completed", "complete", "done", "finished"})

_ITEM: Final = re.compile(r"\s*(?:[-*+•]|\(?(?:\d+|[a-z])[.):]|(?:step|task)\s*\d+\s*[-:.)]?)\s+", re.IGNORECASE)
_FENCED: Final = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
_SENTENCE: Final = re.compile(r"(?<=[.;!?])\s+|\n+")
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
#: A step that is only an identifier means the tool with this name, known or not.
_IDENTIFIER: Final = re.compile(r"[A-Za-z]\w*[_.]\w[\w.]*")
_ONE_WORD: Final = re.compile(r"\S+")
#: Words before a tool that negate its call.
_DENIED: Final = re.compile(
    r"(?:\bnot|n['\u2019]t|\bnever|\bwithout|\bavoid(?:ing)?|\binstead of|\brather than|\bno need (?:to|for))\b[^.;:,\n]{0,40}$",
    re.IGNORECASE,
)


class ToolNames:
    """The names of tools that may occur in a plan.

    A name is found as it is, and with other marks between its words: `search_hotels` in "Search hotels" and in
    `searchHotels`. In text the longest name at a position counts.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Take the names; those that are absurdly long, or beyond the thousandth, are left out."""
        patterns = [name for name in sorted(set(names)) if 0 < len(name) <= _NAME_CHARACTERS][:_NAMES]
        self.exact = frozenset(patterns)
        self._pattern, self._meant = _compiled(tuple(patterns))

    def within(self, text: str) -> list[str]:
        """Return the names in a text that is one step, each once, in order; what the text denies is left out.

        >>> ToolNames(["book", "search_hotels", "pay"]).within("Search hotels, then `book`, but do not pay")
        ['search_hotels', 'book']
        """
        if self._pattern is None:
            return []
        names: dict[str, None] = {}
        for match in self._pattern.finditer(text):
            stated = match.group()
            # None: letters that differ only in case, and in no other way, such as the long s.
            name = stated if stated in self.exact else self._meant.get(_plain(stated))
            if (
                name is not None
                and name not in names
                and not _DENIED.search(text, max(0, match.start() - 80), match.start())
            ):
                names[name] = None
        return list(names)


def tools_named(plan: Any, names: ToolNames) -> tuple[str, ...]:
    r"""Return the tools that a plan names, step by step.

    In a step each tool counts once. A step of JSON that names its tool (`tool`, `name` …) means that tool, a step that
    is only an identifier (`get_user`) the tool with this name; cancelled and skipped steps are omitted. In sentences, a
    tool named again right after itself is still the same step.

    >>> names = ToolNames(["search", "book"])
    >>> tools_named("1. search for hotels\n2. book the best one", names)
    ('search', 'book')
    >>> tools_named('{"steps": [{"tool": "search"}, {"tool": "book", "status": "cancelled"}]}', names)
    ('search',)
    >>> tools_named("First I search. The search gives hotels; then I book.", names)
    ('search', 'book')
    """
    try:
        return tuple(_named(plan, names, MAX_DEPTH))[:_STEPS]
    except RecursionError:
        return ()


def is_in(step: Mapping[str, Any], states: frozenset[str]) -> bool:
    """Return whether a step declares one of some states."""
    return any(str(step.get(key)).lower() in states for key in STATE_KEYS)


def _named(plan: Any, names: ToolNames, depth: int) -> Iterator[str]:
    if depth <= 0:
        return
    if isinstance(plan, str):
        yield from _in_text(plan[:_CHARACTERS], names, depth)
    elif isinstance(plan, (list, tuple)):
        for step in plan[:_STEPS]:
            yield from _in_step(step, names, depth - 1)
    elif isinstance(plan, Mapping):
        held = next((plan[key] for key in STEP_LISTS if plan.get(key)), None)
        yield from _in_step(plan, names, depth - 1) if held is None else _named(held, names, depth - 1)


def _in_text(text: str, names: ToolNames, depth: int) -> Iterator[str]:
    stripped = text.strip()
    held = json_in(stripped)
    if held is not None:
        yield from _named(held, names, depth - 1)
        return
    items = list(_items(stripped))
    if items:
        for item in items[:_STEPS]:
            yield from names.within(item)
        return
    last = None
    for sentence in _SENTENCE.split(stripped)[:_STEPS]:
        for name in names.within(sentence):
            if name != last:
                yield name
            last = name


def json_in(text: str) -> Any | None:
    """Return the object or list that a text is, or contains as a code block; None without one."""
    stripped = text[:_CHARACTERS].strip()
    return next(filter(None, map(_json, (stripped, *_FENCED.findall(stripped)))), None)


def _json(text: str) -> Any | None:
    """Return a text parsed as a JSON object or list, or None."""
    if text.strip()[:1] not in {"{", "["}:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _items(text: str) -> Iterator[str]:
    """Yield the items of a list in a text, each with its continuation lines; nothing without a list."""
    item: list[str] | None = None
    for line in text.splitlines():
        mark = _ITEM.match(line)
        if mark is not None:
            if item is not None:
                yield "\n".join(item)
            item = [line[mark.end() :]]
        elif item is not None and line.strip():
            item.append(line)
    if item is not None:
        yield "\n".join(item)


def _in_step(step: Any, names: ToolNames, depth: int) -> Iterator[str]:
    if isinstance(step, str):
        yield from names.within(step[:_CHARACTERS]) or _identifiers(step)
        return
    if not isinstance(step, Mapping):
        yield from _named(step, names, depth)
        return
    if is_in(step, DROPPED):
        return
    tool = next(filter(None, (_tool_of(step.get(key), names, sure=key in _SURE_KEYS) for key in _TOOL_KEYS)), None)
    if tool is not None:
        yield tool
        return
    held = next((step[key] for key in STEP_LISTS if isinstance(step.get(key), (list, Mapping))), None)
    if held is not None:
        yield from _named(held, names, depth)
        return
    result = names.within("\n".join(value for value in step.values() if isinstance(value, str))[:_CHARACTERS])
    yield from result or _identifiers(*(step.get(key) for key in _TEXT_KEYS))


def _identifiers(*texts: Any) -> list[str]:
    """Return the first text that is nothing but an identifier, as a list of one or none."""
    stated = (text.strip() for text in texts if isinstance(text, str) and len(text) <= _NAME_CHARACTERS)
    return [text for text in stated if _IDENTIFIER.fullmatch(text)][:1]


def _tool_of(value: Any, names: ToolNames, *, sure: bool) -> str | None:
    """Return the tool that a field of a step names as such; a known one, unless the field can hold nothing else."""
    if isinstance(value, Mapping):
        value = value.get("name")
    if not isinstance(value, str) or len(value) > _NAME_CHARACTERS:
        return None
    return value if value in names.exact or (sure and _ONE_WORD.fullmatch(value)) else None


@lru_cache(maxsize=_CACHED)
def _compiled(names: Sequence[str]) -> tuple[re.Pattern[str] | None, Mapping[str, str]]:
    meant: dict[str, str] = {}
    for name in names:
        meant.setdefault(_plain(name), name)
    spelled = sorted(
        {_spelled(name) for name in names} | {re.escape(name) for name in names}, key=lambda item: (-len(item), item)
    )
    if not spelled:
        return None, meant
    return re.compile(rf"(?<![\w-])(?:{'|'.join(spelled)})(?!-?\w)", re.IGNORECASE), meant


def _spelled(name: str) -> str:
    """Return the pattern of a name with any single mark, or none, between its words."""
    return r"[\s_.:/-]?".join(map(re.escape, _words(name))) or re.escape(name)


def _plain(name: str) -> str:
    """Return a name as its words in small letters.

    >>> _plain("searchHotels"), _plain("Search hotels"), _plain("search_hotels")
    ('searchhotels', 'searchhotels', 'searchhotels')
    """
    return "".join(_words(name)).lower() or name.lower()


def _words(name: str) -> list[str]:
    return _PART.findall(name)


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
    """Return the plan that the agent recorded, or None.

    Plans are found in plan spans (`Turn.plans`) and in plan-shaped calls, see `plan_in`. For a turn its last plan
    counts: a later plan replaces an earlier one, unless it only omits steps of it, as a list of remaining steps does; a
    step that it cancels is no longer planned. The plans of several turns follow each other; a step that a later one
    resumes before it was done, or declares done, is the same step.

    Args:
        subject: the conversation.
        expected: names of tools that may occur in a plan, besides those that are defined or were called.
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
    """Return the tools of the current plan after several plans of one turn, and that plan."""
    force: list[str] = []
    held: Any = None
    for plan in plans:
        named = tools_named(plan, names)
        # A plan that only leaves out steps of the one before does not replace it.
        if held is None or (named and not is_subsequence(named, force)):
            force, held = list(named), plan
        else:
            force = _less(force, Counter(tools_named(_steps_in_state(plan, DROPPED), names)))
    return force, held


def _steps_in_state(plan: Any, states: frozenset[str], depth: int = MAX_DEPTH) -> list[Any]:
    """Return the steps of a plan that declare one of some states, as a plan of their own.

    >>> _steps_in_state('[{"tool": "search", "status": "completed"}, {"tool": "book"}]', DONE)
    [{'tool': 'search'}]
    """
    held = json_in(plan) if isinstance(plan, str) else plan
    if depth <= 0:
        return []
    if isinstance(held, (list, tuple)):
        return [step for item in held for step in _steps_in_state(item, states, depth - 1)]
    if not isinstance(held, Mapping):
        return []
    if is_in(held, states):
        return [{key: value for key, value in held.items() if key not in STATE_KEYS}]
    return [step for key in STEP_LISTS for step in _steps_in_state(held.get(key), states, depth - 1)]


def _less(tools: Sequence[str], without: Counter[str]) -> list[str]:
    """Return tools without some of them, the first ones of each name."""
    left, remaining = Counter(without), []
    for name in tools:
        if left[name] > 0:
            left[name] -= 1
        else:
            remaining.append(name)
    return remaining


def _called_before(subject: Subject, turn: Turn) -> Iterator[str]:
    for other in subject.conversation.turns:
        if other.index < turn.index:
            yield from (call.name for call in other.calls)


def expected_plan(subject: Subject, expected: ExpectedCalls | Missing) -> list[tuple[str, ...]]:
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
    if not isinstance(expected, ExpectedCalls):
        return []
    groups = [group for scope in expected.scopes for group in _groups(scope)]
    mixed = len({scope.is_whole for scope in expected.scopes}) > 1
    return [tuple(name for group in groups for name in group)] if mixed and groups else groups


def executed(subject: Subject) -> list[tuple[str, ...]]:
    """Return the names of all calls, also of those that failed; calls of one step stand together."""
    steps: dict[tuple[int, int], list[str]] = {}
    for turn in subject.conversation.turns:
        for call in calls_in_order(turn):
            steps.setdefault((turn.index, call.step), []).append(call.name)
    return [tuple(names) for names in steps.values()]


def plan_in(call: ToolCall) -> Any | None:
    """Return the plan that a call records, or None.

    A call does when a word of its tool's name is plan, planner, planning or todo (`write_todos`, `update_plan`,
    `TodoWrite`), and its arguments hold steps under `plan`, `steps`, `todos`, `tasks` or the like: a list, an object,
    or a text of several lines or at least eight words (`cancel_plan(plan="Premium")` is about another kind of plan). So
    does one whose name means making a plan (`planner`, `make_plan`, `create_travel_plan`), and whose result is a list,
    holds steps, or is such a text. Whether steps name any tools is another question.
    """
    name = [word.lower() for word in _WORD.findall(call.name)]
    if call.error is not None or not _PLANNING.intersection(name):
        return None
    held = _steps_in(call.arguments)
    if held is None and _MAKING.intersection((name[0], name[-1] if name[-1] != "plan" else "")):
        actual = read(call.result)
        held = (
            actual
            if isinstance(actual, list) and actual
            else _steps_in(actual if isinstance(actual, Mapping) else {"plan": actual})
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
    for call in calls_in_order(turn):
        plan = plan_in(call)
        if plan is not None:
            yield plan


def _known(subject: Subject, expected: Sequence[str]) -> ToolNames:
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
    """The two metrics of plans."""

    name = "layers.reasoning"

    def evaluate(self, subject: Subject) -> Iterable[MetricScore]:
        """Return both scores of a conversation."""
        expected = expected_plan(subject, expected_calls(subject))
        expected_names = [name for group in expected for name in group]
        plan = written_plan(subject, expected_names)
        if plan is None:
            return none_of_all(self.metrics, "no_data", NO_PLAN)
        return [_quality(subject, plan, expected, expected_names), _adherence(subject, plan)]


NO_PLAN: Final = (
    "no plan was recorded: neither a plan span, nor a call that writes steps down (write_todos, update_plan …)"
)
_NO_TOOL: Final = "the plan names no tool that is defined, called or expected; `{name}_judged` reads it as people do"


def _quality(
    subject: Subject, plan: WrittenPlan, expected: Sequence[Sequence[str]], expected_names: Sequence[str]
) -> MetricScore:
    if not expected_names:
        lacks = first_missing(subject, ("case",))
        explanation = "the case expects no plan and requires no call; annotate `plan` or `tools`"
        return none_of(QUALITY, *(lacks or ("no_data", explanation)))
    if not plan.tools:
        return none_of(QUALITY, "no_data", _NO_TOOL.format(name="plan_quality"))
    length = in_order(plan.tools, expected)
    missing = Counter(expected_names) - Counter(plan.tools)
    order = "" if length == common(plan.tools, expected_names) else "; not in the expected order"
    lacking = f"; not planned: {listed(missing)}" if missing else ""
    return MetricScore(
        name=QUALITY,
        value=length / min(len(expected_names), MAX_LENGTH),
        explanation=f"{length} of {len(expected_names)} expected steps are planned in their order{lacking}{order}",
        details={"planned": list(plan.tools), "expected": list(expected_names)},
    )


def _adherence(subject: Subject, plan: WrittenPlan) -> MetricScore:
    if not plan.tools:
        return none_of(ADHERENCE, "no_data", _NO_TOOL.format(name="plan_adherence"))
    planned = set(plan.tools)
    steps = [matched for step in executed(subject) if (matched := tuple(name for name in step if name in planned))]
    executed_steps = [name for step in steps for name in step]
    length = in_order(plan.tools, steps)
    skipped = Counter(plan.tools) - Counter(executed_steps)
    order = "" if length == common(plan.tools, executed_steps) else "; not in the planned order"
    left = f"; planned and not called: {listed(skipped)}" if skipped else ""
    return MetricScore(
        name=ADHERENCE,
        value=length / min(len(plan.tools), MAX_LENGTH),
        explanation=f"{length} of {len(plan.tools)} planned steps were executed in their order{left}{order}",
        details={"planned": list(plan.tools), "executed": executed_steps},
    )
