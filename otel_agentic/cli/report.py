"""`otel-agentic report`: pass@k and pass^k by group."""

from __future__ import annotations

import sys
import webbrowser
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.help import HelpfulCommand
from otel_agentic.cli.open_conversations import (
    open_conversations_of,
    open_option,
    print_open,
    refuse_open,
    require_agent,
    say_empty,
    say_open,
)
from otel_agentic.cli.options import (
    Selection,
    Target,
    file_option,
    numbers_of,
    output_option,
    selection_options,
    target_options,
)
from otel_agentic.errors import BadInputError, UsageError
from otel_agentic.render.report_notes import period
from otel_agentic.render.report_tables import print_markdown, print_report
from otel_agentic.render.summary import MOST_FAILURES, print_summary
from otel_agentic.render.terminal import console, print_json, print_text
from otel_agentic.results.charts import Charts, ConversationOutcomes
from otel_agentic.results.conversations import ConversationDetails
from otel_agentic.results.failures import FailureReport
from otel_agentic.results.reports import Report

if TYPE_CHECKING:
    from otel_agentic.commands import Client
    from otel_agentic.results.conversations import OpenConversations

_KIB: Final = 1024
#: The largest number of conversations that a page contains with their turns.
_MAX_DETAILS: Final = 50


def check_output(output: str, out: Path | None, *, web: bool, plot: bool) -> None:
    """Check the output options before anything is computed.

    Raises:
        UsageError: the plotting library is not installed, or the options conflict.
    """
    if output == "html":
        if out is None and not web and sys.stdout.isatty():
            raise UsageError("--format html writes a page for a browser: give --web, -o report.html, or > report.html")
    elif web:
        raise UsageError("--web needs --format html")
    elif out is not None:
        raise UsageError(f"-o {out} needs --format html; other formats go to standard output: > {out}")
    if plot:
        if output != "table":
            raise UsageError(
                f"--plot draws in the terminal below the table; it cannot be combined with --format {output}"
            )
        _need("plotext", "--plot")


def failing_conversations(
    client: Client, charts: Charts, outcomes: ConversationOutcomes, evaluation: str
) -> list[ConversationDetails]:
    """Return the conversations that a page contains: the examples of its failures, then other failing ones."""
    keys = [
        *((cause.example_environment, cause.example_conversation) for cause in charts.failures.rows),
        *((fault.environment, fault.example_conversation) for fault in charts.failing.rows),
        *((row.environment, row.conversation_id) for row in outcomes.rows if row.outcome == "fail"),
    ]
    conversations = []
    for environment, conversation_id in list(dict.fromkeys(keys))[:_MAX_DETAILS]:
        options = {"conversation_id": conversation_id, "environment": environment, "evaluation": evaluation}
        # Retention may have removed the conversation of a failure.
        with suppress(BadInputError):
            conversations.append(client.get(ConversationDetails, "conversations_show", **options))
    return conversations


def write_page(text: str, out: Path | None, *, web: bool) -> None:
    """Write a page to a file, or to standard output; with `web`, display it in the browser, from a file of its own if none is given.

    Raises:
        UsageError: the file cannot be written.
    """
    if out is None and not web:
        print_text(text)
        return
    path = Path(mkdtemp(prefix="otel-agentic-")) / "report.html" if out is None else out
    try:
        size = path.write_text(text, encoding="ascii")
    except OSError as error:
        raise UsageError(f"-o {path}: {error.strerror}; give a file that can be written") from error
    print_text(f"{path}: {-(-size // _KIB):,} KiB\n", err=True)
    if web and not webbrowser.open(path.resolve().as_uri()):
        print_text(f"no browser could be started; open {path}\n", err=True)


def print_curves(charts: Charts) -> None:
    """Plot pass@k and pass^k of the groups over k in the terminal."""
    from otel_agentic.render.plot import plot  # noqa: PLC0415 — only a plot needs the plotting library

    plot(charts.curves)


def _need(module: str, option: str) -> None:
    try:
        import_module(module)
    except ImportError as error:
        raise UsageError(f"{option} needs {module}: pip install 'otel-agentic[plots]'") from error


@click.command(cls=HelpfulCommand)
@target_options
@click.option("-k", "k", metavar="1,3,5", help="The k of pass@k and pass^k.")
@click.option(
    "--by",
    multiple=True,
    metavar="KEY",
    help="Also group by version, environment, service, tag, case, tool or a slice: user, locale, tier, prompt, prompt_version, "
    "model, flag or one of the settings; repeatable.",
)
@click.option(
    "--window",
    metavar="WIDTH",
    help="Only the last 1h, 24h, 7d before --until, the clock of a running collector or the newest conversation; or the newest 200 of each group: n200.",
)
@selection_options
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
    help="Method for the intervals of the shown estimator: its own, or resampling of cases.",
)
@click.option(
    "--compare",
    metavar="KEY=A,B",
    help="Compare B with A, such as version=1.0.0,1.1.0; keys: agent, version, environment, service, tag.",
)
@click.option(
    "--metrics",
    metavar="A,B",
    help="Metrics in addition to the outcome, by name or family, or default, all, none. Default: all that have scores.",
)
@click.option(
    "--criterion",
    default="correct",
    show_default=True,
    metavar="NAME,…",
    help='What counts as a success: correct, tools, state, "agentest.helpfulness >= 4", a profile such as traffic; '
    'joined by " and ", all have to pass.',
)
@click.option("--details", is_flag=True, help="Print every estimate, tool score, metric and note.")
@open_option
@output_option("table", "json", "markdown", "html", note="; html is a page with charts")
@file_option("Write the page of --format html to this file.", alias="--out")
@click.option("--web", is_flag=True, help="Open the page of --format html in the browser.")
@click.option("--plot", is_flag=True, help="Also plot pass@k and pass^k over k in the terminal.")
def report(
    target: Target,
    selection: Selection,
    k: str | None,
    metrics: str | None,
    details: bool,
    show_open: bool,
    output: str,
    file: Path | None,
    web: bool,
    plot: bool,
    **options: Any,
) -> None:
    """Report how reliable each agent is: pass@k and pass^k with intervals, coverage and deployment tier.

    pass@k is the probability that at least one of k attempts is correct, pass^k that all k attempts are.
    """
    names = None if metrics is None else [name for name in metrics.split(",") if name.strip()]
    request = {**selection.arguments, **options, "k": numbers_of(k, "-k")}
    check_output(output, file, web=web, plot=plot)
    if show_open:
        refuse_open(output)
    with target.open() as client:
        brief = output == "table" and not details
        contents = {"metrics": [] if brief and names is None else names, "only_displayed": brief, "e_values": not brief}
        result = client.get(Report, "report", **contents, **request)
        if not result.groups:
            require_agent(client, selection)
        failures = failures_of(client, selection) if brief and options["window"] is None else None
        charts = client.get(Charts, "report_pictures", **request) if plot or output == "html" else None
        conversations = (
            client.get(ConversationOutcomes, "report_conversations", **request)
            if output in {"html", "markdown"}
            else None
        )
        failing = (
            failing_conversations(client, charts, conversations, result.evaluation)
            if output == "html" and charts is not None and conversations is not None
            else []
        )
        open_conversations = (
            open_conversations_of(client, selection, scored=show_open, is_empty=not result.groups)
            if output == "table"
            else None
        )
    about = period(options["window"], selection.since, selection.until, selection.agent_version, selection.environment)
    if result.evaluation != "default":
        about = f"evaluation {result.evaluation}; {about}"
    if output == "json":
        print_json(result)
    elif output == "html" and charts is not None and conversations is not None:
        from otel_agentic.render.html import page  # noqa: PLC0415 — only a page needs the templates

        write_page(page(result, charts, about, conversations, failing), file, web=web)
    elif output == "markdown" and conversations is not None:
        print_markdown(result, conversations, about)
    elif details:
        print_report(result, about)
    else:
        print_summary(result, failures, about, target.options)
    if open_conversations is not None:
        _print_open(open_conversations, show_open=show_open, is_empty=not result.groups)
    if plot and charts is not None:
        print_curves(charts)


def failures_of(client: Client, selection: Selection) -> FailureReport:
    """Return the failures of a selection, worst first, as many as a summary shows."""
    return client.get(FailureReport, "failures", **selection.arguments, limit=MOST_FAILURES, records=0)


def _print_open(result: OpenConversations, *, show_open: bool, is_empty: bool) -> None:
    """Print open conversations below a report, or why there is nothing to report."""
    if show_open:
        print_open(console(), result)
    elif is_empty:
        say_empty(console(), result)
    else:
        say_open(console(), result)
