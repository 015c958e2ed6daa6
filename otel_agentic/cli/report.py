"""`otel-agentic report`: pass@K and pass^K by group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from otel_agentic.cli.options import (
    evaluation_option,
    numbers_of,
    opened,
    selection_of,
    selection_options,
    target_options,
)
from otel_agentic.cli.output import print_json
from otel_agentic.cli.report_notes import period
from otel_agentic.cli.report_pictures import check_output, pictures_for, print_curves, write_page
from otel_agentic.cli.report_table import print_markdown, print_report


@click.command(short_help="Tell how reliable each agent is.")
@target_options
@click.option("-k", "k", metavar="1,3,5", help="The k of pass@k and pass^k.")
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(["agent", "version", "environment", "service", "tag", "case", "tool"]),
    help="Group by this too; may be given several times.",
)
@click.option(
    "--window",
    metavar="WIDTH",
    help="Only the last 1h, 24h, 7d up to --until, a running collector's clock or the newest conversation; or the newest of each group: n200.",
)
@selection_options
@evaluation_option
@click.option(
    "--estimator",
    metavar="NAME",
    help="One estimator: plugin, unbiased, per_case, bayesian, hierarchical, or a plug-in's.",
)
@click.option(
    "--interval",
    type=click.Choice(["default", "bootstrap"]),
    default="default",
    show_default=True,
    help="How intervals of the shown estimator are made: its own way, or by resampling cases.",
)
@click.option(
    "--compare",
    metavar="KEY=A,B",
    help="B against A, such as version=1.0.0,1.1.0; keys: agent, version, environment, service, tag.",
)
@click.option(
    "--metrics",
    metavar="A,B",
    help="Metrics beyond the outcome, by name, family, default, all, none; else those that have scores.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(["table", "json", "markdown", "html"]),
    default="table",
    show_default=True,
    help="What to print; html is a page with pictures.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file that the page goes to, for --format html.",
)
@click.option("--plot", is_flag=True, help="Draw pass@k and pass^k over k in the terminal, too.")
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
    evaluation: str | None,
    estimator: str | None,
    interval: str,
    compare: str | None,
    metrics: str | None,
    output: str,
    out: Path | None,
    plot: bool,
) -> None:
    """Tell how reliable each agent is: pass@k and pass^k with intervals, coverage and deployment tier.

    pass@k is the chance that at least one of k attempts is right, pass^k that all k are.
    """
    arguments: dict[str, Any] = {**selection_of(since, until, agent, evaluation), "by": list(by), "interval": interval}
    optional: dict[str, Any] = {"k": numbers_of(k, "-k"), "window": window, "estimator": estimator, "compare": compare}
    optional["metrics"] = None if metrics is None else [name for name in metrics.split(",") if name.strip()]
    arguments |= {name: value for name, value in optional.items() if value is not None}
    check_output(output, out, plot=plot)
    with opened(db, server, config_file) as client:
        found = client.call("report", **arguments)
        drawn = pictures_for(client, arguments) if plot or output == "html" else {}
    about = period(window, since, until)
    if found["evaluation"] != "default":
        about = f"evaluation {found['evaluation']}; {about}"
    if output == "json":
        print_json(found)
    elif output == "html":
        write_page(found, drawn, about, out)
    elif output == "markdown":
        print_markdown(found, about)
    else:
        print_report(found, about)
    if plot:
        print_curves(drawn)
