"""Reads JSON lines and JSON documents: strict, with the line of every field."""

from __future__ import annotations

import json
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.truth.formats.cursor import BLANK, Cursor, offset_of
from otel_agentic.truth.formats.items import WRAPPERS, Item, Parsed, Path, Trouble, faults, line_starts, located, twice

if TYPE_CHECKING:
    from collections.abc import Iterator

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
