"""`otel-agentic suite`: cases that bear the same tag, such as regression, and how an agent does on them over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.options import (
    evaluation_option,
    format_option,
    opened,
    selection_of,
    selection_options,
    target_options,
)
from otel_agentic.cli.render.terminal import Column, console, print_json, print_table, say, say_evaluation
from otel_agentic.cli.render.text import NOTHING, interval, moment, plural
from otel_agentic.results.evaluation import Suite, SuiteTrend, TrendPoint
from otel_agentic.results.reports import Rate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Cases named in a line.
_NAMED: Final = 5
_SUITES: Final = (
    Column(name="suite"),
    Column(name="cases", right=True),
    Column(name="drafts", right=True),
    Column(name="conversations", right=True),
    Column(name="correct", right=True),
)


@click.group(short_help="Ask about suites of cases.")
def suite() -> None:
    """Ask about suites: cases that bear the same tag, such as regression.

    `truth promote --failing --tag regression` drafts one from production; `evaluate --suite` and `gate --suite` look at one.
    """


@suite.command("list", short_help="List the suites.")
@target_options
@selection_options
@evaluation_option
@format_option
def list_suites(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    evaluation: str | None,
    output: str,
) -> None:
    """List the suites: every tag of the cases in force, with its conversations, and how many of them are correct."""
    with opened(db, server, config_file) as client:
        found = client.get(list[Suite], "suites", **selection_of(since, until, agent, evaluation))
    if output == "json":
        print_json(found)
        return
    out = console()
    say_evaluation(out, evaluation)
    if not found:
        say(out, "no case in force has a tag; `otel-agentic truth promote --failing --tag regression` drafts a suite")
        return
    rows = [
        [
            row.suite,
            f"{row.cases:,}",
            f"{row.drafts:,}",
            f"{row.conversations:,}",
            f"{row.c:,}/{row.n:,}",
        ]
        for row in found
    ]
    print_table(out, _SUITES, rows)
    for line in _draft_lines((row.suite, row.drafts) for row in found):
        say(out, line)


@suite.command(short_help="Tell how a suite does over time.")
@click.argument("suite", metavar="TAG")
@target_options
@selection_options
@evaluation_option
@click.option(
    "--by",
    type=click.Choice(["version", "day", "week"]),
    default="version",
    show_default=True,
    help="What a row is: an agent version, or a day or week (from Monday, UTC) of conversation ends.",
)
@format_option
def trend(
    suite: str,
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    evaluation: str | None,
    by: str,
    output: str,
) -> None:
    """Tell how a suite does over time: the success rate at each version or day, and which cases broke or were fixed.

    Newest scores are told, also of what was scored anew. A case broke where all its attempts were right at the row before that
    has some, and now one is not; it is fixed the other way round.
    """
    with opened(db, server, config_file) as client:
        found = client.get(
            SuiteTrend, "suite_trend", suite=suite, by=by, **selection_of(since, until, agent, evaluation)
        )
    if output == "json":
        print_json(found)
        return
    out = console()
    say_evaluation(out, evaluation)
    told = f"Suite {found.suite}: {plural(found.cases, 'case')}"
    if not found.points:
        say(out, f"{told}, and no closed conversation of this selection; `otel-agentic evaluate` matches them")
    else:
        _print_trend(found, f"{told}, by {by}")
    for line in _draft_lines([(found.suite, found.drafts)]):
        say(out, line)


def _print_trend(found: SuiteTrend, title: str) -> None:
    out, points = console(), found.points
    several = len({point.agent for point in points}) > 1
    columns = [
        *([Column(name="agent")] if several else []),
        Column(name=found.by, whole=True),
        Column(name="until", whole=True, spare=1),
        Column(name="cases", right=True),
        Column(name="correct", right=True),
        Column(name="success", whole=True),
        Column(name="not evaluated", right=True, spare=2),
        Column(name="broke", right=True),
        Column(name="fixed", right=True),
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
    whose = f"{point.agent or 'unknown agent'} " if several else ""
    for change in ("broke", "fixed"):
        flips = [flip for flip in point.flips if flip.change == change]
        told = [
            f"{flip.case_id} ({_share(flip.now)} correct, {_share(flip.before)} at {flip.since or NOTHING})"
            for flip in flips[:_NAMED]
        ]
        more = f" and {len(flips) - _NAMED:,} more" if len(flips) > _NAMED else ""
        if flips:
            yield f"{whose}{point.name or NOTHING}: {change}: {', '.join(told)}{more}"


def _share(counts: list[int]) -> str:
    return f"{counts[0]:,} of {counts[1]:,}"


def _draft_lines(suites: Any) -> Iterator[str]:
    for name, drafts in suites:
        if drafts:
            does = "is a draft and does" if drafts == 1 else "are drafts and do"
            yield f"{name}: {plural(drafts, 'case')} {does} not count until somebody has set `reviewed` to true"
