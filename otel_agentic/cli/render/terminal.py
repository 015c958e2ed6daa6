"""Printing to the terminal: lines, JSON, CSV, and tables that fit its width."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, Final, TypeVar

import click
import orjson
from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from otel_agentic.cli.render.text import compact, csv_cell, escaped, json_text, printable, safe
from otel_agentic.results import to_json

T = TypeVar("T")
_INDENT: Final = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
#: Width of tables that go to a file or a pipe: wide enough that little is left out.
_PIPE_WIDTH: Final = 160
#: Rows of CSV that are written at once.
_CSV_ROWS: Final = 1000


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output (or error), as wide as the terminal; in a pipe it is 160 columns wide."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else _PIPE_WIDTH, highlight=False)


def show(out: Console, what: RenderableType) -> None:
    """Print something drawn, without the blanks that fill its lines up.

    Printed with click, because rich exits with 1 if the reader closes the pipe, and 1 means that a gate failed.
    """
    with out.capture() as captured:
        out.print(what)
    click.echo("\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n")), color=True)


def say(out: Console, text: str, style: str | None = None) -> None:
    """Print a line of text, wrapped between words on a terminal and left whole in a pipe; there is no markup in it."""
    with out.capture() as captured:
        out.print(printable(text), style=style, markup=False, emoji=False, soft_wrap=not out.is_terminal)
    click.echo(
        "\n".join(line.rstrip() for line in captured.get().rstrip("\n").split("\n")),
        color=True,
        err=out.file is sys.stderr,
    )


def print_text(text: str, *, escapes: bool = False, err: bool = False) -> None:
    """Print a whole document as it is, except for the characters that steer a terminal.

    Args:
        text: the document, with the end of its last line.
        escapes: whether it is JSON or YAML, which have escapes for them; else U+FFFD takes their place.
        err: whether it goes to standard error.
    """
    click.echo(escaped(text) if escapes else printable(text), nl=False, err=err)


def say_evaluation(out: Console, name: str | None) -> None:
    """Print the name of the evaluation, unless it is the default one."""
    if name not in {None, "default"}:
        say(out, f"evaluation {name} (not the default evaluation)", style="bold")


def print_result(result: T, output: str, show: Callable[[T], object], *, quiet: bool = False) -> None:
    """Print a result as JSON if that is the output format, else with a function unless `quiet`."""
    if output == "json":
        print_json(result)
    elif not quiet:
        show(result)


def print_json(value: Any) -> None:
    """Print a result, or a JSON value, as indented JSON."""
    click.echo(json_text(to_json(value), _INDENT))


def print_line(value: Any) -> None:
    """Print a value as one line of JSON."""
    click.echo(compact(value))


def print_csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as CSV in which no cell is a formula."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_field(column) for column in columns])
    for number, row in enumerate(rows, 1):
        writer.writerow([_field(value) for value in row])
        if number % _CSV_ROWS == 0:
            click.echo(text.getvalue(), nl=False)
            text.seek(0)
            text.truncate()
    click.echo(text.getvalue(), nl=False)


def _field(value: Any) -> Any:
    """Return a value for a field of CSV. A lone carriage return is no quoted part of one: spreadsheets begin a row there."""
    cell = csv_cell(value)
    return cell.replace("\r", "\ufffd") if isinstance(cell, str) else cell


_GAP: Final = 2
_COLOURS: Final = {
    "pass": "green",
    "fail": "red",
    "ready": "bold green",
    "needs_improvement": "yellow",
    "inconsistent": "yellow",
    "not_ready": "bold red",
    "insufficient_evidence": "cyan",
    "no_row": "cyan",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: `unfolded` never wraps, `right` never wraps and is aligned right, the highest `spare` is omitted first.

    `least` is the width that other columns of text fold down to, in characters.
    """

    name: str
    right: bool = False
    unfolded: bool = False
    least: int = 12
    spare: int = 0


def numbers(*names: str) -> list[Column]:
    """Return columns of numbers, aligned to the right."""
    return [Column(name=name, right=True) for name in names]


def fixed(*names: str) -> list[Column]:
    """Return columns whose values are never wrapped or cut."""
    return [Column(name=name, unfolded=True) for name in names]


def text(*names: str) -> list[Column]:
    """Return columns of text that folds."""
    return [Column(name=name) for name in names]


def print_table(
    out: Console, columns: Sequence[Column], rows: Sequence[Sequence[Any]], title: str | None = None
) -> None:
    """Print a table, and the names of columns that do not fit the terminal."""
    cells = [[safe(value) for value in row] for row in rows]
    indices = _fitting(columns, cells, out.width)
    if title is not None:
        say(out, title, style="bold")
    show(
        out,
        _drawn([columns[index] for index in indices], [[row[index] for index in indices] for row in cells], out.width),
    )
    left_out = [column.name for index, column in enumerate(columns) if index not in indices]
    if left_out:
        say(out, f"({', '.join(left_out)}: not shown for want of width; --format json has all)", style="dim")


def fits(columns: Sequence[Column], rows: Sequence[Sequence[Any]], width: int) -> bool:
    """Return whether a table of these rows needs nothing worse than text that folds."""
    cells = [[safe(value) for value in row] for row in rows]
    natural = [_natural(column, cells, index) for index, column in enumerate(columns)]
    return _total(_least(columns, natural)) <= width


def differing_and_shared(rows: Sequence[object], names: Sequence[str]) -> tuple[list[str], dict[str, object]]:
    """Return the attributes whose values differ between the rows, and the values of those that all rows share.

    An attribute that no row has, or that is None or empty in every row, is in neither.

    >>> from types import SimpleNamespace as Row
    >>> differing_and_shared([Row(agent="a", tool="x"), Row(agent="a", tool="y")], ["agent", "tool", "tag"])
    (['tool'], {'agent': 'a'})
    """
    differing, same = [], {}
    for name in names:
        values = {getattr(row, name, None) for row in rows}
        if len(values) > 1:
            differing.append(name)
        elif values - {None, ""}:
            (same[name],) = values
    return differing, same


def _drawn(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int) -> Table:
    """Return the table. Cells are not read as markup, because most of them are untrusted."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    natural = [_natural(column, cells, index) for index, column in enumerate(columns)]
    roomy = _total(_least(columns, natural)) <= width
    for column in columns:
        # Whole columns are cut, not folded, where even they are too wide: then everything folds instead.
        unbroken = roomy and (column.right or column.unfolded)
        table.add_column(
            Text(column.name), justify="right" if column.right else "left", overflow="fold", no_wrap=unbroken
        )
    for row in cells:
        table.add_row(*(Text(value, style=_COLOURS.get(value, "")) for value in row))
    return table


def _fitting(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the places of the columns that are shown: spare ones go, the highest first, until the rest fits."""
    natural = [_natural(column, cells, index) for index, column in enumerate(columns)]
    indices = list(range(len(columns)))
    for index in sorted(indices, key=lambda index: -columns[index].spare):
        least = _least([columns[i] for i in indices], [natural[i] for i in indices])
        if columns[index].spare == 0 or _total(least) <= width:
            break
        indices.remove(index)
    return indices


def _least(columns: Sequence[Column], natural: Sequence[int]) -> list[int]:
    return [
        size if column.right or column.unfolded else min(size, max(column.least, cell_len(column.name)))
        for column, size in zip(columns, natural, strict=True)
    ]


def _natural(column: Column, cells: Sequence[Sequence[str]], index: int) -> int:
    lines = [line for row in cells for line in row[index].split("\n")]
    return max(cell_len(line) for line in (column.name, *lines))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * max(0, len(widths) - 1)
