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

#: The path from a record to one of its fields: keys and indices, such as `("turns", 0, "query")`.
Path = tuple[str | int, ...]
Unit = Literal["line", "row"]

#: Maximum nesting of objects and lists; deeper ones are attacks on the reader.
MAX_DEPTH: Final = 128
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
#: Keys of an object that may contain the list of records of a file.
WRAPPERS: Final = frozenset({"cases", "eval_cases", "evalCases", "samples", "tasks", "datasets"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One record of a file, as JSON.

    `line_of` returns the line (or row, 1-based) of a field, `name_of` its path in the file. `header` are the fields around the
    list that contains the record, `header_line` returns the line of one of these.
    """

    value: Any
    line_of: Callable[[Path], int]
    name_of: Callable[[Path], Path] = lambda path: path
    header: Mapping[str, Any] = field(default_factory=dict)
    header_line: Callable[[Path], int] = lambda _: 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A part of a file that cannot be read: the line or row (0: the whole file), and the reason."""

    line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """The records of a text, in order, and the problems of the invalid ones."""

    items: tuple[Item, ...]
    problems: tuple[Problem, ...]
    unit: Unit = "line"


class Faulty:
    """A placeholder for an invalid value; `reason` is a sentence."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


def dotted(path: Path) -> str:
    """Return a path as displayed in messages.

    >>> dotted(("turns", 0, "query"))
    'turns.0.query'
    """
    return ".".join(str(part) for part in path)


def located(path: Path, reason: str) -> str:
    """Return the message of a problem with a field, or with the record itself if the path is empty."""
    return f"{dotted(path)}: {reason}" if path else reason


def duplicate(key: str) -> Faulty:
    """Return the placeholder for the value of a duplicate key."""
    return Faulty(f"duplicate key {key!r}; keep one")


@dataclass(frozen=True, slots=True)
class LineStarts:
    """The offsets of the lines of a text."""

    offsets: list[int]

    def line(self, offset: int) -> int:
        """Return the line (1-based) of an offset."""
        return bisect_right(self.offsets, offset)


def line_starts(text: str) -> LineStarts:
    r"""Return the offsets of the lines of a text.

    >>> line_starts("a\nb").line(2)
    2
    """
    starts = [0]
    while end := text.find("\n", starts[-1]) + 1:
        starts.append(end)
    return LineStarts(starts)


def faults(value: Any) -> Iterator[tuple[Path, str]]:
    """Yield path and reason of each value that is faulty, nested too deep, or no text; iterative, without recursion."""
    waiting: list[tuple[Path, Any]] = [((), value)]
    while waiting:
        path, item = waiting.pop()
        if isinstance(item, Faulty):
            yield path, item.reason
        elif isinstance(item, str):
            if _SURROGATE.search(item):
                yield path, "half of a surrogate pair in the text; it is no character"
        elif len(path) > MAX_DEPTH:
            yield path[:3], f"nested deeper than {MAX_DEPTH} levels; no case needs that"
            return
        elif isinstance(item, dict):
            waiting.extend((path, key) for key in item if _SURROGATE.search(key))
            waiting.extend(((*path, key), inner) for key, inner in reversed(item.items()))
        elif isinstance(item, list):
            waiting.extend(((*path, index), inner) for index, inner in reversed(list(enumerate(item))))


#: White space of JSON.
BLANK: Final = " \t\r\n"


class Cursor:
    """A position in a JSON text. The caller reads the value of each member or element before the next one."""

    __slots__ = ("_text", "at")

    def __init__(self, text: str, at: int = 0) -> None:
        self._text = text
        self.at = at
        self._skip()

    def value(self) -> Any:
        """Return the value at the cursor and move past it.

        Raises:
            JSONDecodeError: there is no valid value.
            RecursionError: the value is nested too deep.
        """
        value, self.at = DECODER.raw_decode(self._text, self.at)
        self._skip()
        return value

    def sees(self, mark: str) -> bool:
        """Return whether a mark is at the cursor."""
        return self._text.startswith(mark, self.at)

    def ended(self) -> bool:
        """Return whether only white space follows."""
        return self.at >= len(self._text)

    def members(self) -> Iterator[str]:
        """Yield the keys of the object at the cursor, with the cursor at the value of each; end after the object.

        Raises:
            JSONDecodeError: the object is malformed.
        """
        for _ in self._parts("{", "}"):
            if not self.sees('"'):
                raise json.JSONDecodeError("Expecting property name enclosed in double quotes", self._text, self.at)
            key = self.value()
            self._take(":", "Expecting ':' delimiter")
            yield key

    def elements(self) -> Iterator[int]:
        """Yield the offsets of the elements of the list at the cursor, with the cursor at each; end after the list.

        Raises:
            JSONDecodeError: the list is malformed.
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
    """Return the offset of a field of the value at `start`; of a missing field, the offset of its container."""
    for part in path:
        start = _part_of(Cursor(text, start), part)
    return start


def _part_of(cursor: Cursor, part: str | int) -> int:
    start, position = cursor.at, None
    keys = cursor.members() if cursor.sees("{") else cursor.elements() if cursor.sees("[") else iter(())
    with suppress(json.JSONDecodeError):  # the text may be truncated
        for index, key in enumerate(keys):
            # The second of two equal keys is the duplicate.
            if part == (index if isinstance(part, int) else key):
                position = cursor.at
            cursor.value()
    return start if position is None else position


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        known: set[str] = set()
        for key, _ in pairs:
            if key in known:
                mapping[key] = duplicate(key)
            known.add(key)
    return mapping


def _whole_number(digits: str) -> Any:
    try:
        return int(digits)
    except ValueError:  # Python's own limit against quadratic conversion times
        return Faulty(f"a number of {len(digits):,} digits; write it as a text")


def _fraction(digits: str) -> Any:
    value = float(digits)
    return value if math.isfinite(value) else Faulty(f"{digits} is beyond what a number can hold")


def _constant(name: str) -> Faulty:
    return Faulty(f"{name} is not JSON; leave the field out or give a number")


DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole_number, parse_float=_fraction, parse_constant=_constant
)


#: Extensions of files of JSON lines.
LINES: Final = (".jsonl", ".ndjson")
_TOO_DEEP: Final = "nested too deep to be read; no case needs that"


def parse_lines(text: str) -> Parsed:
    """Return the records of JSON lines, one per line; an invalid line does not affect others."""
    items: list[Item] = []
    problems: list[Problem] = []
    # Not splitlines(): U+2028 and similar are ordinary characters inside a JSON text.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip(BLANK):
            continue
        try:
            value = parse_value(line)
        except ValueError as error:
            message = f"not JSON: {error}; a line holds one case as a JSON object"
            problems.append(Problem(line=number, text=message))
            continue
        invalid = [Problem(line=number, text=located(path, reason)) for path, reason in faults(value)]
        problems += invalid
        if not invalid:
            items.append(Item(value=value, line_of=partial(_same, number)))
    return Parsed(items=tuple(items), problems=tuple(problems))


def parse_document(text: str) -> Parsed:
    """Return the records of one JSON document: a list, an object with a list of records, or a single record.

    After a syntax error nothing can be read; the records before it are returned.
    """
    return _Document(text).parsed()


def parse_json(name: str, text: str) -> Parsed:
    """Return the records of a JSON text: its content decides between lines and a document, otherwise its extension.

    Args:
        name: name of the file, in lower case.
        text: content of the file.
    """
    if not text.strip():
        return Parsed(items=(), problems=())
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
        parse_value(text)
    except ValueError:
        return False
    return True


def parse_value(text: str) -> Any:
    """Return the only JSON value of a text; invalid parts of it are `Faulty`.

    Raises:
        ValueError: the text is not one JSON value; the message names the reason and the column.
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
    """A JSON document, read member by member so that the position of each is known."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = line_starts(text)
        self._items: list[Item] = []
        self._problems: list[Problem] = []

    def parsed(self) -> Parsed:
        cursor = Cursor(self._text)
        try:
            self._read_top(cursor)
            if not cursor.ended():
                self._report(cursor.at, "more text after the document; of several values, write each on its own line")
        except json.JSONDecodeError as error:
            self._report(error.pos, f"not JSON: {error.msg} at column {error.colno}; nothing after it was read")
        except RecursionError:
            self._report(cursor.at, f"not JSON: {_TOO_DEEP}")
        return Parsed(items=tuple(self._items), problems=tuple(self._problems))

    def _read_top(self, cursor: Cursor) -> None:
        top = cursor.at
        if cursor.sees("["):
            self._read_list(cursor, top, {})
        elif cursor.sees("{"):
            self._read_object(cursor, top)
        else:
            self._add(top, cursor.value(), top, {})

    def _read_object(self, cursor: Cursor, top: int) -> None:
        """Read an object that contains the list of records, or is the only record."""
        header = dict[str, Any]()
        wraps = False
        for key in cursor.members():
            if key in WRAPPERS and cursor.sees("["):
                wraps = True
                self._read_list(cursor, top, header)  # items are used after the header is complete
            else:
                value = cursor.value()
                header[key] = duplicate(key) if key in header else value
        if wraps:
            self._sound(top, header)
        else:
            self._add(top, header, top, {})

    def _read_list(self, cursor: Cursor, top: int, header: dict[str, Any]) -> None:
        for start in cursor.elements():
            self._add(start, cursor.value(), top, header)

    def _add(self, start: int, value: Any, top: int, header: dict[str, Any]) -> None:
        """Add the record at offset `start`; `header` are the fields around it, of the object at `top`."""
        if self._sound(start, value):
            line_of, header_line = partial(self._line_of, start), partial(self._line_of, top)
            self._items.append(Item(value=value, line_of=line_of, header=header, header_line=header_line))

    def _sound(self, start: int, value: Any) -> bool:
        """Return whether a value has no faults; report them."""
        invalid = list(faults(value))
        for path, reason in invalid:
            self._report(offset_of(self._text, start, path), located(path, reason))
        return not invalid

    def _line_of(self, start: int, path: Path) -> int:
        return self._starts.line(offset_of(self._text, start, path))

    def _report(self, offset: int, text: str) -> None:
        self._problems.append(Problem(line=self._starts.line(offset), text=text))


def _same(number: int, _: Path) -> int:
    return number


def _filled_lines(text: str) -> Iterator[str]:
    """Yield the lines that are not blank, without splitting the whole text."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if (line := text[start:end]).strip(BLANK):
            yield line
        start = end + 1


#: Maximum number of values in a file, including those repeated by aliases.
MAX_VALUES: Final = 1_000_000
#: Plain scalars that are not text, besides numbers.
CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
#: A number as in JSON; other notations (007, 0x1f, 1_000, 12:30) are text.
NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$")
_TAGS: Final = "tag:yaml.org,2002:"
#: An unquoted key that merges the named object into this one.
MERGE: Final = "<<"


class GivenUpError(Exception):
    """The rest of the text is not read: it exceeds a limit, or is malformed from `line` on."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


@dataclass(slots=True, kw_only=True)
class Node:
    """A value with its line; `parts` are the nodes of a container, `size` counts its values and itself.

    A container is `open` until its end has been read.
    """

    line: int
    value: Any
    parts: dict[str | int, Node] = field(default_factory=dict)
    size: int = 1
    open: bool = False
    key: str | None = None
    merges: bool = False

    def line_of(self, path: Path) -> int:
        """Return the line of a field; of a missing field, that of its container."""
        node = self
        for part in path:
            if part not in node.parts:
                break
            node = node.parts[part]
        return node.line


class Builder:
    """Builds nodes from events. `tops` are the documents read so far."""

    def __init__(self) -> None:
        self.tops: list[Node] = []
        self._stack: list[Node] = []
        self._anchors: dict[str, Node] = {}
        self._values = 0

    def take(self, event: Event) -> None:
        """Process the next event.

        Raises:
            GivenUpError: the text exceeds a limit.
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
        else:  # its content is discarded
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
            self._attach(Node(line=line, value=Faulty(f"alias *{event.anchor} contains itself; write the value out")))
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
                node.line, f"more than {MAX_VALUES:,} values, including those repeated by aliases; split it"
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
            node = Node(line=node.line, value=duplicate(key))
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
    return Faulty(f"{event.value!r} does not have the type of its tag {event.tag}")


def _plain(text: str) -> Any:
    """Return the value of an unquoted scalar."""
    if text in CONSTANTS:
        return CONSTANTS[text]
    return DECODER.decode(text) if NUMBER.match(text) else text


def _unknown(tag: str | None) -> Faulty:
    return Faulty(f"unknown tag {tag}; write plain YAML")


_WIDTH: Final = 120
_REST: Final = "nothing after it was read"
#: Line breaks of YAML 1.1 and the byte order mark, which would be lost without quotes, and control characters of terminals,
#: which have escapes in double quotes only.
_ESCAPED: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def parse_yaml(text: str) -> Parsed:
    """Return the records of a YAML text: of each document the list, the object with a list of records, or the record itself.

    After a syntax error nothing can be read; the records before it are returned.
    """
    builder = Builder()
    problems: list[Problem] = []
    try:
        for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            builder.take(event)
    except GivenUpError as error:
        problems.append(Problem(line=error.line, text=str(error)))
    except yaml.YAMLError as error:
        problems.append(_syntax_problem(error, text))
    items = [item for top in builder.tops for item in _records(top, problems)]
    return Parsed(items=tuple(items), problems=tuple(sorted(problems, key=lambda problem: problem.line)))


def write_yaml(document: Any) -> str:
    """Return a JSON value as YAML that `parse_yaml` reads back unchanged."""
    return str(yaml.dump(document, Dumper=_dumper(), allow_unicode=True, sort_keys=False, width=_WIDTH))


def _records(top: Node, problems: list[Problem]) -> Iterator[Item]:
    """Yield the records of a document, each with the fields around the list that contains it."""
    if isinstance(top.value, list):
        lists, header = [top], {}
    elif isinstance(top.value, dict):
        lists = [part for key, part in top.parts.items() if key in WRAPPERS and isinstance(part.value, list)]
        header = {str(key): part.value for key, part in top.parts.items() if part not in lists} if lists else {}
    elif top.value is None:  # nothing between two `---`
        return
    else:
        lists, header = [], {}
    _sound(top, header, problems)
    for node in [part for held in lists for part in held.parts.values()] if lists else [top]:
        if _sound(node, node.value, problems) and not node.open:
            yield Item(value=node.value, line_of=node.line_of, header=header, header_line=top.line_of)


def _sound(node: Node, value: Any, problems: list[Problem]) -> bool:
    """Return whether a value has no faults; report them."""
    invalid = list(faults(value))
    problems += [Problem(line=node.line_of(path), text=located(path, reason)) for path, reason in invalid]
    return not invalid


def _syntax_problem(error: YAMLError, text: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    if mark is not None:
        problem = getattr(error, "problem", None) or getattr(error, "context", None) or "it makes no sense"
        return Problem(line=mark.line + 1, text=f"not YAML: {problem} at column {mark.column + 1}; {_REST}")
    position = getattr(error, "position", None)
    line = line_starts(text).line(position) if isinstance(position, int) else 0
    return Problem(line=line, text=f"not YAML: a character that YAML does not allow; write it as an escape; {_REST}")


def _dumper() -> type[SafeDumper]:
    """Return a dumper that omits quotes only if every reader takes the text for text.

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
    """Return a text as a scalar node: a block if it has several lines, escaped if it has special characters."""
    plain = not _ESCAPED.search(text)
    style = ("|" if "\n" in text else None) if plain else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)
