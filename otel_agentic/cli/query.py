"""`otel-agentic query`: SQL on the store."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING

import click

from otel_agentic.cli.options import opened, target_options
from otel_agentic.cli.output import console, print_json, table
from otel_agentic.cli.tools import csv_cell

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@click.argument("sql")
@target_options
@click.option("--format", "output", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True)
def query(sql: str, db: Path | None, server: str | None, config_file: Path | None, output: str) -> None:
    """Run one read-only SQL statement; start with the views v_reliability, v_failing_tools, v_conversations, v_coverage."""
    with opened(db, server, config_file) as client:
        found = client.call("query", sql=sql)
    if output == "json":
        print_json([dict(zip(found["columns"], row, strict=True)) for row in found["rows"]])
    elif output == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(found["columns"])
        writer.writerows([csv_cell(value) for value in row] for row in found["rows"])
    else:
        console().print(table(None, found["columns"], found["rows"]))
    if found["truncated"]:
        click.echo(f"cut after {len(found['rows']):,} rows (store.query_max_rows)", err=True)
