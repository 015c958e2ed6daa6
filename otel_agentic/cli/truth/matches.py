"""`otel-agentic truth list|matches`: what is in force, and which conversation belongs to which case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.options import (
    format_option,
    opened,
    selection_of,
    selection_options,
    target_options,
)
from otel_agentic.cli.output import console, print_json, say
from otel_agentic.cli.tables import Column, print_table, text, told_apart
from otel_agentic.cli.text import plural, ratio

if TYPE_CHECKING:
    from pathlib import Path

_NONE: Final = {
    None: "no conversations",
    "unmatched": "no unmatched conversations",
    "ambiguous": "no ambiguous conversations",
    "warning": "no matches with a warning",
}


@click.command(name="list", short_help="List the cases in force.")
@target_options
@format_option
def list_(db: Path | None, server: str | None, config_file: Path | None, output: str) -> None:
    """List the cases in force, with how much each expects and how many conversations were held against it."""
    with opened(db, server, config_file) as client:
        rows = client.call("truth_list")
    if output == "json":
        print_json(rows)
    elif rows:
        _print_cases(rows)
    else:
        say(console(), "no cases in force; `otel-agentic truth import FILE` puts some in force")


@click.command(short_help="List which case each conversation was matched to.")
@target_options
@selection_options
@click.option("--only", type=click.Choice(["unmatched", "ambiguous", "warning"]), help="Only those.")
@format_option
def matches(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    only: str | None,
    output: str,
) -> None:
    """List which case each conversation was matched to, how, and how surely."""
    chosen = {**selection_of(since, until, agent), **({"only": only} if only else {})}
    with opened(db, server, config_file) as client:
        rows = client.call("truth_matches", **chosen)
    if output == "json":
        print_json(rows)
    elif rows:
        _print_matches(rows)
    else:
        say(console(), f"{_NONE[only]} in this selection")


def _print_cases(rows: list[dict[str, Any]]) -> None:
    names, _ = told_apart(rows, ("dataset", "agent", "source"))
    columns = [
        Column(name="case", least=20),
        *text(*names, "tags"),
        *(Column(name=name, right=True) for name in ("turns", "expected calls", "attempts")),
    ]
    shown = [
        (
            row["case_id"],
            *(row[name] for name in names),
            ", ".join(row["tags"]),
            row["turns"],
            row["expected_calls"],
            row["attempts"],
        )
        for row in rows
    ]
    datasets = {row["dataset"] for row in rows}
    title = f"{plural(len(rows), 'case')} in force"
    print_table(console(), columns, shown, f"{title}, dataset {datasets.pop()}" if len(datasets) == 1 else title)


def _print_matches(rows: list[dict[str, Any]]) -> None:
    names, _ = told_apart(rows, ("agent", "environment"))
    warned = any(row["warning"] for row in rows)
    columns = [
        Column(name="conversation", whole=True),
        *text(*names, "case", "method"),
        Column(name="confidence", right=True),
        *([Column(name="warning", least=30)] if warned else []),
    ]
    shown = [
        [
            row["conversation_id"],
            *(row[name] for name in names),
            row["case_id"] or ", ".join(row["candidates"] or []) or None,
            row["method"] or row["reason"],
            ratio(row["confidence"]),
            *([row["warning"] or ""] if warned else []),
        ]
        for row in rows
    ]
    print_table(console(), columns, shown)
