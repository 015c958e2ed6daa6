"""Rows of a table to records: cases in the flat layout of `columns`, or one record a row for other formats."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from otel_agentic.truth.formats.columns import CASE_COLUMNS, COLUMNS, TURN, TURN_COLUMNS, cell_value, is_empty
from otel_agentic.truth.formats.items import Faulty, Item, Parsed, Path, Trouble, faults, located

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_agentic.truth.formats.items import Unit

#: A row of a table: its place (line or row, 1-based) and its cells by column.
Row = tuple[int, Mapping[str, Any]]

#: Cells of other formats that hold a list or an object begin like this.
_NESTED: Final = ("{", "[")


def flat_records(header: Sequence[str], rows: Sequence[Row], unit: Unit, header_place: int) -> Parsed:
    """Return the cases of a table in the flat layout, as records, in the order of their first rows."""
    wrong = [Trouble(place=header_place, text=problem) for problem in _header_problems(header)]
    if wrong:
        return Parsed(items=(), troubles=tuple(wrong), unit=unit)
    drafts: dict[tuple[str, str], _Draft] = {}
    for place, cells in rows:
        if is_empty(cells.get("case_id")):
            if not all(is_empty(cell) for cell in cells.values()):
                wrong.append(Trouble(place=place, text="case_id: empty; every row names the case that it belongs to"))
            continue
        key = (str(cells.get("dataset")), str(cells["case_id"]))
        drafts.setdefault(key, _Draft(place=place, unit=unit)).take(place, cells)
    items = []
    for draft in drafts.values():
        value = draft.record()
        bad = [Trouble(place=draft.place_of(path), text=located(_column_of(path), why)) for path, why in faults(value)]
        wrong += bad
        if not bad:
            items.append(Item(value=value, place_of=draft.place_of, name_of=_column_of))
    return Parsed(items=tuple(items), troubles=tuple(wrong), unit=unit)


def row_records(rows: Sequence[Row], unit: Unit) -> Parsed:
    """Return each row as a record, its empty cells left out; a cell that says a list or an object is one."""
    items: list[Item] = []
    troubles: list[Trouble] = []
    for place, cells in rows:
        value = {column: _loose(cell) for column, cell in cells.items() if not is_empty(cell)}
        bad = [Trouble(place=place, text=located(path, why)) for path, why in faults(value)]
        troubles += bad
        if value and not bad:
            items.append(Item(value=value, place_of=partial(_same, place)))
    return Parsed(items=tuple(items), troubles=tuple(troubles), unit=unit)


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A case as its rows tell it."""

    place: int
    unit: Unit
    fields: dict[str, Any] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    turns: list[tuple[int, Any, dict[str, Any]]] = field(default_factory=list)

    def take(self, place: int, cells: Mapping[str, Any]) -> None:
        """Take a row: what it says of the case, and its turn if it has one."""
        for column, kind in CASE_COLUMNS.items():
            if not is_empty(cells.get(column)):
                self._say(column, cell_value(kind, cells[column]), place)
        said = {
            name: cell_value(kind, cells[column])
            for column, (name, kind) in TURN_COLUMNS.items()
            if not is_empty(cells.get(column))
        }
        number = None if is_empty(cells.get(TURN)) else cell_value("number", cells[TURN])
        if said or number is not None:
            self.turns.append((place, number, said))

    def _say(self, column: str, value: Any, place: int) -> None:
        if column not in self.fields:
            self.fields[column], self.places[column] = value, place
        elif not isinstance(value, Faulty) and value != self.fields[column]:
            first = self.places[column]
            self.fields[column] = Faulty(f"says something else than {self.unit} {first}; say it on one row of the case")
            self.places[column] = place

    def record(self) -> dict[str, Any]:
        """Return the case as a record, its turns in the order of their numbers, or else of their rows."""
        numbers = [number for _, number, _ in self.turns]
        if any(number is not None for number in numbers):
            wanted = list(range(1, len(numbers) + 1))
            if any(type(number) is not int for number in numbers) or sorted(numbers) != wanted:
                found = ", ".join("nothing" if number is None else str(number) for number in numbers)
                told = f"found {found}; allowed: 1 to {len(numbers)}, each once, or no number on any row of the case"
                return {**self.fields, TURN: Faulty(told)}
            self.turns.sort(key=lambda turn: int(turn[1]))
        return {**self.fields, **({"turns": [said for _, _, said in self.turns]} if self.turns else {})}

    def place_of(self, path: Path) -> int:
        """Return the place of a field: of the row that says it."""
        match path:
            case ("turns", int(number), *_) if number < len(self.turns):
                return self.turns[number][0]
            case (str(column), *_):
                return self.places.get(column, self.place)
        return self.place


def _column_of(path: Path) -> Path:
    """Return a field as the table calls it: a turn's by its column."""
    columns = {name: column for column, (name, _) in TURN_COLUMNS.items()}
    match path:
        case ("turns", int(), str(name), *rest) if name in columns:
            return (columns[name], *rest)
    return path


def _header_problems(header: Sequence[str]) -> Iterator[str]:
    allowed = ", ".join(COLUMNS)
    for column in sorted({column for column in header if column not in COLUMNS}):
        yield f"{column or 'a column without a name'}: unknown column; allowed: {allowed}"
    for column in sorted({column for column in header if list(header).count(column) > 1}):
        yield f"{column}: the column stands twice; keep one"


def _loose(cell: Any) -> Any:
    nested = isinstance(cell, str) and cell.lstrip().startswith(_NESTED)
    value = cell_value("json", cell) if nested else cell_value("text", cell)
    return _literal(cell) if nested and isinstance(value, Faulty) else value


def _literal(cell: str) -> Any:
    """Return the list or object that a cell says in Python's spelling, as RAGAS writes CSV; else it is a text."""
    try:
        with warnings.catch_warnings(action="ignore"):
            value = ast.literal_eval(cell.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return cell_value("text", cell)
    return cell_value("json", value)


def _same(place: int, _: Path) -> int:
    return place
