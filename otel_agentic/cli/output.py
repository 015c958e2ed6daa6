"""Printing: JSON and CSV for machines, lines for people."""

from __future__ import annotations

import csv
import sys
from io import StringIO
from typing import TYPE_CHECKING, Any, Final

import click
import orjson
from rich.console import Console

from otel_agentic.cli.text import compact, csv_cell, escaped, json_text, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

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

    By way of click: rich ends the process with 1 when the reader goes away, which to us says that a gate failed.
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
    """Say which evaluation is shown, where it is not the default one."""
    if name not in {None, "default"}:
        say(out, f"evaluation {name} (not the default evaluation)", style="bold")


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    click.echo(json_text(value, _INDENT))


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
