"""`otel-agentic query`: SQL on the store."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.options import Target, evaluation_option, output_option, target_options
from otel_agentic.errors import UsageError
from otel_agentic.render.terminal import Column, console, fits, print_csv, print_json, print_records, print_table, say
from otel_agentic.render.text import plural, safe
from otel_agentic.results.query import QueryResult

if TYPE_CHECKING:
    from rich.console import Console

#: The largest number of characters of a value, and of rows, in a table.
_LONGEST_VALUE: Final = 400
_MOST_ROWS: Final = 1000
_NUMBERS: Final = frozenset(
    {"DOUBLE", "FLOAT", "BIGINT", "INTEGER", "HUGEINT", "UBIGINT", "UINTEGER", "SMALLINT", "TINYINT"}
)


class _SqlCommand(HelpfulCommand):
    """A command whose SQL may begin with a comment: `-- …` is not an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments after moving such SQL behind `--`, where click expects no options."""
        sql = [] if "--" in args else [argument for argument in args if _begins_with_comment(argument)]
        options = [argument for argument in args if argument not in sql]
        return super().parse_args(ctx, [*options, "--", *sql] if sql else args)


def _begins_with_comment(argument: str) -> bool:
    r"""Return whether an argument is SQL that begins with a comment.

    No option contains a line break, or a space after its dashes.

    >>> [_begins_with_comment(each) for each in ("-- all\nSELECT 1", "--all\nSELECT 1", "--db", "--db=my file")]
    [True, True, False, False]
    """
    return argument.startswith("--") and (argument[2:3].isspace() or "\n" in argument)


@click.command(cls=_SqlCommand)
@click.argument("sql")
@target_options
@output_option("table", "json", "csv", "parquet", note="; parquet is for a file or a pipe")
@click.option("--fresh", is_flag=True, help="Query the current data of a running collector, not its last snapshot.")
@evaluation_option
def query(
    sql: str,
    target: Target,
    output: str,
    evaluation: str | None,
    *,
    fresh: bool,
) -> None:
    """Run one read-only SQL statement.

    A running collector answers from a snapshot, by default at most a minute old, and the command prints its time. Start with
    the views v_reliability, v_failing_tools, v_conversations and v_coverage, which show one evaluation; `DESCRIBE v_coverage`
    and `SHOW TABLES` list more. If the rows are wider than the terminal, each row is printed as a list.
    """
    if output == "parquet" and sys.stdout.isatty():
        raise UsageError("--format parquet is binary; redirect it to a file: … --format parquet > answer.parquet")
    with target.open() as client:
        answer = client.get(QueryResult, "query", sql=sql, fresh=fresh or None, evaluation=evaluation)
        is_live = client.is_remote
    if output == "parquet":
        from otel_agentic.store.queries.parquet import parquet_of  # noqa: PLC0415 — only this format needs DuckDB here

        click.echo(parquet_of(answer.columns, answer.types, answer.rows), nl=False)
    elif output == "json":
        print_json([dict(zip(answer.columns, row, strict=True)) for row in answer.rows])
    elif output == "csv":
        print_csv(answer.columns, answer.rows)
    else:
        _print(console(), answer)
    if answer.truncated:
        click.echo(f"truncated after {plural(len(answer.rows), 'row')} ({answer.cut_by})", err=True)
    if evaluation is not None and evaluation != "default":
        click.echo(f"evaluation {evaluation} (not the default evaluation)", err=True)
    if is_live:
        click.echo(f"as of {answer.as_of}", err=True)


def _print(out: Console, answer: QueryResult) -> None:
    types, total = answer.types, len(answer.rows)
    columns = [
        Column(name=safe(name), right=kind in _NUMBERS, unfolded=kind.startswith("TIMESTAMP"))
        for name, kind in zip(answer.columns, types, strict=True)
    ]
    rows = [[_display(value, kind) for value, kind in zip(row, types, strict=True)] for row in answer.rows[:_MOST_ROWS]]
    if len(columns) == 1 or fits(columns, rows, out.width):
        print_table(out, columns, rows)
    else:
        print_records(out, answer.columns, rows)
    more = f"; the first {_MOST_ROWS:,} are shown, --format json and csv print all" if total > _MOST_ROWS else ""
    say(out, f"({plural(total, 'row')}{more})", style="dim")


def _display(value: Any, kind: str) -> str:
    """Return a value as text: numbers with six digits, times in UTC without offset, long text truncated."""
    if kind.startswith("TIMESTAMP") and isinstance(value, str):
        return value.removesuffix("+00:00").replace("T", " ")
    text = f"{value:.6g}" if isinstance(value, float) else safe(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
