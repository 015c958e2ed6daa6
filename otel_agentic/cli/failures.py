"""`otel-agentic failures`: what goes wrong, how bad it is, how often, since when, and where to look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.failures_show import print_group, print_groups
from otel_agentic.cli.options import evaluation_option, opened, selection_of, selection_options, target_options
from otel_agentic.cli.output import console, print_csv, print_json, say, say_evaluation
from otel_agentic.cli.own_settings import JUDGE_HELP, require_own_file
from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SEVERITIES: Final = ("low", "medium", "high", "critical")
#: Groups in a table unless told otherwise.
_SHOWN: Final = 20
_GROUP_COLUMNS: Final = (
    "severity", "title", "metric", "label", "tool_name", "parameter", "count", "conversations", "share", "agents",
    "first_seen", "last_seen", "example_conversation", "example_environment", "example_turn_index", "example",
)  # fmt: skip
_FAILURE_COLUMNS: Final = (
    "severity", "title", "environment", "conversation_id", "revision", "agent", "agent_version", "ended_at", "turn_index",
    "position", "metric", "label", "value", "tool_name", "parameter", "explanation",
)  # fmt: skip


@click.command(short_help="List what goes wrong, grouped by cause.")
@target_options
@selection_options
@evaluation_option
@click.option(
    "--severity",
    type=click.Choice(_SEVERITIES),
    default="low",
    show_default=True,
    help="Only failures as bad as this, or worse.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"List the first N groups. Unless given, a table has {_SHOWN}, JSON and CSV have all.",
)
@click.option(
    "--show", type=click.IntRange(min=1), metavar="N", help="Show group N: its versions, and where it happened last."
)
@click.option("--merge", is_flag=True, help="Have the judge say which groups have one root cause, and join these.")
@click.option("--judge", "name", metavar="NAME", help=f"With --merge: who says it. {JUDGE_HELP}")
@click.option(
    "--by",
    type=click.Choice(["group", "failure"]),
    default="group",
    show_default=True,
    help="For CSV: a row for each group, or for each failure in it.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="What to print.",
)
def failures(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    evaluation: str | None,
    severity: str,
    limit: int | None,
    show: int | None,
    merge: bool,
    name: str | None,
    by: str,
    output: str,
) -> None:
    """List what goes wrong, grouped by cause, the worst first.

    A failure is a score of an evaluator whose label is a failing one, or whose value does not meet its threshold; and each
    thing found wrong in a conversation that failed: a tool fault, a wrong answer, a missing turn or output. What could not
    be evaluated is none. Each failure is in exactly one group: those of one metric, label, tool and parameter. Severities
    and thresholds are those of the settings, see `otel-agentic config show`.
    """
    if name and not merge:
        raise UsageError("--judge says who joins groups; give --merge, too")
    if by == "failure" and output != "csv":
        raise UsageError("--by failure is for --format csv; JSON holds the failures of each group anyway")
    if limit is not None and show is not None:
        raise UsageError("give --limit or --show, not both")
    most = limit or (max(show or 0, _SHOWN) if output == "table" else None)
    asked = {"severity": severity, **({} if most is None else {"limit": most})}
    judge = {"judge": name} if name else {}
    with opened(db, server, config_file, scoring=judge) as client:
        require_own_file(client, "failures", judge)
        command = "failures_merged" if merge else "failures"
        found = client.call(command, **selection_of(since, until, agent, evaluation), **asked)
    if show is not None:
        _print_one(found, show, output)
    elif output == "json":
        print_json(found)
    elif output == "csv":
        columns, rows = (_GROUP_COLUMNS, _group_rows) if by == "group" else (_FAILURE_COLUMNS, _failure_rows)
        print_csv(columns, ([row[column] for column in columns] for row in rows(found)))
    else:
        say_evaluation(console(), found["evaluation"])
        print_groups(console(), found, severity=severity)
    if found["note"] is not None:
        say(console(stderr=True), found["note"])


def _print_one(found: dict[str, Any], show: int, output: str) -> None:
    if show > len(found["groups"]):
        raise UsageError(f"--show {show}: there is no such group; the last one is {len(found['groups'])}")
    group = found["groups"][show - 1]
    if output == "table":
        say_evaluation(console(), found["evaluation"])
        print_group(console(), group)
    elif output == "json":
        print_json({"evaluation": found["evaluation"], **group})
    else:
        raise UsageError("--show is for --format table and json")


def _group_rows(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for group in found["groups"]:
        one = group["causes"][0] if len(group["causes"]) == 1 else {}
        example = group["example"]
        yield {
            **{name: one.get(name) for name in ("metric", "label", "tool_name", "parameter")},
            **group,
            "agents": ", ".join(group["agents"]),
            "example_environment": example["environment"],
            "example_turn_index": example["turn_index"],
            "example": example["explanation"],
        }


def _failure_rows(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for group in found["groups"]:
        for failure in group["failures"]:
            yield {**failure, "title": group["title"]}
