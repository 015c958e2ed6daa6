"""`otel-agentic tools failing`: which tool, which dimension, which parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.options import opened, selection_of, selection_options, target_options
from otel_agentic.cli.output import console, print_csv, print_json, say
from otel_agentic.cli.tables import Column, print_table, text, told_apart
from otel_agentic.cli.text import percent, short

if TYPE_CHECKING:
    from pathlib import Path

_CSV_COLUMNS: Final = (
    "agent", "agent_version", "environment", "tool", "dimension", "fault", "parameter", "faults", "conversations",
    "share", "example_conversation", "example", "expected", "made", "trace_id", "span_id", "first_seen", "last_seen",
)  # fmt: skip
_SUBJECT: Final = ("agent", "agent_version", "environment")


@click.group(short_help="Ask which tools fail, and how.")
def tools() -> None:
    """Ask about tool calls."""


@tools.command(short_help="List what is wrong with which tool.")
@target_options
@selection_options
@click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="What to print.",
)
def failing(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    output: str,
) -> None:
    """List what is wrong with which tool, most frequent first, with the newest conversation where it happened.

    The share is of all tool faults of the agent. JSON and CSV hold more: an explanation, the values, when it was first
    and last seen, the span.
    """
    with opened(db, server, config_file) as client:
        rows = client.call("tools_failing", **selection_of(since, until, agent))
    if output == "json":
        print_json(rows)
    elif output == "csv":
        print_csv(_CSV_COLUMNS, ([row[name] for name in _CSV_COLUMNS] for row in rows))
    else:
        _print(rows)


def _print(rows: list[dict[str, Any]]) -> None:
    out = console()
    if not rows:
        say(out, "no tool faults in scored conversations of this selection")
        return
    names, same = told_apart(rows, _SUBJECT)
    columns = [
        *text(*(name.replace("agent_", "") for name in names)),
        Column(name="tool", least=20),
        Column(name="dimension", whole=True, spare=1),
        Column(name="fault", least=16),
        Column(name="faults", right=True),
        Column(name="share", right=True, spare=2),
        Column(name="for example", least=30, spare=3),
        Column(name="conversation", whole=True),
    ]
    shown = [
        (
            *(row[name] for name in names),
            row["tool"],
            row["dimension"],
            f"{row['fault']} {row['parameter'] or ''}".rstrip(),
            f"{row['faults']:,}",
            percent(row["share"]),
            _example(row),
            row["example_conversation"],
        )
        for row in rows
    ]
    print_table(out, columns, shown, " ".join(["Failing tools", *([f"of {_subject(same)}"] if same else [])]))


def _subject(same: dict[str, Any]) -> str:
    return " ".join(str(value) for value in same.values())


def _example(row: dict[str, Any]) -> str:
    """Return what happened in the newest conversation, without the name of the tool, which stands beside it."""
    if row["parameter"]:
        return f"{short(row['made'], 30)} instead of {short(row['expected'], 30)}"
    told = str(row["example"] or "")
    for named, instead in ((f", {row['tool']}(", " ("), (f"{row['tool']} in ", "")):
        told = told.replace(named, instead, 1)
    return short(told, 70)
