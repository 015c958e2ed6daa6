"""`otel-agentic suite`: cases with the same tag, such as regression, and their success over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click

from otel_agentic.cli.help import HelpfulGroup
from otel_agentic.cli.open_conversations import require_agent
from otel_agentic.cli.options import Selection, Target, format_option, selection_options, target_options
from otel_agentic.render.terminal import Column, console, numbers, print_json, print_table, say, say_evaluation
from otel_agentic.render.text import NOTHING, interval, moment, plural
from otel_agentic.results.evaluation import Suite, SuiteTrend, TrendPoint
from otel_agentic.results.reports import Rate

#: The largest number of cases named in a line.
_NAMED: Final = 5
_SUITES: Final = (
    Column(name="suite"),
    *numbers("cases", "drafts", "conversations", "correct"),
)


@click.group(cls=HelpfulGroup)
def suite() -> None:
    """List suites, which are cases with the same tag, such as regression, and show their trends.

    `truth promote --failing --tag regression` drafts a suite from production; `evaluate --suite` and `gate --suite` use one.
    """


@suite.command("list", short_help="List the suites.")
@target_options
@selection_options
@format_option
def list_suites(
    target: Target,
    selection: Selection,
    output: str,
) -> None:
    """List the suites: every tag of the active cases, with its number of conversations and of correct ones."""
    with target.open() as client:
        suites = client.get(list[Suite], "suites", **selection.arguments)
        if not any(row.conversations for row in suites):
            require_agent(client, selection)
    if output == "json":
        print_json(suites)
        return
    out = console()
    say_evaluation(out, selection.evaluation)
    if not suites:
        say(out, "no active case has a tag; `otel-agentic truth promote --failing --tag regression` drafts a suite")
        return
    rows = [
        [
            row.suite,
            f"{row.cases:,}",
            f"{row.drafts:,}",
            f"{row.conversations:,}",
            f"{row.c:,}/{row.n:,}",
        ]
        for row in suites
    ]
    print_table(out, _SUITES, rows)
    for line in _draft_lines((row.suite, row.drafts) for row in suites):
        say(out, line)


@suite.command(short_help="Show the success rate of a suite over time.")
@click.argument("suite", metavar="TAG")
@target_options
@selection_options
@click.option(
    "--by",
    type=click.Choice(["version", "day", "week"]),
    default="version",
    show_default=True,
    help="One row per agent version, or per day or week (from Monday, UTC) of conversation ends.",
)
@format_option
def trend(
    suite: str,
    target: Target,
    selection: Selection,
    by: str,
    output: str,
) -> None:
    """Show the success rate of a suite at each version, day or week, and the cases that broke or were fixed.

    The newest score of each conversation counts. A case broke if all its attempts in the last earlier row with attempts were
    correct, and an attempt in this row is not. It is fixed in the opposite case.
    """
    with target.open() as client:
        result = client.get(SuiteTrend, "suite_trend", suite=suite, by=by, **selection.arguments)
        if not result.points:
            require_agent(client, selection)
    if output == "json":
        print_json(result)
        return
    out = console()
    say_evaluation(out, selection.evaluation)
    title = f"Suite {result.suite}: {plural(result.cases, 'case')}"
    if not result.points:
        say(
            out,
            f"{title}, but no closed conversation in this selection; `otel-agentic evaluate` matches conversations to cases",
        )
    else:
        _print_trend(result, f"{title}, by {by}")
    for line in _draft_lines([(result.suite, result.drafts)]):
        say(out, line)


def _print_trend(result: SuiteTrend, title: str) -> None:
    out, points = console(), result.points
    several = len({point.agent for point in points}) > 1
    columns = [
        *([Column(name="agent")] if several else []),
        Column(name=result.by, unfolded=True),
        Column(name="until", unfolded=True, spare=1),
        *numbers("cases", "correct"),
        Column(name="success", unfolded=True),
        Column(name="not evaluated", right=True, spare=2),
        *numbers("broke", "fixed"),
    ]
    print_table(out, columns, [_cells(point, several=several) for point in points], title)
    click.echo()
    for point in points:
        for line in _flips(point, several=several):
            say(out, line)


def _cells(point: TrendPoint, *, several: bool) -> list[Any]:
    changes = [flip.change for flip in point.flips]
    return [
        *([point.agent] if several else []),
        point.name,
        moment(point.until),
        f"{point.cases:,}",
        f"{point.c:,}/{point.n:,}",
        interval(Rate(value=point.rate, lower=point.lower, upper=point.upper)),
        f"{point.not_evaluated:,}",
        f"{changes.count('broke'):,}",
        f"{changes.count('fixed'):,}",
    ]


def _flips(point: TrendPoint, *, several: bool) -> Iterator[str]:
    """Yield a line for the cases that broke at a point, and one for those that were fixed."""
    agent_prefix = f"{point.agent or 'unknown agent'} " if several else ""
    for change in ("broke", "fixed"):
        flips = [flip for flip in point.flips if flip.change == change]
        cases = [
            f"{flip.case_id} ({_share(flip.now)} correct, {_share(flip.before)} at {flip.since or NOTHING})"
            for flip in flips[:_NAMED]
        ]
        more = f" and {len(flips) - _NAMED:,} more" if len(flips) > _NAMED else ""
        if flips:
            yield f"{agent_prefix}{point.name or NOTHING}: {change}: {', '.join(cases)}{more}"


def _share(counts: list[int]) -> str:
    return f"{counts[0]:,} of {counts[1]:,}"


def _draft_lines(suites: Any) -> Iterator[str]:
    for name, drafts in suites:
        if drafts:
            does = "is a draft and does" if drafts == 1 else "are drafts and do"
            yield f"{name}: {plural(drafts, 'case')} {does} not count until `reviewed` is set to true"
