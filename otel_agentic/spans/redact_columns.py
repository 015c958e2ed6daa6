"""Columns of credentials in tables of text: CSV, and tables of Markdown, by the names in their first line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from otel_agentic.spans.redact_marks import MARK_START, is_empty
from otel_agentic.spans.redact_names import is_directory, strength_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_SEPARATORS: Final = ("|", "\t", ";", ",")
#: A cell, quoted or not, with the separator that ends it left out.
_CELLS: Final = {
    separator: re.compile(rf'(?:[ ]*"(?P<quoted>(?:[^"\n]|"")*)"[ ]*|(?P<plain>[^{re.escape(separator)}\n]*))')
    for separator in _SEPARATORS
}
_NAME: Final = re.compile(r"[\w .()/-]{1,40}")
_MARKUP: Final = "*`_ \r"
_RULE: Final = re.compile(r"[|: -]+")
_COLUMNS: Final = 2
#: A line of prose with commas has fewer columns than it has words.
_WORDS_A_NAME: Final = 4


def cells(text: str, start: int, end: int, kept: Sequence[str] = ()) -> list[tuple[int, int]]:
    """Return where the values of credentials are, under a line of names.

    Args:
        text: the whole text.
        start: where the line of names begins.
        end: where it ends.
        kept: names of fields that hold no credentials.
    """
    header = text[start:end]
    separator = next((one for one in _SEPARATORS if one in header), None)
    if separator is None:
        return []
    names = [header[first:last].strip(_MARKUP) for first, last in _split(header, 0, separator)]
    inner = names[1:-1] if separator == "|" else names
    if len(inner) + (separator == "|") < _COLUMNS or not all(inner):
        return []
    if any(name and (not _NAME.fullmatch(name) or len(name.split()) > _WORDS_A_NAME) for name in names):
        return []
    secret = {place: name for place, name in enumerate(names) if strength_of(name, kept) == "strong"}
    found = []
    position = end + 1
    if separator == "|" and not _RULE.fullmatch(text[position:].partition("\n")[0].strip()):
        return []  # a row of a table, not its head
    while secret and position < len(text):
        stop = text.find("\n", position)
        stop = len(text) if stop < 0 else stop
        row = _split(text[position:stop], position, separator)
        if len(row) != len(names):
            break
        if not _RULE.fullmatch(text[position:stop].strip()):
            found += [trimmed for place, name in secret.items() if (trimmed := _value(text, *row[place], name))]
        position = stop + 1
    return found


def _split(line: str, offset: int, separator: str) -> list[tuple[int, int]]:
    """Return where the cells of a line begin and end, without their quotes."""
    found = []
    position = 0
    while position <= len(line):
        cell = _CELLS[separator].match(line, position)
        if cell is None:
            break
        group = "quoted" if cell["quoted"] is not None else "plain"
        if group == "quoted" and line[cell.end() : cell.end() + 1] not in {"", separator, "\r"}:
            return []
        found.append((offset + cell.start(group), offset + cell.end(group)))
        position = cell.end() + 1
    return found


def _value(text: str, start: int, end: int, name: str) -> tuple[int, int] | None:
    """Return where a value is without the marks of Markdown around it, None where there is no secret."""
    cell = text[start:end]
    value = cell.strip(_MARKUP)
    if not value or is_empty(value) or MARK_START in value or is_directory(name, value):
        return None
    begins = start + cell.index(value)
    return begins, begins + len(value)
