"""`otel-agentic tools failing`: which tool, which dimension, which parameter."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING, Any

import click

from otel_agentic.cli.options import opened, selection_of, selection_options, target_options
from otel_agentic.cli.output import console, print_json, ratio, short, table

if TYPE_CHECKING:
    from pathlib import Path

_CSV_COLUMNS = (
    "agent", "agent_version", "environment", "tool", "dimension", "fault", "parameter", "faults", "conversations",
    "share", "example_conversation", "example", "expected", "made", "trace_id", "span_id", "first_seen", "last_seen",
)  # fmt: skip
#: First characters that make a spreadsheet read a cell as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@click.group()
def tools() -> None:
    """Ask about tool calls."""


@tools.command()
@target_options
@selection_options
@click.option("--format", "output", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
def failing(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    output: str,
) -> None:
    """List what is wrong with which tool, most frequent first, with a conversation to look at."""
    with opened(db, server, config_file) as client:
        rows = client.call("tools_failing", **selection_of(since, until, agent))
    if output == "json":
        print_json(rows)
    elif output == "csv":
        _print_csv(rows)
    elif rows:
        console().print(failing_table(rows))
    else:
        click.echo("no tool faults in scored conversations")


def failing_table(rows: list[dict[str, Any]]) -> Any:
    """Return the failing tools as a table."""
    shown = [
        (
            f"{row['agent']} {row['agent_version'] or ''}".strip(),
            row["tool"],
            row["dimension"],
            row["fault"] + (f" ({row['parameter']})" if row["parameter"] else ""),
            row["faults"],
            ratio(row["share"]),
            _example(row),
            row["first_seen"][:16].replace("T", " "),
            row["example_conversation"],
        )
        for row in rows
    ]
    columns = ("agent", "tool", "dimension", "fault", "faults", "share", "for example", "since", "conversation")
    return table("Failing tools", columns, shown, right=("faults", "share"))


def _example(row: dict[str, Any]) -> str:
    if row["parameter"]:
        return f"expected {short(row['expected'], 40)}, made {short(row['made'], 40)}"
    return short(row["example"], 80)


def _print_csv(rows: list[dict[str, Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS)
    writer.writerows([csv_cell(row[name]) for name in _CSV_COLUMNS] for row in rows)


def csv_cell(value: Any) -> Any:
    """Return a value for a CSV cell that no spreadsheet takes for a formula."""
    if isinstance(value, (dict, list)):
        import orjson  # noqa: PLC0415 — JSON inside CSV is rare

        return orjson.dumps(value).decode()
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    return value
