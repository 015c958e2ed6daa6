"""Reads and writes CSV: each row with the line that it begins on."""

from __future__ import annotations

import csv
import io
import re
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.truth.formats.columns import COLUMNS, guarded
from otel_agentic.truth.formats.items import Parsed, Trouble
from otel_agentic.truth.formats.table import Row, flat_records, row_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: What separates cells where the first line has no comma: spreadsheets of some countries, and pasted tables.
_OTHER_SEPARATORS: Final = ";\t"
_SPECIAL: Final = re.compile("""[,;\t"\r\n]|^ | $""")


def parse_csv(text: str, *, flat: bool | None = None) -> Parsed:
    """Return the records of a CSV text.

    Args:
        text: the text, with a line of column names.
        flat: whether it has the flat layout of cases; unless given, where there is a column `case_id`.
    """
    header, rows, troubles = _read(text)
    flat = "case_id" in header if flat is None else flat
    if flat and header and "case_id" not in header:
        told = f"case_id: column missing, found {', '.join(header)}; allowed: {', '.join(COLUMNS)}"
        if "conversation_id" in header:
            told = "these are labels of conversations, no cases; give the file as --labels"
        return Parsed(items=(), troubles=(Trouble(place=1, text=told), *troubles))
    parsed = flat_records(header, rows, "line", 1) if flat else row_records(rows, "line")
    return Parsed(items=parsed.items, troubles=(*parsed.troubles, *troubles))


def write_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows of the flat layout, texts and numbers, as CSV: the columns that any row uses, in their order."""
    listed = list(rows)
    used = [column for column in COLUMNS if any(row.get(column) is not None for row in listed)] or ["case_id"]
    lines = [used, *([_cell(row.get(column)) for column in used] for row in listed)]
    return "".join(",".join(map(_quoted, line)) + "\n" for line in lines)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else guarded(value) if isinstance(value, str) else repr(value)


def _quoted(cell: str) -> str:
    # The csv package writes a lone carriage return without quotes, and does not read it back.
    return '"' + cell.replace('"', '""') + '"' if _SPECIAL.search(cell) else cell


def _read(text: str) -> tuple[list[str], list[Row], list[Trouble]]:
    first = text.lstrip().split("\n", 1)[0]
    separator = next((mark for mark in _OTHER_SEPARATORS if "," not in first and mark in first), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows: list[Row] = []
    troubles: list[Trouble] = []
    header: list[str] = []
    began = 1
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                pass
            elif not header:
                header = [cell.strip().lower() for cell in cells]
            elif len(cells) > len(header):
                told = f"{len(cells)} cells, the header names {len(header)}; quote a cell that holds a separator"
                troubles.append(Trouble(place=began, text=told))
            else:
                rows.append((began, dict(zip(header, cells, strict=False))))
            began = reader.line_num + 1
    except csv.Error as error:
        told = f"not readable as CSV: {error}; quote cells as RFC 4180 says; nothing after it was read"
        troubles.append(Trouble(place=began, text=told))
    return header, rows, troubles
