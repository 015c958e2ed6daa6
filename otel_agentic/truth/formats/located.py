"""Records of JSON texts with the line of every field, and the types for records of any text.

Documents are read member by member with `json`, since a parser for the whole text does not report positions, and would lose the
records before a syntax error. Duplicate keys, NaN and numbers out of range become `Faulty`: each would lose a value silently.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final, Literal

#: The path from a record to one of its fields: keys and indices, such as `("turns", 0, "query")`.
Path = tuple[str | int, ...]
Unit = Literal["line", "row"]

#: Maximum nesting of objects and lists; deeper nesting is treated as an attack on the parser.
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


def same_line(line: int, _: Path) -> int:
    """Return the line of any field of a record that is on a single line."""
    return line


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


def column_problems(header: Sequence[str], columns: Container[str], allowed: str) -> Iterator[str]:
    """Yield the problems of the columns of a table: unknown ones, and those that occur twice.

    Args:
        header: the names in the file.
        columns: the known names.
        allowed: the known names as text.
    """
    for column in sorted({column for column in header if column not in columns}):
        yield f"{column or 'a column without a name'}: unknown column; allowed: {allowed}"
    for column in sorted({column for column in header if header.count(column) > 1}):
        yield f"{column}: duplicate column; keep one"


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
    """Yield the path and reason of each value that is faulty, nested too deeply, or invalid text, without recursion."""
    pending: list[tuple[Path, Any]] = [((), value)]
    while pending:
        path, current = pending.pop()
        if isinstance(current, Faulty):
            yield path, current.reason
        elif isinstance(current, str):
            if _SURROGATE.search(current):
                yield path, "half of a surrogate pair in the text; it is no character"
        elif len(path) > MAX_DEPTH:
            yield path[:3], f"nested deeper than {MAX_DEPTH} levels; no case needs that"
            return
        elif isinstance(current, dict):
            pending.extend((path, key) for key in current if _SURROGATE.search(key))
            pending.extend(((*path, key), inner) for key, inner in reversed(current.items()))
        elif isinstance(current, list):
            pending.extend(((*path, index), inner) for index, inner in reversed(list(enumerate(current))))


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
            RecursionError: the value is nested too deeply.
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
    """Return the offset of a field of the value at `start`, or of its container if the field is missing."""
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
        keys: set[str] = set()
        for key, _ in pairs:
            if key in keys:
                mapping[key] = duplicate(key)
            keys.add(key)
    return mapping


def _whole_number(digits: str) -> Any:
    try:
        return int(digits)
    except ValueError:  # Python limits the digits, because the conversion takes quadratic time
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
            items.append(Item(value=value, line_of=partial(same_line, number)))
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
            self._check(top, header)
        else:
            self._add(top, header, top, {})

    def _read_list(self, cursor: Cursor, top: int, header: dict[str, Any]) -> None:
        for start in cursor.elements():
            self._add(start, cursor.value(), top, header)

    def _add(self, start: int, value: Any, top: int, header: dict[str, Any]) -> None:
        """Add the record at offset `start`; `header` are the fields around it, of the object at `top`."""
        if self._check(start, value):
            line_of, header_line = partial(self._line_of, start), partial(self._line_of, top)
            self._items.append(Item(value=value, line_of=line_of, header=header, header_line=header_line))

    def _check(self, start: int, value: Any) -> bool:
        """Report the faults of a value; return whether it has no faults."""
        invalid = list(faults(value))
        for path, reason in invalid:
            self._report(offset_of(self._text, start, path), located(path, reason))
        return not invalid

    def _line_of(self, start: int, path: Path) -> int:
        return self._starts.line(offset_of(self._text, start, path))

    def _report(self, offset: int, text: str) -> None:
        self._problems.append(Problem(line=self._starts.line(offset), text=text))


def _filled_lines(text: str) -> Iterator[str]:
    """Yield the lines that are not blank, without splitting the whole text."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if (line := text[start:end]).strip(BLANK):
            yield line
        start = end + 1
