"""The flat layout of cases in CSV and Parquet: which columns there are, and what a cell of each becomes.

One row is a turn of a case; a case without turns has one row. A cell that is empty says nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final, Literal
from uuid import UUID

from otel_agentic.truth.formats.items import Faulty
from otel_agentic.truth.formats.json_text import whole

Kind = Literal["text", "answers", "texts", "values", "json", "number", "flag", "verdict"]

#: Columns of a case: said on one of its rows, or the same on several.
CASE_COLUMNS: Final[Mapping[str, Kind]] = {
    "case_id": "text",
    "dataset": "text",
    "tags": "texts",
    "agent": "text",
    "tools": "json",
    "outputs": "values",
    "effects": "json",
    "goal": "text",
    "expected_state": "json",
    "plan": "texts",
    "minimum_steps": "number",
    "verdict": "verdict",
    "answer_threshold": "number",
    "tool_threshold": "number",
    "tool_weights": "json",
    "reviewed": "flag",
    "promoted_from": "texts",
    "notes": "text",
}
#: Columns of a turn, and the field of the turn that each is.
TURN_COLUMNS: Final[Mapping[str, tuple[str, Kind]]] = {
    "query": ("query", "text"),
    "answer": ("answer", "answers"),
    "not_answer": ("not_answer", "text"),
    "turn_tools": ("tools", "json"),
    "reference_topics": ("reference_topics", "texts"),
}
#: The number of the row's turn, 1-based: for turns that say nothing else, and for rows that a person has sorted.
TURN: Final = "turn"
COLUMNS: Final = (
    "case_id",
    "dataset",
    TURN,
    *TURN_COLUMNS,
    *(name for name in CASE_COLUMNS if name not in {"case_id", "dataset"}),
)

#: A text that a spreadsheet would take for a formula is written behind an apostrophe, and read without it.
_GUARDED: Final = re.compile(r"'+[=+\-@\t\r]")
_FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")


def is_empty(cell: Any) -> bool:
    """Return whether a cell says nothing: null, no number, or a text without a visible character."""
    if isinstance(cell, float):
        return math.isnan(cell)
    return cell is None or (isinstance(cell, str) and not cell.strip())


def cell_value(kind: Kind, cell: Any) -> Any:
    """Return what a cell that is not empty says, as JSON has it; `Faulty` where it cannot be read.

    What is no text already (numbers, lists and objects of Parquet) stays what it is.
    """
    if not isinstance(cell, str):
        return _whole(_plain(cell)) if kind == "number" else _plain(cell)
    if kind in {"text", "answers"}:
        return (kind == "answers" and listed_texts(cell)) or unguarded(cell)
    if kind == "json" or (kind in {"texts", "values"} and cell.lstrip().startswith("[")):
        try:
            return whole(cell)
        except ValueError as error:
            return Faulty(f"not JSON: {error}; found {cell[:60]!r}")
    if kind in {"texts", "values"}:
        return [unguarded(cell)]
    return _word(kind, unguarded(cell).strip())


def listed_texts(cell: str) -> list[Any] | None:
    """Return the list that a cell of answers holds, None where it is one text: a JSON list without any text is one.

    >>> listed_texts('["Paris", "City of Light"]'), listed_texts("[17, 18]"), listed_texts("Paris")
    (['Paris', 'City of Light'], None, None)
    """
    if not cell.lstrip().startswith("["):
        return None
    try:
        value = whole(cell)
    except ValueError:
        return None
    return value if isinstance(value, list) and any(isinstance(part, str) for part in value) else None


def guarded(text: str) -> str:
    """Return a text as a cell of CSV that no spreadsheet takes for a formula.

    >>> guarded("=1+1"), unguarded(guarded("=1+1")), guarded("plain")
    ("'=1+1", '=1+1', 'plain')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unguarded(cell: str) -> str:
    """Return the text of a cell: without the apostrophe that hides a formula."""
    return cell[1:] if _GUARDED.match(cell) else cell


def _word(kind: Kind, text: str) -> Any:
    """Return a number, flag or verdict; what is none stays text, and the case format says what is allowed."""
    lower = text.lower()
    if kind == "flag":
        return {"true": True, "false": False}.get(lower, text)
    if kind == "verdict" and lower in {"pass", "fail"}:
        return lower
    try:
        value = whole(text)
    except ValueError:
        return text
    if isinstance(value, (int, float, Faulty)) and not isinstance(value, bool):
        return _whole(value) if kind == "number" else value
    return text


def _whole(value: Any) -> Any:
    """Return 3.0 as 3: a column of numbers with empty cells comes as fractions."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _plain(cell: Any) -> Any:  # noqa: PLR0911 — one return a type
    """Return a value of Parquet as JSON has it; a field of a struct that is null is one that is absent."""
    match cell:
        case Mapping():
            return {str(key): _plain(value) for key, value in cell.items() if value is not None}
        case list() | tuple():
            return [_plain(value) for value in cell]
        case Decimal():
            return int(cell) if cell == cell.to_integral_value() else float(cell)
        case date() | datetime() | time():
            return cell.isoformat()
        case UUID():
            return str(cell)
        case float() if not math.isfinite(cell):
            return Faulty(f"{cell} is no JSON; leave the field out or give a number")
        case str() | bool() | int() | float() | None:
            return cell
    return Faulty(f"found a value of type {type(cell).__name__}; allowed: text, number, true or false, list, object")
