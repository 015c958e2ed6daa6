"""Records of JSON and YAML texts with the line of every field."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from yaml import SafeDumper, ScalarNode, YAMLError

#: The way from a record to one of its fields: keys and places, such as `("turns", 0, "query")`.
Path = tuple[str | int, ...]
Unit = Literal["line", "row"]

#: Objects and lists inside one another, at most; deeper ones are built to break readers.
MAX_DEPTH: Final = 128
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
#: Keys of an object whose list holds the records of a file.
WRAPPERS: Final = frozenset({"cases", "eval_cases", "evalCases", "samples", "tasks", "datasets"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One record of a file, as JSON has it.

    `place_of` tells the line (or row, 1-based) of a field, `name_of` what it is called in the file. `header` is what stands
    around the list that the record is in, `header_place` tells the line of a field of that.
    """

    value: Any
    place_of: Callable[[Path], int]
    name_of: Callable[[Path], Path] = lambda path: path
    header: Mapping[str, Any] = field(default_factory=dict)
    header_place: Callable[[Path], int] = lambda _: 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something of a file that cannot be read: the line or row (0: the file as a whole), and what is wrong there."""

    place: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """The records of a text, in its order, and what is wrong with the places that hold none."""

    items: tuple[Item, ...]
    troubles: tuple[Trouble, ...]
    unit: Unit = "line"


class Faulty:
    """Stands in a value for something that was there and means nothing; `reason` is a sentence."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


def dotted(path: Path) -> str:
    """Return a path as messages show it.

    >>> dotted(("turns", 0, "query"))
    'turns.0.query'
    """
    return ".".join(str(part) for part in path)


def located(path: Path, reason: str) -> str:
    """Return what is wrong with a field, or with the record itself where the path is empty."""
    return f"{dotted(path)}: {reason}" if path else reason


def twice(key: str) -> Faulty:
    """Return what stands for the value of a key that an object has twice."""
    return Faulty(f"the key {key!r} stands twice; keep one")


@dataclass(frozen=True, slots=True)
class LineStarts:
    """Where the lines of a text begin."""

    offsets: list[int]

    def line(self, offset: int) -> int:
        """Return the line (1-based) of an offset."""
        return bisect_right(self.offsets, offset)


def line_starts(text: str) -> LineStarts:
    r"""Return where the lines of a text begin.

    >>> line_starts("a\nb").line(2)
    2
    """
    starts = [0]
    while end := text.find("\n", starts[-1]) + 1:
        starts.append(end)
    return LineStarts(starts)


def faults(value: Any) -> Iterator[tuple[Path, str]]:
    """Yield where a value is faulty, nested too deep, or no text, and why; it is walked without recursion."""
    waiting: list[tuple[Path, Any]] = [((), value)]
    while waiting:
        path, found = waiting.pop()
        if isinstance(found, Faulty):
            yield path, found.reason
        elif isinstance(found, str):
            if _SURROGATE.search(found):
                yield path, "half of a surrogate pair stands in the text; it is no character"
        elif len(path) > MAX_DEPTH:
            yield path[:3], f"nested deeper than {MAX_DEPTH} levels; no case needs that"
            return
        elif isinstance(found, dict):
            waiting.extend((path, key) for key in found if _SURROGATE.search(key))
            waiting.extend(((*path, key), inner) for key, inner in reversed(found.items()))
        elif isinstance(found, list):
            waiting.extend(((*path, place), inner) for place, inner in reversed(list(enumerate(found))))


#: White space as JSON has it.
BLANK: Final = " \t\r\n"


class Cursor:
    """A place in a JSON text. Whoever takes a member or an element from it reads its value before the next."""

    __slots__ = ("_text", "at")

    def __init__(self, text: str, at: int = 0) -> None:
        self._text = text
        self.at = at
        self._skip()

    def value(self) -> Any:
        """Return the value here and go past it.

        Raises:
            JSONDecodeError: there is none.
            RecursionError: it is nested too deep.
        """
        value, self.at = DECODER.raw_decode(self._text, self.at)
        self._skip()
        return value

    def sees(self, mark: str) -> bool:
        """Return whether a mark stands here."""
        return self._text.startswith(mark, self.at)

    def ended(self) -> bool:
        """Return whether nothing but white space follows."""
        return self.at >= len(self._text)

    def members(self) -> Iterator[str]:
        """Yield the keys of the object here, each with the cursor at its value; end behind the object.

        Raises:
            JSONDecodeError: the text is none.
        """
        for _ in self._parts("{", "}"):
            if not self.sees('"'):
                raise json.JSONDecodeError("Expecting property name enclosed in double quotes", self._text, self.at)
            key = self.value()
            self._take(":", "Expecting ':' delimiter")
            yield key

    def elements(self) -> Iterator[int]:
        """Yield where the elements of the list here begin, each with the cursor at it; end behind the list.

        Raises:
            JSONDecodeError: the text is none.
        """
        return self._parts("[", "]")

    def _parts(self, opening: str, closing: str) -> Iterator[int]:
        self._take(opening, f"Expecting '{opening}'")
        if not self.sees(closing):
            yield self.at
            while self.sees(","):
                self._take(",", "")
                yield self.at
        self._take(closing, "Expecting ',' delimiter")

    def _take(self, mark: str, message: str) -> None:
        if not self.sees(mark):
            raise json.JSONDecodeError(message, self._text, self.at)
        self.at += 1
        self._skip()

    def _skip(self) -> None:
        text, at, end = self._text, self.at, len(self._text)
        while at < end and text[at] in BLANK:
            at += 1
        self.at = at


def offset_of(text: str, start: int, path: Path) -> int:
    """Return where a field of the value at `start` begins; of one that is not there, where its holder begins."""
    for part in path:
        start = _part_of(Cursor(text, start), part)
    return start


def _part_of(cursor: Cursor, part: str | int) -> int:
    start, found = cursor.at, None
    keys = cursor.members() if cursor.sees("{") else cursor.elements() if cursor.sees("[") else iter(())
    with suppress(json.JSONDecodeError):  # the text may break off inside
        for place, key in enumerate(keys):
            # Of a key that stands twice the second is the one too many.
            if part == (place if isinstance(part, int) else key):
                found = cursor.at
            cursor.value()
    return start if found is None else found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                found[key] = twice(key)
            seen.add(key)
    return found


def _whole_number(digits: str) -> Any:
    try:
        return int(digits)
    except ValueError:  # Python's own limit, against numbers that take forever
        return Faulty(f"a number of {len(digits):,} digits; write it as a text")


def _fraction(digits: str) -> Any:
    value = float(digits)
    return value if math.isfinite(value) else Faulty(f"{digits} is beyond what a number can hold")


def _constant(name: str) -> Faulty:
    return Faulty(f"{name} is not JSON; leave the field out or give a number")


DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole_number, parse_float=_fraction, parse_constant=_constant
)


#: Endings of files of JSON lines.
LINES: Final = (".jsonl", ".ndjson")
_TOO_DEEP: Final = "nested too deep to be read; no case needs that"


def parse_lines(text: str) -> Parsed:
    """Return the records of JSON lines: one a line; a bad line loses no other."""
    items: list[Item] = []
    troubles: list[Trouble] = []
    # Not splitlines(): U+2028 and its like are ordinary characters inside a JSON text.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip(BLANK):
            continue
        try:
            value = whole(line)
        except ValueError as error:
            told = f"not JSON: {error}; a line holds one case as a JSON object"
            troubles.append(Trouble(place=number, text=told))
            continue
        wrong = [Trouble(place=number, text=located(path, reason)) for path, reason in faults(value)]
        troubles += wrong
        if not wrong:
            items.append(Item(value=value, place_of=partial(_same, number)))
    return Parsed(items=tuple(items), troubles=tuple(troubles))


def parse_document(text: str) -> Parsed:
    """Return the records of one JSON document: a list, an object that holds one, or a single record.

    Past an error of syntax nothing can be read; what stands before it is kept.
    """
    return _Document(text).parsed()


def parse_json(name: str, text: str) -> Parsed:
    """Return the records of a JSON text: the look decides between lines and a document, the ending where it cannot.

    Args:
        name: of the file, in small letters.
        text: what stands in it.
    """
    if not text.strip():
        return Parsed(items=(), troubles=())
    if is_lines(text) or (name.endswith(LINES) and not reads(text)):
        return parse_lines(text)
    return parse_document(text)


def is_lines(text: str) -> bool:
    """Return whether a text is JSON lines rather than one document: its first line is a value, and more follow."""
    first, second = [*islice(_filled_lines(text), 2), "", ""][:2]
    return bool(second) and reads(first)


def reads(text: str) -> bool:
    """Return whether a text is one JSON value."""
    try:
        whole(text)
    except ValueError:
        return False
    return True


def whole(text: str) -> Any:
    """Return the one JSON value of a text; what means nothing in it is `Faulty`.

    Raises:
        ValueError: the text is no JSON value; says what is wrong, and in which column.
    """
    cursor = Cursor(text)
    try:
        value = cursor.value()
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at column {error.colno}") from error
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    if not cursor.ended():
        raise ValueError(f"more text after the value at column {cursor.at + 1}")
    return value


class _Document:
    """A JSON document, read member by member so that each knows its place."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = line_starts(text)
        self._items: list[Item] = []
        self._troubles: list[Trouble] = []

    def parsed(self) -> Parsed:
        cursor = Cursor(self._text)
        try:
            self._read_top(cursor)
            if not cursor.ended():
                self._troubled(cursor.at, "more text after the document; of several values each has a line of its own")
        except json.JSONDecodeError as error:
            self._troubled(error.pos, f"not JSON: {error.msg} at column {error.colno}; nothing after it was read")
        except RecursionError:
            self._troubled(cursor.at, f"not JSON: {_TOO_DEEP}")
        return Parsed(items=tuple(self._items), troubles=tuple(self._troubles))

    def _read_top(self, cursor: Cursor) -> None:
        top = cursor.at
        if cursor.sees("["):
            self._read_list(cursor, top, {})
        elif cursor.sees("{"):
            self._read_object(cursor, top)
        else:
            self._add(top, cursor.value(), top, {})

    def _read_object(self, cursor: Cursor, top: int) -> None:
        """Read an object whose list holds the records, or that is the one record."""
        header = dict[str, Any]()
        wraps = False
        for key in cursor.members():
            if key in WRAPPERS and cursor.sees("["):
                wraps = True
                self._read_list(cursor, top, header)  # the header is complete when the items are looked at
            else:
                value = cursor.value()
                header[key] = twice(key) if key in header else value
        if wraps:
            self._sound(top, header)
        else:
            self._add(top, header, top, {})

    def _read_list(self, cursor: Cursor, top: int, header: dict[str, Any]) -> None:
        for start in cursor.elements():
            self._add(start, cursor.value(), top, header)

    def _add(self, start: int, value: Any, top: int, header: dict[str, Any]) -> None:
        """Add the record that begins at `start`; `header` are the fields around it, of the object at `top`."""
        if self._sound(start, value):
            place_of, header_place = partial(self._place_of, start), partial(self._place_of, top)
            self._items.append(Item(value=value, place_of=place_of, header=header, header_place=header_place))

    def _sound(self, start: int, value: Any) -> bool:
        """Return whether nothing in a value is faulty; tell what is."""
        wrong = list(faults(value))
        for path, reason in wrong:
            self._troubled(offset_of(self._text, start, path), located(path, reason))
        return not wrong

    def _place_of(self, start: int, path: Path) -> int:
        return self._starts.line(offset_of(self._text, start, path))

    def _troubled(self, offset: int, text: str) -> None:
        self._troubles.append(Trouble(place=self._starts.line(offset), text=text))


def _same(number: int, _: Path) -> int:
    return number


def _filled_lines(text: str) -> Iterator[str]:
    """Yield the lines that are not blank, without cutting up the whole text."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if (line := text[start:end]).strip(BLANK):
            yield line
        start = end + 1


#: Values in a file, those that aliases repeat included.
MAX_VALUES: Final = 1_000_000
#: Plain scalars that are no text, beside numbers.
CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
#: A number as JSON writes it; what looks otherwise (007, 0x1f, 1_000, 12:30) is text.
NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$")
_TAGS: Final = "tag:yaml.org,2002:"
#: A key that, without quotes, asks to merge what it names into the object.
MERGE: Final = "<<"


class GivenUpError(Exception):
    """The rest of the text is not read: it is beyond a limit, or makes no sense from `line` on."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


@dataclass(slots=True, kw_only=True)
class Node:
    """A value with its line; `parts` are those of a container, `size` counts the values in it and itself.

    A container is `open` until its end was read.
    """

    line: int
    value: Any
    parts: dict[str | int, Node] = field(default_factory=dict)
    size: int = 1
    open: bool = False
    key: str | None = None
    merges: bool = False

    def place_of(self, path: Path) -> int:
        """Return the line of a field; of one that is not there, of what should hold it."""
        node = self
        for part in path:
            if part not in node.parts:
                break
            node = node.parts[part]
        return node.line


class Builder:
    """Makes nodes of events. `tops` are the documents, as far as they were read."""

    def __init__(self) -> None:
        self.tops: list[Node] = []
        self._stack: list[Node] = []
        self._anchors: dict[str, Node] = {}
        self._values = 0

    def take(self, event: Event) -> None:
        """Take the next event of the text.

        Raises:
            GivenUpError: the text is beyond a limit.
        """
        line = event.start_mark.line + 1 if event.start_mark is not None else 1
        match event:
            case DocumentStartEvent():
                self._anchors.clear()
            case ScalarEvent():
                self._scalar(event, line)
            case AliasEvent():
                self._alias(event, line)
            case CollectionStartEvent():
                value: Any = {} if isinstance(event, MappingStartEvent) else []
                self._begin(event, Node(line=line, value=value, open=True))
            case CollectionEndEvent():
                node = self._stack.pop()
                node.open = False
                node.size = 1 + sum(part.size for part in node.parts.values())

    def _scalar(self, event: ScalarEvent, line: int) -> None:
        if self._wants_key():
            merges = event.value == MERGE and event.implicit[0]
            self._stack[-1].key = event.value
            self._stack[-1].merges = merges
            return
        node = Node(line=line, value=_value(event))
        self._remember(event, node)
        self._attach(node)

    def _begin(self, event: CollectionStartEvent, node: Node) -> None:
        if self._wants_key():
            raise GivenUpError(node.line, "a key is a text; found a list or an object, nothing after it was read")
        if event.tag in {None, "!", f"{_TAGS}map", f"{_TAGS}seq"}:
            self._remember(event, node)
            self._attach(node)
        else:  # what it holds goes nowhere
            self._attach(Node(line=node.line, value=_unknown(event.tag)))
        self._stack.append(node)
        if len(self._stack) > MAX_DEPTH:
            raise GivenUpError(node.line, f"nested deeper than {MAX_DEPTH} levels; no case needs that")

    def _alias(self, event: AliasEvent, line: int) -> None:
        target = self._anchors.get(str(event.anchor))
        if target is None:
            raise GivenUpError(line, f"alias *{event.anchor} names no anchor; nothing after it was read")
        if self._wants_key():
            self._stack[-1].key = str(target.value)
        elif target.open:
            self._attach(Node(line=line, value=Faulty(f"alias *{event.anchor} holds itself; write the value out")))
        else:
            self._attach(Node(line=line, value=target.value, parts=target.parts, size=target.size))

    def _wants_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None

    def _remember(self, event: NodeEvent, node: Node) -> None:
        if event.anchor is not None:
            self._anchors[event.anchor] = node

    def _attach(self, node: Node) -> None:
        self._values += node.size
        if self._values > MAX_VALUES:
            raise GivenUpError(
                node.line, f"more than {MAX_VALUES:,} values, those that aliases repeat included; split it"
            )
        if not self._stack:
            self.tops.append(node)
            return
        holder = self._stack[-1]
        if isinstance(holder.value, list):
            holder.parts[len(holder.value)] = node
            holder.value.append(node.value)
            return
        key, holder.key = str(holder.key), None
        if key in holder.value:
            node = Node(line=node.line, value=twice(key))
        elif holder.merges:
            node = Node(line=node.line, value=Faulty("merging (<<) is not supported; write the fields out"))
        holder.parts[key] = node
        holder.value[key] = node.value


def _value(event: ScalarEvent) -> Any:
    plain, quoted = event.implicit
    if plain and event.tag != "!":
        return _plain(event.value)
    if quoted or event.tag in {"!", f"{_TAGS}str"}:
        return event.value
    kinds = {f"{_TAGS}int": int, f"{_TAGS}float": float, f"{_TAGS}bool": bool, f"{_TAGS}null": type(None)}
    value = _plain(event.value)
    if event.tag not in kinds:
        return _unknown(event.tag)
    if type(value) is kinds[event.tag] or isinstance(value, Faulty):
        return value
    return Faulty(f"{event.value!r} is not what its tag {event.tag} says")


def _plain(text: str) -> Any:
    """Return what a scalar without quotes stands for."""
    if text in CONSTANTS:
        return CONSTANTS[text]
    return DECODER.decode(text) if NUMBER.match(text) else text


def _unknown(tag: str | None) -> Faulty:
    return Faulty(f"unknown tag {tag}; write plain YAML")


_WIDTH: Final = 120
_REST: Final = "nothing after it was read"
#: Line breaks to YAML 1.1 and the byte order mark, which unquoted would not come back, and characters that steer a terminal,
#: which have escapes in double quotes only.
_ODD: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def parse_yaml(text: str) -> Parsed:
    """Return the records of a YAML text: of each document the list, the object that holds one, or the record itself.

    Past an error of syntax nothing can be read; what stands before it is kept.
    """
    builder = Builder()
    troubles: list[Trouble] = []
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            builder.take(event)
    except GivenUpError as error:
        troubles.append(Trouble(place=error.line, text=str(error)))
    except yaml.YAMLError as error:
        troubles.append(_told(error, text))
    items = [item for top in builder.tops for item in _records(top, troubles)]
    return Parsed(items=tuple(items), troubles=tuple(sorted(troubles, key=lambda trouble: trouble.place)))


def write_yaml(document: Any) -> str:
    """Return a JSON value as YAML that `parse_yaml` reads back as it was."""
    return str(yaml.dump(document, Dumper=_dumper(), allow_unicode=True, sort_keys=False, width=_WIDTH))


def _records(top: Node, troubles: list[Trouble]) -> Iterator[Item]:
    """Yield the records of a document, each with what stands around the list that it is in."""
    if isinstance(top.value, list):
        lists, header = [top], {}
    elif isinstance(top.value, dict):
        lists = [part for key, part in top.parts.items() if key in WRAPPERS and isinstance(part.value, list)]
        header = {str(key): part.value for key, part in top.parts.items() if part not in lists} if lists else {}
    elif top.value is None:  # nothing between two `---`
        return
    else:
        lists, header = [], {}
    _sound(top, header, troubles)
    for node in [part for held in lists for part in held.parts.values()] if lists else [top]:
        if _sound(node, node.value, troubles) and not node.open:
            yield Item(value=node.value, place_of=node.place_of, header=header, header_place=top.place_of)


def _sound(node: Node, value: Any, troubles: list[Trouble]) -> bool:
    """Return whether nothing in a value is faulty; tell what is."""
    wrong = list(faults(value))
    troubles += [Trouble(place=node.place_of(path), text=located(path, reason)) for path, reason in wrong]
    return not wrong


def _told(error: YAMLError, text: str) -> Trouble:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        problem = getattr(error, "problem", None) or getattr(error, "context", None) or "it makes no sense"
        return Trouble(place=mark.line + 1, text=f"not YAML: {problem} at column {mark.column + 1}; {_REST}")
    position = getattr(error, "position", None)
    place = line_starts(text).line(position) if isinstance(position, int) else 0
    return Trouble(place=place, text=f"not YAML: a character that YAML does not allow; write it as an escape; {_REST}")


def _dumper() -> type[SafeDumper]:
    """Return a dumper that leaves a text without quotes only where every reader takes it for text.

    PyYAML itself knows what YAML 1.1 takes for something else; what we take for something else is added.
    """

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, _: Any) -> bool:
            return True

    digits = list("-0123456789")
    for tag, pattern, first in (
        ("bool", r"(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
        ("null", r"(?:~|null|Null|NULL)?$", ["~", "n", "N", ""]),
        ("int", r"-?(?:0|[1-9][0-9]*)$", digits),
        ("float", NUMBER.pattern, digits),
        ("merge", f"{MERGE}$", [MERGE[0]]),
    ):
        Plain.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), first)
    Plain.add_representer(str, _written)
    return Plain


def _written(dumper: SafeDumper, text: str) -> ScalarNode:
    """Return a text as it is written: over several lines where it has some, escaped where it is odd."""
    plain = not _ODD.search(text)
    style = ("|" if "\n" in text else None) if plain else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
