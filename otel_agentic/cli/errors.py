"""Error messages on standard error: one readable line, or one line per problem."""

from __future__ import annotations

import re
from typing import Final

import click

from otel_agentic.errors import BadInputError, OtelAgenticError, QueryError
from otel_agentic.render.text import printable

#: DuckDB's pointer into a statement: a line of SQL with a caret below.
_POINTER: Final = re.compile(r"\s*\bLINE (\d+): .*\Z", re.DOTALL)
#: DuckDB handles Ctrl-C itself while a statement runs, and raises an error with this message.
_DUCKDB_INTERRUPTED: Final = "Query interrupted"
#: The exit code that shells report for a process that Ctrl-C ended.
INTERRUPTED: Final = 130


def error_lines(error: Exception) -> list[str]:
    r"""Return the message lines for an error.

    >>> error_lines(QueryError("the query failed: no column x\n\nLINE 1: SELECT x\n               ^"))
    ['the query failed: no column x (line 1)']
    """
    if isinstance(error, click.ClickException):
        return [_usage(error)]
    if isinstance(error, QueryError):
        return [_one_line(_POINTER.sub(r" (line \1)", str(error)))]
    if isinstance(error, BadInputError):
        return [printable(line) for line in str(error).splitlines() if line.strip()]
    if isinstance(error, OtelAgenticError):
        return [_one_line(str(error))]
    kind = type(error).__name__
    return [
        f"unexpected {kind}: {_one_line(str(error))}; run with --debug for the traceback, and include it in a bug report"
    ]


def was_interrupted(error: Exception) -> bool:
    """Return whether Ctrl-C caused an error."""
    return isinstance(error, RuntimeError) and str(error) == _DUCKDB_INTERRUPTED


def _usage(error: click.ClickException) -> str:
    message = _one_line(error.format_message()).removesuffix(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{message}; see `{context.command_path} --help`" if context else message


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))
