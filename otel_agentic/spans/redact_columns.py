"""Columns of credentials in text tables, CSV or Markdown, recognised by the names in the first line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from otel_agentic.spans.redact_marks import MARK_START, is_empty
from otel_agentic.spans.redact_names import is_directory, strength_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_SEPARATORS: Final = ("|", "\t", ";", ",")
#: A cell, quoted or not, without the separator that ends it.
_CELLS: Final = {
    separator: re.compile(rf'(?:[ ]*"(?P<quoted>(?:[^"\n]|"")*)"[ ]*|(?P<plain>[^{re.escape(separator)}\n]*))')
    for separator in _SEPARATORS
}
_NAME: Final = re.compile(r"[\w .()/-]{1,40}")
_MARKUP: Final = "*`_ \r"
_RULE: Final = re.compile(r"[|: -]+")
_COLUMNS: Final = 2
#: Longer names mean a line of prose with commas instead of column names.
_WORDS_A_NAME: Final = 4


def cells(text: str, start: int, end: int, keep_fields: Sequence[str] = ()) -> list[tuple[int, int]]:
    """Return the positions (start, end) of the credentials in the rows under a line of names.

    Args:
        text: the complete text.
        start: the start of the line of names.
        end: the end of that line.
        keep_fields: names of fields that hold no credentials.
    """
    header = text[start:end]
    separator = next((character for character in _SEPARATORS if character in header), None)
    if separator is None:
        return []
    names = [header[first:last].strip(_MARKUP) for first, last in _split(header, 0, separator)]
    inner = names[1:-1] if separator == "|" else names
    if len(inner) + (separator == "|") < _COLUMNS or not all(inner):
        return []
    if any(name and (not _NAME.fullmatch(name) or len(name.split()) > _WORDS_A_NAME) for name in names):
        return []
    secret = {column: name for column, name in enumerate(names) if strength_of(name, keep_fields) == "strong"}
    spans = []
    position = end + 1
    if separator == "|" and not _RULE.fullmatch(text[position:].partition("\n")[0].strip()):
        return []  # a row of a table, not its header
    while secret and position < len(text):
        stop = text.find("\n", position)
        stop = len(text) if stop < 0 else stop
        row = _split(text[position:stop], position, separator)
        if len(row) != len(names):
            break
        if not _RULE.fullmatch(text[position:stop].strip()):
            spans += [trimmed for column, name in secret.items() if (trimmed := _value(text, *row[column], name))]
        position = stop + 1
    return spans


def _split(line: str, offset: int, separator: str) -> list[tuple[int, int]]:
    """Return the positions of the cells of a line, without their quotes."""
    spans = []
    position = 0
    while position <= len(line):
        cell = _CELLS[separator].match(line, position)
        if cell is None:
            break
        group = "quoted" if cell["quoted"] is not None else "plain"
        if group == "quoted" and line[cell.end() : cell.end() + 1] not in {"", separator, "\r"}:
            return []
        spans.append((offset + cell.start(group), offset + cell.end(group)))
        position = cell.end() + 1
    return spans


def _value(text: str, start: int, end: int, name: str) -> tuple[int, int] | None:
    """Return the position of a value without Markdown characters around it, or None if it is not a secret."""
    cell = text[start:end]
    value = cell.strip(_MARKUP)
    if not value or is_empty(value) or MARK_START in value or is_directory(name, value):
        return None
    start += cell.index(value)
    return start, start + len(value)
