"""Where a gate's verdict goes: the terminal, files for CI systems, the summary of a GitHub step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import orjson

from otel_agentic.cli.gate_github import append_summary, print_github
from otel_agentic.cli.gate_junit import junit_of
from otel_agentic.cli.gate_words import (
    condition_of,
    found_of,
    headline,
    notes_of,
    several,
    stops,
    verdict_of,
    wanted_of,
)
from otel_agentic.cli.output import console, print_text, say
from otel_agentic.cli.tables import Column, print_table
from otel_agentic.cli.text import json_text, markdown
from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_agentic.commands import Client

Found = dict[str, Any]

_COLUMNS: Final = (
    Column(name="agent"),
    Column(name="condition"),
    Column(name="wanted", whole=True),
    Column(name="found", whole=True),
    Column(name="n", right=True, spare=1),
    Column(name="verdict"),
    Column(name="why", least=24),
)


def tell(found: Found, output: str, out: Path | None, besides: Mapping[str, Path | None]) -> None:
    """Print what a gate found in one form, or write it to `out`; write other forms `besides`.

    Raises:
        UsageError: a file cannot be written.
    """
    for form, path in besides.items():
        if path is not None:
            _write(path, _FORMS[form](found))
    if out is not None:
        _write(out, _FORMS[output](found))
        print_text(f"{headline(found)}; written to {out}\n")
    elif output == "table":
        print_gate(found)
    elif output == "github":
        print_github(found, print_gate)
    else:
        print_text(_FORMS[output](found))
    if output == "github":
        append_summary(markdown_of(found))


def print_gate(found: Found) -> None:
    """Print the table, what is to be known of it, and the verdict."""
    console_out = console()
    columns, rows = _table(found)
    if rows:
        print_table(console_out, columns, rows)
        click.echo()
    for note in notes_of(found):
        say(console_out, note)
    # Last, where the eye falls first in a log.
    say(console_out, headline(found), style="bold green" if found["passed"] else "bold red")


def markdown_of(found: Found) -> str:
    """Return the table, the verdict and the notes as Markdown."""
    columns, rows = _table(found)
    told = headline(found)
    lines = [f"## {markdown(told[:1].upper() + told[1:])}", ""]
    lines += [f"| {' | '.join(column.name for column in columns)} |"]
    lines += [f"|{'|'.join('---:' if column.right else '---' for column in columns)}|"]
    lines += [f"| {' | '.join(markdown(cell) for cell in row)} |" for row in rows]
    notes = [f"- {markdown(note)}" for note in notes_of(found)]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def json_of(found: Found) -> str:
    """Return it as indented JSON."""
    told = {name: value for name, value in found.items() if name != "asked_to_save"}
    return json_text(told, orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS) + "\n"


def write_baseline(client: Client, where: str | None, measured: Any) -> str | None:
    """Keep a baseline in the store, or in a file; return where, None where none is to be kept.

    Raises:
        UsageError: its name is none, or the file cannot be written.
    """
    if where is None:
        return None
    from otel_agentic.pipeline.gate.baseline import is_file  # noqa: PLC0415 — pydantic models are not needed for --help

    if is_file(where):
        _write(Path(where), json_text(measured, orjson.OPT_INDENT_2) + "\n")
    else:
        client.call("gate_save_baseline", baseline=measured)
    return where


def _table(found: Found) -> tuple[list[Column], list[list[Any]]]:
    """Return the columns and the rows: what fails comes first."""
    rows = sorted(found["rows"], key=lambda row: not stops(row))
    cells = [
        [
            row["agent"],
            condition_of(row),
            wanted_of(row),
            found_of(row),
            f"{row['n']:,}",
            verdict_of(row),
            row["reason"],
        ]
        for row in rows
    ]
    first = 0 if several(rows) else 1
    return list(_COLUMNS[first:]), [row[first:] for row in cells]


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; give a file that can be written") from error


def _lines_of(found: Found) -> str:
    """Return the verdict in lines, for a file."""
    columns, rows = _table(found)
    table = "\n".join("\t".join(str(cell) for cell in row) for row in [[column.name for column in columns], *rows])
    return "\n".join([table, "", *notes_of(found), headline(found)]) + "\n"


_FORMS: Final[dict[str, Callable[[Found], str]]] = {
    "json": json_of,
    "markdown": markdown_of,
    "junit": junit_of,
    "table": _lines_of,
    "github": markdown_of,
}
