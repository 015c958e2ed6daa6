"""Which tools a plan names, in order, whatever form the plan has: JSON, a list, or sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: What is read of a plan: characters of its text, steps, and lists inside lists.
_CHARACTERS: Final = 50_000
_STEPS: Final = 300
MAX_DEPTH: Final = 6
#: Tools that are looked for, and the characters of a name; nobody means more.
_NAMES: Final = 1_000
_NAME_CHARACTERS: Final = 256
_KEPT: Final = 64

#: Under which keys an object holds its steps,
STEP_LISTS: Final = (
    "plan", "plans", "steps", "plan_steps", "todos", "todo_list", "tasks", "subtasks", "items", "actions",
)  # fmt: skip
#: a step the tool that it is to use: of the first ones any name is meant as one, of the others a known one,
_SURE_KEYS: Final = ("tool", "tool_name", "toolName")
_TOOL_KEYS: Final = (*_SURE_KEYS, "function", "action", "name")
#: what it is in words,
_TEXT_KEYS: Final = ("content", "step", "description", "task", "title", "text")
#: and its state, of which some say that it is not to be done, or was done.
STATE_KEYS: Final = ("status", "state")
DROPPED: Final = frozenset({"cancelled", "canceled", "skipped", "dropped"})
DONE: Final = frozenset({"completed", "complete", "done", "finished"})

_ITEM: Final = re.compile(r"\s*(?:[-*+•]|\(?(?:\d+|[a-z])[.):]|(?:step|task)\s*\d+\s*[-:.)]?)\s+", re.IGNORECASE)
_FENCED: Final = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
_SENTENCE: Final = re.compile(r"(?<=[.;!?])\s+|\n+")
_PART: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
#: A step that is nothing but an identifier means the tool of that name, known or not.
_IDENTIFIER: Final = re.compile(r"[A-Za-z]\w*[_.]\w[\w.]*")
_ONE_WORD: Final = re.compile(r"\S+")
#: Words before a tool that say it is not to be called.
_DENIED: Final = re.compile(
    r"(?:\bnot|n['\u2019]t|\bnever|\bwithout|\bavoid(?:ing)?|\binstead of|\brather than|\bno need (?:to|for))\b[^.;:,\n]{0,40}$",
    re.IGNORECASE,
)


class ToolNames:
    """The names of tools that may stand in a plan.

    A name is found as it is, and with other marks between its words: `search_hotels` in "Search hotels" and in
    `searchHotels`. In text the longest name at a place counts.
    """

    def __init__(self, names: Iterable[str]) -> None:
        """Take the names; those that are absurdly long, or beyond the thousandth, are left out."""
        kept = [name for name in sorted(set(names)) if 0 < len(name) <= _NAME_CHARACTERS][:_NAMES]
        self.exact = frozenset(kept)
        self._pattern, self._meant = _compiled(tuple(kept))

    def within(self, text: str) -> list[str]:
        """Return the names in a text that is one step, each once, in order; what the text denies is left out.

        >>> ToolNames(["book", "search_hotels", "pay"]).within("Search hotels, then `book`, but do not pay")
        ['search_hotels', 'book']
        """
        if self._pattern is None:
            return []
        found: dict[str, None] = {}
        for match in self._pattern.finditer(text):
            said = match.group()
            # None: letters that are alike but for their case, and in no other way, as the long s.
            name = said if said in self.exact else self._meant.get(_plain(said))
            if (
                name is not None
                and name not in found
                and not _DENIED.search(text, max(0, match.start() - 80), match.start())
            ):
                found[name] = None
        return list(found)


def tools_named(plan: Any, names: ToolNames) -> tuple[str, ...]:
    r"""Return the tools that a plan names, step by step.

    In a step each tool counts once. A step of JSON that names its tool (`tool`, `name` …) means that one, a step that is only
    an identifier (`get_user`) the tool of that name; steps that are cancelled or skipped are left out. In sentences, a tool named again right after itself is still the same step.

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
    """Return whether a step says to be in one of some states."""
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
    """Return the object or list that a text is, or holds as a block of code; None where there is none."""
    stripped = text[:_CHARACTERS].strip()
    return next(filter(None, map(_json, (stripped, *_FENCED.findall(stripped)))), None)


def _json(text: str) -> Any | None:
    """Return the object or list that a text is, None where it is none."""
    if text.strip()[:1] not in {"{", "["}:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _items(text: str) -> Iterator[str]:
    """Yield the items of a list in a text, each with the lines that go on with it; nothing where there is no list."""
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
    found = names.within("\n".join(value for value in step.values() if isinstance(value, str))[:_CHARACTERS])
    yield from found or _identifiers(*(step.get(key) for key in _TEXT_KEYS))


def _identifiers(*texts: Any) -> list[str]:
    """Return the first text that is nothing but an identifier, as a list of one or none."""
    said = (text.strip() for text in texts if isinstance(text, str) and len(text) <= _NAME_CHARACTERS)
    return [text for text in said if _IDENTIFIER.fullmatch(text)][:1]


def _tool_of(value: Any, names: ToolNames, *, sure: bool) -> str | None:
    """Return the tool that a field of a step names as such; a known one, unless the field can hold nothing else."""
    if isinstance(value, Mapping):
        value = value.get("name")
    if not isinstance(value, str) or len(value) > _NAME_CHARACTERS:
        return None
    return value if value in names.exact or (sure and _ONE_WORD.fullmatch(value)) else None


@lru_cache(maxsize=_KEPT)
def _compiled(names: Sequence[str]) -> tuple[re.Pattern[str] | None, Mapping[str, str]]:
    meant: dict[str, str] = {}
    for name in names:
        meant.setdefault(_plain(name), name)
    spelled = sorted(
        {_spelled(name) for name in names} | {re.escape(name) for name in names}, key=lambda one: (-len(one), one)
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
