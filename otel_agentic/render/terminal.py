"""Printing to the terminal: lines, JSON, CSV, and tables that fit its width."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import click
import orjson
from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from otel_agentic.render.text import compact, csv_parts, escaped, json_text, printable, safe
from otel_agentic.results import to_json

T = TypeVar("T")
_INDENT: Final = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
#: The width of tables in a file or a pipe, wide enough that few columns are omitted.
_PIPE_WIDTH: Final = 160
#: The beginning of a line to whose width the wrapped parts of the line are indented.
_INDENTATION: Final = re.compile(r" {1,8}(?=\S)|\d{1,3}\. ")
#: The beginning of a line that is a command to copy, after a word such as `next`.
_COMMAND: Final = re.compile(r"\w+: otel-agentic ")
#: Words that are wider than their column are broken after one of these.
_BREAKS: Final = re.compile(r"[-_./,:;=&?)\]}>]")
#: Separates the parts of a word.
_ENDS: Final = re.compile(rf"(?<={_BREAKS.pattern})")


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output (or error), as wide as the terminal; in a pipe it is 160 columns wide."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else _PIPE_WIDTH, highlight=False)


def show(out: Console, what: RenderableType) -> None:
    """Print a renderable, without trailing spaces.

    It is printed with click, because rich exits with 1 if the reader closes the pipe, and 1 means that a gate failed.
    """
    with out.capture() as capture:
        out.print(what)
    click.echo("\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n")), color=True)


def say(out: Console, text: str, style: str | None = None) -> None:
    """Print a line of text without markup, wrapped between words on a terminal and not wrapped in a pipe.

    The wrapped parts of a line are indented like the line, or like the text after its number. A line with a command to
    copy is not wrapped, because a shell would run the parts as two commands.
    """
    text = printable(text)
    is_wrapped = out.is_terminal and _COMMAND.match(text) is None
    if is_wrapped and (match := _INDENTATION.match(text)) is not None:
        indentation = " " * match.end()
        wrapped = Text(text[match.end() :]).wrap(out, out.width - match.end())
        text = match[0] + f"\n{indentation}".join(line.plain.rstrip() for line in wrapped)
    with out.capture() as capture:
        out.print(text, style=style, markup=False, emoji=False, soft_wrap=not is_wrapped)
    click.echo(
        "\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n")),
        color=True,
        err=out.file is sys.stderr,
    )


def print_text(text: str, *, escapes: bool = False, err: bool = False) -> None:
    """Print a document unchanged, except for terminal control characters.

    Args:
        text: the document, including its last newline.
        escapes: whether it is JSON or YAML, in which these characters are escaped; otherwise U+FFFD replaces them.
        err: whether to print to standard error.
    """
    click.echo(escaped(text) if escapes else printable(text), nl=False, err=err)


def say_evaluation(out: Console, name: str | None) -> None:
    """Print the name of the evaluation, unless it is the default one."""
    if name not in {None, "default"}:
        say(out, f"evaluation {name} (not the default evaluation)", style="bold")


def print_result(result: T, output: str, show: Callable[[T], object], *, quiet: bool = False) -> None:
    """Print a result as JSON if that is the output format, otherwise with `show` unless `quiet` is set."""
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
    for part in csv_parts(columns, rows):
        click.echo(part, nl=False)


_GAP: Final = 2
#: Longer words, and parts of them, are broken rather than that they push other columns off the screen.
_LONGEST_WORD: Final = 40
#: Words above the first of these lengths with which a table fits are broken.
_LONGEST_WORDS: Final = (_LONGEST_WORD, 32, 26, 21, 17, 14, 12)
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

    `least` is the minimum width of the other columns, whose text is wrapped, in characters.
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
    """Return columns of text that is wrapped."""
    return [Column(name=name) for name in names]


def print_table(
    out: Console, columns: Sequence[Column], rows: Sequence[Sequence[Any]], title: str | None = None
) -> None:
    """Print a table, and the names of columns that do not fit the terminal.

    If even the other columns do not fit, columns that never wrap are wrapped, too; if words would have to be cut nevertheless,
    each row is printed as a list.
    """
    cells = [[safe(value) for value in row] for row in rows]
    indices = _fitting_columns(columns, cells, out.width)
    if title is not None:
        say(out, title, style="bold")
    visible = [columns[index] for index in indices]
    visible_cells = [[row[index] for index in indices] for row in cells]
    widths = _widths(visible, visible_cells, out.width)
    if widths is None:
        visible = [replace(column, unfolded=False) for column in visible]
        widths = _widths(visible, visible_cells, out.width)
    if widths is None:
        print_records(out, [column.name for column in columns], cells)
        return
    show(out, _table(visible, visible_cells, widths))
    left_out = [column.name for index, column in enumerate(columns) if index not in indices]
    if left_out:
        say(out, f"({', '.join(left_out)}: not shown, the terminal is too narrow; --format json has all)", style="dim")


def print_records(out: Console, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print each row as a list of names and values."""
    for number, row in enumerate(rows, 1):
        say(out, f"row {number:,}", style="bold")
        record = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        record.add_column(style="cyan")
        record.add_column(overflow="fold")
        for name, value in zip(names, row, strict=True):
            record.add_row(Text(safe(name)), Text(value))
        show(out, record)


def fits(columns: Sequence[Column], rows: Sequence[Sequence[Any]], width: int) -> bool:
    """Return whether a table of these rows fits without omitting columns or cutting values; text may be wrapped."""
    cells = [[safe(value) for value in row] for row in rows]
    return _total(_least(columns, cells)) <= width


def differing_and_shared(rows: Sequence[object], names: Sequence[str]) -> tuple[list[str], dict[str, object]]:
    """Return the attributes whose values differ between the rows, and the values of those that all rows share.

    Neither contains an attribute that no row has, or that is None or empty in every row.

    >>> from types import SimpleNamespace as Row
    >>> differing_and_shared([Row(agent="a", tool="x"), Row(agent="a", tool="y")], ["agent", "tool", "tag"])
    (['tool'], {'agent': 'a'})
    """
    differing, shared = [], {}
    for name in names:
        values = {getattr(row, name, None) for row in rows}
        if len(values) > 1:
            differing.append(name)
        elif values - {None, ""}:
            (shared[name],) = values
    return differing, shared


def _table(columns: Sequence[Column], cells: Sequence[Sequence[str]], widths: Sequence[int]) -> Table:
    """Return the table. Cells are not interpreted as markup, because most of them are untrusted."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column, width in zip(columns, widths, strict=True):
        table.add_column(
            Text(column.name),
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=column.right or column.unfolded,
            width=width,
        )
    for row in cells:
        values = [_broken(value, width) for value, width in zip(row, widths, strict=True)]
        table.add_row(
            *(Text(wrapped, style=_COLOURS.get(value, "")) for value, wrapped in zip(row, values, strict=True))
        )
    return table


def _widths(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return the widths of columns: at least their longest words, if these are limited enough; None if nothing fits."""
    natural = [_natural(column, [row[index] for row in cells]) for index, column in enumerate(columns)]
    available = width - _GAP * max(0, len(columns) - 1)
    for longest_word in _LONGEST_WORDS:
        least = _least(columns, cells, longest_word)
        if sum(least) <= available:
            # The widest columns are narrowed first.
            levels = (
                [max(low, min(full, level)) for low, full in zip(least, natural, strict=True)]
                for level in range(available, 0, -1)
            )
            return next(widths for widths in levels if sum(widths) <= available)
    return None


def _broken(text: str, width: int) -> str:
    r"""Return a text whose words fit a width, broken where a reader expects it: after punctuation, else at the width.

    >>> _broken("failed: ragas.tool_call_accuracy", 17)
    'failed: ragas.tool_call_\naccuracy'
    """
    return re.sub(rf"\S{{{width + 1},}}", lambda match: _broken_term(match[0], width), text)


def _fitting_columns(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the indices of the displayed columns: the highest spare columns are omitted until the others fit."""
    least = _least(columns, cells)
    indices = list(range(len(columns)))
    for index in sorted(indices, key=lambda index: -columns[index].spare):
        if columns[index].spare == 0 or _total([least[i] for i in indices]) <= width:
            break
        indices.remove(index)
    return indices


def _broken_term(term: str, width: int) -> str:
    parts = []
    while len(term) > width:
        end = max((match.end() for match in _BREAKS.finditer(term, 0, width)), default=width)
        parts.append(term[:end])
        term = term[end:]
    return "\n".join([*parts, term])


def _least(columns: Sequence[Column], cells: Sequence[Sequence[str]], longest_word: int = _LONGEST_WORD) -> list[int]:
    """Return the minimum width of each column: its longest line, or its longest word where its text is wrapped."""
    return [_least_of(column, [row[index] for row in cells], longest_word) for index, column in enumerate(columns)]


def _least_of(column: Column, texts: Sequence[str], longest_word: int) -> int:
    natural = _natural(column, texts)
    if column.right or column.unfolded:
        return natural
    terms = [term for text in (column.name, *texts) for term in text.split()]
    longest = max(map(cell_len, terms), default=0)
    longest_part = max((cell_len(part) for term in terms for part in _ENDS.split(term)), default=0)
    return min(
        natural, max(min(column.least, longest_word), min(longest, longest_word), min(longest_part, _LONGEST_WORD))
    )


def _natural(column: Column, texts: Sequence[str]) -> int:
    return max(cell_len(line) for text in (column.name, *texts) for line in text.split("\n"))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * max(0, len(widths) - 1)
