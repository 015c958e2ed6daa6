"""`otel-agentic failures`: failures by root cause, with symptoms, severity, counts, trend and examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import click

from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.open_conversations import open_conversations_of, say_empty
from otel_agentic.cli.options import (
    JUDGE_HELP,
    Selection,
    Target,
    output_option,
    present,
    require_own_file,
    selection_options,
    target_options,
)
from otel_agentic.errors import UsageError
from otel_agentic.render.terminal import (
    Column,
    console,
    numbers,
    print_csv,
    print_json,
    print_table,
    say,
    say_evaluation,
    text,
)
from otel_agentic.render.text import argument, moment, percent, plural, safe, short
from otel_agentic.results import to_json
from otel_agentic.results.failures import Cause, FailureGroup, FailureRecord, FailureReport, FailureTrend

if TYPE_CHECKING:
    from rich.console import Console

_SECONDS: Final = 19
_TITLE: Final = 90
_TEXT: Final = 200
_EXAMPLE: Final = 600
#: The number of failures listed for a group.
_MAX_LISTED: Final = 10
_VERSIONS: Final = 6


def print_groups(out: Console, report: FailureReport, *, severity: str) -> None:
    """Print groups as a table, followed by the totals."""
    groups = report.groups
    if not groups:
        say(out, _empty_reason(report, severity))
        return
    agents = {", ".join(group.agents) for group in groups}
    several = len(agents) > 1
    subject = "" if several or agents == {""} else f" of {short(agents.pop())}"
    headline = f"{report.failed:,} of {_scored(report)} failed"
    if report.scored == report.not_evaluated:
        headline = f"found in {plural(report.scored, 'conversation')} without an applicable case or label"
    say(out, f"Failures{subject}: {headline}", style="bold")
    rows = [_cells(number, group, several=several) for number, group in enumerate(groups, 1)]
    print_table(out, _columns(several=several), rows)
    say(out, f"({_counts_of(report)}; --show N shows one)", style="dim")


def print_group(out: Console, group: FailureGroup) -> None:
    """Print a group: its counts, versions, times, and newest failures."""
    say(out, f"{group.severity}: {short(group.title, _TEXT)}", style="bold")
    counts = f"root cause of {plural(group.conversations, 'conversation')}"
    say(out, f"{counts}, {percent(group.share)} of all failing ones{_elsewhere(group)}")
    first, last = (moment(time, _SECONDS) for time in (group.first_seen, group.last_seen))
    version = f" in version {safe(group.first_version)}" if group.first_version else ""
    say(out, f"first seen {first} UTC{version}, last seen {last} UTC")
    say(out, _trend_sentence(group.trend))
    if any(version.agent_version for version in group.agent_versions):
        say(out, f"failures in version {_versions(group)}")
    if group.blamed_agents:
        say(out, f"caused by agent {', '.join(f'{safe(item.agent)}: {item.count:,}' for item in group.blamed_agents)}")
    for cause in group.causes if len(group.causes) > 1 else ():
        say(out, f"merged from: {_cause(cause)}")
    for symptom in group.symptoms[:_MAX_LISTED]:
        say(out, f"symptom in {plural(symptom.conversations, 'conversation')}: {short(symptom.title, _TITLE)}")
    more_symptoms = len(group.symptoms) - _MAX_LISTED
    if more_symptoms > 0:
        say(out, f"({more_symptoms:,} more symptoms; --format json lists all)", style="dim")
    click.echo()
    example = group.example
    say(out, f"for example: {_subject(example)}", style="bold")
    say(out, short(example.explanation, _EXAMPLE))
    click.echo()
    newest = group.failures[:_MAX_LISTED]
    rows = [
        (
            moment(failure.ended_at),
            failure.conversation_id,
            _turn(failure),
            "root" if failure.is_root else "symptom",
            _explanation(failure),
        )
        for failure in newest
    ]
    columns = [Column(name="ended", unfolded=True, spare=1), Column(name="conversation", unfolded=True)]
    columns += [Column(name="turn", right=True), Column(name="root", spare=2)]
    print_table(out, [*columns, *text("what happened")], rows)
    more = group.count - len(newest)
    if more:
        say(out, f"({more:,} more; --format json lists all)", style="dim")
    say(out, f"(otel-agentic conversations show {argument(example.conversation_id)} shows all of it)", style="dim")


def _columns(*, several: bool) -> list[Column]:
    return [
        Column(name="#", right=True),
        Column(name="severity", unfolded=True, spare=6),
        *(text("agent") if several else []),
        Column(name="root cause", least=28),
        *numbers("conversations"),
        Column(name="share", right=True, spare=3),
        Column(name="trend", unfolded=True, spare=5),
        Column(name="first seen", unfolded=True, spare=4),
        Column(name="last seen", unfolded=True, spare=2),
        Column(name="look at", unfolded=True),
    ]


def _cells(number: int, group: FailureGroup, *, several: bool) -> tuple[object, ...]:
    return (
        number,
        group.severity,
        *([", ".join(group.agents) or None] if several else []),
        short(group.title, _TITLE),
        f"{group.conversations:,}",
        percent(group.share),
        _trend_of(group.trend),
        moment(group.first_seen),
        moment(group.last_seen),
        _location(group.example),
    )


def _trend_of(trend: FailureTrend | None) -> str | None:
    """Return the direction with the rate of each half; without a direction, there are too few failures for one."""
    if trend is None or trend.direction is None:
        return None
    before, after = trend.before / trend.before_scored, trend.after / trend.after_scored
    return f"{trend.direction} {percent(before)} to {percent(after)}"


def _trend_sentence(trend: FailureTrend | None) -> str:
    if trend is None:
        return "trend: no data; the scored conversations cannot be divided into an earlier and a later half"
    direction = trend.direction or "too few conversations for a trend"
    before = f"{trend.before:,} of {trend.before_scored:,} scored conversations before {moment(trend.split_at)} UTC"
    return f"trend: {direction} ({before}, {trend.after:,} of {trend.after_scored:,} since; p = {trend.p_value:.2g})"


def _elsewhere(group: FailureGroup) -> str:
    if not group.elsewhere:
        return ""
    return f"; also a symptom in {plural(group.elsewhere, 'conversation')} with another root cause"


def _counts_of(report: FailureReport) -> str:
    severity_counts = [f"{number:,} {severity}" for severity, number in report.by_severity.items() if number]
    counts = f"{plural(report.failures, 'failure')} in {plural(report.failing_conversations, 'conversation')}"
    counts = f"{counts}: {', '.join(severity_counts)}"
    hidden_groups = report.group_count - len(report.groups)
    if hidden_groups:
        counts += f"; {plural(hidden_groups, 'more group')}, --limit lists them"
    return counts + _unjudged(report)


def _empty_reason(report: FailureReport, severity: str) -> str:
    """Return the reason why no failure is listed."""
    if not report.conversations:
        return "no failures: no closed conversations in this selection"
    if not report.scored:
        return f"no failures: none of {plural(report.conversations, 'closed conversation')} is scored; run evaluate"
    noun = "failures" if severity == "low" else f"failures of severity {severity} or worse"
    return f"no {noun} in {_scored(report)}{_unjudged(report)}"


def _scored(report: FailureReport) -> str:
    """Return the number of scored conversations as text; those not evaluated have neither failed nor passed.

    If the judge is unsure about a conversation, it may still fail for another reason. Its failures are listed.
    """
    conversations = plural(report.scored, "scored conversation")
    failed_note = f", {report.known_failures:,} of them known to fail" if report.known_failures else ""
    return (
        f"{conversations} ({report.not_evaluated:,} not evaluated{failed_note})"
        if report.not_evaluated
        else conversations
    )


def _unjudged(report: FailureReport) -> str:
    if not report.judge_errors:
        return ""
    return f"; {plural(report.judge_errors, 'score')} could not be judged (not a failure of the agent)"


def _explanation(failure: FailureRecord) -> str:
    explanation = short(failure.explanation, _TEXT)
    if failure.value is None or failure.label is not None:
        return explanation
    return f"{failure.value:g}: {explanation}" if explanation else f"{failure.value:g}"


def _subject(failure: FailureRecord) -> str:
    names = (failure.agent, failure.agent_version, failure.environment)
    tool_and_parameter = " ".join(safe(name) for name in names if name)
    turn = "" if failure.turn_index is None else f", turn {failure.turn_index + 1}"
    return f"conversation {safe(failure.conversation_id)}{turn}" + (
        f" of {tool_and_parameter}" if tool_and_parameter else ""
    )


def _location(failure: FailureRecord) -> str:
    turn = "" if failure.turn_index is None else f" turn {failure.turn_index + 1}"
    return f"{failure.conversation_id}{turn}"


def _turn(failure: FailureRecord) -> int | None:
    return None if failure.turn_index is None else failure.turn_index + 1


def _versions(group: FailureGroup) -> str:
    counts = [f"{safe(version.agent_version)}: {version.count:,}" for version in group.agent_versions]
    if len(counts) > _VERSIONS:
        counts = [*counts[:2], f"… {len(counts) - 4} more …", *counts[-2:]]
    return ", ".join(counts)


def _cause(cause: Cause) -> str:
    tool_and_parameter = " ".join(safe(name) for name in (cause.tool_name, cause.parameter) if name)
    return " ".join(part for part in (cause.metric, cause.label or "below its threshold", tool_and_parameter) if part)


_SEVERITIES: Final = ("low", "medium", "high", "critical")
#: The default number of groups in a table.
_DEFAULT_LIMIT: Final = 20
_GROUP_COLUMNS: Final = (
    "severity", "title", "metric", "label", "tool_name", "parameter", "count", "conversations", "share", "elsewhere",
    "symptoms", "agents", "trend", "first_seen", "first_version", "last_seen", "example_conversation", "example_environment", "example_turn_index", "example",
)  # fmt: skip
_FAILURE_COLUMNS: Final = (
    "severity", "title", "environment", "conversation_id", "revision", "agent", "agent_version", "ended_at", "turn_index",
    "position", "metric", "label", "value", "tool_name", "parameter", "explanation", "is_root", "blamed_agent",
)  # fmt: skip


@click.command(cls=HelpfulCommand)
@target_options
@selection_options
@click.option(
    "--severity",
    type=click.Choice(_SEVERITIES),
    default="low",
    show_default=True,
    help="Only failures of at least this severity.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"List the first N groups. Default: {_DEFAULT_LIMIT} in a table, all in JSON and CSV.",
)
@click.option("--show", type=click.IntRange(min=1), metavar="N", help="Show group N: its versions and newest failures.")
@click.option("--merge", is_flag=True, help="Merge groups that have the same root cause according to the judge.")
@click.option("--judge", "name", metavar="NAME", help=f"The judge for --merge. {JUDGE_HELP}")
@click.option(
    "--by",
    type=click.Choice(["group", "failure"]),
    default="group",
    show_default=True,
    help="For CSV: a row for each group, or for each failure in it.",
)
@output_option("table", "json", "csv")
def failures(
    target: Target,
    selection: Selection,
    severity: str,
    limit: int | None,
    show: int | None,
    merge: bool,
    name: str | None,
    by: str,
    output: str,
) -> None:
    """List failures, grouped by root cause, the most severe first.

    A failure is a score of an evaluator with a failing label, or with a value that does not meet its threshold. Each tool
    fault, wrong answer, missing turn and missing output of a failed conversation is a failure, too. A score that could not be
    evaluated is not a failure. Each failing conversation is in exactly one group, that of its root cause: the earliest
    failure that may have caused the others, which are its symptoms. `otel-agentic config show` lists the severities and
    thresholds.
    """
    if name and not merge:
        raise UsageError("--judge selects the judge that merges groups: add --merge")
    if by == "failure" and output != "csv":
        raise UsageError("--by failure needs --format csv; JSON always contains the failures of each group")
    if limit is not None and show is not None:
        raise UsageError("give --limit or --show, not both")
    most = limit or (max(show or 0, _DEFAULT_LIMIT) if output == "table" else None)
    judge = present(judge=name)
    with target.open(scoring=judge) as client:
        require_own_file(client, "failures", judge)
        command = "failures_merged" if merge else "failures"
        records = (_MAX_LISTED if show is not None else 0) if output == "table" else None
        report = client.get(
            FailureReport, command, **selection.arguments, severity=severity, limit=most, records=records
        )
        open_conversations = None if report.conversations else open_conversations_of(client, selection, is_empty=True)
    if show is not None:
        _print_selected(report, show, output)
    elif output == "json":
        print_json(report)
    elif output == "csv":
        columns, rows = (_GROUP_COLUMNS, _group_rows) if by == "group" else (_FAILURE_COLUMNS, _failure_rows)
        print_csv(columns, ([row[column] for column in columns] for row in rows(report)))
    else:
        say_evaluation(console(), report.evaluation)
        print_groups(console(), report, severity=severity)
        if open_conversations is not None:
            say_empty(console(), open_conversations)
    if report.note is not None:
        say(console(stderr=True), report.note)


def _print_selected(report: FailureReport, show: int, output: str) -> None:
    if show > len(report.groups):
        raise UsageError(f"--show {show}: no such group; the last group is {len(report.groups)}")
    group = report.groups[show - 1]
    if output == "table":
        say_evaluation(console(), report.evaluation)
        print_group(console(), group)
    elif output == "json":
        print_json({"evaluation": report.evaluation, **to_json(group)})
    else:
        raise UsageError("--show needs --format table or json")


def _group_rows(report: FailureReport) -> Iterator[Mapping[str, object]]:
    for group in report.groups:
        cause = group.causes[0] if len(group.causes) == 1 else None
        example = group.example
        yield {
            **{name: getattr(cause, name, None) for name in ("metric", "label", "tool_name", "parameter")},
            **to_json(group),
            "agents": ", ".join(group.agents),
            "symptoms": "; ".join(f"{item.title} ({item.conversations})" for item in group.symptoms),
            "trend": None if group.trend is None else group.trend.direction,
            "example_environment": example.environment,
            "example_turn_index": example.turn_index,
            "example": example.explanation,
        }


def _failure_rows(report: FailureReport) -> Iterator[Mapping[str, object]]:
    for group in report.groups:
        for failure in group.failures:
            yield {**to_json(failure), "title": group.title, "blamed_agent": failure.blamed_agent}
