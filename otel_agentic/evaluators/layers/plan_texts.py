"""Reading of plans: the steps in a text or JSON value, and the tools that they name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

#: Limits of reading a plan: characters of its text, steps, lines that may announce it, and nesting of lists.
_CHARACTERS: Final = 50_000
_STEPS: Final = 300
_LINES: Final = 2_000
MAX_DEPTH: Final = 6
#: Maximum number of tools that are searched for, and of characters of their names.
_NAMES: Final = 1_000
_NAME_CHARACTERS: Final = 256
_CACHED: Final = 64

#: Keys under which an object contains its steps.
STEP_LISTS: Final = (
    "plan", "plans", "steps", "plan_steps", "todos", "todo_list", "tasks", "subtasks", "items", "actions",
    "list_of_plans_per_task", "reasoning_steps",
)  # fmt: skip
#: Keys under which a model's response lists other things than steps.
_AMBIGUOUS_LISTS: Final = frozenset({"items", "actions"})
#: Keys under which a step names its tool: the first ones accept any name, the others only the name of a known tool.
_SURE_KEYS: Final = ("tool", "tool_name", "toolName")
_TOOL_KEYS: Final = (*_SURE_KEYS, "function", "action", "name")
#: Keys of the description of a step.
_TEXT_KEYS: Final = ("content", "step", "description", "task", "title", "text")
#: Keys of the state of a step, and the states of dropped and of completed steps.
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
#: A plan between marks: those of ADK's planner, and XML tags.
_TAGGED: Final = re.compile(
    r"/\*(?:RE)?PLANNING\*/(.*?)(?=/\*|\Z)|<plan>((?:(?!<plan>).)*?)</plan>", re.DOTALL | re.IGNORECASE
)
#: A line that announces a plan: `## Plan`, `**Plan:**`, "Here is my plan:", "the plan that I will follow:".
_HEADING: Final = re.compile(
    r"(?=.{4,160}$)(?:\s*(?:#+|\*\*).*\bplan\b.*|.*\b(?:plan|to-?do list)\b.*:[*_`\s]*)", re.IGNORECASE
)
_FENCE: Final = re.compile(r"\s*```")
#: The least number of steps of a plan that is read from text: an announced next action is not a plan.
FEWEST_STEPS: Final = 2
#: A single line with fewer words is the name of a plan, not a plan.
_FEWEST_WORDS: Final = 8
#: Words before a tool that negate its call.
_DENIED: Final = re.compile(
    r"(?:\bnot|n['\u2019]t|\bnever|\bwithout|\bavoid(?:ing)?|\binstead of|\brather than|\bno need (?:to|for))\b[^.;:,\n]{0,40}$",
    re.IGNORECASE,
)


class ToolNames:
    """The names of tools that may occur in a plan.

    A name is found as it is, and with other separators between its words: `search_hotels` in "Search hotels" and in
    `searchHotels`. In text, the longest name at a position counts.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Compile the names; overlong names, and those beyond the thousandth, are ignored."""
        valid_names = [name for name in sorted(set(names)) if 0 < len(name) <= _NAME_CHARACTERS][:_NAMES]
        self.exact = frozenset(valid_names)
        self._pattern, self._name_by_plain = _compiled(tuple(valid_names))

    def within(self, text: str) -> list[str]:
        """Return the names in the text of one step, each once, in order; negated names are left out.

        >>> ToolNames(["book", "search_hotels", "pay"]).within("Search hotels, then `book`, but do not pay")
        ['search_hotels', 'book']
        """
        if self._pattern is None:
            return []
        names: dict[str, None] = {}
        for match in self._pattern.finditer(text):
            matched_text = match.group()
            # None for letters that match only because case is ignored, such as the long s.
            name = matched_text if matched_text in self.exact else self._name_by_plain.get(_plain_name(matched_text))
            if (
                name is not None
                and name not in names
                and not _DENIED.search(text, max(0, match.start() - 80), match.start())
            ):
                names[name] = None
        return list(names)


def tools_named(plan: Any, names: ToolNames) -> tuple[str, ...]:
    r"""Return the tools that a plan names, step by step.

    Each tool counts once per step. A step of JSON that names its tool (`tool`, `name` …) means that tool, and a step
    that is only an identifier (`get_user`) means the tool with this name. Cancelled and skipped steps are omitted. In
    sentences, consecutive mentions of a tool are the same step.

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
    """Return whether a step declares one of the states."""
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
        steps = next((plan[key] for key in STEP_LISTS if plan.get(key)), None)
        yield from _in_step(plan, names, depth - 1) if steps is None else _named(steps, names, depth - 1)


def _in_text(text: str, names: ToolNames, depth: int) -> Iterator[str]:
    stripped = text.strip()
    document = json_in(stripped)
    if document is not None:
        yield from _named(document, names, depth - 1)
        return
    list_items = list(_items(stripped))
    if list_items:
        for list_item in list_items[:_STEPS]:
            yield from names.within(list_item)
        return
    last = None
    for sentence in _SENTENCE.split(stripped)[:_STEPS]:
        for name in names.within(sentence):
            if name != last:
                yield name
            last = name


def json_in(text: str) -> Any | None:
    """Return the JSON object or list that makes up a text or one of its code blocks; None without one."""
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


def stated_plan(text: str) -> Any | None:
    r"""Return the plan in a text of the model, or None; only a text with the form of a plan counts.

    A plan is a JSON object with steps, a text between marks of a plan, or a list of two or more items below a line that
    announces a plan.

    >>> stated_plan("Here is my plan:\n1. search hotels\n2. book one\n\nLet me begin.")
    '1. search hotels\n2. book one'
    >>> stated_plan('{"steps": ["search", "book"]}'), stated_plan("/*PLANNING*/ search, then book /*ACTION*/")
    ({'steps': ['search', 'book']}, 'search, then book')
    >>> stated_plan("I will search for hotels.")
    """
    document = json_in(text)
    if isinstance(document, Mapping):
        keys = [key for key in STEP_LISTS if key not in _AMBIGUOUS_LISTS]
        return document if any(is_steps(document.get(key)) for key in keys) else None
    tagged = [plan for match in _TAGGED.finditer(text[:_CHARACTERS]) if (plan := (match[1] or match[2] or "").strip())]
    if tagged:
        return tagged[-1]
    lines = text[:_CHARACTERS].splitlines()[:_LINES]
    lists = (_list_at(lines[index + 1 :]) for index, line in enumerate(lines) if _HEADING.fullmatch(line))
    return next(("\n".join(matches) for matches in lists if sum(map(_is_item, matches)) >= FEWEST_STEPS), None)


def _is_item(line: str) -> bool:
    return _ITEM.match(line) is not None


def _list_at(lines: Sequence[str]) -> list[str]:
    """Return the lines of a list at the beginning; blank lines and code fences before it are skipped."""
    matches: list[str] = []
    was_blank = False
    for line in lines:
        is_blank = not line.strip() or _FENCE.match(line) is not None
        continues = bool(matches) and (line[:1].isspace() or not was_blank) and not line.startswith(("#", "<"))
        if not is_blank and not _is_item(line) and not continues:
            break
        if not is_blank:
            matches.append(line)
        was_blank = is_blank
    return matches


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
    substeps = next((step[key] for key in STEP_LISTS if isinstance(step.get(key), (list, Mapping))), None)
    if substeps is not None:
        yield from _named(substeps, names, depth)
        return
    tools = names.within("\n".join(value for value in step.values() if isinstance(value, str))[:_CHARACTERS])
    yield from tools or _identifiers(*(step.get(key) for key in _TEXT_KEYS))


def _identifiers(*texts: Any) -> list[str]:
    """Return the first text that is only an identifier, as a list of at most one element."""
    stripped_texts = (text.strip() for text in texts if isinstance(text, str) and len(text) <= _NAME_CHARACTERS)
    return [text for text in stripped_texts if _IDENTIFIER.fullmatch(text)][:1]


def _tool_of(value: Any, names: ToolNames, *, sure: bool) -> str | None:
    """Return the tool that a field of a step names, or None; if not `sure`, only known tools count."""
    if isinstance(value, Mapping):
        value = value.get("name")
    if not isinstance(value, str) or len(value) > _NAME_CHARACTERS:
        return None
    return value if value in names.exact or (sure and _ONE_WORD.fullmatch(value)) else None


@lru_cache(maxsize=_CACHED)
def _compiled(names: Sequence[str]) -> tuple[re.Pattern[str] | None, Mapping[str, str]]:
    name_by_plain: dict[str, str] = {}
    for name in names:
        name_by_plain.setdefault(_plain_name(name), name)
    patterns = sorted(
        {_pattern_of(name) for name in names} | {re.escape(name) for name in names},
        key=lambda pattern: (-len(pattern), pattern),
    )
    if not patterns:
        return None, name_by_plain
    return re.compile(rf"(?<![\w-])(?:{'|'.join(patterns)})(?!-?\w)", re.IGNORECASE), name_by_plain


def _pattern_of(name: str) -> str:
    """Return the pattern of a name with at most one separator between its words."""
    return r"[\s_.:/-]?".join(map(re.escape, _words(name))) or re.escape(name)


def _plain_name(name: str) -> str:
    """Return the words of a name in lower case, joined.

    >>> _plain_name("searchHotels"), _plain_name("Search hotels"), _plain_name("search_hotels")
    ('searchhotels', 'searchhotels', 'searchhotels')
    """
    return "".join(_words(name)).lower() or name.lower()


def _words(name: str) -> list[str]:
    return _PART.findall(name)


def is_steps(value: Any) -> bool:
    """Return whether a value can be the steps of a plan: a list, an object, or a text of more than a few words."""
    if isinstance(value, str):
        return "\n" in value.strip() or len(value.split()) >= _FEWEST_WORDS
    return isinstance(value, (list, Mapping)) and bool(value)
