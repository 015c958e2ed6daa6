"""`otel-agentic evaluate`: match and score conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from otel_agentic.cli.advice import advice
from otel_agentic.cli.options import (
    cases_option,
    format_option,
    labels_option,
    opened,
    quiet_option,
    selection_of,
    selection_options,
    target_options,
    texts_of,
)
from otel_agentic.cli.output import console, print_json, progress_bar, say
from otel_agentic.cli.text import plural
from otel_agentic.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from otel_agentic.pipeline import Client

#: Warnings printed one by one.
_WARNINGS: Final = 10


@click.command(short_help="Match conversations to cases and score them.")
@target_options
@cases_option
@labels_option
@click.option(
    "--judge", metavar="NAME", help="Answer judge, by plug-in name (with --db on a file that no collector holds)."
)
@selection_options
@click.option("--force", is_flag=True, help="Score again what has a score already.")
@format_option
@quiet_option
def evaluate(
    db: Path | None,
    server: str | None,
    config_file: Path | None,
    cases: tuple[Path, ...],
    labels: tuple[Path, ...],
    judge: str | None,
    since: str | None,
    until: str | None,
    agent: str | None,
    force: bool,
    output: str,
    quiet: bool,
) -> None:
    """Match closed conversations to cases and score them.

    Cases and labels given once are remembered. What has a score under the same truth, judge and settings keeps it.
    """
    truth = {"cases": texts_of(cases, "cases"), "labels": texts_of(labels, "labels")}
    chosen = selection_of(since, until, agent)
    sections = {"scoring": {"judge": judge}} if judge else {}
    with progress_bar(quiet=quiet) as progress, opened(db, server, config_file, progress, **sections) as client:
        _require_judge_here(judge, client)
        done = client.call("evaluate", **truth, **chosen, force=force)
    if output == "json":
        print_json(done)
    elif not quiet:
        _print(done)


def _require_judge_here(judge: str | None, client: Client) -> None:
    """Refuse a judge that would be ignored: a collector has its own, and scores under one evaluator version."""
    from otel_agentic.pipeline import RemoteClient  # noqa: PLC0415 — not needed for --help

    if judge is not None and isinstance(client, RemoteClient):
        raise UsageError(
            f"--judge {judge}: a running collector judges with its own; start it with `otel-agentic serve --judge {judge}`"
        )


def _print(done: dict[str, Any]) -> None:
    out = console()
    cases, labels = plural(done["cases"], "case"), plural(done["labels"], "label")
    say(out, f"{cases} and {labels} in force; evaluator version {done['evaluation_id']}")
    if not done["scored"]:
        say(
            out, "nothing to score: the closed conversations of this selection, if any, have a score under this version"
        )
        say(out, "(--force scores them again)")
        return
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(done["outcomes"].items()))
    say(out, f"{plural(done['scored'], 'conversation')} scored: {counts}", style="bold")
    for reason, count in sorted(done["reasons"].items()):
        say(out, f"  {count:,} x {reason}")
    if done["restated"]:
        say(out, f"{done['restated']:,} of them had an earlier score, which is kept as superseded")
    for warning in done["warnings"][:_WARNINGS]:
        say(out, f"warning: {warning}", style="yellow")
    if len(done["warnings"]) > _WARNINGS:
        say(
            out,
            f"… and {len(done['warnings']) - _WARNINGS:,} more; `otel-agentic truth matches --only warning` lists them",
        )
    for line in advice(done["reasons"]):
        say(out, line)
