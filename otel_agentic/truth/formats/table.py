"""Cases in the flat layout of CSV and Parquet: one row per turn.

Each row is one turn of a case; a case without turns has one row. An empty cell has no value.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

from otel_agentic.errors import UsageError
from otel_agentic.truth.formats.base import Native, record_of
from otel_agentic.truth.formats.located import (
    Faulty,
    Item,
    Parsed,
    Path,
    Problem,
    Unit,
    column_problems,
    faults,
    located,
    parse_value,
    same_line,
)

if TYPE_CHECKING:
    from otel_agentic.truth.model import Case

Kind = Literal["text", "answers", "texts", "values", "json", "number", "flag", "verdict"]

#: Columns of a case: set on one of its rows, or equal on several.
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
    "criteria": "texts",
    "reviewed": "flag",
    "promoted_from": "texts",
    "notes": "text",
    "metadata": "json",
}
#: Columns of a turn, with the field of the turn for each.
TURN_COLUMNS: Final[Mapping[str, tuple[str, Kind]]] = {
    "query": ("query", "text"),
    "answer": ("answer", "answers"),
    "not_answer": ("not_answer", "text"),
    "turn_tools": ("tools", "json"),
    "reference_topics": ("reference_topics", "texts"),
}
#: The 1-based turn number of a row, for turns without other values and for tables whose rows were sorted.
TURN: Final = "turn"
COLUMNS: Final = (
    "case_id",
    "dataset",
    TURN,
    *TURN_COLUMNS,
    *(name for name in CASE_COLUMNS if name not in {"case_id", "dataset"}),
)

#: A text that a spreadsheet would interpret as a formula is written with a leading apostrophe, and read without it.
_GUARDED: Final = re.compile(r"'+[=+\-@\t\r]")
_FORMULA: Final = re.compile(r"'*[=+\-@\t\r]")


def is_empty(cell: Any) -> bool:
    """Return whether a cell has no value: null, NaN, or a text without a visible character."""
    if isinstance(cell, float):
        return math.isnan(cell)
    return cell is None or (isinstance(cell, str) and not cell.strip())


def cell_value(kind: Kind, cell: Any) -> Any:
    """Return the JSON value of a cell that is not empty; `Faulty` if it is invalid.

    Values that are not text (numbers, lists and objects of Parquet) are unchanged.
    """
    if not isinstance(cell, str):
        return _integral(_json_value(cell)) if kind == "number" else _json_value(cell)
    if kind in {"text", "answers"}:
        return (kind == "answers" and listed_texts(cell)) or unguarded(cell)
    if kind == "json" or (kind in {"texts", "values"} and cell.lstrip().startswith("[")):
        try:
            return parse_value(cell)
        except ValueError as error:
            return Faulty(f"not JSON: {error}; found {cell[:60]!r}")
    if kind in {"texts", "values"}:
        return [unguarded(cell)]
    return _scalar(kind, unguarded(cell).strip())


def listed_texts(cell: str) -> list[Any] | None:
    """Return the list in a cell of answers, or None if the cell is one text; a JSON list without texts is one text.

    >>> listed_texts('["Paris", "City of Light"]'), listed_texts("[17, 18]"), listed_texts("Paris")
    (['Paris', 'City of Light'], None, None)
    """
    if not cell.lstrip().startswith("["):
        return None
    try:
        value = parse_value(cell)
    except ValueError:
        return None
    return value if isinstance(value, list) and any(isinstance(part, str) for part in value) else None


def guarded(text: str) -> str:
    """Return a text as a CSV cell that no spreadsheet interprets as a formula.

    >>> guarded("=1+1"), unguarded(guarded("=1+1")), guarded("plain")
    ("'=1+1", '=1+1', 'plain')
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unguarded(cell: str) -> str:
    """Return the text of a cell, without the apostrophe before a formula."""
    return cell[1:] if _GUARDED.match(cell) else cell


def _scalar(kind: Kind, text: str) -> Any:
    """Return a number, flag or verdict; other values stay text, and the case format reports the allowed ones."""
    lower = text.lower()
    if kind == "flag":
        return {"true": True, "false": False}.get(lower, text)
    if kind == "verdict" and lower in {"pass", "fail"}:
        return lower
    try:
        value = parse_value(text)
    except ValueError:
        return text
    if isinstance(value, (int, float, Faulty)) and not isinstance(value, bool):
        return _integral(value) if kind == "number" else value
    return text


def _integral(value: Any) -> Any:
    """Return 3.0 as 3: a column of integers with empty cells is read as floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _json_value(cell: Any) -> Any:  # noqa: PLR0911 — one return per type
    """Return a value of Parquet as JSON; null fields of a struct are absent."""
    match cell:
        case Mapping():
            return {str(key): _json_value(value) for key, value in cell.items() if value is not None}
        case list() | tuple():
            return [_json_value(value) for value in cell]
        case Decimal():
            return int(cell) if cell == cell.to_integral_value() else float(cell)
        case date() | datetime() | time():
            return cell.isoformat()
        case UUID():
            return str(cell)
        case float() if not math.isfinite(cell):
            return Faulty(f"{cell} is not JSON; leave the field out or give a number")
        case str() | bool() | int() | float() | None:
            return cell
    return Faulty(f"found a value of type {type(cell).__name__}; allowed: text, number, true or false, list, object")


#: A row of a table: its line or row number, 1-based, and its cells by column.
Row = tuple[int, Mapping[str, Any]]

#: Beginnings of cells of other formats that contain a list or an object.
_NESTED: Final = ("{", "[")


def flat_records(header: Sequence[str], rows: Sequence[Row], unit: Unit, header_line: int) -> Parsed:
    """Return the cases of a table in the flat layout, as records, in the order of their first rows."""
    problems = [
        Problem(line=header_line, text=problem) for problem in column_problems(header, COLUMNS, ", ".join(COLUMNS))
    ]
    if problems:
        return Parsed(items=(), problems=tuple(problems), unit=unit)
    drafts: dict[tuple[str, str], _Draft] = {}
    for line, cells in rows:
        if is_empty(cells.get("case_id")):
            if not all(is_empty(cell) for cell in cells.values()):
                problems.append(Problem(line=line, text="case_id: empty; every row needs the case that it belongs to"))
            continue
        key = (str(cells.get("dataset")), str(cells["case_id"]))
        drafts.setdefault(key, _Draft(line=line, unit=unit)).add(line, cells)
    items = []
    for draft in drafts.values():
        value = draft.record()
        record_problems = [
            Problem(line=draft.line_of(path), text=located(_column_of(path), reason)) for path, reason in faults(value)
        ]
        problems += record_problems
        if not record_problems:
            items.append(Item(value=value, line_of=draft.line_of, name_of=_column_of))
    return Parsed(items=tuple(items), problems=tuple(problems), unit=unit)


def row_records(rows: Sequence[Row], unit: Unit) -> Parsed:
    """Return each row as a record without its empty cells; a cell with the text of a list or an object is parsed."""
    items: list[Item] = []
    problems: list[Problem] = []
    for line, cells in rows:
        value = {column: _parsed_cell(cell) for column, cell in cells.items() if not is_empty(cell)}
        record_problems = [Problem(line=line, text=located(path, reason)) for path, reason in faults(value)]
        problems += record_problems
        if value and not record_problems:
            items.append(Item(value=value, line_of=partial(same_line, line)))
    return Parsed(items=tuple(items), problems=tuple(problems), unit=unit)


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A case, collected from its rows."""

    line: int
    unit: Unit
    fields: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    turns: list[tuple[int, Any, dict[str, Any]]] = field(default_factory=list)

    def add(self, line: int, cells: Mapping[str, Any]) -> None:
        """Add a row: its values of the case, and its turn if it has one."""
        for column, kind in CASE_COLUMNS.items():
            if not is_empty(cells.get(column)):
                self._set(column, cell_value(kind, cells[column]), line)
        turn = {
            name: cell_value(kind, cells[column])
            for column, (name, kind) in TURN_COLUMNS.items()
            if not is_empty(cells.get(column))
        }
        number = None if is_empty(cells.get(TURN)) else cell_value("number", cells[TURN])
        if turn or number is not None:
            self.turns.append((line, number, turn))

    def _set(self, column: str, value: Any, line: int) -> None:
        if column not in self.fields:
            self.fields[column], self.lines[column] = value, line
        elif not isinstance(value, Faulty) and value != self.fields[column]:
            first = self.lines[column]
            self.fields[column] = Faulty(f"differs from {self.unit} {first}; set it on one row of the case")
            self.lines[column] = line

    def record(self) -> dict[str, Any]:
        """Return the case as a record, with its turns in the order of their numbers, or of their rows."""
        numbers = [number for _, number, _ in self.turns]
        if any(number is not None for number in numbers):
            expected = list(range(1, len(numbers) + 1))
            if any(type(number) is not int for number in numbers) or sorted(numbers) != expected:
                listed = ", ".join("nothing" if number is None else str(number) for number in numbers)
                message = (
                    f"found {listed}; allowed: 1 to {len(numbers)}, each once, or no number on any row of the case"
                )
                return {**self.fields, TURN: Faulty(message)}
            self.turns.sort(key=lambda turn: int(turn[1]))
        return {**self.fields, **({"turns": [turn for _, _, turn in self.turns]} if self.turns else {})}

    def line_of(self, path: Path) -> int:
        """Return the line of the row that sets a field."""
        match path:
            case ("turns", int(number), *_) if number < len(self.turns):
                return self.turns[number][0]
            case (str(column), *_):
                return self.lines.get(column, self.line)
        return self.line


def _column_of(path: Path) -> Path:
    """Return the path of a field in the table, in which fields of turns have columns of their own."""
    columns = {name: column for column, (name, _) in TURN_COLUMNS.items()}
    match path:
        case ("turns", int(), str(name), *rest) if name in columns:
            return (columns[name], *rest)
    return path


def _parsed_cell(cell: Any) -> Any:
    nested = isinstance(cell, str) and cell.lstrip().startswith(_NESTED)
    value = cell_value("json", cell) if nested else cell_value("text", cell)
    return _literal(cell) if nested and isinstance(value, Faulty) else value


def _literal(cell: str) -> Any:
    """Return the list or object of a cell in Python notation, which RAGAS writes to CSV; otherwise the text."""
    try:
        with warnings.catch_warnings(action="ignore"):
            value = ast.literal_eval(cell.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return cell_value("text", cell)
    return cell_value("json", value)


#: Separators to try if the first line has no comma: spreadsheets of some countries, and pasted tables.
_OTHER_SEPARATORS: Final = ";\t"
_SPECIAL: Final = re.compile("""[,;\t"\r\n]|^ | $""")


def parse_csv(text: str, *, flat: bool | None = None) -> Parsed:
    """Return the records of a CSV text.

    Args:
        text: the text, with a line of column names.
        flat: whether it has the flat layout of cases; by default, if there is a column `case_id`.
    """
    header, rows, problems = _read(text)
    flat = "case_id" in header if flat is None else flat
    if flat and header and "case_id" not in header:
        message = f"case_id: column missing, found {', '.join(header)}; allowed: {', '.join(COLUMNS)}"
        if "conversation_id" in header:
            message = "these are labels of conversations, not cases; give the file as --labels"
        return Parsed(items=(), problems=(Problem(line=1, text=message), *problems))
    parsed = flat_records(header, rows, "line", 1) if flat else row_records(rows, "line")
    return Parsed(items=parsed.items, problems=(*parsed.problems, *problems))


def write_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows of the flat layout, texts and numbers, as CSV: the columns that any row uses, in order."""
    table_rows = list(rows)
    columns = [column for column in COLUMNS if any(row.get(column) is not None for row in table_rows)] or ["case_id"]
    lines = [columns, *([_cell(row.get(column)) for column in columns] for row in table_rows)]
    return "".join(",".join(map(_quoted, line)) + "\n" for line in lines)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else guarded(value) if isinstance(value, str) else repr(value)


def _quoted(cell: str) -> str:
    # The csv package writes a lone carriage return without quotes, and does not read it back.
    return '"' + cell.replace('"', '""') + '"' if _SPECIAL.search(cell) else cell


def _read(text: str) -> tuple[list[str], list[Row], list[Problem]]:
    first = text.lstrip().split("\n", 1)[0]
    separator = next((mark for mark in _OTHER_SEPARATORS if "," not in first and mark in first), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows: list[Row] = []
    problems: list[Problem] = []
    header: list[str] = []
    first_line = 1
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                pass
            elif not header:
                header = [cell.strip().lower() for cell in cells]
            elif len(cells) > len(header):
                message = f"{len(cells)} cells, but {len(header)} columns in the header; quote a cell that contains a separator"
                problems.append(Problem(line=first_line, text=message))
            else:
                rows.append((first_line, dict(zip(header, cells, strict=False))))
            first_line = reader.line_num + 1
    except csv.Error as error:
        message = f"not readable as CSV: {error}; quote cells according to RFC 4180; nothing after it was read"
        problems.append(Problem(line=first_line, text=message))
    return header, rows, problems


class Csv(Native):
    """Cases as CSV."""

    name = "csv"

    def document(self, cases: Sequence[Case]) -> str:
        """Return the cases as CSV."""
        return write_csv(flat_rows(cases))


def flat_rows(cases: Sequence[Case]) -> list[dict[str, Any]]:
    """Return the rows of cases: texts, numbers and booleans by column; lists and objects as JSON text.

    Values of the case itself are on its first row. A case whose id or dataset cannot be stored in a cell has no rows.
    """
    return [
        row
        for case in cases
        if _is_storable(case.case_id) and _is_storable(case.dataset)
        for row in _rows(record_of(case))
    ]


def _rows(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    fields = {column: _cell_of_kind(kind, record[column]) for column, kind in CASE_COLUMNS.items() if column in record}
    identity = {"case_id": record["case_id"], "dataset": record["dataset"]}
    for index, turn in enumerate(record.get("turns") or [None]):
        turn_fields: dict[str, Any] = {}
        if turn is not None:
            turn_fields = {
                column: _cell_of_kind(kind, turn[name]) for column, (name, kind) in TURN_COLUMNS.items() if name in turn
            } | {TURN: index + 1}
        yield {**(identity if index else fields), **turn_fields}


def _is_storable(text: str) -> bool:
    """Return whether a cell can store a text: white space alone is empty, and NUL ends the text for many readers."""
    return not is_empty(text) and "\x00" not in text


def _cell_of_kind(kind: Kind, value: Any) -> Any:
    if kind == "answers" and isinstance(value, str) and listed_texts(value):
        value = [value]  # a text that would be read as a list
    if kind in {"text", "answers"} and isinstance(value, str):
        return value if _is_storable(value) else None
    if value is None or kind in {"number", "flag", "verdict"}:
        return value
    return json.dumps(value, ensure_ascii=False)


class Parquet(Csv):
    """Cases as Parquet: the same rows, typed; the store writes the file."""

    name = "parquet"

    def document(self, cases: Sequence[Case]) -> str:  # noqa: ARG002 — the signature of a format
        """Raise: Parquet is not text.

        Raises:
            UsageError: always.
        """
        raise UsageError("Parquet is not text; write its rows")
