"""`otel-agentic failures`: failures by cause, with severity, counts, times and examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from otel_agentic.cli.options import (
    JUDGE_HELP,
    evaluation_option,
    opened,
    require_own_file,
    selection_of,
    selection_options,
    target_options,
)
from otel_agentic.cli.render.terminal import (
    Column,
    console,
    print_csv,
    print_json,
    print_table,
    say,
    say_evaluation,
    text,
)
from otel_agentic.cli.render.text import moment, percent, plural, safe, short
from otel_agentic.errors import UsageError
from otel_agentic.results import to_json
from otel_agentic.results.failures import Cause, FailureGroup, FailureRecord, FailureReport

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from rich.console import Console

_SECONDS: Final = 19
_TITLE: Final = 90
_TOLD: Final = 200
_EXAMPLE: Final = 600
#: Places of one group that are listed.
_PLACES: Final = 10
_VERSIONS: Final = 6


def print_groups(out: Console, found: FailureReport, *, severity: str) -> None:
    """Print groups as a table, and under it what they were found in."""
    groups = found.groups
    if not groups:
        say(out, _why_none(found, severity))
        return
    agents = {", ".join(group.agents) for group in groups}
    several = len(agents) > 1
    subject = "" if several or agents == {""} else f" of {short(agents.pop())}"
    headline = f"{found.failed:,} of {_scored(found)} failed"
    if found.scored == found.not_evaluated:
        headline = f"found in {plural(found.scored, 'conversation')}, none of which a case or label decides"
    say(out, f"Failures{subject}: {headline}", style="bold")
    rows = [_cells(number, group, several=several) for number, group in enumerate(groups, 1)]
    print_table(out, _columns(several=several), rows)
    say(out, f"({_counts_of(found)}; --show N shows one)", style="dim")


def print_group(out: Console, group: FailureGroup) -> None:
    """Print one group: how often, in which versions, and where it happened last."""
    say(out, f"{group.severity}: {short(group.title, _TOLD)}", style="bold")
    often = f"{plural(group.count, 'failure')} in {plural(group.conversations, 'conversation')}"
    say(out, f"{often}, {percent(group.share)} of all failures listed")
    first, last = (moment(time, _SECONDS) for time in (group.first_seen, group.last_seen))
    say(out, f"first seen {first} UTC, last seen {last} UTC")
    if any(each.agent_version for each in group.agent_versions):
        say(out, f"in version {_versions(group)}")
    for cause in group.causes if len(group.causes) > 1 else ():
        say(out, f"joined of: {_cause(cause)}")
    click.echo()
    example = group.example
    say(out, f"for example: {_where(example)}", style="bold")
    say(out, short(example.explanation, _EXAMPLE))
    click.echo()
    places = group.failures[:_PLACES]
    rows = [(moment(one.ended_at), one.conversation_id, _turn(one), _explained(one)) for one in places]
    columns = [Column(name="ended", whole=True, spare=1), Column(name="conversation", whole=True)]
    print_table(out, [*columns, Column(name="turn", right=True), *text("what happened")], rows)
    more = group.count - len(places)
    if more:
        say(out, f"({more:,} more; --format json lists all)", style="dim")
    say(out, f"(otel-agentic conversations show {safe(example.conversation_id)} shows all of it)", style="dim")


def _columns(*, several: bool) -> list[Column]:
    return [
        Column(name="#", right=True),
        Column(name="severity", whole=True),
        *(text("agent") if several else []),
        Column(name="what goes wrong", least=28),
        Column(name="failures", right=True),
        Column(name="conversations", right=True),
        Column(name="share", right=True, spare=3),
        Column(name="first seen", whole=True, spare=4),
        Column(name="last seen", whole=True, spare=2),
        Column(name="look at", whole=True, spare=1),
    ]


def _cells(number: int, group: FailureGroup, *, several: bool) -> tuple[object, ...]:
    return (
        number,
        group.severity,
        *([", ".join(group.agents) or None] if several else []),
        short(group.title, _TITLE),
        f"{group.count:,}",
        f"{group.conversations:,}",
        percent(group.share),
        moment(group.first_seen),
        moment(group.last_seen),
        _place(group.example),
    )


def _counts_of(found: FailureReport) -> str:
    counted = [f"{number:,} {severity}" for severity, number in found.by_severity.items() if number]
    told = f"{plural(found.failures, 'failure')} in {plural(found.failing_conversations, 'conversation')}"
    told = f"{told}: {', '.join(counted)}"
    hidden = found.group_count - len(found.groups)
    if hidden:
        told += f"; {plural(hidden, 'group')} more, --limit lists them"
    return told + _unjudged(found)


def _why_none(found: FailureReport, severity: str) -> str:
    """Return what there was to look at, where no failure is shown."""
    if not found.conversations:
        return "no failures: no closed conversations in this selection"
    if not found.scored:
        return f"no failures: none of {plural(found.conversations, 'closed conversation')} is scored; run evaluate"
    what = "failures" if severity == "low" else f"failures of severity {severity} or worse"
    return f"no {what} in {_scored(found)}{_unjudged(found)}"


def _scored(found: FailureReport) -> str:
    """Return how many conversations have a score; those that could not be evaluated neither failed nor passed.

    Where the judge is unsure, some of these are known to fail by something else, and their failures are listed.
    """
    told = plural(found.scored, "scored conversation")
    known = f", {found.known_failures:,} of them known to fail" if found.known_failures else ""
    return f"{told} ({found.not_evaluated:,} not evaluated{known})" if found.not_evaluated else told


def _unjudged(found: FailureReport) -> str:
    if not found.judge_errors:
        return ""
    return f"; {plural(found.judge_errors, 'score')} could not be judged, which is no failure of the agent"


def _explained(failure: FailureRecord) -> str:
    told = short(failure.explanation, _TOLD)
    if failure.value is None or failure.label is not None:
        return told
    return f"{failure.value:g}: {told}" if told else f"{failure.value:g}"


def _where(failure: FailureRecord) -> str:
    names = (failure.agent, failure.agent_version, failure.environment)
    whose = " ".join(safe(name) for name in names if name)
    turn = "" if failure.turn_index is None else f", turn {failure.turn_index + 1}"
    return f"conversation {safe(failure.conversation_id)}{turn}" + (f" of {whose}" if whose else "")


def _place(failure: FailureRecord) -> str:
    turn = "" if failure.turn_index is None else f" turn {failure.turn_index + 1}"
    return f"{failure.conversation_id}{turn}"


def _turn(failure: FailureRecord) -> int | None:
    return None if failure.turn_index is None else failure.turn_index + 1


def _versions(group: FailureGroup) -> str:
    told = [f"{safe(each.agent_version)}: {each.count:,}" for each in group.agent_versions]
    if len(told) > _VERSIONS:
        told = [*told[:2], f"… {len(told) - 4} more …", *told[-2:]]
    return ", ".join(told)


def _cause(cause: Cause) -> str:
    where = " ".join(safe(name) for name in (cause.tool_name, cause.parameter) if name)
    return " ".join(part for part in (cause.metric, cause.label or "below its threshold", where) if part)


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
        found = client.get(FailureReport, command, **selection_of(since, until, agent, evaluation), **asked)
    if show is not None:
        _print_one(found, show, output)
    elif output == "json":
        print_json(found)
    elif output == "csv":
        columns, rows = (_GROUP_COLUMNS, _group_rows) if by == "group" else (_FAILURE_COLUMNS, _failure_rows)
        print_csv(columns, ([row[column] for column in columns] for row in rows(found)))
    else:
        say_evaluation(console(), found.evaluation)
        print_groups(console(), found, severity=severity)
    if found.note is not None:
        say(console(stderr=True), found.note)


def _print_one(found: FailureReport, show: int, output: str) -> None:
    if show > len(found.groups):
        raise UsageError(f"--show {show}: there is no such group; the last one is {len(found.groups)}")
    group = found.groups[show - 1]
    if output == "table":
        say_evaluation(console(), found.evaluation)
        print_group(console(), group)
    elif output == "json":
        print_json({"evaluation": found.evaluation, **to_json(group)})
    else:
        raise UsageError("--show is for --format table and json")


def _group_rows(found: FailureReport) -> Iterator[Mapping[str, object]]:
    for group in found.groups:
        cause = group.causes[0] if len(group.causes) == 1 else None
        example = group.example
        yield {
            **{name: getattr(cause, name, None) for name in ("metric", "label", "tool_name", "parameter")},
            **to_json(group),
            "agents": ", ".join(group.agents),
            "example_environment": example.environment,
            "example_turn_index": example.turn_index,
            "example": example.explanation,
        }


def _failure_rows(found: FailureReport) -> Iterator[Mapping[str, object]]:
    for group in found.groups:
        for failure in group.failures:
            yield {**to_json(failure), "title": group.title}
