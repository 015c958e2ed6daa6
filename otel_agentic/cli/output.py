"""Printing: JSON for machines, tables for people, progress on standard error."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click
import orjson
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_INDENT: Final = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
#: Width of output that goes to a file or a pipe: wide enough that nothing is cut.
_PIPE_WIDTH: Final = 160
_COLOURS: Final = {
    "pass": "green",
    "fail": "red",
    "ready": "bold green",
    "needs_improvement": "yellow",
    "inconsistent": "yellow",
    "not_ready": "bold red",
    "insufficient_evidence": "cyan",
}


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output (or error); in a pipe it does not cut to 80 columns."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, width=None if stream.isatty() else _PIPE_WIDTH, highlight=False, soft_wrap=False)


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    click.echo(orjson.dumps(value, default=str, option=_INDENT).decode())


def print_line(value: Any) -> None:
    """Print a value as one line of JSON."""
    click.echo(orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode())


def table(
    title: str | None, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, right: Sequence[str] = ()
) -> Table:
    """Return a table; cells are escaped, for most of them are strangers' text."""
    made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(cell(value) for value in row))
    return made


def cell(value: Any) -> str:
    """Return a value as safe table text: no markup, no control characters, known words coloured."""
    text = safe(value)
    colour = _COLOURS.get(text)
    return f"[{colour}]{text}[/]" if colour else escape(text)


def safe(value: Any) -> str:
    r"""Return a value as text that a terminal shows and does not obey.

    >>> safe("a\x1b[31mb"), safe(None), safe(0.5)
    ('a�[31mb', '—', '0.5')
    """
    if value is None:
        return "—"
    text = value if isinstance(value, str) else _compact(value)
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)


def short(value: Any, limit: int = 60) -> str:
    """Return a value as one line of at most `limit` characters."""
    text = " ".join(safe(value).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def ratio(value: float | None) -> str:
    """Return a ratio with three digits, a dash where there is none.

    >>> ratio(0.42), ratio(None), ratio(1.0)
    ('.420', '—', '1.00')
    """
    if value is None:
        return "—"
    text = f"{value:.3f}"
    return "1.00" if text == "1.000" else text.removeprefix("0")


def interval(found: Mapping[str, float | None]) -> str:
    """Return an estimate with its bounds.

    >>> interval({"value": 0.42, "lower": 0.353, "upper": 0.489})
    '.420 [.353, .489]'
    """
    if found["value"] is None:
        return "—"
    if found["lower"] is None:
        return ratio(found["value"])
    return f"{ratio(found['value'])} [{ratio(found['lower'])}, {ratio(found['upper'])}]"


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Callable[[str, int, int | None], None]]:
    """Lend a function that shows how far a long command is; it shows nothing in a pipe or when quiet."""
    if quiet or not sys.stderr.isatty():
        yield lambda *_: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as shown:
        tasks: dict[str, Any] = {}

        def step(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = shown.add_task(stage, total=total)
            shown.update(tasks[stage], completed=done, total=total)

        yield step


def _compact(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    return str(value)
