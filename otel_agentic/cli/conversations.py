"""`otel-agentic conversations`: list, show and export what was rebuilt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.conversation import print_conversation
from otel_agentic.cli.options import (
    evaluation_option,
    format_option,
    opened,
    selection_of,
    selection_options,
    target_options,
)
from otel_agentic.cli.output import console, print_json, print_line, say, say_evaluation
from otel_agentic.cli.tables import Column, print_table, text, told_apart
from otel_agentic.cli.text import moment, plural

if TYPE_CHECKING:
    from pathlib import Path

_SUBJECT: Final = ("agent", "agent_version", "environment")


@click.group(short_help="List, show and export what was rebuilt.")
def conversations() -> None:
    """Look at rebuilt conversations."""


@conversations.command(name="list", short_help="List conversations, newest first.")
@target_options
@selection_options
@evaluation_option
@click.option("--outcome", type=click.Choice(["pass", "fail", "not_evaluated"]), help="Only with this outcome.")
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", default=50, show_default=True, help="Only the newest so many."
)
@format_option
def list_(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    evaluation: str | None,
    outcome: str | None,
    limit: int,
    output: str,
) -> None:
    """List conversations, newest first, with the case that each was held against and its outcome."""
    chosen = selection_of(since, until, agent, evaluation)
    if outcome is not None:
        chosen["outcome"] = outcome
    with opened(db, server, config_file) as client:
        rows = client.call("conversations_list", **chosen, limit=limit)
    if output == "json":
        print_json(rows)
    else:
        say_evaluation(console(), evaluation)
        _print(rows, limit)


@conversations.command(short_help="Show one conversation, expected beside made.")
@click.argument("conversation_id")
@click.option("--environment", help="Deployment environment, where the id exists in several.")
@evaluation_option
@target_options
@format_option
def show(
    conversation_id: str,
    environment: str | None,
    evaluation: str | None,
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    output: str,
) -> None:
    """Show one conversation: its turns and calls with what was expected, its outcome, and what is wrong with its tools."""
    given = {"conversation_id": conversation_id, "environment": environment, "evaluation": evaluation}
    arguments = {name: value for name, value in given.items() if value is not None}
    with opened(db, server, config_file) as client:
        found = client.call("conversations_show", **arguments)
    if output == "json":
        print_json(found)
        return
    say_evaluation(console(), evaluation)
    print_conversation(console(), found)


@conversations.command(short_help="Print conversations as JSON lines.")
@target_options
@selection_options
@evaluation_option
def export(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    evaluation: str | None,
) -> None:
    """Print every conversation as one line of JSON."""
    with opened(db, server, config_file) as client:
        for line in client.stream("conversations_export", **selection_of(since, until, agent, evaluation)):
            print_line(line)


def _print(rows: list[dict[str, Any]], limit: int) -> None:
    out = console()
    if not rows:
        say(out, "no conversations in this selection")
        return
    names, same = told_apart(rows, _SUBJECT)
    columns = [
        Column(name="conversation", whole=True),
        *text(*(name.replace("agent_", "") for name in names)),
        Column(name="ended", whole=True, spare=1),
        Column(name="turns", right=True),
        Column(name="calls", right=True),
        *text("case", "outcome"),
    ]
    shown = [
        (
            row["conversation_id"],
            *(row[name] for name in names),
            moment(row["ended_at"]),
            row["turn_count"],
            row["call_count"],
            row["case_id"],
            _outcome(row),
        )
        for row in rows
    ]
    subject = " ".join(str(value) for value in same.values())
    print_table(out, columns, shown, f"Conversations of {subject}" if subject else "Conversations")
    if len(rows) == limit:
        say(out, f"(the newest {plural(limit, 'conversation')}; --limit shows more)", style="dim")


def _outcome(row: dict[str, Any]) -> str:
    if row["outcome"] is None:
        return "open" if row["closed_by"] is None else "not evaluated yet"
    return f"{row['outcome']}: {row['reason']}" if row["reason"] else str(row["outcome"])
