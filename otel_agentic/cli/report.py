"""`otel-agentic report`: pass@k and pass^k by group."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.options import (
    evaluation_option,
    numbers_of,
    opened,
    selection_of,
    selection_options,
    target_options,
)
from otel_agentic.cli.render.report_notes import period
from otel_agentic.cli.render.report_tables import print_markdown, print_report
from otel_agentic.cli.render.terminal import print_json, print_text
from otel_agentic.errors import UsageError
from otel_agentic.results.charts import Charts
from otel_agentic.results.reports import Report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_agentic.commands import Client

#: The arguments that `report` and `report_pictures` share.
_SHARED: Final = (
    "k",
    "by",
    "window",
    "since_ns",
    "until_ns",
    "agent",
    "estimator",
    "interval",
    "compare",
    "evaluation",
)
_KIB: Final = 1024


def check_output(output: str, out: Path | None, *, plot: bool) -> None:
    """Check, before anything is computed, that what is asked for can be drawn here, and has a place to go to.

    Raises:
        UsageError: the library that draws it is not installed, or the options do not go together.
    """
    if output == "html":
        _need("matplotlib", "--format html")
        if out is None and sys.stdout.isatty():
            raise UsageError("--format html is a page for a browser: give -o report.html, or > report.html")
    elif out is not None:
        raise UsageError(f"-o {out} goes with --format html; other formats go to standard output: > {out}")
    if plot:
        if output != "table":
            raise UsageError(f"--plot draws in the terminal, beside the table; it does not go with --format {output}")
        _need("plotext", "--plot")


def charts_for(client: Client, arguments: Mapping[str, Any]) -> Charts:
    """Return the data of the charts of a report.

    Args:
        client: the store.
        arguments: those of the report.
    """
    return client.get(Charts, "report_pictures", **{name: arguments[name] for name in _SHARED if name in arguments})


def write_page(found: Report, charts: Charts, about: str, out: Path | None) -> None:
    """Write a report as a page to a file, or to standard output.

    Raises:
        UsageError: the file cannot be written.
    """
    from otel_agentic.cli.html import page  # noqa: PLC0415 — only a page pays for what draws it

    text = page(found, charts, about)
    if out is None:
        print_text(text)
        return
    try:
        size = out.write_text(text, encoding="ascii")
    except OSError as error:
        raise UsageError(f"-o {out}: {error.strerror}; give a file that can be written") from error
    print_text(f"{out}: {-(-size // _KIB):,} KiB\n", err=True)


def print_curves(charts: Charts) -> None:
    """Print pass@k and pass^k over k of the groups in the terminal."""
    from otel_agentic.cli.render.plot import plot  # noqa: PLC0415 — only a plot pays for what draws it

    plot(charts.curves)


def _need(module: str, option: str) -> None:
    try:
        import_module(module)
    except ImportError as error:
        raise UsageError(f"{option} needs {module}: pip install 'otel-agentic[plots]'") from error


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
        found = client.get(Report, "report", **arguments)
        charts = charts_for(client, arguments) if plot or output == "html" else None
    about = period(window, since, until)
    if found.evaluation != "default":
        about = f"evaluation {found.evaluation}; {about}"
    if output == "json":
        print_json(found)
    elif output == "html" and charts is not None:
        write_page(found, charts, about, out)
    elif output == "markdown":
        print_markdown(found, about)
    else:
        print_report(found, about)
    if plot and charts is not None:
        print_curves(charts)
