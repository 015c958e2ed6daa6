"""`otel-agentic query`: SQL on the store."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import click
from rich.table import Table
from rich.text import Text

from otel_agentic.cli.options import evaluation_option, opened, target_options
from otel_agentic.cli.render.terminal import Column, console, fits, print_csv, print_json, print_table, say, show
from otel_agentic.cli.render.text import plural, safe
from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from otel_agentic.commands import Client

#: Characters of one value, and rows, that a table shows.
_LONGEST_VALUE: Final = 400
_MOST_ROWS: Final = 1000
_INTERRUPTED: Final = 130
_NUMBERS: Final = frozenset(
    {"DOUBLE", "FLOAT", "BIGINT", "INTEGER", "HUGEINT", "UBIGINT", "UINTEGER", "SMALLINT", "TINYINT"}
)


class _SqlCommand(click.Command):
    """A command whose SQL may begin with a comment: `-- …` is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments, with such SQL set where click takes nothing for an option."""
        sql = [] if "--" in args else [each for each in args if _begins_with_comment(each)]
        options = [each for each in args if each not in sql]
        return super().parse_args(ctx, [*options, "--", *sql] if sql else args)


def _begins_with_comment(argument: str) -> bool:
    r"""Return whether an argument is SQL under a comment: no option has a line break, or a space after its dashes.

    >>> [_begins_with_comment(each) for each in ("-- all\nSELECT 1", "--all\nSELECT 1", "--db", "--db=my file")]
    [True, True, False, False]
    """
    return argument.startswith("--") and (argument[2:3].isspace() or "\n" in argument)


@click.command(cls=_SqlCommand, short_help="Run SQL on the store, read-only.")
@click.argument("sql")
@target_options
@click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json", "csv", "parquet"]),
    default="table",
    show_default=True,
    help="What to print; parquet is for a file or a pipe.",
)
@click.option(
    "--fresh", is_flag=True, help="Of a running collector: ask everything stored until now, not its last snapshot."
)
@evaluation_option
def query(
    sql: str,
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    output: str,
    evaluation: str | None,
    *,
    fresh: bool,
) -> None:
    """Run one read-only SQL statement.

    A running collector answers from a snapshot, at most a minute old unless set otherwise, and prints its time. Start with
    the views v_reliability, v_failing_tools, v_conversations and v_coverage, which show one evaluation; `DESCRIBE v_coverage`
    and `SHOW TABLES` list more. Where the rows are wider than the terminal, each is printed as a list.
    """
    if output == "parquet" and sys.stdout.isatty():
        raise UsageError(
            "--format parquet is no text for a terminal; send it to a file: … --format parquet > answer.parquet"
        )
    from otel_agentic.commands.client import RemoteClient  # noqa: PLC0415 — not needed for --help

    with opened(db, server, config_file) as client:
        found = _asked(client, sql, fresh=fresh or None, evaluation=evaluation)
        is_live = isinstance(client, RemoteClient)
    if output == "parquet":
        from otel_agentic.store.queries.parquet import parquet_of  # noqa: PLC0415 — DuckDB, which only this format needs here

        click.echo(parquet_of(found["columns"], found["types"], found["rows"]), nl=False)
    elif output == "json":
        print_json([dict(zip(found["columns"], row, strict=True)) for row in found["rows"]])
    elif output == "csv":
        print_csv(found["columns"], found["rows"])
    else:
        _print(console(), found)
    if found["truncated"]:
        click.echo(f"cut after {plural(len(found['rows']), 'row')} ({found['cut_by']})", err=True)
    if evaluation is not None and evaluation != "default":
        click.echo(f"evaluation {evaluation} (not the default evaluation)", err=True)
    if is_live:
        click.echo(f"as of {found['as_of']}", err=True)


def _asked(client: Client, sql: str, **options: Any) -> dict[str, Any]:
    """Return the answer to a query. Ctrl-C ends the process at once: a query writes nothing that could be half done.

    DuckDB looks for signals so rarely that the main thread would wait for the end of the query instead.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="otel-agentic-query") as pool:
        try:
            found: dict[str, Any] = dict(pool.submit(client.call, "query", sql=sql, **options).result())
        except KeyboardInterrupt:
            os._exit(_INTERRUPTED)
    return found


def _print(out: Console, found: dict[str, Any]) -> None:
    types, total = found["types"], len(found["rows"])
    columns = [
        Column(name=safe(name), right=kind in _NUMBERS, whole=kind.startswith("TIMESTAMP"))
        for name, kind in zip(found["columns"], types, strict=True)
    ]
    rows = [[_shown(value, kind) for value, kind in zip(row, types, strict=True)] for row in found["rows"][:_MOST_ROWS]]
    if len(columns) == 1 or fits(columns, rows, out.width):
        print_table(out, columns, rows)
    else:
        _print_records(out, found["columns"], rows)
    more = f"; the first {_MOST_ROWS:,} are shown, --format json and csv give all" if total > _MOST_ROWS else ""
    say(out, f"({plural(total, 'row')}{more})", style="dim")


def _print_records(out: Console, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print each row as a list of names and values."""
    for number, row in enumerate(rows, 1):
        say(out, f"row {number:,}", style="bold")
        record = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        record.add_column(style="cyan")
        record.add_column(overflow="fold")
        for name, value in zip(names, row, strict=True):
            record.add_row(Text(safe(name)), Text(value))
        show(out, record)


def _shown(value: Any, kind: str) -> str:
    """Return a value for people: numbers to six digits, times in UTC without saying so, long text cut."""
    if kind.startswith("TIMESTAMP") and isinstance(value, str):
        return value.removesuffix("+00:00").replace("T", " ")
    text = f"{value:.6g}" if isinstance(value, float) else safe(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
