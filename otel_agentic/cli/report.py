"""`otel-agentic report`: pass@K and pass^K by group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from otel_agentic.cli.options import numbers_of, opened, selection_of, selection_options, target_options
from otel_agentic.cli.output import print_json
from otel_agentic.cli.report_notes import period
from otel_agentic.cli.report_table import print_markdown, print_report

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Tell how reliable each agent is.")
@target_options
@click.option("-k", "k", metavar="1,3,5", help="The k of pass@k and pass^k.")
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(["agent", "version", "environment", "tag", "case", "tool"]),
    help="Group by this too; may be given several times.",
)
@click.option("--window", metavar="WIDTH", help="Only the last 1h, 24h, 7d up to the newest conversation (or --until).")
@selection_options
@click.option(
    "--estimator", metavar="NAME", help="One estimator: plugin, unbiased, per_case, bayesian, or a plug-in's."
)
@click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json", "markdown"]),
    default="table",
    show_default=True,
    help="What to print.",
)
def report(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    k: str | None,
    by: tuple[str, ...],
    window: str | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    estimator: str | None,
    output: str,
) -> None:
    """Tell how reliable each agent is: pass@k and pass^k with intervals, coverage and deployment tier.

    pass@k is the chance that at least one of k attempts is right, pass^k that all k are.
    """
    arguments: dict[str, Any] = {**selection_of(since, until, agent), "by": list(by)}
    optional = {"k": numbers_of(k, "-k"), "window": window, "estimator": estimator}
    arguments |= {name: value for name, value in optional.items() if value is not None}
    with opened(db, server, config_file) as client:
        found = client.call("report", **arguments)
    if output == "json":
        print_json(found)
    elif output == "markdown":
        print_markdown(found, period(window, since, until))
    else:
        print_report(found, period(window, since, until))
